package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

const (
	// promptPods is how many pods each Job has that is timed.
	promptPods = 4
	// promptGoal is how soon the controller is to answer on a cluster at rest, in seconds.
	promptGoal = 0.1
)

var errWatchEnded = errors.New("the watch has ended")

// delays are how long the steps of one Job took, as a watcher sees them.
type delays struct {
	group     time.Duration // from the Job's phase Pending to its PodGroup
	admission time.Duration // from the PodGroup to its admission
	bound     time.Duration // from the request to create the Job to the last of its pods being bound
	hosts     time.Duration // from the request to scale the Job to the hosts that the svc plugin writes down
}

// measurePromptness leads Jobs one after the other on a cluster at rest.
func measurePromptness(ctx context.Context, o *options) ([]figure, error) {
	b, err := start(ctx, localcluster.Options{Nodes: 4, NodeCPU: "64", Without: []string{localcluster.KWOK}})
	if err != nil {
		return nil, err
	}
	defer b.Down(ctx)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	log, err := watchlog.Start(watching, b.Kube, b.Muster)
	if err != nil {
		return nil, err
	}
	var all []delays
	for i := range o.prompt {
		d, err := b.timeJob(ctx, log, fmt.Sprintf("prompt-%d", i))
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	fmt.Printf("the last of the %d pods of a Job is bound after %.0f ms, nine times of ten after %.0f ms at most\n", promptPods,
		1000*share(all, 1, 2, func(d delays) time.Duration { return d.bound }),
		1000*share(all, 9, 10, func(d delays) time.Duration { return d.bound }))
	return []figure{
		{"PodGroup after the Job is Pending, nine of ten", share(all, 9, 10, func(d delays) time.Duration { return d.group }), promptGoal, "s"},
		{"admission after the PodGroup, nine of ten", share(all, 9, 10, func(d delays) time.Duration { return d.admission }), promptGoal, "s"},
		{"svc's hosts after scaling, nine of ten", share(all, 9, 10, func(d delays) time.Duration { return d.hosts }), promptGoal, "s"},
	}, nil
}

// share is what so many of so many delays do not exceed, in seconds.
func share(all []delays, these, of int, which func(delays) time.Duration) float64 {
	sorted := make([]time.Duration, 0, len(all))
	for _, d := range all {
		sorted = append(sorted, which(d))
	}
	slices.Sort(sorted)
	return sorted[(len(sorted)*these+of-1)/of-1].Seconds()
}

// timeJob creates a Job, waits until its pods are bound, and gives it one pod more.
func (b *bench) timeJob(ctx context.Context, log *watchlog.Log, name string) (d delays, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	job := mustertesting.MakeJob(name).Plugin("svc").Task(mustertesting.MakeTask("worker", promptPods).Requests("cpu", "100m")).Obj()
	created, err := b.Muster.BatchV1alpha1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{})
	if err != nil {
		return d, fmt.Errorf("creating Job %s: %w", name, err)
	}
	job = created
	key := types.NamespacedName{Namespace: namespace, Name: name}
	var last time.Time
	err = log.Wait(ctx, func() bool {
		bound := 0
		for _, pod := range log.PodsOf(key) {
			if !pod.Bound.IsZero() {
				bound++
				last = latest(last, pod.Bound)
			}
		}
		return bound == promptPods && d.see(log.JobStates(key), log.GroupStates(types.NamespacedName{Namespace: namespace, Name: name + "-" + string(job.UID)}))
	})
	if err != nil {
		return d, fmt.Errorf("waiting until the pods of Job %s are bound: %w", name, err)
	}
	d.bound = last.Sub(began)
	d.hosts, err = b.timeScaling(ctx, name)
	return d, err
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// see takes the times of the first steps, and says whether all have been seen.
func (d *delays) see(jobs []watchlog.JobState, groups []watchlog.GroupState) bool {
	pending := slices.IndexFunc(jobs, func(s watchlog.JobState) bool { return s.Phase == batchv1alpha1.Pending })
	admitted := slices.IndexFunc(groups, func(s watchlog.GroupState) bool {
		return s.Phase != "" && s.Phase != schedulingv1beta1.PodGroupPending
	})
	if pending < 0 || admitted < 0 {
		return false
	}
	d.group = max(0, groups[0].Time.Sub(jobs[pending].Time))
	d.admission = groups[admitted].Time.Sub(groups[0].Time)
	return true
}

// timeScaling returns how long after a request for one pod more the hosts are written down.
func (b *bench) timeScaling(ctx context.Context, name string) (time.Duration, error) {
	watch, err := b.Kube.CoreV1().ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name+"-svc").String()})
	if err != nil {
		return 0, fmt.Errorf("watching the hosts of Job %s: %w", name, err)
	}
	defer watch.Stop()
	began := time.Now()
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		job, err := b.Muster.BatchV1alpha1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		job.Spec.Tasks[0].Replicas = promptPods + 1
		began = time.Now()
		_, err = b.Muster.BatchV1alpha1().Jobs(namespace).Update(ctx, job, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("scaling Job %s: %w", name, err)
	}
	for event := range watch.ResultChan() {
		if hosts, ok := event.Object.(*corev1.ConfigMap); ok && len(strings.Fields(hosts.Data["worker.host"])) == promptPods+1 {
			return time.Since(began), nil
		}
	}
	return 0, fmt.Errorf("watching the hosts of Job %s: %w", name, cmp.Or(context.Cause(ctx), errWatchEnded))
}
