package plan

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// maxStatus is how many bytes a status may have with its managed fields: etcd takes 1.5 MB.
const maxStatus = 200 << 10

// storedSize is how many bytes the status takes in etcd: as JSON, and what managedFields say of it. These have one key for each field, and
// one for each key of a map. A list that is atomic is one field.
func storedSize(t require.TestingT, status *batchv1alpha1.JobStatus) int {
	written, err := json.Marshal(status)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(written, &fields))
	return len(written) + managedFieldsSize(fields)
}

func managedFieldsSize(fields map[string]any) int {
	size := 0
	for key, value := range fields {
		size += len(`"f:":{},`) + len(key)
		switch value := value.(type) {
		case map[string]any:
			size += managedFieldsSize(value)
		case []any:
			if key != "conditions" {
				continue // atomic
			}
			for _, item := range value {
				size += len(`"k:{\"status\":\"Terminating\"}":{".":{}},`) + managedFieldsSize(item.(map[string]any))
			}
		}
	}
	return size
}

// TestTheStatusOf50000PodsIsBounded: each status can be stored, whatever happens to any number of pods at once.
func TestTheStatusOf50000PodsIsBounded(t *testing.T) {
	const replicas = 50000
	random := rand.New(rand.NewPCG(1, 2))
	evicted := batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodEvictedEvent, Action: busv1alpha1.AbortJobAction,
		Timeout: &metav1.Duration{Duration: time.Hour}}
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).MaxRetry(10).
		Task(mustertesting.MakeTask("a", replicas).
			LifecyclePolicy(evicted).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartTaskAction)).Obj())
	largest := 0
	look := func() {
		w.look()
		size := storedSize(t, &w.job.Status)
		largest = max(largest, size)
		require.Less(t, size, maxStatus)
		w.now = w.now.Add(time.Second)
	}
	some := func(fits func(*corev1.Pod) bool, share float64) []string {
		var found []string
		for _, name := range w.names(fits) {
			if random.Float64() < share {
				found = append(found, name)
			}
		}
		return found
	}
	running := func(p *corev1.Pod) bool { return isRunning(p) && !isGoing(p) }
	isThere := func(p *corev1.Pod) bool { return !isGoing(p) }
	replace := func() { // deleted pods are gone, and their successors run
		for range 2 {
			for _, name := range some(isGoing, 0.5) {
				w.remove(name)
			}
			look()
		}
		w.reap()
		look()
		look()
		w.runAll()
		look()
	}
	look()
	w.runAll()
	look()
	require.Len(t, w.names(running), replicas)

	// A drain of half the nodes, twice, in waves: pods of several generations are to go at the same time.
	for range 2 {
		for range 4 {
			for _, name := range some(running, 0.16) {
				w.askToGo(name)
			}
			look()
			for _, name := range some(isGoing, 0.3) {
				w.remove(name)
			}
			look()
			w.runAll()
		}
		replace()
	}
	require.Len(t, w.names(running), replicas)

	// A restart of the task.
	w.set(w.names(running)[7], corev1.PodFailed, 1)
	look()
	require.Equal(t, batchv1alpha1.Restarting, w.phase())
	require.Len(t, w.names(isGoing), replicas)
	replace()
	require.Len(t, w.names(isThere), replicas)
	require.Equal(t, int32(1), w.job.Status.RetryCount)

	// Pods complete in no order, and some are evicted meanwhile.
	for range 5 {
		for _, name := range some(running, 0.4) {
			w.set(name, corev1.PodSucceeded, 0)
		}
		for _, name := range some(running, 0.01) {
			w.askToGo(name)
		}
		look()
		w.reap()
		look()
		w.runAll()
	}
	t.Logf("the largest status takes %d bytes", largest)
	for _, name := range w.names(running) {
		w.set(name, corev1.PodSucceeded, 0)
	}
	w.reap()
	look()
	assert.Equal(t, batchv1alpha1.Completed, w.phase())
}

// TestWhatWasReplacedIsKnownToAControllerThatSeesItLate: after a change of leader the informer may show a pod late that was dealt with
// before. It is not dealt with again; and its successor, which was created by the leader before, is not meant.
func TestWhatWasReplacedIsKnownToAControllerThatSeesItLate(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).MaxRetry(10).
		Task(mustertesting.MakeTask("a", 2).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction)).Obj())
	w.start()
	w.set("j-a-0", corev1.PodFailed, 1)
	failed := w.pods["j-a-0"]
	w.look()
	require.Equal(t, int32(1), w.job.Status.RetryCount)
	require.Equal(t, int32(1), w.job.Status.PodGeneration)

	delete(w.pods, "j-a-0") // not shown yet to the next leader
	w.dies()
	w.lookAndCrash(beforeActing)
	w.pods["j-a-0"] = failed // shown before it was told to go
	w.podTracker.Came(w.job.UID, failed)
	w.look()
	assert.Equal(t, int32(1), w.job.Status.RetryCount, "the same failure")
	assert.NotNil(t, w.pods["j-a-0"].DeletionTimestamp)
	w.reap()
	w.start()
	assert.Equal(t, "1", w.pods["j-a-0"].Annotations[batchv1alpha1.PodGenerationAnnotation])
	assert.Empty(t, w.job.Status.TaskRecords[0].Replaced, "the successor is seen")

	// Older controllers made pods that say nothing of a generation.
	delete(w.pods["j-a-1"].Annotations, batchv1alpha1.PodGenerationAnnotation)
	w.settle()
	w.set("j-a-1", corev1.PodFailed, 1)
	w.look()
	assert.Equal(t, []batchv1alpha1.ReplacedPods{{Generation: 0, Indexes: "1"}}, w.job.Status.TaskRecords[0].Replaced)
}

// TestProgressOfADeletionIsPaced: a deletion that was announced goes on while the status of its progress waits.
func TestProgressOfADeletionIsPaced(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1000).
		Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartTaskAction)).Obj())
	w.start()
	w.set("j-a-0", corev1.PodFailed, 1)
	w.lookAndCrash(whileActing)
	before := w.job.Status.DeepCopy()
	require.Equal(t, batchv1alpha1.Restarting, before.State.Phase)
	w.reap()
	p := w.lookAndCrash(beforeWrite)
	require.NotEmpty(t, p.Members.Victims())
	require.Less(t, p.Status.Terminating, before.Terminating)
	assert.True(t, mayWait(w.job, p))
}
