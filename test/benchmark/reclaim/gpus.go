package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/benchmark/meter"
	"github.com/muster-sched/muster/test/benchmark/report"
)

const (
	gpu         = "nvidia.com/gpu"
	gpusPerNode = 8
	// singleJobs is how many Jobs of one GPU take it back, one after the other.
	singleJobs = 5
)

// measureGPUs has Jobs of one GPU each run on all GPUs, in a queue that borrows half of them. Another queue takes one back, several times,
// and then half of the nodes for one gang. All parts run as shipped.
func measureGPUs(ctx context.Context, o *options) ([]report.Figure, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	b, err := start(ctx, localcluster.Options{
		Nodes: o.nodes, NodeCPU: "32", NodeMemory: "256Gi", NodeResources: map[string]string{gpu: strconv.Itoa(gpusPerNode)},
	})
	if err != nil {
		return nil, err
	}
	defer b.down(ctx)
	all, size := o.nodes*gpusPerNode, o.nodes/2
	owned := size*gpusPerNode + singleJobs
	if err := b.createQueues(ctx, gpu, strconv.Itoa(owned), strconv.Itoa(all-owned)); err != nil {
		return nil, err
	}
	if err := b.runJobs(ctx, all); err != nil {
		return nil, err
	}
	var singles []float64
	victims := 0
	for i := range singleJobs {
		took, gone, err := b.takeBack(ctx, fmt.Sprintf("single-%d", i), 1, 1)
		if err != nil {
			return nil, err
		}
		singles, victims = append(singles, took), max(victims, gone)
	}
	fmt.Printf("one GPU: median %.2f s, at most %.2f s\n", report.Median(singles), slices.Max(singles))
	one := fmt.Sprintf("one GPU among %d running Jobs: ", all)
	figures := []report.Figure{
		report.AtMost(one+"Job to bind", report.Median(singles), 0.5, "s"),
		report.AtMost(one+"victims", float64(victims), 1, "pods"),
	}
	took, gone, err := b.takeBack(ctx, "gang", size, gpusPerNode)
	if err != nil {
		return figures, err
	}
	gang := fmt.Sprintf("%d GPUs by one gang: ", size*gpusPerNode)
	return append(figures,
		report.AtMost(gang+"Job to last bind", took, 10, "s"),
		report.AtMost(gang+"victims", float64(gone), float64(size*gpusPerNode), "pods")), nil
}

// jobOf is a Job of pods with so many GPUs each.
func jobOf(name, queue, role string, pods, gpus int) *mustertesting.JobWrapper {
	task := mustertesting.MakeTask("worker", int32(pods)).Label(roleLabel, role).Requests("cpu", "100m", gpu, strconv.Itoa(gpus))
	return mustertesting.MakeJob(name).Queue(queue).MinAvailable(int32(pods)).Task(task)
}

func (b *bench) createJob(ctx context.Context, wrapped *mustertesting.JobWrapper) error {
	job := wrapped.Obj()
	for i := range job.Spec.Tasks {
		grace := int64(0) // as in atOnce
		job.Spec.Tasks[i].Template.Spec.TerminationGracePeriodSeconds = &grace
	}
	_, err := b.Muster.BatchV1alpha1().Jobs(corev1.NamespaceDefault).Create(ctx, job, metav1.CreateOptions{})
	return err
}

// runJobs has Jobs of one pod run on all GPUs.
func (b *bench) runJobs(ctx context.Context, n int) error {
	begun := time.Now()
	err := meter.InParallel(ctx, n, func(i int) error {
		return b.createJob(ctx, jobOf("runs-"+strconv.Itoa(i), borrower, runs, 1, 1))
	})
	if err != nil {
		return fmt.Errorf("creating Jobs: %w", err)
	}
	if err := b.pods.await(ctx, "all Jobs run", func() bool { return b.pods.role(runs).running == n }); err != nil {
		return err
	}
	fmt.Printf("%d Jobs run after %.0f s\n", n, time.Since(begun).Seconds())
	return b.rest(ctx)
}

func (b *bench) rest(ctx context.Context) error {
	return b.settle(ctx, localcluster.MusterController, localcluster.MusterScheduler)
}

// takeBack creates a Job of the queue that is owed GPUs. It returns the seconds until the last of its pods is bound, and how many pods
// went for it.
func (b *bench) takeBack(ctx context.Context, name string, pods, gpus int) (seconds float64, victims int, err error) {
	b.pods.reset()
	begun := time.Now()
	if err := b.createJob(ctx, jobOf(name, owner, waits, pods, gpus)); err != nil {
		return 0, 0, fmt.Errorf("creating Job %s: %w", name, err)
	}
	if err := b.pods.await(ctx, "Job "+name+" is bound", func() bool { return b.pods.role(waits).bound == pods }); err != nil {
		return 0, 0, err
	}
	seconds = b.pods.role(waits).lastBound.Sub(begun).Seconds()
	fmt.Printf("%s: %d pods go, the last after %.2f s; the last of %d is bound after %.2f s\n", name, b.pods.role(runs).gone,
		b.pods.role(runs).lastGone.Sub(begun).Seconds(), pods, seconds)
	if err := b.rest(ctx); err != nil {
		return 0, 0, err
	}
	return seconds, b.pods.role(runs).gone, nil
}
