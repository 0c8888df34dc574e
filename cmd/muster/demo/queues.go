package demo

import (
	"context"
	"fmt"
	"time"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// takeBack shows a queue that has lent all of its share, and takes it back for a gang.
func takeBack(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "sharing.yaml"); err != nil {
		return err
	}
	runs := func(name string) int {
		return len(s.pods(name, func(p watchlog.Pod) bool { return everBound(p) && p.Live() }))
	}
	if err := s.await(ctx, "blue-sweep runs on all GPUs", func() bool { return runs("blue-sweep") == 8 }); err != nil {
		return err
	}
	if err := s.check(true, "blue-sweep runs with eight pods on all sixteen GPUs", nil); err != nil {
		return err
	}
	if err := s.apply(ctx, "takes-back.yaml"); err != nil {
		return err
	}
	if err := s.awaitPhase(ctx, "red-training", batchv1alpha1.Running); err != nil {
		return err
	}
	gang := s.incarnation("red-training", "0")
	if err := s.check(gang.BoundWithin(window) == 4, "the four pods of red-training were bound together", gang); err != nil {
		return err
	}
	exact := func() bool { return runs("blue-sweep") == 4 }
	if err := s.stays(ctx, time.Second, "four pods of blue-sweep go on", exact); err != nil {
		return err
	}
	claim := fmt.Sprintf("exactly four pods of blue-sweep had to go, all beyond its minimum; four go on, and %d wait for room", len(s.pending("blue-sweep")))
	return s.check(exact() && s.log.Job(job("blue-sweep")).Phase == batchv1alpha1.Running, claim, s.log.PodsOf(job("blue-sweep")))
}
