package job_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// TestWhatCannotRunSaysSo: each of these is kept Pending with a reason, a message and an event that name the field. Where the admission policies
// are in force, most are refused before they come here.
func TestWhatCannotRunSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		job    *mustertesting.JobWrapper
		reason string
		names  string
	}{
		"an unknown plugin": {mustertesting.MakeJob("j").Plugin("scv").Task(mustertesting.MakeTask("a", 1)),
			"Invalid", "spec.plugins[scv]"},
		"a wrong argument": {mustertesting.MakeJob("j").Plugin("pytorch", "--port=0").Task(mustertesting.MakeTask("master", 1)),
			"Invalid", "spec.plugins[pytorch][0]"},
		"a circle of dependencies": {mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1).DependsOn("b")).
			Task(mustertesting.MakeTask("b", 1).DependsOn("a")), "Invalid", "a -> b -> a"},
		"a pod name that is too long": {mustertesting.MakeJob(strings.Repeat("j", 60)).Task(mustertesting.MakeTask("a", 1000)),
			"Invalid", "spec.tasks[0].name"},
		"a queue that does not exist": {mustertesting.MakeJob("j").Queue("nowhere").Task(mustertesting.MakeTask("a", 1)),
			"QueueNotFound", "nowhere"},
		"mpi without a master": {mustertesting.MakeJob("j").Plugin("mpi").Task(mustertesting.MakeTask("a", 1)),
			"Invalid", "The specified mpi master task was not found"},
		"a claim and its name": {mustertesting.MakeJob("j").Volume(batchv1alpha1.VolumeSpec{MountPath: "/a", VolumeClaimName: "c",
			VolumeClaim: &corev1.PersistentVolumeClaimSpec{}}).Task(mustertesting.MakeTask("a", 1)), "Invalid", "spec.volumes[0].volumeClaimName"},
		"a dependency on no task": {mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1).DependsOn("b")),
			"Invalid", "no task has this name"},
		"the root queue": {mustertesting.MakeJob("j").Queue("root").Task(mustertesting.MakeTask("a", 1)),
			"QueueIsRoot", "root queue"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			job := s.apply(c.job)
			state := s.JobReason(s.name(job.Name), c.reason)
			assert.Equal(t, batchv1alpha1.Pending, state.Phase)
			assert.Contains(t, state.Message, c.names)
			event := s.Event("Job", s.name(job.Name), func(e watchlog.Event) bool { return e.Reason == c.reason })
			assert.Contains(t, event.Message, c.names)
			assert.Equal(t, corev1.EventTypeWarning, event.Type)
			assert.False(t, event.LastTimestamp.IsZero())
			s.PodsStay(0, "no pod is created", s.live)
			groups, err := muster.SchedulingV1beta1().PodGroups(s.namespace).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Empty(t, groups.Items)
		})
	}
}

// TestATemplateThatTheServerRefusesSaysWhy: the API server that is asked for a pod judges its template, and its words stand on the Job.
func TestATemplateThatTheServerRefusesSaysWhy(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1).RestartPolicy("Sometimes")))
	s.admit(job)
	state := s.JobReason(s.name("j"), "FailedCreate")
	assert.Equal(t, batchv1alpha1.Pending, state.Phase)
	assert.Contains(t, state.Message, `spec.restartPolicy: Unsupported value: "Sometimes"`)
	event := s.Event("Job", s.name("j"), func(e watchlog.Event) bool { return e.Reason == "FailedCreate" })
	assert.Contains(t, event.Message, "spec.restartPolicy")
}

// TestPoliciesThatNeverFireAreNamedOnce: the Job runs, and one event says which of its policies are useless.
func TestPoliciesThatNeverFireAreNamedOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Policy("PodFailed", "RestartJob").Policy("PodEvicted", "RestartJob").
		Task(mustertesting.MakeTask("a", 1).RestartPolicy(corev1.RestartPolicyAlways)))
	isNamed := func(e watchlog.Event) bool { return e.Reason == "PolicyNeverFires" }
	event := s.Event("Job", s.name("j"), isNamed)
	assert.Equal(t, corev1.EventTypeWarning, event.Type)
	assert.Contains(t, event.Message, "spec.policies[0] can never fire: with restartPolicy Always (the default)")
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	assert.Equal(t, int32(1), s.Event("Job", s.name("j"), isNamed).Count)
}

func TestJobGoesOnWhenItsQueueOpens(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.queue(schedulingv1beta1.QueueStateClosed)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)))
	s.JobReason(s.name("j"), "QueueNotOpen")
	s.queue(schedulingv1beta1.QueueStateOpen)
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	assert.Empty(t, log.Job(s.name("j")).Reason)
}

// TestARunningJobGoesOnWhenItsQueueOpens: its PodGroup was deleted while the queue took no Jobs.
func TestARunningJobGoesOnWhenItsQueueOpens(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).MinAvailable(1))
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)

	s.queue(schedulingv1beta1.QueueStateClosed)
	require.NoError(t, muster.SchedulingV1beta1().PodGroups(s.namespace).Delete(t.Context(), s.group(job).Name, metav1.DeleteOptions{}))
	s.JobReason(s.name("j"), "QueueNotOpen")
	s.evict("j-a-1")
	s.reap(1)
	s.Soon("the Job knows that the pod is gone", func() bool { return s.get("j").Status.Running == 1 && s.get("j").Status.Terminating == 0 },
		func() any { return s.get("j").Status })
	require.Equal(t, batchv1alpha1.Running, log.Job(s.name("j")).Phase)
	s.Pods(1, "no pod is created", s.live)
	s.PodsStay(1, "no pod is created", s.live)

	s.queue(schedulingv1beta1.QueueStateOpen)
	s.admit(job)
	s.awaitPod("j-a-1")
}

func TestSchedulerThatIsNotServedIsSaid(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").SchedulerName("other").Task(mustertesting.MakeTask("a", 1)))
	s.JobReason(s.name("j"), "SchedulerNotServed")
	s.Event("Job", s.name("j"), func(e watchlog.Event) bool { return e.Reason == "SchedulerNotServed" })
	s.admit(job)
	assert.Equal(t, "other", s.awaitPod("j-a-0").Spec.SchedulerName)
}

func TestRefusedPodsAreSaidAndTriedAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	quota, err := kube.CoreV1().ResourceQuotas(s.namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	// The quota controller would do it, in its own time. On a busy machine its first look has been seen to come after minutes.
	s.poll("the quota is in force", func(ctx context.Context) (bool, error) {
		current, err := kube.CoreV1().ResourceQuotas(s.namespace).Get(ctx, quota.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		current.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard}
		_, err = kube.CoreV1().ResourceQuotas(s.namespace).UpdateStatus(ctx, current, metav1.UpdateOptions{})
		return err == nil, ignoreConflict(err)
	})

	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 20)))
	s.admit(job)
	s.JobReason(s.name("j"), "FailedCreate")
	s.Event("Job", s.name("j"), func(e watchlog.Event) bool {
		return e.Reason == "FailedCreate" && strings.Contains(e.Message, "exceeded quota")
	})
	require.NoError(t, kube.CoreV1().ResourceQuotas(s.namespace).Delete(t.Context(), quota.Name, metav1.DeleteOptions{}))
	s.Pods(20, "all pods once there is room", s.live)
	s.Soon("the reason is gone", func() bool { return log.Job(s.name("j")).Reason == "" },
		func() any { return log.Job(s.name("j")) })
}

func TestForeignPodIsNeitherAdoptedNorDeleted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	foreign := mustertesting.MakePod("j-a-0").Namespace(s.namespace).Obj()
	foreign, err := kube.CoreV1().Pods(s.namespace).Create(t.Context(), foreign, metav1.CreateOptions{})
	require.NoError(t, err)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)))
	s.admit(job)
	state := s.JobReason(s.name("j"), "FailedCreate")
	assert.Contains(t, state.Message, "j-a-0")
	assert.Equal(t, foreign.UID, s.pod("j-a-0").UID)
	require.True(t, s.forceDelete(t.Context(), foreign))
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
}

func TestT16_DeleteAndApplyAgainUnderTheSameName(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	builder := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2))
	first := s.apply(builder)
	s.admit(first)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	require.NoError(t, muster.BatchV1alpha1().Jobs(s.namespace).Delete(t.Context(), "j", metav1.DeleteOptions{}))
	second := s.apply(builder)
	s.admit(second)
	state := s.JobReason(s.name("j"), "WaitingForEarlierPods")
	assert.Contains(t, state.Message, "pod j-a-0 of an earlier Job")
	s.reap(2)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	assert.True(t, metav1.IsControlledBy(s.pod("j-a-0"), second))
	for _, event := range log.Events("Job", s.namespace, "j") {
		assert.NotEqual(t, "FailedCreate", event.Reason, "an ordinary wait is no failure: %s", event.Message)
	}
}

// TestForeignPodGroupIsNeitherAdoptedNorDeleted: the PodGroup's name holds the Job's UID. So only a malicious client can take it, and only
// while no controller runs.
func TestForeignPodGroupIsNeitherAdoptedNorDeleted(t *testing.T) {
	s := newStage(t)
	var job *batchv1alpha1.Job
	var foreign *schedulingv1beta1.PodGroup
	whileDown(func() {
		job = s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)))
		var err error
		foreign, err = muster.SchedulingV1beta1().PodGroups(s.namespace).Create(t.Context(),
			mustertesting.MakePodGroup("j-"+string(job.UID)).Namespace(s.namespace).Obj(), metav1.CreateOptions{})
		require.NoError(t, err)
	})
	s.JobReason(s.name("j"), "PodGroupNameTaken")
	s.admit(job)
	s.PodsStay(0, "no pod is created", s.live)
	require.NoError(t, muster.SchedulingV1beta1().PodGroups(s.namespace).Delete(t.Context(), foreign.Name, metav1.DeleteOptions{}))
	s.Soon("the Job has a PodGroup of its own", func() bool { return metav1.IsControlledBy(s.group(job), job) },
		func() any { return s.group(job) })
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
}

func TestRunningJobSaysThatItsChangedSpecCannotRun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1).Partitions(1, 1)))
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.edit("j", func(job *batchv1alpha1.Job) {
		job.Spec.Tasks[0].PartitionPolicy.MinPartitions, job.Spec.Tasks[0].MinAvailable = 2, nil
	})
	state := s.JobReason(s.name("j"), "Invalid")
	assert.Equal(t, batchv1alpha1.Running, state.Phase)
	assert.Contains(t, state.Message, "minPartitions")
	s.Event("Job", s.name("j"), func(e watchlog.Event) bool { return e.Reason == "Invalid" })
	s.edit("j", func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].PartitionPolicy.MinPartitions = 0 })
	s.Soon("the reason is gone", func() bool { return log.Job(s.name("j")).Reason == "" }, func() any { return log.Job(s.name("j")) })
	s.PodsStay(1, "the pod runs on", s.live)
}

func TestPodGroupThatIsDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)))
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	first := s.group(job)
	require.NoError(t, muster.SchedulingV1beta1().PodGroups(s.namespace).Delete(t.Context(), first.Name, metav1.DeleteOptions{}))
	s.Soon("another PodGroup", func() bool { return s.group(job).UID != first.UID }, func() any { return first.UID })
	assert.Equal(t, batchv1alpha1.Running, log.Job(s.name("j")).Phase)
}

func TestWhatThePodGroupWaitsForIsSaid(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)))
	group := s.group(job)
	say := func(phase schedulingv1beta1.PodGroupPhase, message string) {
		groups := muster.SchedulingV1beta1().PodGroups(s.namespace)
		require.NoError(t, clients.Change(t.Context(), group.Name, groups.Get, groups.UpdateStatus, func(group *schedulingv1beta1.PodGroup) {
			group.Status.Phase = phase
			group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{
				Type: schedulingv1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Message: message}}
		}))
	}
	say(schedulingv1beta1.PodGroupPending, "queue is full")
	assert.Equal(t, "queue is full", s.JobReason(s.name("j"), "PodGroupPending").Message)
	s.expectJobEvent("j", "PodGroupPending", "PodGroup "+s.namespace+":j pending, reason: queue is full")
	say(schedulingv1beta1.PodGroupInqueue, "0/4 nodes are available")
	assert.Equal(t, "0/4 nodes are available", s.JobReason(s.name("j"), "Unschedulable").Message)
	s.expectJobEvent("j", "PodGroupPending", "PodGroup "+s.namespace+":j unschedulable, reason: 0/4 nodes are available")
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	assert.Empty(t, log.Job(s.name("j")).Reason)
}

// TestJobOutlivesItsQueue: a deleted queue keeps waiting Jobs waiting and ends no Job. They go on when the queue exists again.
func TestJobOutlivesItsQueue(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	running := s.apply(mustertesting.MakeJob("running").MaxRetry(1).Task(mustertesting.MakeTask("a", 1)))
	s.admit(running)
	s.run("running-a-0")
	s.JobPhase(s.name("running"), batchv1alpha1.Running)
	require.NoError(t, clients.Delete(t.Context(), s.namespace, muster.SchedulingV1beta1().Queues().Delete))
	waiting := s.apply(mustertesting.MakeJob("waiting").Task(mustertesting.MakeTask("a", 1)))
	s.JobReason(s.name("waiting"), "QueueNotFound")
	s.Event("Job", s.name("waiting"), func(e watchlog.Event) bool { return e.Reason == "QueueNotFound" })
	assert.Equal(t, batchv1alpha1.Running, log.Job(s.name("running")).Phase)

	s.queue(schedulingv1beta1.QueueStateOpen)
	s.admit(waiting)
	s.run("waiting-a-0")
	s.JobPhase(s.name("waiting"), batchv1alpha1.Running)
	assert.Empty(t, log.Job(s.name("waiting")).Reason)
	s.succeed("running-a-0")
	s.JobPhase(s.name("running"), batchv1alpha1.Completed)
}
