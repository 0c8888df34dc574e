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
	"github.com/muster-sched/muster/test/benchmark/report"
)

const (
	gpu         = "nvidia.com/gpu"
	gpusPerNode = 8
	// singleJobs is how many Jobs of one GPU take it back, one after the other.
	singleJobs = 5
)

// measureGPUs has pods of one GPU each run on all GPUs, in a queue that borrows half of them. A Job of another queue takes one back, several
// times, and then one gang half of the nodes. All programs run as shipped. The victims are bound pods without Jobs, which saves minutes of preparation.
func measureGPUs(ctx context.Context, o *options) ([]report.Figure, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	b, err := start(ctx, localcluster.Options{
		Nodes: o.nodes, NodeCPU: "32", NodeMemory: "256Gi", NodeResources: map[string]string{gpu: strconv.Itoa(gpusPerNode)},
		Without: []string{localcluster.KWOK},
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
	var pods []*corev1.Pod
	for i := range all {
		pods = append(pods, podOn("runs-"+strconv.Itoa(i), borrower, i%o.nodes, "cpu", "100m", gpu, "1"))
	}
	if err := b.fill(ctx, pods); err != nil {
		return nil, err
	}
	if err := b.rest(ctx); err != nil {
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
	one := fmt.Sprintf("one GPU among %d running pods: ", all)
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

// createJob creates a gang of pods with so many GPUs each.
func (b *bench) createJob(ctx context.Context, name string, pods, gpus int) error {
	task := mustertesting.MakeTask("worker", int32(pods)).Label(roleLabel, waits).Requests("cpu", "100m", gpu, strconv.Itoa(gpus))
	job := mustertesting.MakeJob(name).Queue(owner).MinAvailable(int32(pods)).Task(task).Obj()
	resources := &job.Spec.Tasks[0].Template.Spec.Containers[0].Resources
	resources.Limits = resources.Requests // as devices ask for
	_, err := b.Muster.BatchV1alpha1().Jobs(corev1.NamespaceDefault).Create(ctx, job, metav1.CreateOptions{})
	return err
}

func (b *bench) rest(ctx context.Context) error {
	return b.settle(ctx, localcluster.MusterController, localcluster.MusterScheduler)
}

// takeBack creates a Job of the queue that is owed GPUs. It returns the seconds until the last of its pods is bound, and how many pods
// went for it.
func (b *bench) takeBack(ctx context.Context, name string, pods, gpus int) (seconds float64, victims int, err error) {
	b.pods.reset()
	begun := time.Now()
	if err := b.createJob(ctx, name, pods, gpus); err != nil {
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
