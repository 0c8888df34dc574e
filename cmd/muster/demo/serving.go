package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/muster-sched/muster/pkg/watchlog"
)

// holdDeployment shows that the pods of a Deployment with a minimum start together. A rolling update of it goes through.
func holdDeployment(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "serving.yaml"); err != nil {
		return err
	}
	explained := func(p watchlog.Pod) bool { return p.Group != "" && p.Waiting.Message != "" }
	if err := s.await(ctx, "the four pods of model-server say why they wait", func() bool { return len(s.servers(explained)) == 4 }); err != nil {
		return err
	}
	s.say("the reason, on each of its pods: %s", s.servers(explained)[0].Waiting.Message)
	if err := s.check(len(s.servers(everBound)) == 0, "model-server waits whole: three of its pods would fit, and not one is bound", s.servers(everBound)); err != nil {
		return err
	}
	if err := s.run(ctx, "patch", "queue", "serving", "--type=merge", "-p", `{"spec":{"capability":{"cpu":"500m"}}}`); err != nil {
		return err
	}
	if err := s.await(ctx, "model-server runs", func() bool { return len(s.servers(isUp)) == 4 }); err != nil {
		return err
	}
	if err := s.check(len(s.servers(everBound)) == 4, "the queue has room for all, and the four pods were bound", s.servers(everBound)); err != nil {
		return err
	}
	return s.updateDeployment(ctx)
}

// updateDeployment replaces the pods of the Deployment one by one.
func (s *stage) updateDeployment(ctx context.Context) error {
	if err := s.run(ctx, "set", "image", "deployment/model-server", "server=server-img:v2"); err != nil {
		return err
	}
	replaced := func() bool { return len(s.servers(everBound)) == 8 && len(s.servers(isUp)) == 4 }
	if err := s.await(ctx, "the four pods of model-server have been replaced", replaced); err != nil {
		return err
	}
	claim := "a rolling update went through: a new pod is a member beyond the minimum, and takes the place of an old one"
	return s.check(replaced(), claim, s.servers(everBound))
}

// servers are the pods of the Deployment that fit.
func (s *stage) servers(fits func(watchlog.Pod) bool) []watchlog.Pod {
	return s.log.Pods(func(p watchlog.Pod) bool { return strings.HasPrefix(p.Name, "model-server-") && fits(p) })
}

// isUp selects pods that run.
func isUp(p watchlog.Pod) bool { return !p.Running.IsZero() && p.Live() }

// run runs kubectl and shows how it was called.
func (s *stage) run(ctx context.Context, args ...string) error {
	shown := make([]string, len(args))
	for i, arg := range args {
		if shown[i] = arg; strings.ContainsAny(arg, `{" `) {
			shown[i] = fmt.Sprintf("'%s'", arg)
		}
	}
	s.say("$ kubectl %s", strings.Join(shown, " "))
	_, err := s.kubectl(ctx, nil, args...)
	return err
}
