package demo

import (
	"context"
	"slices"
	"strings"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// fillRack shows a gang in one rack, and one that no rack holds.
func fillRack(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "racks.yaml"); err != nil {
		return err
	}
	if err := s.awaitPhase(ctx, "in-one-rack", batchv1alpha1.Running); err != nil {
		return err
	}
	ranks := s.pods("in-one-rack", everBound)
	slices.SortFunc(ranks, func(a, b watchlog.Pod) int { return strings.Compare(a.Name, b.Name) })
	var nodes []string
	for _, pod := range ranks {
		nodes = append(nodes, pod.Node)
	}
	where := strings.Join(nodes, ", ")
	inOrder := where == "node-0, node-1, node-2, node-3" || where == "node-4, node-5, node-6, node-7"
	if err := s.check(inOrder, "in-one-rack runs in one rack, its ranks in the order of the nodes: "+where, ranks); err != nil {
		return err
	}
	said := func() string {
		for _, pod := range s.pending("too-wide") {
			if strings.Contains(pod.Waiting.Message, "no domain within") {
				return pod.Waiting.Message
			}
		}
		return ""
	}
	if err := s.await(ctx, "a pod of too-wide says which rack lacks what", func() bool { return said() != "" }); err != nil {
		return err
	}
	s.say("the reason, on its pods: %s", said())
	waits := len(s.pods("too-wide", everBound)) == 0 && strings.Contains(said(), "4 of 5 fit in rack-") && strings.Contains(said(), "short of memory")
	return s.check(waits, "too-wide waits whole: not one of its five pods is bound, and it says which rack is best and what is short there", said())
}
