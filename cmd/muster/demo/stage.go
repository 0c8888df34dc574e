package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/manifests"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// timeout is how long anything may take that should happen soon. A loaded machine is slow; a claim about speed is a
// check of its own.
const timeout = 45 * time.Second

// stage is what the acts play on.
type stage struct {
	*narrator
	cluster *localcluster.Cluster
	log     *watchlog.Log
}

// job is the full name of one of the demo's Jobs.
func job(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// await waits until something has happened, and tells what happens meanwhile.
func (s *stage) await(ctx context.Context, what string, met func() bool) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(quiet / 3)
	defer ticker.Stop()
	for !met() {
		s.tell()
		select {
		case <-waiting.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s: not within %s", what, timeout)
		case <-ticker.C:
		}
	}
	return nil
}

// awaitPhase waits until a Job is in a phase.
func (s *stage) awaitPhase(ctx context.Context, name string, phase batchv1alpha1.JobPhase) error {
	err := s.await(ctx, name+" becomes "+string(phase), func() bool { return s.log.Job(job(name)).Phase == phase })
	if err != nil && ctx.Err() == nil {
		state := s.log.Job(job(name))
		err = fmt.Errorf("%w: it is %s, %s: %s; its pods: %v", err, state.Phase, state.Reason, state.Message, s.pods(name, watchlog.Pod.Live))
	}
	return err
}

// stays makes sure that something holds for a time.
func (s *stage) stays(ctx context.Context, d time.Duration, what string, holds func() bool) error {
	end := time.NewTimer(d)
	defer end.Stop()
	ticker := time.NewTicker(quiet / 3)
	defer ticker.Stop()
	for {
		if !holds() {
			return errors.New("does not hold: " + what)
		}
		s.tell()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case <-ticker.C:
		}
	}
}

// check makes a claim. It first prints what has happened until now. The evidence says what was seen when it fails.
func (s *stage) check(holds bool, claim string, evidence any) error {
	s.tellAll()
	if !holds {
		return fmt.Errorf("does not hold: %s; seen: %v", claim, evidence)
	}
	s.say("✓ %s", claim)
	return nil
}

// everBound selects pods that were ever bound.
func everBound(p watchlog.Pod) bool { return !p.Bound.IsZero() }

// pending are the pods of a Job that exist unbound.
func (s *stage) pending(name string) []watchlog.Pod {
	return s.pods(name, func(p watchlog.Pod) bool { return p.Bound.IsZero() && p.Live() })
}

// pods are the pods of a Job that fit.
func (s *stage) pods(name string, fits func(watchlog.Pod) bool) []watchlog.Pod {
	return s.log.Pods(func(p watchlog.Pod) bool { return p.Job == name && fits(p) })
}

// incarnation is one run of a Job between restarts; the zero Incarnation if it was not seen.
func (s *stage) incarnation(name, version string) watchlog.Incarnation {
	for _, i := range s.log.Incarnations() {
		if i.Version == version && i.Pods[0].Job == name {
			return i
		}
	}
	return watchlog.Incarnation{}
}

// apply applies examples with kubectl, as a user does.
func (s *stage) apply(ctx context.Context, files ...string) error {
	for _, file := range files {
		s.say("$ kubectl apply -f manifests/examples/%s", file)
		yaml, err := manifests.FS.ReadFile("examples/" + file)
		if err != nil {
			return fmt.Errorf("reading the example: %w", err)
		}
		if _, err := s.kubectl(ctx, yaml, "apply", "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

// kubectl runs the cluster's kubectl and returns what it prints.
func (s *stage) kubectl(ctx context.Context, input []byte, args ...string) (string, error) {
	command := exec.CommandContext(ctx, s.cluster.Kubectl(), args...)
	command.Env = append(os.Environ(),
		"KUBECONFIG="+s.cluster.Kubeconfig(),
		"KUBECACHEDIR="+filepath.Join(s.cluster.Dir(), "internal", "kubectl"))
	command.Stdin = bytes.NewReader(input)
	var printed, complaints bytes.Buffer
	command.Stdout, command.Stderr = &printed, &complaints
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("running kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return printed.String(), nil
}
