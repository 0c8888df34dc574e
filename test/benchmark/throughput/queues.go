package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/benchmark/meter"
)

// The variant queues has departments, each with teams, each with queues that take Jobs: 100 queues on three levels.
const (
	departments = 4
	teams       = 4 // of each department
	leaves      = 5 // of each team
)

func departmentName(i int) string { return fmt.Sprintf("department-%d", i) }
func teamName(i int) string       { return fmt.Sprintf("team-%d", i) }
func leafName(i int) string       { return fmt.Sprintf("queue-%d", i) }

// submitJobsInQueues creates Jobs in all leaf queues in turn.
func submitJobsInQueues(ctx context.Context, b *bench, s shape) error {
	return submitJobsTo(ctx, b, s, func(job int) string { return leafName(job % (departments * teams * leaves)) })
}

// createQueues creates the queues, level by level, and waits until the leaves are open.
func createQueues(ctx context.Context, b *bench) error {
	levels := []struct {
		count int
		queue func(i int) *mustertesting.QueueWrapper
	}{
		{departments, func(i int) *mustertesting.QueueWrapper {
			return mustertesting.MakeQueue(departmentName(i)).Deserved("cpu", "4000")
		}},
		{departments * teams, func(i int) *mustertesting.QueueWrapper {
			return mustertesting.MakeQueue(teamName(i)).Parent(departmentName(i/teams)).Deserved("cpu", "1000")
		}},
		{departments * teams * leaves, func(i int) *mustertesting.QueueWrapper {
			return mustertesting.MakeQueue(leafName(i)).Parent(teamName(i / leaves))
		}},
	}
	queues := b.Muster.SchedulingV1beta1().Queues()
	for _, level := range levels {
		err := meter.InParallel(ctx, level.count, func(i int) error {
			_, err := queues.Create(ctx, level.queue(i).Obj(), metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("creating queues: %w", err)
		}
	}
	err := wait.PollUntilContextCancel(ctx, tellEvery, true, func(ctx context.Context) (bool, error) {
		all, err := queues.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range all.Items {
			if all.Items[i].Status.State != schedulingv1beta1.QueueStateOpen {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the queues are open: %w", err)
	}
	return nil
}
