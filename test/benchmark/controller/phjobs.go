package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/benchmark/meter"
)

const (
	// phGroup is the group of all PhJobs. Its quota is that of one job.
	phGroup = "phusers"
	// phStarts is how many starts are timed.
	phStarts = 20
	// phPage is how many PhJobs a page of a list has.
	phPage = 500
	// phHistory is how many bytes the command of each PhJob has. The example of PrimeHub's documentation is a few lines
	// shorter.
	phHistory = 200
)

// Goals with many PhJobs.
const (
	goalPhMemory  = 512.0 // MiB: the memory of the controller for 50,000 in PrimeHub's documentation
	goalPhStart   = 1.0   // seconds
	goalPhAlone   = 0.1   // seconds
	goalPhPage    = 1.0   // seconds
	goalPhLineUp  = 60.0  // seconds
	goalPhRestart = 30.0  // seconds
)

// measurePhJobs times the start of PhJobs alone, and then beside many ended and many waiting ones.
func measurePhJobs(ctx context.Context, o *options) ([]figure, error) {
	b, err := start(ctx, localcluster.Options{Nodes: 4, NodeCPU: "64", Without: []string{localcluster.KWOK}})
	if err != nil {
		return nil, err
	}
	defer b.Down(ctx)
	if err := b.createPhGroup(ctx); err != nil {
		return nil, err
	}
	if err := b.submitPhJobs(ctx, "first", phStarts+1); err != nil {
		return nil, err
	}
	alone, err := b.timeStarts(ctx, phStarts)
	if err != nil {
		return nil, err
	}
	lineUp, err := b.fillHistory(ctx, o)
	if err != nil {
		return nil, err
	}
	among, err := b.timeStarts(ctx, phStarts)
	if err != nil {
		return nil, err
	}
	figures := []figure{
		{"PhJob after quota is free, none beside it, nine of ten", alone.Seconds(), goalPhAlone, "s"},
		{"start with new PhJobs: until all of them stand in the queue", lineUp.Seconds(), goalPhLineUp, "s"},
		{"PhJob after quota is free, among all, nine of ten", among.Seconds(), goalPhStart, "s"},
	}
	more, err := b.weighPhJobs(ctx, o)
	return append(figures, more...), err
}

// weighPhJobs measures what many PhJobs cost. It measures memory, a page of a list, and a start of the controller that knows them.
func (b *bench) weighPhJobs(ctx context.Context, o *options) ([]figure, error) {
	began := time.Now()
	if _, err := b.Muster.PrimehubV1alpha1().PhJobs(namespace).List(ctx, metav1.ListOptions{Limit: phPage}); err != nil {
		return nil, fmt.Errorf("listing a page of PhJobs: %w", err)
	}
	page := time.Since(began)
	m, err := b.Metrics(ctx, localcluster.MusterController)
	if err != nil {
		return nil, err
	}
	peak, err := b.peakMemory(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Printf("with %d ended and %d waiting PhJobs the controller had %.0f MiB at its peak\n", o.phFinished, o.phPending, peak)
	if err := b.stop(ctx, localcluster.MusterController); err != nil {
		return nil, err
	}
	restart, err := b.restart(ctx, "phjob", o.phFinished+o.phPending)
	if err != nil {
		return nil, err
	}
	return []figure{
		{"memory with all PhJobs", m.Memory() / (1 << 20), goalPhMemory, "MiB"},
		{fmt.Sprintf("a page of %d PhJobs", phPage), page.Seconds(), goalPhPage, "s"},
		{"restart: from the lease until all PhJobs are reconciled", restart.Seconds(), goalPhRestart, "s"},
	}, nil
}

// createPhGroup makes the group, its image and its instance type.
func (b *bench) createPhGroup(ctx context.Context) error {
	queue := mustertesting.MakeQueue(phGroup).Capability("cpu", "1").Dequeue(schedulingv1beta1.DequeueStrategyFIFO).Obj()
	queue.Labels = map[string]string{primehubv1alpha1.GroupIDLabel: phGroup, primehubv1alpha1.GroupNameLabel: phGroup}
	if _, err := b.Muster.SchedulingV1beta1().Queues().Create(ctx, queue, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the queue: %w", err)
	}
	image := &primehubv1alpha1.Image{ObjectMeta: metav1.ObjectMeta{Name: "base"}, Spec: primehubv1alpha1.ImageSpec{URL: "base"}}
	if _, err := b.Muster.PrimehubV1alpha1().Images(namespace).Create(ctx, image, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the image: %w", err)
	}
	one := &primehubv1alpha1.InstanceType{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: primehubv1alpha1.InstanceTypeSpec{LimitsCPU: 1, LimitsMemory: "1G"}}
	if _, err := b.Muster.PrimehubV1alpha1().InstanceTypes(namespace).Create(ctx, one, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the instance type: %w", err)
	}
	return nil
}

// submitPhJobs creates PhJobs that each take the whole quota of the group.
func (b *bench) submitPhJobs(ctx context.Context, name string, n int) error {
	return meter.InParallel(ctx, n, func(i int) error {
		_, err := b.Muster.PrimehubV1alpha1().PhJobs(namespace).Create(ctx, phJob(fmt.Sprintf("%s-%05d", name, i)), metav1.CreateOptions{})
		return err
	})
}

func phJob(name string) *primehubv1alpha1.PhJob {
	return &primehubv1alpha1.PhJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: primehubv1alpha1.PhJobSpec{
			DisplayName: "Test Job", Command: string(slices.Repeat([]byte("x"), phHistory)), UserID: "619156fe-43c6-44f3-b20e-2d5f96e4df96", UserName: "jackpan",
			GroupID: phGroup, GroupName: phGroup, Image: "base", InstanceType: "one",
		},
	}
}

// fillHistory stops the controller, creates PhJobs that have ended and PhJobs that wait, and starts the controller again. It returns how long
// it took from the start until all that wait had a PodGroup.
func (b *bench) fillHistory(ctx context.Context, o *options) (time.Duration, error) {
	if err := b.stop(ctx, localcluster.MusterController); err != nil {
		return 0, err
	}
	jobs := b.Muster.PrimehubV1alpha1().PhJobs(namespace)
	began := time.Now()
	err := meter.InParallel(ctx, o.phFinished, func(i int) error {
		job, err := jobs.Create(ctx, phJob(fmt.Sprintf("ended-%05d", i)), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		now := metav1.Now()
		job.Status = primehubv1alpha1.PhJobStatus{
			Phase: primehubv1alpha1.PhJobSucceeded, Reason: primehubv1alpha1.ReasonPodSucceeded, Message: "Job completed", PodName: job.Name, StartTime: &now, FinishTime: &now,
		}
		_, err = jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("creating PhJobs that have ended: %w", err)
	}
	if err := b.submitPhJobs(ctx, "waits", o.phPending); err != nil {
		return 0, fmt.Errorf("creating PhJobs that wait: %w", err)
	}
	fmt.Printf("%d ended and %d waiting PhJobs were created in %.0f s\n", o.phFinished, o.phPending, time.Since(began).Seconds())
	began = time.Now()
	if err := b.Start(ctx, localcluster.MusterController); err != nil {
		return 0, err
	}
	err = await(ctx, "all PhJobs that wait have a PodGroup", func(ctx context.Context) (bool, error) {
		groups, err := b.Muster.SchedulingV1beta1().PodGroups(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return false, err
		}
		n := len(groups.Items)
		if groups.RemainingItemCount != nil {
			n += int(*groups.RemainingItemCount)
		}
		return n > o.phPending, nil // one more has the quota
	})
	return time.Since(began), err
}

var errNoneRuns = errors.New("no PhJob has a pod")

// timeStarts ends the PhJob that has the quota, several times. It returns within what time nine of ten next PhJobs got the quota. At the end one
// PhJob has the quota and runs.
func (b *bench) timeStarts(ctx context.Context, n int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	jobs, err := b.Muster.PrimehubV1alpha1().PhJobs(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return 0, fmt.Errorf("watching PhJobs: %w", err)
	}
	defer jobs.Stop()
	started := map[string]bool{}
	var took []time.Duration
	ended := time.Time{}
	for event := range jobs.ResultChan() {
		job, ok := event.Object.(*primehubv1alpha1.PhJob)
		if !ok || event.Type == watch.Deleted || !hasQuota(job) || started[job.Name] {
			continue
		}
		started[job.Name] = true
		if !ended.IsZero() {
			took = append(took, time.Since(ended))
		}
		pod, err := b.awaitPod(ctx, job.Name)
		if err != nil {
			return 0, err
		}
		// There is no kubelet. The last job runs, so that it keeps the quota: its pod would be deleted otherwise, and never be gone.
		phase := corev1.PodSucceeded
		if len(took) == n {
			phase = corev1.PodRunning
		}
		ended = time.Now()
		if err := b.setPhase(ctx, pod, phase); err != nil {
			return 0, fmt.Errorf("writing the status of pod %s: %w", job.Name, err)
		}
		if len(took) == n {
			slices.Sort(took)
			return took[(9*n+9)/10-1], nil
		}
	}
	return 0, errNoneRuns
}

// hasQuota says whether a PhJob is the one that has the quota.
func hasQuota(job *primehubv1alpha1.PhJob) bool {
	return job.Status.Phase == primehubv1alpha1.PhJobPreparing || job.Status.Phase == primehubv1alpha1.PhJobRunning
}

// awaitPod waits until a pod has a node: its binding must not meet its end.
func (b *bench) awaitPod(ctx context.Context, name string) (pod *corev1.Pod, err error) {
	err = await(ctx, "pod "+name+" is bound", func(ctx context.Context) (bool, error) {
		list, err := b.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil || len(list.Items) == 0 || list.Items[0].Spec.NodeName == "" {
			return false, err
		}
		pod = &list.Items[0]
		return true, nil
	})
	return pod, err
}
