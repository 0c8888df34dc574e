package plan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// formerStatus was written by a controller of the time before pods had generations. A task is being restarted: the first pod had its
// successor, and the other two were still being deleted.
const formerStatus = `{
  "state": {"phase": "Pending", "reason": "PodFailed", "message": "pod j-a-0 failed with exit code 1; spec.tasks[0].policies[0]: RestartTask",
    "lastTransitionTime": "1970-01-01T00:16:40Z"},
  "minAvailable": 1, "terminating": 2, "retryCount": 1,
  "conditions": [
    {"status": "Running", "lastTransitionTime": "1970-01-01T00:16:40Z"},
    {"status": "Restarting", "lastTransitionTime": "1970-01-01T00:16:40Z", "reason": "PodFailed"},
    {"status": "Pending", "lastTransitionTime": "1970-01-01T00:16:40Z", "reason": "PodFailed"}],
  "taskRecords": [{"name": "a", "handled": {"0": "uid-1", "1": "uid-2", "2": "uid-3"}}],
  "startTime": "1970-01-01T00:16:40Z"}`

// TestAnUpgradeInTheMiddleOfARestart: pods that the earlier controller is about to replace are not evicted, and their successors are not
// replaced.
func TestAnUpgradeInTheMiddleOfARestart(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).MaxRetry(10).
		Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.AbortJobAction).
		Task(mustertesting.MakeTask("a", 3).MinAvailable(1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartTaskAction)).Obj())
	require.NoError(t, json.Unmarshal([]byte(formerStatus), &w.job.Status))
	former := func(name, index string, uid types.UID, retries string) {
		w.pods[name] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Annotations: map[string]string{
				batchv1alpha1.TaskSpecKey: "a", batchv1alpha1.TaskIndexKey: index, batchv1alpha1.JobVersionKey: "0",
				batchv1alpha1.JobRetryCountKey: retries}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	former("j-a-0", "0", "uid-4", "1")
	former("j-a-1", "1", "uid-2", "0")
	former("j-a-2", "2", "uid-3", "0")
	w.askToGo("j-a-1")
	w.askToGo("j-a-2")
	w.dies()

	w.look()
	require.Equal(t, batchv1alpha1.Running, w.phase(), "not Aborting: no pod was evicted")
	require.Nil(t, w.pods["j-a-0"].DeletionTimestamp, "the successor stays")
	require.Equal(t, []batchv1alpha1.TaskRecord{{Name: "a", Created: "0", Replaced: []batchv1alpha1.ReplacedPods{{Generation: 0, Indexes: "1-2"}}}},
		w.job.Status.TaskRecords)
	w.reap()
	w.start()
	assert.Equal(t, types.UID("uid-4"), w.pods["j-a-0"].UID)
	assert.Equal(t, "1", w.pods["j-a-1"].Annotations[batchv1alpha1.PodGenerationAnnotation], "it is new, and must not be taken for a pod that is being replaced")
	assert.Equal(t, map[string]int{"j-a-1": 1, "j-a-2": 1}, w.ran)
	assert.Equal(t, int32(1), w.job.Status.RetryCount)
	assert.Empty(t, w.job.Status.TaskRecords[0].Replaced)
}
