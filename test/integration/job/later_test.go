package job_test

import (
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

// delayed waits until the Job's status has that many delayed events, and returns them.
func (s *stage) delayed(job string, count int) []batchv1alpha1.DelayedEvent {
	s.t.Helper()
	var found []batchv1alpha1.DelayedEvent
	s.Soon("the delayed events are written down", func() bool {
		found = s.get(job).Status.Delayed
		return len(found) == count
	}, func() any { return s.get(job).Status })
	return found
}

// TestEvictionIsAnsweredLaterByAnotherController: the deadline outlives the controller that has seen the eviction. The new pod is there by
// then, so that only the status shows the eviction.
func TestEvictionIsAnsweredLaterByAnotherController(t *testing.T) {
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MinAvailable(1).LifecyclePolicy(after(4*time.Second, busv1alpha1.PodEvictedEvent, busv1alpha1.TerminateJobAction)).
		Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.evict("j-a-1")
	s.reap(1)
	s.expectJobEvent("j", "ExecuteAction", "Execute action TerminateJob after 4s")
	entry := s.delayed("j", 1)[0]
	assert.Equal(t, []string{"PodEvicted", "a", "1"}, []string{string(entry.Event), entry.Task, entry.Indexes})
	whileDown(func() {})
	s.awaitPod("j-a-1")
	s.reap(1) // the new one has no node, and goes at once
	s.JobPhase(s.name("j"), batchv1alpha1.Terminated)
	state := log.Job(s.name("j"))
	assert.Equal(t, "PodEvicted", state.Reason)
	assert.GreaterOrEqual(t, state.Time.Sub(entry.Since.Time), 4*time.Second)
	assert.Empty(t, s.get("j").Status.Delayed)
}

// TestEvictionIsForgivenOnceTheNewPodRuns: the deadline is cancelled once the new pod runs.
func TestEvictionIsForgivenOnceTheNewPodRuns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").LifecyclePolicy(after(time.Hour, busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction)).
		Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.evict("j-a-0")
	s.reap(1)
	s.delayed("j", 1)
	s.run("j-a-0")
	s.delayed("j", 0)
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	assert.Equal(t, []int{2, 1}, []int{s.created("j-a-0"), s.created("j-a-1")})
}

func TestCompletionIsAnsweredLater(t *testing.T) {
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("ps", 1)).
		Task(mustertesting.MakeTask("worker", 2).LifecyclePolicy(after(3*time.Second, busv1alpha1.TaskCompletedEvent, busv1alpha1.CompleteJobAction))))
	s.admit(job)
	s.run("j-ps-0", "j-worker-0", "j-worker-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.succeed("j-worker-0", "j-worker-1")
	since := s.delayed("j", 1)[0].Since
	whileDown(func() {})
	s.reap(1)
	s.JobPhase(s.name("j"), batchv1alpha1.Completed)
	assert.GreaterOrEqual(t, log.Job(s.name("j")).Time.Sub(since.Time), 3*time.Second)
}

// TestRestartPartition: only the pods of one partition go, though the controller is replaced meanwhile.
func TestRestartPartition(t *testing.T) {
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("m", 1)).
		Task(mustertesting.MakeTask("a", 4).Partitions(2, 2).Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartPartitionAction)))
	two, none := int32(2), int32(0)
	group := s.group(job)
	require.Len(t, group.Spec.SubGroupPolicy, 1)
	divided := group.Spec.SubGroupPolicy[0]
	assert.Equal(t, "a", divided.Name)
	assert.Equal(t, []*int32{&two, &none}, []*int32{divided.SubGroupSize, divided.MinSubGroups})
	assert.Equal(t, map[string]string{"volcano.sh/task-spec": "a"}, divided.LabelSelector.MatchLabels)
	assert.Equal(t, []string{"volcano.sh/partition-id"}, divided.MatchLabelKeys)

	s.admit(job)
	s.run("j-m-0", "j-a-0", "j-a-1", "j-a-2", "j-a-3")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	for name, id := range map[string]string{"j-a-0": "0", "j-a-1": "0", "j-a-2": "1", "j-a-3": "1"} {
		assert.Equal(t, id, s.pod(name).Labels["volcano.sh/partition-id"], name)
	}
	assert.NotContains(t, s.pod("j-m-0").Labels, "volcano.sh/partition-id")
	s.evict("j-a-3")
	// The rest is the minimum, so the Job runs again before the partition is gone.
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Restarting, batchv1alpha1.Pending, batchv1alpha1.Running)
	whileDown(func() {})
	s.reap(2)
	s.run("j-a-2", "j-a-3")
	s.Soon("all five pods run", func() bool { return log.Job(s.name("j")).Running == 5 }, func() any { return log.JobStates(s.name("j")) })
	assert.Equal(t, []int{1, 1, 1, 2, 2}, []int{s.created("j-m-0"), s.created("j-a-0"), s.created("j-a-1"), s.created("j-a-2"), s.created("j-a-3")})
	assert.Equal(t, int32(1), s.get("j").Status.RetryCount)
}

// TestPartitionsScale: the number of partitions may change, and whole partitions come and go.
func TestPartitionsScale(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	partitioned := mustertesting.MakeTask("a", 4).Partitions(2, 2).Obj()
	partitioned.PartitionPolicy.MinPartitions = 1
	wanted := mustertesting.MakeJob("j").Obj()
	wanted.Spec.Tasks = append(wanted.Spec.Tasks, *partitioned)
	job := s.applyObject(wanted)
	assert.Equal(t, int32(2), s.group(job).Spec.MinMember, "minPartitions times the size")
	s.admit(job)
	s.run("j-a-0", "j-a-1", "j-a-2", "j-a-3")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.edit("j", func(job *batchv1alpha1.Job) {
		job.Spec.Tasks[0].Replicas, job.Spec.Tasks[0].PartitionPolicy.TotalPartitions = 6, 3
	})
	assert.Equal(t, "2", s.awaitPod("j-a-5").Labels["volcano.sh/partition-id"])
	s.edit("j", func(job *batchv1alpha1.Job) {
		job.Spec.Tasks[0].Replicas, job.Spec.Tasks[0].PartitionPolicy.TotalPartitions = 2, 1
	})
	s.reap(2) // pods without a node are gone at once
	s.Pods(2, "one partition is left", s.live)
}

// TestTheControllersOwnEditIsNoUpdate: a claim that is made for the Job gets its name in the spec, which raises nothing. A change by the
// user does.
func TestTheControllersOwnEditIsNoUpdate(t *testing.T) {
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.JobUpdatedEvent, busv1alpha1.RestartJobAction).
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: &corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: mustertesting.Resources("storage", "1Gi")},
		}}).Task(mustertesting.MakeTask("a", 1)))
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	require.NotEmpty(t, s.get("j").Spec.Volumes[0].VolumeClaimName)
	require.Greater(t, s.get("j").Generation, job.Generation)
	whileDown(func() {})
	s.PodsStay(1, "nothing is restarted", s.live)
	assert.Zero(t, s.get("j").Status.RetryCount)

	whileDown(func() { s.edit("j", func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].Replicas = 2 }) })
	s.reap(1)
	s.run("j-a-0", "j-a-1")
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Restarting, batchv1alpha1.Pending, batchv1alpha1.Running)
	assert.Equal(t, int32(1), s.get("j").Status.RetryCount)
	var entered *batchv1alpha1.JobCondition
	for _, c := range s.get("j").Status.Conditions {
		if c.Status == batchv1alpha1.Restarting {
			entered = &c
		}
	}
	require.NotNil(t, entered)
	assert.Equal(t, "JobUpdated", entered.Reason)
	assert.Equal(t, "the spec was changed; spec.policies[0]: RestartJob", entered.Message)
}

// TestAnEditResumes: ResumeJob is an answer to a change of an aborted Job's spec.
func TestAnEditResumes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Policy(busv1alpha1.PodFailedEvent, busv1alpha1.AbortJobAction).
		Policy(busv1alpha1.JobUpdatedEvent, busv1alpha1.ResumeJobAction).Task(mustertesting.MakeTask("a", 1)))
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.fail("j-a-0", 1)
	s.JobPhase(s.name("j"), batchv1alpha1.Aborted)
	s.edit("j", func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].Replicas = 2 })
	s.JobPhase(s.name("j"), batchv1alpha1.Pending)
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	assert.Equal(t, []int{2, 1}, []int{s.created("j-a-0"), s.created("j-a-1")}, "what has failed runs again")
	assert.Zero(t, s.get("j").Status.RetryCount)
}

// TestActionsWhileRestarting: a Job that is restarting can be ended, and one that is aborted terminated.
func TestActionsWhileRestarting(t *testing.T) {
	t.Parallel()
	for action, ends := range map[string][]batchv1alpha1.JobPhase{
		"AbortJob":     {batchv1alpha1.Aborting, batchv1alpha1.Aborted},
		"TerminateJob": {batchv1alpha1.Terminating, batchv1alpha1.Terminated},
		"CompleteJob":  {batchv1alpha1.Completing, batchv1alpha1.Completed},
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)))
			s.admit(job)
			s.run("j-a-0", "j-a-1")
			s.JobPhase(s.name("j"), batchv1alpha1.Running)
			s.command(job, job.UID, "RestartJob")
			s.JobPhase(s.name("j"), batchv1alpha1.Restarting)
			s.command(job, job.UID, action)
			s.JobPhase(s.name("j"), ends[0])
			s.reap(2)
			want := append([]batchv1alpha1.JobPhase{batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Restarting}, ends...)
			if action == "AbortJob" {
				s.JobPhase(s.name("j"), batchv1alpha1.Aborted)
				s.command(job, job.UID, "TerminateJob")
				want = append(want, batchv1alpha1.Terminated)
			}
			s.JobPhases(s.name("j"), want...)
			s.awaitNoCommands()
			s.Pods(0, "no pod is made again", s.live)
			s.PodsStay(0, "no pod is made again", s.live)
		})
	}
}

// TestStatusTellsWhatHappened: the status of a Job that ran, failed and was terminated.
func TestStatusTellsWhatHappened(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Plugin("env").MaxRetry(5).LifecyclePolicy(batchv1alpha1.LifecyclePolicy{
		ExitCode: func() *int32 { three := int32(3); return &three }(), Action: busv1alpha1.TerminateJobAction}).
		Task(mustertesting.MakeTask("a", 1)).Task(mustertesting.MakeTask("b", 2).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartTaskAction)))
	s.admit(job)
	s.run("j-a-0", "j-b-0", "j-b-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.fail("j-b-1", 5)
	s.reap(1)
	s.run("j-b-0", "j-b-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.Soon("the counts are those of the pods", func() bool {
		count := s.get("j").Status.TaskStatusCount
		return count["a"].Phase[corev1.PodRunning] == 1 && count["b"].Phase[corev1.PodRunning] == 2
	}, func() any { return s.get("j").Status })
	assert.Nil(t, s.get("j").Status.RunningDuration, "it still runs")
	s.fail("j-a-0", 3)
	s.reap(2)
	s.JobPhase(s.name("j"), batchv1alpha1.Terminated)

	status := s.get("j").Status
	assert.Equal(t, "PodFailed", status.State.Reason)
	assert.Equal(t, "pod j-a-0 failed with exit code 3; spec.policies[0]: TerminateJob", status.State.Message)
	assert.Equal(t, int32(1), status.RetryCount)
	assert.Equal(t, []int32{0, 0, 0, 1, 0}, []int32{status.Pending, status.Running, status.Succeeded, status.Failed, status.Terminating})
	assert.Equal(t, map[string]batchv1alpha1.TaskState{"a": {Phase: map[corev1.PodPhase]int32{corev1.PodFailed: 1}}}, status.TaskStatusCount)
	assert.Equal(t, map[string]string{"plugin-env": "env"}, status.ControlledResources)
	require.NotNil(t, status.StartTime)
	require.NotNil(t, status.CompletionTime)
	require.NotNil(t, status.RunningDuration)
	assert.Equal(t, status.CompletionTime.Sub(status.StartTime.Time), status.RunningDuration.Duration, "from its start, not from its creation")
	assert.True(t, status.CompletionTime.Equal(&status.State.LastTransitionTime))
	told := map[batchv1alpha1.JobPhase]string{}
	var last metav1.Time
	for _, c := range status.Conditions {
		told[c.Status] = c.Message
		assert.False(t, c.LastTransitionTime.Before(&last), "the latest comes last")
		last = *c.LastTransitionTime
	}
	assert.Equal(t, "pod j-b-1 failed with exit code 5; spec.tasks[1].policies[0]: RestartTask", told[batchv1alpha1.Restarting])
	assert.Equal(t, status.State.Message, told[batchv1alpha1.Terminated])
	s.expectJobEvent("j", "ExecuteAction", "Start to execute action RestartTask: "+told[batchv1alpha1.Restarting])
	s.expectJobEvent("j", "ExecuteAction", "Start to execute action TerminateJob: "+told[batchv1alpha1.Terminated])
}
