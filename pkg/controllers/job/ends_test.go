package job

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/job/ended"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/plan"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAWriteOfUnknownOutcomeTellsOfEnds: the API server has written the status and says that it took too long. A pod that had succeeded
// was swept away meanwhile, and is to run again with its task.
func TestAWriteOfUnknownOutcomeTellsOfEnds(t *testing.T) {
	for name, isWritten := range map[string]bool{"written": true, "not written": false} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.podTracker.Open()
			job := d.runsTwo(mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartTaskAction).
				Task(mustertesting.MakeTask("a", 2)).Obj(), batchv1alpha1.TaskRecord{Name: "a", Created: "0-1", Succeeded: "0"})
			pods := d.pods.of(job)
			for _, pod := range pods {
				last := pod.DeepCopy()
				if pod.Annotations[batchv1alpha1.TaskIndexKey] == "0" {
					last.Status.Phase = corev1.PodSucceeded
					require.NoError(t, d.pods.index.Delete(pod))
					d.handlers.podHandler().OnDelete(last)
					continue
				}
				last.Status.Phase = corev1.PodFailed
				d.shows(last)
			}
			once := true
			d.muster.PrependReactor("update", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if !once {
					return false, nil, nil
				}
				once = false
				if isWritten {
					update := action.(clienttesting.UpdateAction)
					require.NoError(t, d.muster.Tracker().Update(update.GetResource(), update.GetObject(), update.GetNamespace()))
				}
				return true, nil, apierrors.NewTimeoutError("it took too long", 1)
			})
			_, err := d.looks()
			require.Error(t, err)
			if isWritten {
				require.Equal(t, batchv1alpha1.Restarting, d.job().Status.State.Phase)
			}
			_, err = d.looks()
			require.NoError(t, err)
			status := d.job().Status
			assert.Equal(t, int32(1), status.RetryCount)
			require.Len(t, status.TaskRecords, 1)
			assert.Empty(t, status.TaskRecords[0].Succeeded, "it runs again with its task")
		})
	}
}

// came has the informer report a pod.
func (d *desk) came(pod *corev1.Pod) { d.handlers.podHandler().OnAdd(pod, false) }

// runsTwo shows a Job that runs two pods of its task a.
func (d *desk) runsTwo(job *batchv1alpha1.Job, record batchv1alpha1.TaskRecord) *batchv1alpha1.Job {
	job.UID, job.Generation = "job-uid", 1
	job.Status = d.since(batchv1alpha1.Running, time.Hour, "")
	job.Status.TaskRecords = []batchv1alpha1.TaskRecord{record}
	d.shows(job)
	group := mustertesting.MakePodGroup(batchv1alpha1.PodGroupName(job)).UID("group").Obj()
	group.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, build.JobKind)}
	group.Status.Phase = schedulingv1beta1.PodGroupRunning
	d.shows(group)
	for index := range int32(2) {
		pod := build.Pod(job, &job.Spec.Tasks[0], index)
		pod.UID, pod.Status.Phase = types.UID(pod.Name), corev1.PodRunning
		d.shows(pod)
		d.came(pod)
	}
	return job
}

// TestTheHandlersKeepThePodTracker: through the Controller, with a store that is ahead of its handlers.
func TestTheHandlersKeepThePodTracker(t *testing.T) {
	d := newDesk(t)
	d.podTracker.Open()
	job := d.runsTwo(mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2)).Obj(), batchv1alpha1.TaskRecord{Name: "a", Created: "0-1"})
	pods := make([]*corev1.Pod, 2)
	for index := range pods {
		one, _, err := d.pods.index.GetByKey(fmt.Sprintf("default/j-a-%d", index))
		require.NoError(t, err)
		pods[index] = one.(*corev1.Pod)
	}
	_, err := d.looks()
	require.NoError(t, err)

	require.NoError(t, d.pods.index.Delete(pods[0]))
	before := d.job().Status
	after, err := d.looks()
	require.NoError(t, err)
	assert.Equal(t, plan.RetrySoon, after)
	assert.Equal(t, before, d.job().Status, "it is not known yet how the pod ended")
	created, err := d.kube.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, created.Items, 2, "none was created in its place")

	last := pods[0].DeepCopy()
	last.Status.Phase = corev1.PodSucceeded
	d.handlers.podHandler().OnDelete(cache.DeletedFinalStateUnknown{Key: "default/j-a-0", Obj: last})
	d.time.SetTime(d.time.Now().Add(time.Minute))
	_, err = d.looks()
	require.NoError(t, err)
	assert.Equal(t, "0", d.job().Status.TaskRecords[0].Succeeded)
	ended, told := d.podTracker.Look(job.UID, pods[1:])
	assert.True(t, told)
	assert.Empty(t, ended, "the status tells")

	// A client removes a pod that has failed.
	failed := pods[1].DeepCopy()
	failed.Status.Phase = corev1.PodFailed
	going := failed.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: d.time.Now()}
	d.handlers.podHandler().OnUpdate(failed, going)
	d.handlers.podHandler().OnDelete(going)
	ended, told = d.podTracker.Look(job.UID, nil)
	assert.True(t, told)
	assert.Equal(t, []*corev1.Pod{failed}, ended, "as it was before it was told to go")
	d.came(pods[1])
	d.podTracker.Drop(job.UID, ended)

	// The informer has missed the end of one and the beginning of another, and shows a change. The creator of that knew of the end.
	next := pods[1].DeepCopy()
	next.UID = "another"
	d.handlers.podHandler().OnUpdate(failed, next)
	ended, told = d.podTracker.Look(job.UID, []*corev1.Pod{next})
	assert.True(t, told)
	assert.Empty(t, ended)

	// A client detaches a pod.
	detached := next.DeepCopy()
	detached.OwnerReferences = nil
	d.handlers.podHandler().OnUpdate(next, detached)
	_, told = d.podTracker.Look(job.UID, nil)
	assert.True(t, told, "no event of its deletion is to come")
	d.handlers.podHandler().OnUpdate(detached, next)
	_, told = d.podTracker.Look(job.UID, nil)
	assert.False(t, told)

	d.handlers.jobHandler().OnDelete(job)
	assert.Zero(t, d.podTracker.Count(job.UID))
	ended, told = d.podTracker.Look(job.UID, nil)
	assert.True(t, told)
	assert.Empty(t, ended)

	d.came(next)
	over := d.job()
	over.Status = d.since(batchv1alpha1.Completed, time.Hour, "")
	d.shows(over)
	_, err = d.looks()
	require.NoError(t, err)
	assert.Zero(t, d.podTracker.Count(job.UID), "nothing is kept of a Job that has ended")
	_, told = d.podTracker.Look(job.UID, nil)
	assert.True(t, told)
}

// TestALargeJobIsLookedAtLessOften: one look at 50,000 pods after each change would occupy a processor.
func TestALargeJobIsLookedAtLessOften(t *testing.T) {
	c := &handlers{podTracker: &ended.Tracker{}}
	assert.Zero(t, c.lookPause("j"), "a Job without pods is looked at at once")
	assert.Equal(t, 20*time.Millisecond, c.gatherPause("j"))
	for i := range 5000 {
		c.podTracker.Came("j", mustertesting.MakePod("p").UID(fmt.Sprint(i)).Obj())
	}
	assert.Equal(t, 150*time.Millisecond, c.lookPause("j"))
	assert.Equal(t, 170*time.Millisecond, c.gatherPause("j"))
	assert.Zero(t, c.lookPause("other"))
	c.podTracker.Left("j", mustertesting.MakePod("p").UID("0").Obj(), true)
	assert.Equal(t, 4999, c.podTracker.Count("j"))
}

// TestStartsAreGatheredLongerThanEnds: a policy may answer the end of a pod. No policy answers that a pod was created, bound or started.
func TestStartsAreGatheredLongerThanEnds(t *testing.T) {
	h := &handlers{podTracker: &ended.Tracker{}}
	going := mustertesting.MakePod("going").Obj()
	going.DeletionTimestamp = &metav1.Time{}
	for pod, want := range map[*corev1.Pod]time.Duration{
		mustertesting.MakePod("new").Obj():                             startsGather,
		mustertesting.MakePod("runs").Phase(corev1.PodRunning).Obj():   startsGather,
		mustertesting.MakePod("failed").Phase(corev1.PodFailed).Obj():  h.gatherPause(""),
		mustertesting.MakePod("done").Phase(corev1.PodSucceeded).Obj(): h.gatherPause(""),
		going: h.gatherPause(""),
	} {
		assert.Equal(t, want, h.podPause(pod)(""), pod.Name)
	}
}
