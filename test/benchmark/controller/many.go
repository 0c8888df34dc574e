package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/benchmark/meter"
)

// livePods is the number of pods of a live Job.
const livePods = 10

// Goals with many Jobs.
const (
	goalMemory  = 256.0 // MiB
	goalCPU     = 2.0   // percent of a core
	goalRestart = 10.0  // seconds
)

// family is a Job as the controller left it, with its PodGroup, if it still has one, and its pods.
type family struct {
	job   batchv1alpha1.Job
	group *schedulingv1beta1.PodGroup
	pods  []corev1.Pod
}

// measureManyJobs makes Jobs by the example of two that the controller has led itself, and measures it among them.
func measureManyJobs(ctx context.Context, o *options) ([]figure, error) {
	b, err := start(ctx, localcluster.Options{Nodes: 200, NodeCPU: "64", Without: []string{localcluster.KWOK}})
	if err != nil {
		return nil, err
	}
	defer b.Down(ctx)
	finished, live, err := b.examples(ctx)
	if err != nil {
		return nil, err
	}
	for _, part := range []string{localcluster.MusterController, localcluster.MusterScheduler} {
		if err := b.stop(ctx, part); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	if err := meter.InParallel(ctx, o.finished, func(i int) error { return b.copy(ctx, finished, fmt.Sprintf("finished-%d", i)) }); err != nil {
		return nil, fmt.Errorf("creating completed Jobs: %w", err)
	}
	if err := meter.InParallel(ctx, o.live, func(i int) error { return b.copy(ctx, live, fmt.Sprintf("live-%d", i)) }); err != nil {
		return nil, fmt.Errorf("creating running Jobs: %w", err)
	}
	fmt.Printf("%d completed Jobs of one pod and %d running Jobs of %d were created in %.0f s\n",
		o.finished, o.live, livePods, time.Since(began).Seconds())
	return b.measureRestarts(ctx, o)
}

// examples leads one Job to its end and one until it runs.
func (b *bench) examples(ctx context.Context) (finished, live *family, err error) {
	task := func(replicas int32) *mustertesting.TaskWrapper {
		return mustertesting.MakeTask("worker", replicas).Requests("cpu", "100m", "memory", "100Mi")
	}
	if err := b.runJob(ctx, mustertesting.MakeJob("ended").Task(task(1)).Obj(), corev1.PodRunning, corev1.PodSucceeded); err != nil {
		return nil, nil, err
	}
	if err := b.runJob(ctx, mustertesting.MakeJob("going").Task(task(livePods)).Obj(), corev1.PodRunning); err != nil {
		return nil, nil, err
	}
	if finished, err = b.awaitRest(ctx, "ended", batchv1alpha1.Completed); err != nil {
		return nil, nil, err
	}
	live, err = b.awaitRest(ctx, "going", batchv1alpha1.Running)
	return finished, live, err
}

// awaitRest waits until a Job is in the phase and has not changed for a second. It reads the Job with its objects.
func (b *bench) awaitRest(ctx context.Context, name string, phase batchv1alpha1.JobPhase) (*family, error) {
	f, since, versions := &family{}, time.Now(), ""
	err := await(ctx, "Job "+name+" is at rest", func(ctx context.Context) (bool, error) {
		job, err := b.Muster.BatchV1alpha1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		group, err := b.Muster.SchedulingV1beta1().PodGroups(namespace).Get(ctx, name+"-"+string(job.UID), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}
		f.job, f.group = *job, group
		if err != nil {
			f.group = nil
		}
		if f.pods, err = b.podsOf(ctx, name); err != nil {
			return false, err
		}
		if now := job.ResourceVersion + "/" + group.ResourceVersion; now != versions {
			versions, since = now, time.Now()
		}
		return job.Status.State.Phase == phase && time.Since(since) > time.Second, nil
	})
	return f, err
}

// stop ends a part in an orderly way, so that its lease is free.
func (b *bench) stop(ctx context.Context, part string) error {
	if err := b.Kill(part, syscall.SIGTERM); err != nil {
		return err
	}
	return b.AwaitEnd(ctx, part)
}

// copy creates a Job like that of a family under another name. It creates all its objects in the state in which the controller leaves them.
func (b *bench) copy(ctx context.Context, f *family, name string) error {
	jobs := b.Muster.BatchV1alpha1().Jobs(namespace)
	job := renamed(&f.job, f.job.Name, name, "", "")
	created, err := jobs.Create(ctx, job, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a Job: %w", err)
	}
	created.Status = job.Status
	if _, err := jobs.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the status of a Job: %w", err)
	}
	if f.group != nil {
		group := renamed(f.group, f.job.Name, name, f.job.UID, created.UID)
		groups := b.Muster.SchedulingV1beta1().PodGroups(namespace)
		made, err := groups.Create(ctx, group, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating a PodGroup: %w", err)
		}
		made.Status = group.Status
		if _, err := groups.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing the status of a PodGroup: %w", err)
		}
	}
	for i := range f.pods {
		pod := renamed(&f.pods[i], f.job.Name, name, f.job.UID, created.UID)
		made, err := b.Kube.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating a pod: %w", err)
		}
		made.Status = pod.Status
		if _, err := b.Kube.CoreV1().Pods(namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing the status of a pod: %w", err)
		}
	}
	return nil
}

// renamed copies an object, with another name and UID for its Job wherever they stand.
func renamed[T any](object *T, oldName, newName string, oldUID, newUID types.UID) *T {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // it came from JSON
	}
	replacements := []string{`"` + oldName + `"`, `"` + newName + `"`, `"` + oldName + `-`, `"` + newName + `-`}
	if oldUID != "" {
		replacements = append(replacements, `"`+string(oldUID)+`"`, `"`+string(newUID)+`"`,
			oldName+"-"+string(oldUID), newName+"-"+string(newUID))
		// The longest first: a Replacer takes the first that fits.
		replacements = append([]string{`"` + oldName + "-" + string(oldUID) + `"`, `"` + newName + "-" + string(newUID) + `"`}, replacements...)
	}
	var copied T
	if err := json.Unmarshal([]byte(strings.NewReplacer(replacements...).Replace(string(text))), &copied); err != nil {
		panic(err) // names and UIDs have nothing in them that JSON escapes
	}
	if meta, ok := any(&copied).(metav1.Object); ok {
		meta.SetUID("")
		meta.SetResourceVersion("")
		meta.SetManagedFields(nil)
	}
	return &copied
}

// measureRestarts starts the controller, which has not seen the Jobs, lets it settle, and measures it idle. Then once more,
// for what a restart changes.
func (b *bench) measureRestarts(ctx context.Context, o *options) ([]figure, error) {
	if _, err := b.restart(ctx, "job", o.finished+o.live); err != nil {
		return nil, err
	}
	if err := b.stop(ctx, localcluster.MusterController); err != nil {
		return nil, err
	}
	before, err := b.podUIDs(ctx)
	if err != nil {
		return nil, err
	}
	took, err := b.restart(ctx, "job", o.finished+o.live)
	if err != nil {
		return nil, err
	}
	at, err := b.Metrics(ctx, localcluster.MusterController)
	if err != nil {
		return nil, err
	}
	written, cpu := at.Writes(), at.CPU()
	window := time.NewTimer(o.idle)
	select {
	case <-window.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	idle, err := b.Metrics(ctx, localcluster.MusterController)
	if err != nil {
		return nil, err
	}
	after, err := b.podUIDs(ctx)
	if err != nil {
		return nil, err
	}
	peak, err := b.peakMemory(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.writeHeap(ctx, o.heapPath); err != nil {
		return nil, err
	}
	fmt.Printf("the restart took %.1f CPU seconds and %.0f writes; at its peak the controller had %.0f MiB\n", cpu, written, peak)
	changed := before.SymmetricDifference(after).Len()
	return []figure{
		{"restart: from the lease until all Jobs are reconciled", took.Seconds(), goalRestart, "s"},
		{"restart: pods created or deleted", float64(changed), 0, "pods"},
		{"memory with all Jobs", idle.Memory() / (1 << 20), goalMemory, "MiB"},
		{"CPU while nothing happens", 100 * (idle.CPU() - cpu) / o.idle.Seconds(), goalCPU, "% of a core"},
	}, nil
}

// restart starts the controller. It returns the time from the lease until the work queue is empty and each of n objects was synced.
func (b *bench) restart(ctx context.Context, queue string, n int) (time.Duration, error) {
	if err := b.Start(ctx, localcluster.MusterController); err != nil {
		return 0, err
	}
	var done time.Time
	err := await(ctx, "the work queue "+queue+" is empty", func(ctx context.Context) (bool, error) {
		m, err := b.Metrics(ctx, localcluster.MusterController)
		if err != nil {
			return false, err
		}
		done = time.Now()
		return m.Sum("workqueue_depth", "name", queue) == 0 && m.Sum("workqueue_unfinished_work_seconds", "name", queue) == 0 &&
			m.Sum("workqueue_work_duration_seconds", "name", queue) >= float64(n), nil
	})
	if err != nil {
		return 0, err
	}
	lease, err := b.Kube.CoordinationV1().Leases("muster-system").Get(ctx, localcluster.MusterController, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading the lease: %w", err)
	}
	if lease.Spec.AcquireTime == nil {
		return 0, errors.New("the lease does not say when it was acquired")
	}
	return done.Sub(lease.Spec.AcquireTime.Time), nil
}

func (b *bench) podUIDs(ctx context.Context) (sets.Set[types.UID], error) {
	list, err := b.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	uids := sets.New[types.UID]()
	for i := range list.Items {
		uids.Insert(list.Items[i].UID)
	}
	return uids, nil
}

// peakMemory returns the most memory that the controller has had, in MiB; 0 where the system does not tell.
func (b *bench) peakMemory(ctx context.Context) (float64, error) {
	status, err := b.Status(ctx)
	if err != nil {
		return 0, err
	}
	for _, component := range status.Components {
		if component.Name != localcluster.MusterController {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", component.PID))
		if errors.Is(err, os.ErrNotExist) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("reading the peak of memory: %w", err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
				kib, err := strconv.ParseFloat(fields[1], 64)
				return kib / 1024, err
			}
		}
	}
	return 0, nil
}

// writeHeap keeps a profile of the controller's memory, if a file is named.
func (b *bench) writeHeap(ctx context.Context, path string) error {
	if path == "" {
		return nil
	}
	profile, err := b.Get(ctx, localcluster.MusterController, "/debug/pprof/heap")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, profile, 0o644); err != nil {
		return fmt.Errorf("writing the heap profile: %w", err)
	}
	return nil
}
