package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/benchmark/meter"
)

// measureLargeJob counts the requests for one Job from its creation until it has completed.
func measureLargeJob(ctx context.Context, o *options) ([]figure, error) {
	b, err := start(ctx, localcluster.Options{Nodes: 1 + o.large/50, NodeCPU: "64", Without: []string{localcluster.KWOK}})
	if err != nil {
		return nil, err
	}
	defer b.Down(ctx)
	before, err := b.countWrites(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	job := mustertesting.MakeJob("large").Task(mustertesting.MakeTask("worker", int32(o.large)).Requests("cpu", "500m")).Obj()
	if err := b.runJob(ctx, job, corev1.PodRunning, corev1.PodSucceeded); err != nil {
		return nil, err
	}
	if err := await(ctx, "the large Job has completed", b.hasPhase("large", batchv1alpha1.Completed)); err != nil {
		return nil, err
	}
	fmt.Printf("a Job of %d pods has completed after %.1f s\n", o.large, time.Since(began).Seconds())
	after, err := b.countWrites(ctx)
	if err != nil {
		return nil, err
	}
	pods := float64(o.large)
	return []figure{
		{"controller, for a Job of many pods", after[0] - before[0], pods + 50, "writes"},
		{"scheduler, for a Job of many pods", after[1] - before[1], 2*pods + 5, "writes"},
	}, nil
}

func (b *bench) countWrites(ctx context.Context) (counts [2]float64, err error) {
	for i, part := range []string{localcluster.MusterController, localcluster.MusterScheduler} {
		m, err := b.Metrics(ctx, part)
		if err != nil {
			return counts, err
		}
		counts[i] = m.Writes()
	}
	return counts, nil
}

// runJob creates a Job and leads its pods, once they are bound, through phases, all through one before the next.
func (b *bench) runJob(ctx context.Context, job *batchv1alpha1.Job, phases ...corev1.PodPhase) error {
	if _, err := b.Muster.BatchV1alpha1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating Job %s: %w", job.Name, err)
	}
	replicas := 0
	for i := range job.Spec.Tasks {
		replicas += int(job.Spec.Tasks[i].Replicas)
	}
	var pods []corev1.Pod
	err := await(ctx, "the pods of Job "+job.Name+" are bound", func(ctx context.Context) (bool, error) {
		var err error
		pods, err = b.podsOf(ctx, job.Name)
		bound := 0
		for i := range pods {
			if pods[i].Spec.NodeName != "" {
				bound++
			}
		}
		return bound == replicas, err
	})
	if err != nil {
		return err
	}
	for _, phase := range phases {
		err := meter.InParallel(ctx, len(pods), func(i int) error {
			return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				current, err := b.Kube.CoreV1().Pods(namespace).Get(ctx, pods[i].Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				return b.setPhase(ctx, current, phase)
			})
		})
		if err != nil {
			return fmt.Errorf("playing the kubelet: %w", err)
		}
		if phase == corev1.PodRunning {
			if err := await(ctx, "Job "+job.Name+" runs", b.hasPhase(job.Name, batchv1alpha1.Running)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) podsOf(ctx context.Context, job string) ([]corev1.Pod, error) {
	list, err := b.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1alpha1.JobNameKey + "=" + job})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of Job %s: %w", job, err)
	}
	return list.Items, nil
}

func (b *bench) hasPhase(job string, phase batchv1alpha1.JobPhase) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		current, err := b.Muster.BatchV1alpha1().Jobs(namespace).Get(ctx, job, metav1.GetOptions{})
		return err == nil && current.Status.State.Phase == phase, err
	}
}
