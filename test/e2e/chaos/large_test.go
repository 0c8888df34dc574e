//go:build large

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/workqueue"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

const (
	// largePodsVariable is how many pods the Job has.
	largePodsVariable = "MUSTER_LARGE_PODS"
	// maxStatusBytes is the largest status of a Job, as JSON, far below the 1.5 MB that etcd stores.
	maxStatusBytes = 200 << 10
	// podsPerNode is how many pods a node takes. There are twice as many places as pods: half of the nodes are drained.
	podsPerNode = 250
	// wakePause is how long nothing may change before kwok is started anew. On a busy machine it loses sight of some pods.
	wakePause = 2 * time.Minute
	// maxWakes is how often in turn kwok is started anew without any change before the Job counts as stuck.
	maxWakes = 5
	// stuckAfter is how long no pod may go before the deletion counts as stuck.
	stuckAfter = 10 * time.Minute
	// clients is how many requests the test makes at the same time.
	clients = 16
)

// exitRestarts is the exit code on which the first task is restarted.
const exitRestarts = 3

// largeJob is one Job of two tasks that make up all its pods.
type largeJob struct {
	*harness.Story
	t    *testing.T
	name types.NamespacedName
	pods int32

	mu       sync.Mutex
	status   batchv1alpha1.JobStatus
	statuses int // how many were seen
	largest  int // bytes of the largest status, as JSON
	object   int // bytes of the largest Job, with what the API server keeps of its fields
}

// TestLargeJob runs a Job of 50,000 pods. It restarts one task, drains half of the nodes and lets the Job complete. Each of these changes
// half of all pods at once, and the status records that. No status is larger than maxStatusBytes, and nothing is left when the Job is
// deleted.
func TestLargeJob(t *testing.T) {
	pods := setting(t, largePodsVariable, 50_000, strconv.Atoi)
	story := harness.New(t)
	count := max(2, 2*pods/podsPerNode+2)
	story.AddNodes(count, "cpu", "64", "pods", strconv.Itoa(podsPerNode))
	s := &largeJob{Story: story, t: t, pods: int32(pods)}
	s.create()
	s.step("the pods start", func() { s.await("all pods run", s.allRun) })
	s.step("a task is restarted", s.restartTask)
	s.step("half of the nodes are drained", func() { s.drain(count / 2) })
	s.step("the pods succeed", s.succeed)
	s.step("the Job is deleted", s.remove)

	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%d pods on %d nodes: %d statuses, the largest of %d bytes, in a Job of at most %d bytes", s.pods, count, s.statuses, s.largest, s.object)
	assert.Less(t, s.largest, maxStatusBytes, "bytes of a status")
}

// step does one thing with the Job and prints how long it took.
func (s *largeJob) step(what string, do func()) {
	s.t.Helper()
	began := time.Now()
	do()
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.Logf("%s: %s, %.0f pods of the Job a second; the largest status until now has %d bytes", what, took.Round(time.Second),
		float64(s.pods)/took.Seconds(), s.largest)
}

// create creates the Job and watches its statuses from the first one on.
func (s *largeJob) create() {
	s.t.Helper()
	restart := onExit(exitRestarts, busv1alpha1.RestartTaskAction)
	s.name = s.CreateJob(mustertesting.MakeJob("large").MinAvailable(1).
		Task(mustertesting.MakeTask("a", s.pods/2).Requests("cpu", "10m").LifecyclePolicy(restart)).
		Task(mustertesting.MakeTask("b", s.pods-s.pods/2).Requests("cpu", "10m")))
	jobs := s.Muster.BatchV1alpha1().Jobs(s.Namespace)
	open := func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return jobs.Watch(ctx, options)
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(s.Ctx, s.Job(s.name).ResourceVersion, &cache.ListWatch{WatchFuncWithContext: open})
	require.NoError(s.t, err)
	s.t.Cleanup(watcher.Stop)
	go func() {
		for event := range watcher.ResultChan() {
			if job, ok := event.Object.(*batchv1alpha1.Job); ok {
				s.see(job)
			}
		}
	}()
}

// see measures a state of the Job.
func (s *largeJob) see(job *batchv1alpha1.Job) {
	status, err := json.Marshal(job.Status)
	assert.NoError(s.t, err)
	object, err := json.Marshal(job)
	assert.NoError(s.t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = job.Status
	s.statuses++
	s.largest, s.object = max(s.largest, len(status)), max(s.object, len(object))
}

func (s *largeJob) latest() batchv1alpha1.JobStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// allRun says whether all pods run and none is still going.
func (s *largeJob) allRun() bool {
	status := s.latest()
	return status.State.Phase == batchv1alpha1.Running && status.Running == s.pods && status.Terminating == 0
}

// await waits until the Job has come so far. The test fails when the Job's status does not change for long before.
func (s *largeJob) await(what string, met func() bool) {
	s.t.Helper()
	moved, wakes := time.Now(), 0
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for last := s.progress(); !met(); <-ticker.C {
		if now := s.progress(); now != last {
			last, moved, wakes = now, time.Now(), 0
		}
		if time.Since(moved) > wakePause {
			require.Less(s.t, wakes, maxWakes, "%s: nothing changes any more; %s", what, last)
			s.wake()
			moved, wakes = time.Now(), wakes+1
		}
	}
}

// progress is a line that changes as long as the Job gets on.
func (s *largeJob) progress() string {
	status := s.latest()
	return fmt.Sprintf("%s: pending %d, running %d, succeeded %d, failed %d, terminating %d", status.State.Phase,
		status.Pending, status.Running, status.Succeeded, status.Failed, status.Terminating)
}

// list lists the pods of the Job.
func (s *largeJob) list() []corev1.Pod {
	s.t.Helper()
	list, err := s.Kube.CoreV1().Pods(s.Namespace).List(s.Ctx, metav1.ListOptions{ResourceVersion: "0"})
	require.NoError(s.t, err)
	return list.Items
}

// count counts the pods of the Job without reading them all.
func (s *largeJob) count() int {
	s.t.Helper()
	list, err := s.Kube.CoreV1().Pods(s.Namespace).List(s.Ctx, metav1.ListOptions{Limit: 1})
	require.NoError(s.t, err)
	count := len(list.Items)
	if list.RemainingItemCount != nil {
		count += int(*list.RemainingItemCount)
	}
	return count
}

// each makes a request for each of the pods, some at the same time. Pods that are gone meanwhile are no error, nor are pods that were
// replaced by another of their name. A patch of the UID is invalid then.
func (s *largeJob) each(pods []corev1.Pod, request func(pod *corev1.Pod) error) {
	s.t.Helper()
	workqueue.ParallelizeUntil(s.Ctx, clients, len(pods), func(i int) {
		if err := request(&pods[i]); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
			assert.NoError(s.t, err, pods[i].Name)
		}
	})
}

// wake has kwok look at all pods again, by starting it anew.
func (s *largeJob) wake() {
	s.t.Helper()
	s.t.Logf("nothing changes: %s; kwok is started anew", s.progress())
	kubelets := killer{t: s.t, cluster: s.Cluster}
	kubelets.replaceKubelets()
}

func (s *largeJob) annotate(pods []corev1.Pod, key, value string) {
	s.t.Helper()
	s.each(pods, func(pod *corev1.Pod) error {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, pod.UID, key, value)
		_, err := s.Kube.CoreV1().Pods(pod.Namespace).Patch(s.Ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

// restartTask lets one pod of the first task fail so that the task is restarted. Then all its pods are new, and none of the second task.
func (s *largeJob) restartTask() {
	s.t.Helper()
	before := map[string]sets.Set[types.UID]{"a": {}, "b": {}}
	for _, pod := range s.list() {
		before[pod.Annotations[batchv1alpha1.TaskSpecKey]].Insert(pod.UID)
	}
	s.EndPod(s.name.Name+"-a-0", exitRestarts)
	s.await("all pods of a task are others", func() bool {
		if !s.allRun() {
			return false
		}
		kept := 0
		for _, pod := range s.list() {
			if before[pod.Annotations[batchv1alpha1.TaskSpecKey]].Has(pod.UID) {
				kept++
			}
		}
		return kept == before["b"].Len()
	})
	assert.EqualValues(s.t, 1, s.latest().RetryCount)
}

// drain closes the first nodes and evicts their pods. All of these run on the other nodes then.
func (s *largeJob) drain(count int) {
	s.t.Helper()
	drained := sets.New[string]()
	for i := range count {
		name := fmt.Sprintf("%s-%d", s.Namespace, i)
		drained.Insert(name)
		_, err := s.Kube.CoreV1().Nodes().Patch(s.Ctx, name, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
		require.NoError(s.t, err)
	}
	onDrained := func() []corev1.Pod {
		var pods []corev1.Pod
		for _, pod := range s.list() {
			if drained.Has(pod.Spec.NodeName) {
				pods = append(pods, pod)
			}
		}
		return pods
	}
	evicted := onDrained()
	require.NotEmpty(s.t, evicted)
	s.t.Logf("evicting %d pods", len(evicted))
	s.each(evicted, func(pod *corev1.Pod) error {
		return s.Kube.CoreV1().Pods(pod.Namespace).EvictV1(s.Ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
		})
	})
	s.await("all pods run on other nodes", func() bool { return s.allRun() && len(onDrained()) == 0 })
}

// succeed lets all pods succeed, and the Job completes.
func (s *largeJob) succeed() {
	s.t.Helper()
	s.annotate(s.list(), mustertesting.SimExitAfter, "0s")
	s.await("the Job completes", func() bool { return s.latest().State.Phase == batchv1alpha1.Completed })
	assert.Equal(s.t, s.pods, s.latest().Succeeded)
}

// remove deletes the Job. Nothing is left of it, neither objects nor what its queue was charged.
func (s *largeJob) remove() {
	s.t.Helper()
	background := metav1.DeletePropagationBackground
	require.NoError(s.t, s.Muster.BatchV1alpha1().Jobs(s.Namespace).Delete(s.Ctx, s.name.Name, metav1.DeleteOptions{PropagationPolicy: &background}))
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	left := s.count()
	for moved := time.Now(); left > 0; <-ticker.C {
		if now := s.count(); now != left {
			left, moved = now, time.Now()
		}
		require.Less(s.t, time.Since(moved), stuckAfter, "%d pods are left", left)
	}
	verifyNoCharge(s.t, s.Story)
}
