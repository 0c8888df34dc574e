package job

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/phase"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// world is a Job and its pods, without an API server: what a verdict asks for is done at once.
type world struct {
	t    require.TestingT
	job  *batchv1alpha1.Job
	pods map[string]*corev1.Pod // by name
	now  time.Time
	uids int
	ran  map[string]int // pod name -> how many pods of that name were created
}

func newWorld(t require.TestingT, job *batchv1alpha1.Job) *world {
	job.UID = "job-uid"
	return &world{t: t, job: job, pods: map[string]*corev1.Pod{}, now: time.Unix(1000, 0), ran: map[string]int{}}
}

// look takes one look at the Job: judge, write the status, delete and create. Deleted pods stay until they are reaped.
func (w *world) look() *verdict {
	filled := defaults.Job(w.job, "")
	var pods []*corev1.Pod
	for _, pod := range w.pods {
		pods = append(pods, pod)
	}
	result := judge(&view{job: filled, pods: pods, now: w.now})
	requireConsistent(w.t, filled, result)
	w.job.Status = *result.status.DeepCopy()
	for _, pod := range result.members.victims() {
		gone := w.pods[pod.Name].DeepCopy()
		gone.DeletionTimestamp = &metav1.Time{Time: w.now}
		w.pods[pod.Name] = gone
	}
	if phase.Runs(w.job.Status.State.Phase) {
		filled.Status = w.job.Status
		for _, m := range result.members.missing(filled.Name) {
			w.create(newPod(filled, &filled.Spec.Tasks[m.task], m.index))
		}
	}
	return result
}

func (w *world) create(pod *corev1.Pod) {
	require.NotContains(w.t, w.pods, pod.Name, "a pod of that name is still there")
	w.uids++
	pod.UID = types.UID(fmt.Sprintf("uid-%d", w.uids))
	pod.Status.Phase = corev1.PodPending
	w.pods[pod.Name] = pod
	w.ran[pod.Name]++
}

// settle looks until nothing changes any more.
func (w *world) settle() {
	for range 20 {
		before := w.job.Status.DeepCopy()
		count := len(w.pods)
		w.look()
		if assert.ObjectsAreEqual(before, &w.job.Status) && count == len(w.pods) {
			return
		}
	}
	require.Fail(w.t, "the Job does not come to rest", "%+v", w.job.Status)
}

func (w *world) set(name string, p corev1.PodPhase, exitCode int32) {
	require.Contains(w.t, w.pods, name)
	pod := w.pods[name].DeepCopy()
	pod.Status.Phase = p
	if p == corev1.PodFailed {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode}}}}
	}
	w.pods[name] = pod
}

func (w *world) runAll() {
	for name, pod := range w.pods {
		if pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
			w.set(name, corev1.PodRunning, 0)
		}
	}
}

// reap removes the pods that are being deleted.
func (w *world) reap() {
	for name, pod := range w.pods {
		if pod.DeletionTimestamp != nil {
			delete(w.pods, name)
		}
	}
}

func (w *world) start() {
	w.settle()
	w.runAll()
	w.settle()
	require.Equal(w.t, batchv1alpha1.Running, w.job.Status.State.Phase)
}

func (w *world) phase() batchv1alpha1.JobPhase { return w.job.Status.State.Phase }

// requireConsistent checks what clients rely on in every single write.
func requireConsistent(t require.TestingT, job *batchv1alpha1.Job, v *verdict) {
	s := v.status
	switch s.State.Phase {
	case batchv1alpha1.Restarting, batchv1alpha1.Aborting, batchv1alpha1.Terminating, batchv1alpha1.Completing:
		require.Positive(t, s.Terminating, "%s without terminating pods", s.State.Phase)
	case batchv1alpha1.Aborted, batchv1alpha1.Terminated:
		require.Zero(t, s.Pending+s.Running+s.Terminating, "%s", s.State.Phase)
	case batchv1alpha1.Running:
		if job.Status.State.Phase != batchv1alpha1.Running {
			require.GreaterOrEqual(t, s.Running+s.Succeeded, job.Spec.MinAvailable)
		}
	case batchv1alpha1.Pending:
		if job.Status.State.Phase == batchv1alpha1.Restarting {
			require.GreaterOrEqual(t, defaults.Replicas(&job.Spec)-s.Terminating, s.MinAvailable)
		}
	}
	require.Len(t, s.Conditions, len(conditionPhases(s)), "one condition per phase")
	require.Equal(t, s.State.Phase, s.Conditions[len(s.Conditions)-1].Status, "the latest condition comes last")
}

func conditionPhases(s *batchv1alpha1.JobStatus) map[batchv1alpha1.JobPhase]bool {
	phases := map[batchv1alpha1.JobPhase]bool{}
	for _, c := range s.Conditions {
		phases[c.Status] = true
	}
	return phases
}

func TestFirstStatusIsPending(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Obj())
	w.look()
	assert.Equal(t, batchv1alpha1.Pending, w.phase())
	assert.Equal(t, int32(2), w.job.Status.MinAvailable)
	assert.Zero(t, w.job.Status.Pending)
}

func TestRunsMaxRetryTimesInAll(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MaxRetry(3).
		Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).Task(mustertesting.MakeTask("a", 2)).Obj())
	for run := range 3 {
		w.start()
		w.set("j-a-0", corev1.PodFailed, 7)
		v := w.look()
		require.NotNil(t, v.request)
		assert.Equal(t, int32(run+1), w.job.Status.RetryCount)
		assert.Equal(t, batchv1alpha1.Restarting, w.phase())
		assert.Equal(t, "PodFailed", w.job.Status.State.Reason)
		assert.Equal(t, "pod j-a-0 failed with exit code 7; spec.policies[0]: RestartJob", w.job.Status.State.Message)
		w.reap()
		w.settle()
		w.reap()
		w.settle()
	}
	assert.Equal(t, batchv1alpha1.Failed, w.phase())
	assert.Equal(t, int32(3), w.job.Status.RetryCount)
	assert.Equal(t, 3, w.ran["j-a-0"])
	assert.Equal(t, corev1.PodFailed, w.pods["j-a-0"].Status.Phase, "the last failed pod is kept")
	assert.NotContains(t, w.pods, "j-a-1", "the unfinished pod is not")
	assert.Equal(t, int32(1), w.job.Status.Failed)
	assert.Equal(t, phase.ReasonMaxRetryReached, w.job.Status.State.Reason)
	assert.NotNil(t, w.job.Status.CompletionTime)
}

func TestRestartPodTouchesNothingElse(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(2).
		Task(mustertesting.MakeTask("a", 3).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction)).Obj())
	w.start()
	w.set("j-a-1", corev1.PodFailed, 1)
	w.look()
	assert.Equal(t, batchv1alpha1.Restarting, w.phase())
	assert.Equal(t, int32(1), w.job.Status.Terminating)
	assert.Equal(t, int32(2), w.job.Status.Running)
	assert.Equal(t, int32(0), w.job.Status.Version)
	w.settle()
	assert.Equal(t, map[string]int{"j-a-0": 1, "j-a-1": 1, "j-a-2": 1}, w.ran)
	w.reap()
	w.start()
	assert.Equal(t, map[string]int{"j-a-0": 1, "j-a-1": 2, "j-a-2": 1}, w.ran)
	assert.Equal(t, int32(1), w.job.Status.RetryCount)
	assert.Empty(t, w.job.Status.TaskRecords[0].Handled)
}

func TestSuspendAndResumeSpendNoRetries(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Obj()
	w := newWorld(t, job)
	for range 5 {
		w.start()
		yes := true
		w.job.Spec.Suspend = &yes
		w.look()
		assert.Equal(t, batchv1alpha1.Aborting, w.phase())
		w.reap()
		w.settle()
		assert.Equal(t, batchv1alpha1.Aborted, w.phase())
		assert.Empty(t, w.pods)
		w.job.Spec.Suspend = nil
	}
	w.start()
	assert.Zero(t, w.job.Status.RetryCount)
}

func TestEvictionWithoutPolicyIsReplaced(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Obj())
	w.start()
	delete(w.pods, "j-a-0")
	w.start()
	assert.Equal(t, 2, w.ran["j-a-0"])
	assert.Zero(t, w.job.Status.RetryCount)
}

func TestScalingDownRaisesNothing(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).
		Policy(busv1alpha1.AnyEvent, busv1alpha1.TerminateJobAction).Task(mustertesting.MakeTask("a", 3).MinAvailable(1)).Obj())
	w.start()
	w.job.Spec.Tasks[0].Replicas = 1
	w.settle()
	w.reap()
	w.settle()
	assert.Equal(t, batchv1alpha1.Running, w.phase())
	assert.Len(t, w.pods, 1)
	w.job.Spec.Tasks[0].Replicas = 3
	w.start()
	assert.Len(t, w.pods, 3)
	assert.Zero(t, w.job.Status.RetryCount)
}

func TestCompleteJobOnTaskCompleted(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("ps", 1)).
		Task(mustertesting.MakeTask("w", 1).Policy(busv1alpha1.TaskCompletedEvent, busv1alpha1.CompleteJobAction)).Obj())
	w.start()
	w.set("j-w-0", corev1.PodSucceeded, 0)
	w.look()
	assert.Equal(t, batchv1alpha1.Completing, w.phase())
	w.reap()
	w.settle()
	assert.Equal(t, batchv1alpha1.Completed, w.phase())
	assert.Contains(t, w.pods, "j-w-0")
	assert.NotContains(t, w.pods, "j-ps-0")
	assert.Equal(t, int32(1), w.job.Status.Succeeded)
	assert.Zero(t, w.job.Status.RetryCount)
}

func TestFinishedPodNeverRunsAgain(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Obj())
	w.start()
	w.set("j-a-0", corev1.PodSucceeded, 0)
	w.settle()
	delete(w.pods, "j-a-0")
	w.settle()
	assert.Equal(t, 1, w.ran["j-a-0"])
	assert.Equal(t, int32(1), w.job.Status.Succeeded)
	w.set("j-a-1", corev1.PodSucceeded, 0)
	w.settle()
	assert.Equal(t, batchv1alpha1.Completed, w.phase())
}
