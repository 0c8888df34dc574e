package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
	"github.com/muster-sched/muster/test/e2e/harness"
)

func TestAQueuesCapabilityIsNeverExceeded(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(4, "cpu", "8")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace).Capability("cpu", "4"))
	for i := range 10 {
		// The odd ones have surplus, which must not exceed the capability either.
		s.CreateJob(mustertesting.MakeJob(fmt.Sprintf("job-%d", i)).Queue(s.Namespace).MinAvailable(int32(2 - i%2)).
			Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1").ExitAfter(time.Second, 0)))
	}
	for i := range 10 {
		s.JobPhase(s.Name(fmt.Sprintf("job-%d", i)), batchv1alpha1.Completed)
	}
	assert.EqualValues(t, 4000, s.Log.PeakUse(s.Namespace)[corev1.ResourceCPU], "the queue was used fully and no further")
	s.WholeGangs(s.Namespace, window)
}

func TestSurplusStopsAtTheCapability(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(2, "cpu", "8")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace).Capability("cpu", "3"))
	job := s.CreateJob(mustertesting.MakeJob("elastic").Queue(s.Namespace).MinAvailable(2).
		Task(mustertesting.MakeTask("worker", 6).Requests("cpu", "1")))
	s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running)
	s.Pods(3, "the minimum and one more run", s.In(harness.Running))
	s.PodsStay(3, "no more than the capability runs", s.In(harness.Bound))
}

func TestAGangBeyondItsQueuesCapabilityIsNotAdmitted(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(2, "cpu", "8")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace).Capability("cpu", "2"))
	job := s.CreateJob(mustertesting.MakeJob("greedy").Queue(s.Namespace).
		Task(mustertesting.MakeTask("worker", 3).Requests("cpu", "1")))
	s.JobPhase(job, batchv1alpha1.Pending)
	s.Soon("the Job says why it waits",
		func() bool { return s.Log.Job(job).Reason != "" && s.Log.Job(job).Message != "" },
		func() any { return s.Log.JobStates(job) })
	s.PodsStay(0, "no pod is created", s.In())
}

// TestAGangWithoutRequestsIsNotAdmittedPastItsQueue (issue 25, 8). Its pods get requests from a LimitRange, and what they ask for together
// counts before there is one.
func TestAGangWithoutRequestsIsNotAdmittedPastItsQueue(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(2, "cpu", "8")
	_, err := s.Kube.CoreV1().LimitRanges(s.Namespace).Create(s.Ctx, &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "standard"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Default: mustertesting.Resources("cpu", "1")}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace).Capability("cpu", "2"))
	gang := func(name string, replicas int32) types.NamespacedName {
		return s.CreateJob(mustertesting.MakeJob(name).Queue(s.Namespace).Task(mustertesting.MakeTask("worker", replicas)))
	}
	large := gang("large", 3)
	s.Soon("the Job says why it waits",
		func() bool { return s.Log.Job(large).Reason != "" && s.Log.Job(large).Message != "" },
		func() any { return s.Log.JobStates(large) })
	s.PodsStay(0, "no pod is created", s.In())
	s.JobPhase(gang("small", 2), batchv1alpha1.Running)
}

func TestAJobForAMissingQueueWaits(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "8")
	job := s.CreateJob(mustertesting.MakeJob("early").Queue(s.Namespace).
		Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1")))
	s.Soon("the Job says why it waits",
		func() bool { return s.Log.Job(job).Reason != "" && s.Log.Job(job).Message != "" },
		func() any { return s.Log.JobStates(job) })
	s.PodsStay(0, "no pod is bound", s.In(harness.Bound))

	s.CreateQueue(mustertesting.MakeQueue(s.Namespace))
	s.JobPhase(job, batchv1alpha1.Running)
}

func TestPodsOfTheirOwnAreChargedToTheQueueThatTheyName(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(2, "cpu", "8")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace).Capability("cpu", "2"))
	for i := range 4 {
		s.CreatePod(mustertesting.MakePod(fmt.Sprintf("pod-%d", i)).QueueName(s.Namespace).SchedulerName("muster").Requests("cpu", "1"))
	}
	s.Pods(2, "two run", s.In(harness.Running))
	s.PodsStay(2, "no more are bound", s.In(harness.Bound))
	s.EndPod(s.Log.Pods(s.In(harness.Running))[0].Name, 0)
	s.Pods(3, "another is bound when one has finished", s.In(harness.Bound))
	s.PodsStay(3, "no more are bound", s.In(harness.Bound))
}

func TestTheQueueReportsItsGroups(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace))
	s.CreateJob(mustertesting.MakeJob("runs").Queue(s.Namespace).Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "3")))
	s.JobPhase(s.Name("runs"), batchv1alpha1.Running)
	s.CreateJob(mustertesting.MakeJob("waits").Queue(s.Namespace).Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "3")))
	s.Pods(1, "one waits", s.In(harness.Unbound))
	var last schedulingv1beta1.QueueStatus
	require.Eventually(t, func() bool {
		last = s.Queue(s.Namespace).Status
		return last.Running == 1 && last.Inqueue == 1 && last.Allocated.Cpu().MilliValue() == 3000
	}, mustertesting.Timeout, 50*time.Millisecond, "the queue has one running and one waiting group and 3 CPUs in use")
}

// TestAQueueWhoseJobsAreGoneCanBeDeleted (issue 40, 12): at once, while other Jobs come and go. A Job that is created when they are gone shows
// that the controller has seen it.
func TestAQueueWhoseJobsAreGoneCanBeDeleted(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "64")
	for i := range 20 {
		s.CreateJob(mustertesting.MakeJob(fmt.Sprint("other-", i)).Task(mustertesting.MakeTask("a", 2).Requests("cpu", "1").ExitAfter(time.Second, 0)))
	}
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace))
	job := s.CreateJob(mustertesting.MakeJob("job").Queue(s.Namespace).Task(mustertesting.MakeTask("a", 4).Requests("cpu", "1")))
	s.Pods(4, "the Job runs", s.In(harness.Of("job"), harness.Running))
	s.Soon("the queue counts its pods", func() bool {
		status := s.Queue(s.Namespace).Status
		return status.Allocated.Pods().Value() == 4 && status.Running == 1
	}, func() any { return s.Queue(s.Namespace).Status })

	foreground := metav1.DeletePropagationForeground
	require.NoError(t, s.Muster.BatchV1alpha1().Jobs(s.Namespace).Delete(s.Ctx, job.Name, metav1.DeleteOptions{PropagationPolicy: &foreground}))
	s.Soon("the Job is gone", func() bool { return s.Log.JobGone(job) }, func() any { return s.Log.PodsOf(job) })
	s.CreateJob(mustertesting.MakeJob("later").Task(mustertesting.MakeTask("a", 1)))
	s.Pods(1, "a later Job has its pod", s.In(harness.Of("later")))
	assert.NoError(t, clients.Delete(s.Ctx, s.Namespace, s.Muster.SchedulingV1beta1().Queues().Delete))
}

// TestAJobStartsOnceTheStatusOfItsPodGroupIsWritten: only the status admits, since users can make pods that look like an admitted Job's.
// While the API server refuses the status the Job waits. A controller that is started meanwhile admits the first PodGroup first. It is not
// parallel: a controller is killed.
func TestAJobStartsOnceTheStatusOfItsPodGroupIsWritten(t *testing.T) {
	s := harness.New(t)
	s.AddNodes(1, "cpu", "8")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace).Capability("cpu", "4"))
	allow := s.RefuseGroupStatuses()
	job := s.CreateJob(mustertesting.MakeJob("job").Queue(s.Namespace).Task(mustertesting.MakeTask("worker", 4).Requests("cpu", "1").Hang()))
	s.JobPhase(job, batchv1alpha1.Pending)
	s.PodsStay(0, "its PodGroup is not admitted", s.In(harness.Of("job")))

	require.NoError(t, s.Kill(localcluster.MusterController, syscall.SIGKILL))
	require.NoError(t, s.AwaitEnd(s.Ctx, localcluster.MusterController))
	// The next controller need not wait until the lease of the one that was killed has expired.
	require.NoError(t, s.Kube.CoordinationV1().Leases("muster-system").Delete(s.Ctx, localcluster.MusterController, metav1.DeleteOptions{}))
	rival := s.CreateJob(mustertesting.MakeJob("rival").Queue(s.Namespace).Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "1")))
	require.NoError(t, s.Start(s.Ctx, localcluster.MusterController))
	s.JobPhase(rival, batchv1alpha1.Pending)

	allow()
	s.Pods(4, "the pods are bound", s.In(harness.Of("job"), harness.Bound))
	s.Soon("both PodGroups say how they are", func() bool {
		return s.GroupOf(job).Status.Phase == schedulingv1beta1.PodGroupRunning && s.GroupOf(rival).Status.Phase == schedulingv1beta1.PodGroupPending
	}, func() any { return []any{s.GroupOf(job).Status, s.GroupOf(rival).Status} })
	s.PodsStay(0, "the queue has no room for the second", s.In(harness.Of("rival")))
	s.WholeGangs(s.Namespace, window)
}

// TestAJobIsAdmittedWhenReclaimCanSeatIt: siblings have borrowed all that their parent may use, and the Job's own queue is owed a half.
func TestAJobIsAdmittedWhenReclaimCanSeatIt(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "8")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace).Capability("cpu", "4"))
	owed, borrows := s.Namespace+"-owed", s.Namespace+"-borrows"
	s.CreateQueue(mustertesting.MakeQueue(owed).Parent(s.Namespace).Deserved("cpu", "2"))
	s.CreateQueue(mustertesting.MakeQueue(borrows).Parent(s.Namespace).Deserved("cpu", "2"))
	for i := range 4 {
		job := s.CreateJob(mustertesting.MakeJob(fmt.Sprintf("b%d", i)).Queue(borrows).Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "1")))
		s.JobPhase(job, batchv1alpha1.Running)
	}
	mine := s.CreateJob(mustertesting.MakeJob("mine").Queue(owed).Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1")))
	s.JobPhase(mine, batchv1alpha1.Running)
	s.Pods(4, "no more than the capability runs, and two of four were evicted", s.In(harness.Running))
	s.PodsStay(4, "no more than the capability runs, and two of four were evicted", s.In(harness.Running))
}

// TestAJobIsAdmittedWhenPreemptionInItsQueueCanSeatIt: the queue is full of Jobs of lower priority, and there is room on nodes.
func TestAJobIsAdmittedWhenPreemptionInItsQueueCanSeatIt(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "8")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace).Capability("cpu", "2"))
	urgent := s.Namespace + "-urgent"
	_, err := s.Kube.SchedulingV1().PriorityClasses().Create(s.Ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: urgent}, Value: 1000},
		metav1.CreateOptions{})
	require.NoError(t, err)
	low := s.CreateJob(mustertesting.MakeJob("low").Queue(s.Namespace).Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1")))
	s.JobPhase(low, batchv1alpha1.Running)
	equal := s.CreateJob(mustertesting.MakeJob("equal").Queue(s.Namespace).Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "1")))
	high := s.CreateJob(mustertesting.MakeJob("high").Queue(s.Namespace).PriorityClass(urgent).Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1")))
	s.JobPhase(high, batchv1alpha1.Running)
	s.Pods(2, "both pods of the high Job run", s.In(harness.Of("high"), harness.Running))
	s.PodsStay(2, "and no others", s.In(harness.Running))
	s.JobPhase(equal, batchv1alpha1.Pending)
}
