package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

func TestAGangThatDoesNotFitWaitsWholeAndIsReleasedInOneGo(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(3, "cpu", "4")
	job := s.CreateJob(mustertesting.MakeJob("big").MinAvailable(4).
		Task(mustertesting.MakeTask("worker", 4).Requests("cpu", "3")))

	s.Pods(4, "four pods wait", s.In(harness.Unbound))
	s.PodsStay(0, "not one pod is bound", s.In(harness.Bound))
	pods := s.Log.PodsOf(job)
	group := s.Name(pods[0].Group)
	s.Soon("the PodGroup says why", func() bool {
		condition := s.Log.Group(group).Condition
		return condition.Type == schedulingv1beta1.PodGroupUnschedulableType && condition.Message != ""
	}, func() any { return s.Log.Group(group) })
	event := s.Event("PodGroup", group, func(e watchlog.Event) bool { return e.Reason == "Unschedulable" })
	assert.NotEmpty(t, event.Message)
	assert.False(t, event.LastTimestamp.IsZero(), "clients sort events by lastTimestamp")
	s.Soon("a waiting pod says why", func() bool {
		explained := s.Log.Pods(s.In(func(p watchlog.Pod) bool { return p.Waiting.Message != "" }))
		return len(explained) > 0
	}, func() any { return s.Log.PodsOf(job) })
	assert.Equal(t, schedulingv1beta1.PodGroupInqueue, s.Log.Group(group).Phase)
	s.PodsStay(0, "not one pod is bound", s.In(harness.Bound))

	s.AddNodes(1, "cpu", "4")
	s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running)
	incarnations := s.WholeGangs(s.Namespace, window)
	require.Len(t, incarnations, 1)
	assert.Equal(t, 4, incarnations[0].Bound())
	s.Soon("the PodGroup runs",
		func() bool { return s.Log.Group(group).Phase == schedulingv1beta1.PodGroupRunning },
		func() any { return s.Log.Group(group) })
}

func TestTwoGangsThatEachNeedMostOfTheClusterDoNotDeadlock(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(4, "cpu", "4")
	rival := func(name string) *mustertesting.JobWrapper {
		return mustertesting.MakeJob(name).
			Task(mustertesting.MakeTask("rank", 3).Requests("cpu", "3").ExitAfter(2*time.Second, 0))
	}
	a, b := s.CreateJob(rival("a")), s.CreateJob(rival("b"))
	for _, job := range []string{a.Name, b.Name} {
		s.JobPhases(s.Name(job), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completed)
	}
	incarnations := s.WholeGangs(s.Namespace, window)
	require.Len(t, incarnations, 2)
	first, second := incarnations[0], incarnations[1]
	if second.FirstBind.Before(first.FirstBind) {
		first, second = second, first
	}
	ended := 0
	for _, pod := range first.Pods {
		if !pod.Finished.IsZero() && !pod.Finished.After(second.FirstBind) {
			ended++
		}
	}
	assert.GreaterOrEqual(t, ended, 2, "the second gang has no pod bound before there is room for all of it")
}

func TestSurplusMembersShareWhatIsLeft(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(4, "cpu", "4")
	job := s.CreateJob(mustertesting.MakeJob("elastic").MinAvailable(3).
		Task(mustertesting.MakeTask("driver", 1).Requests("cpu", "3").PriorityClass("system-cluster-critical").Label("role", "driver")).
		Task(mustertesting.MakeTask("executor", 5).Requests("cpu", "3")))
	s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running)
	s.Pods(4, "the minimum and one more run", s.In(harness.Running))
	s.PodsStay(2, "two wait", s.In(harness.Unbound))
	assert.Len(t, s.Log.Pods(s.In(harness.Running, harness.OfTask("driver"))), 1, "the driver is among them")

	s.AddNodes(1, "cpu", "4")
	s.Pods(5, "one more starts", s.In(harness.Running))
	s.WholeGangs(s.Namespace, window)
}

func TestAPodGroupWithPodsOfItsOwn(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	group := s.CreateGroup(mustertesting.MakePodGroup("bare").MinMember(3).MinResources("cpu", "6"))
	for i := range 3 {
		s.CreatePod(mustertesting.MakePod(fmt.Sprintf("member-%d", i)).Group(group.Name).SchedulerName("muster").Requests("cpu", "2"))
	}
	s.Pods(3, "three members wait", s.In(harness.Unbound))
	s.PodsStay(0, "not one is bound", s.In(harness.Bound))
	s.AddNodes(1, "cpu", "4")
	s.Pods(3, "three members run", s.In(harness.Running))
	s.WholeGangs(s.Namespace, window)
}

func TestAGangWaitsForItsMembersToExist(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	group := s.CreateGroup(mustertesting.MakePodGroup("slow").MinMember(2))
	s.CreatePod(mustertesting.MakePod("first").Group(group.Name).SchedulerName("muster"))
	s.Pods(1, "one member waits", s.In(harness.Unbound))
	s.PodsStay(0, "it is not bound alone", s.In(harness.Bound))
	s.CreatePod(mustertesting.MakePod("second").Group(group.Name).SchedulerName("muster"))
	s.Pods(2, "both run", s.In(harness.Running))
	s.WholeGangs(s.Namespace, window)
}

func TestAllServedSchedulerNamesHoldGangs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"muster", "volcano", "default-scheduler"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			s.AddNodes(1, "cpu", "4")
			job := s.CreateJob(mustertesting.MakeJob("job").SchedulerName(name).
				Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "3")))
			s.Pods(2, "both wait", s.In(harness.Unbound))
			s.PodsStay(0, "none is bound", s.In(harness.Bound))
			s.AddNodes(1, "cpu", "4")
			s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running)
			s.WholeGangs(s.Namespace, window)
		})
	}
}

func TestRoomThatIsFreedWakesTheWaitingGang(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(2, "cpu", "4")
	s.CreatePod(mustertesting.MakePod("in-the-way").Requests("cpu", "3"))
	s.Pods(1, "an ordinary pod runs", s.In(harness.Running))
	job := s.CreateJob(mustertesting.MakeJob("waiting").Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "3")))
	s.PodsStay(0, "the gang waits", s.In(harness.Of(job.Name), harness.Bound))

	s.EndPod("in-the-way", 0)
	s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running)
	freed := s.Log.Pods(s.In(func(p watchlog.Pod) bool { return p.Name == "in-the-way" }))[0].Finished
	incarnations := s.WholeGangs(s.Namespace, window)
	require.Len(t, incarnations, 1)
	assert.Less(t, incarnations[0].FirstBind.Sub(freed), 2*time.Second, "the gang is bound soon after the room is free")
}

func TestASystemCriticalPodOfItsOwnIsPlacedAtTheCostOfOthers(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	s.CreatePod(mustertesting.MakePod("ordinary").SchedulerName("muster").Requests("cpu", "3"))
	s.Pods(1, "an ordinary pod runs", s.In(harness.Running))
	s.CreatePod(mustertesting.MakePod("critical").SchedulerName("muster").PriorityClass("system-cluster-critical").Requests("cpu", "3"))
	running := s.Pods(1, "the critical one runs in its place", s.In(harness.Running, func(p watchlog.Pod) bool { return p.Name == "critical" }))
	assert.Empty(t, running[0].Group, "a waiting gang would not preempt")
}

func TestOrdinaryPodsPassUntouched(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	for _, scheduler := range []string{"default-scheduler", "muster"} {
		s.CreatePod(mustertesting.MakePod("pod-of-"+scheduler).SchedulerName(scheduler).Requests("cpu", "1"))
	}
	running := s.Pods(2, "both run", s.In(harness.Running))
	for _, pod := range running {
		if pod.Scheduler == "default-scheduler" {
			assert.Empty(t, pod.Group, "no PodGroup is made for a pod of the default profile")
		}
	}
	s.CreatePod(mustertesting.MakePod("too-large").Requests("cpu", "64"))
	s.Soon("one that does not fit says so as ever", func() bool {
		waiting := s.Log.Pods(s.In(harness.Unbound, func(p watchlog.Pod) bool { return p.Waiting.Reason == corev1.PodReasonUnschedulable }))
		return len(waiting) == 1
	}, func() any { return s.Log.Pods(s.In()) })
	require.NoError(t, s.Kube.CoreV1().Pods(s.Namespace).Delete(s.Ctx, "too-large", metav1.DeleteOptions{}))
}
