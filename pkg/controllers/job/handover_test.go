package job

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plan"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAHandOverAnswersNothingTwice (issue 25, 10): the leader before has answered the failure of a pod, and its status says so. Its pod
// informer had shown the pod; the new leader's informer is behind. It shows the failed pod only after a look and a write of the status.
func TestAHandOverAnswersNothingTwice(t *testing.T) {
	for name, showsPredecessor := range map[string]bool{"it shows no pod of the index": false, "it shows the pod before that": true} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			job := d.stands(mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction).
				Task(mustertesting.MakeTask("a", 2).MinAvailable(1)), batchv1alpha1.Running, 1)
			job.Status.PodGeneration = 2
			job.Status.TaskRecords = []batchv1alpha1.TaskRecord{{
				Name: "a", Created: "1", Replaced: []batchv1alpha1.ReplacedPods{{Generation: 1, Indexes: "0"}}}}
			d.shows(job)
			failed := func(generation string) *corev1.Pod {
				filled := defaults.Job(job, "")
				pod := build.Pod(filled, &filled.Spec.Tasks[0], 0)
				pod.Annotations[batchv1alpha1.PodGenerationAnnotation] = generation
				pod.UID, pod.Spec.NodeName, pod.Status.Phase = types.UID("generation-"+generation), "n", corev1.PodFailed
				return pod
			}
			seen := failed("1")
			d.shows(seen)
			if before := failed("0"); showsPredecessor {
				require.NoError(t, d.pods.index.Update(before))
			} else {
				require.NoError(t, d.pods.index.Delete(before))
			}
			for range 2 { // and have a status written, which may forget
				_, err := d.looks()
				require.NoError(t, err)
				d.time.SetTime(d.time.Now().Add(messageInterval))
				job := d.job()
				job.Status.Running++
				d.shows(job)
			}
			live, err := d.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), seen.Name, metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, seen.UID, live.UID, "what the informer does not show is not deleted")

			require.NoError(t, d.pods.index.Update(seen))
			_, err = d.looks()
			require.NoError(t, err)
			for _, event := range d.told() {
				assert.NotContains(t, event, "Start to execute action")
			}
			live, err = d.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), seen.Name, metav1.GetOptions{})
			if err == nil {
				assert.NotEqual(t, seen.UID, live.UID, "it goes, as was announced")
			}
			assert.EqualValues(t, 2, d.job().Status.PodGeneration)
		})
	}
}

// TestAJobWaitsUntilItsOwnWritesAreSeen: the informer does not show pods yet that were created, or has lost some. They must not count as
// missing.
func TestAJobWaitsUntilItsOwnWritesAreSeen(t *testing.T) {
	d := newDesk(t)
	job := d.stands(mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2).MinAvailable(1)), batchv1alpha1.Running, 0)
	d.pods.index.Bookmark("5")
	d.written.WroteAt(nameOf(job), job.UID, podResource, "6")
	d.kube.ClearActions()
	after, err := d.looks()
	require.NoError(t, err)
	assert.Equal(t, plan.RetrySoon, after)
	assert.Empty(t, d.kube.Actions())
	d.pods.index.Bookmark("6")
	require.NoError(t, d.settles())
	_, err = d.kube.CoreV1().Pods(job.Namespace).Get(t.Context(), "j-a-1", metav1.GetOptions{})
	assert.NoError(t, err)
}

// TestAStatusIsNotWrittenOnWhatWasBeforeIt: the informer of Jobs still shows the Job without the status that was written last.
func TestAStatusIsNotWrittenOnWhatWasBeforeIt(t *testing.T) {
	d := newDesk(t)
	versions := 1
	d.muster.PrependReactor("update", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		versions++
		action.(clienttesting.UpdateAction).GetObject().(*batchv1alpha1.Job).ResourceVersion = strconv.Itoa(versions)
		return false, nil, nil
	})
	job := d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Running, 0)
	job.ResourceVersion = "1"
	d.shows(job)
	yes := true
	job.Spec.Suspend = &yes
	d.shows(job)
	_, err := d.looks()
	require.NoError(t, err)
	require.Equal(t, batchv1alpha1.Aborting, d.job().Status.State.Phase)
	written := versions
	d.told()
	require.NoError(t, d.handlers.jobIndex.Update(job))
	_, err = d.Sync(t.Context(), keyOf(job))
	require.NoError(t, err)
	assert.Equal(t, written, versions, "it is Aborting already")
	assert.Empty(t, d.told())
}
