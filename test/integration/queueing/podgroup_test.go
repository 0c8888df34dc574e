package queueing_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

func TestAPodGroupIsAdmitted(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.createGroup(mustertesting.MakePodGroup("g0").MinMember(2))
	s.phase("g0", schedulingv1beta1.PodGroupInqueue)
	assert.Empty(t, s.group("g0").Status.Conditions)
}

func TestWhoDoesNotFitWaitsAndGoesOnWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	team := s.createQueue(mustertesting.MakeQueue(s.name("team")).Capability("cpu", "4")).Name
	s.queueState(team, schedulingv1beta1.QueueStateOpen)
	s.createGroup(mustertesting.MakePodGroup("first").Queue(team).MinMember(3).MinResources("cpu", "3"))
	s.phase("first", schedulingv1beta1.PodGroupInqueue)

	s.createGroup(mustertesting.MakePodGroup("second").Queue(team).MinMember(2).MinResources("cpu", "2"))
	message := fmt.Sprintf("queue %q has 1 cpu free of its capability, 2 needed", team)
	s.why("second", message)
	s.event(s.namespace, "PodGroup", "second", "Unschedulable", message)
	s.createGroup(mustertesting.MakePodGroup("third").Queue(team).MinMember(1).MinResources("cpu", "1"))
	s.phase("third", schedulingv1beta1.PodGroupInqueue) // traverse: it passes the second
	s.deleteGroup("third")

	// Promised room stays promised while pods take it, and is free again when they are done.
	s.createPods("first", "a", "b", "c")
	s.bind("a", "b", "c")
	s.phase("first", schedulingv1beta1.PodGroupRunning)
	s.never("the second is admitted beside running pods", func() bool {
		return s.group("second").Status.Phase != schedulingv1beta1.PodGroupPending
	})
	s.setPhase(corev1.PodSucceeded, "a")
	s.phase("second", schedulingv1beta1.PodGroupInqueue)
	assert.Empty(t, s.group("second").Status.Conditions, "what kept it out is over")
}

// T12: room that is kept aside for a PodGroup that cannot start is given back after a while. It stays admitted, and what was taken
// from it is not kept aside again by a restart.
func TestT12_HoldTimesOutAndGivesQuotaBack(t *testing.T) {
	s := newFixture(t)
	team := s.createQueue(mustertesting.MakeQueue(s.name("team")).Capability("cpu", "4")).Name
	s.queueState(team, schedulingv1beta1.QueueStateOpen)
	s.createGroup(mustertesting.MakePodGroup("stuck").Queue(team).MinMember(3).MinResources("cpu", "3"))
	s.phase("stuck", schedulingv1beta1.PodGroupInqueue)
	s.createPods("stuck", "a", "b", "c")
	s.setWaiting("0/1 nodes are available", "a", "b", "c")
	waitsAnew := func(name, cpu string) {
		s.createGroup(mustertesting.MakePodGroup(name).Queue(team).MinMember(1).MinResources("cpu", cpu))
	}
	waitsAnew("next", "2")
	s.why("next", fmt.Sprintf("queue %q has 1 cpu free of its capability, 2 needed", team))

	// All but the last second or two of its time has passed. Nothing but the clock says when it is over.
	s.waitsSince("stuck", time.Now().Add(2*time.Second-holdTimeout))
	s.phase("next", schedulingv1beta1.PodGroupInqueue)
	require.Equal(t, schedulingv1beta1.PodGroupInqueue, s.group("stuck").Status.Phase, "it stays admitted")

	// Another controller does not keep its room aside either, and still keeps that of the other.
	whileDown(func() { waitsAnew("third", "2") })
	s.phase("third", schedulingv1beta1.PodGroupInqueue)
	waitsAnew("fourth", "1")
	s.why("fourth", fmt.Sprintf("queue %q has 0 cpu free of its capability, 1 needed", team))

	// It can still start, and counts for what it takes.
	s.deleteGroup("next")
	s.phase("fourth", schedulingv1beta1.PodGroupInqueue)
	s.deleteGroup("third")
	s.deleteGroup("fourth")
	s.bind("a", "b", "c")
	s.phase("stuck", schedulingv1beta1.PodGroupRunning)
	waitsAnew("last", "2")
	s.why("last", fmt.Sprintf("queue %q has 1 cpu free of its capability, 2 needed", team))
}

// waitsSince makes a PodGroup one that has been unschedulable since then.
func (s *fixture) waitsSince(name string, since time.Time) {
	s.Helper()
	s.eventually(name+" is made older", func() bool {
		group := s.group(name)
		if len(group.Status.Conditions) != 1 || group.Status.Conditions[0].Type != schedulingv1beta1.PodGroupUnschedulableType {
			return false
		}
		group.Status.Conditions[0].LastTransitionTime = metav1.NewTime(since)
		_, err := muster.SchedulingV1beta1().PodGroups(s.namespace).UpdateStatus(s.ctx, group, metav1.UpdateOptions{})
		return err == nil
	})
}

// TestNoPodGroupIsBypassedForEver: a PodGroup that has waited long enough goes before later ones that would fit, also with another controller.
func TestNoPodGroupIsBypassedForEver(t *testing.T) {
	s := newFixture(t)
	team := s.createQueue(mustertesting.MakeQueue(s.name("team")).Capability("cpu", "4")).Name
	s.queueState(team, schedulingv1beta1.QueueStateOpen)
	create := func(name, cpu string) {
		s.createGroup(mustertesting.MakePodGroup(name).Queue(team).MinMember(1).MinResources("cpu", cpu))
	}
	create("runs", "2")
	s.phase("runs", schedulingv1beta1.PodGroupInqueue)
	create("large", "3")
	s.why("large", fmt.Sprintf("queue %q has 2 cpu free of its capability, 3 needed", team))
	create("small", "1")
	s.phase("small", schedulingv1beta1.PodGroupInqueue)

	whileDown(func() {
		s.waitsSince("large", time.Now().Add(-overtakeTime))
		create("later", "1")
	})
	aside := fmt.Sprintf("queue %q has 1 cpu free of its capability, 1 needed; quota is reserved for a gang that has waited longer", team)
	s.why("later", aside)

	s.deleteGroup("runs")
	s.phase("large", schedulingv1beta1.PodGroupInqueue)
	s.deleteGroup("small")
	s.phase("later", schedulingv1beta1.PodGroupInqueue)
}

func TestFirstInFirstOut(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	line := s.createQueue(mustertesting.MakeQueue(s.name("line")).Capability("cpu", "4").Dequeue(schedulingv1beta1.DequeueStrategyFIFO)).Name
	s.queueState(line, schedulingv1beta1.QueueStateOpen)
	s.createGroup(mustertesting.MakePodGroup("a").MinMember(1).Queue(line).MinResources("cpu", "3"))
	s.phase("a", schedulingv1beta1.PodGroupInqueue)
	s.createGroup(mustertesting.MakePodGroup("b").MinMember(1).Queue(line).MinResources("cpu", "2"))
	s.why("b", fmt.Sprintf("queue %q has 1 cpu free of its capability, 2 needed", line))
	s.createGroup(mustertesting.MakePodGroup("c").MinMember(1).Queue(line).MinResources("cpu", "1"))
	s.why("c", fmt.Sprintf("queue %q is first in, first out, and a PodGroup that comes first is still waiting there", line))
	s.deleteGroup("b")
	s.phase("c", schedulingv1beta1.PodGroupInqueue)
}

func TestAncestorsLimitToo(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	parent := s.createQueue(mustertesting.MakeQueue(s.name("parent")).Capability("cpu", "4")).Name
	left := s.createQueue(mustertesting.MakeQueue(s.name("left")).Parent(parent).Deserved("cpu", "3")).Name // it borrows nothing
	right := s.createQueue(mustertesting.MakeQueue(s.name("right")).Parent(parent)).Name
	s.createGroup(mustertesting.MakePodGroup("a").MinMember(1).Queue(left).MinResources("cpu", "3"))
	s.phase("a", schedulingv1beta1.PodGroupInqueue)
	s.createGroup(mustertesting.MakePodGroup("b").MinMember(1).Queue(right).MinResources("cpu", "2"))
	s.why("b", fmt.Sprintf("queue %q has 1 cpu free of its capability, 2 needed", parent))
}

// TestAGuaranteeIsNotLent: the sibling cannot use the rest of the kept queue's guarantee. The kept queue starts at once.
func TestAGuaranteeIsNotLent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	parent := s.createQueue(mustertesting.MakeQueue(s.name("parent")).Capability("cpu", "4")).Name
	kept := s.createQueue(mustertesting.MakeQueue(s.name("kept")).Parent(parent).Guarantee("cpu", "2")).Name
	other := s.createQueue(mustertesting.MakeQueue(s.name("other")).Parent(parent)).Name
	s.queueState(kept, schedulingv1beta1.QueueStateOpen)
	s.createGroup(mustertesting.MakePodGroup("large").MinMember(1).Queue(other).MinResources("cpu", "3"))
	s.why("large", fmt.Sprintf("can never fit queue %q: 3 cpu asked, its capability is 4, of which 2 are guaranteed to other queues", parent))
	s.createGroup(mustertesting.MakePodGroup("first").MinMember(1).Queue(other).MinResources("cpu", "1"))
	s.phase("first", schedulingv1beta1.PodGroupInqueue)
	s.createGroup(mustertesting.MakePodGroup("second").MinMember(1).Queue(other).MinResources("cpu", "2"))
	s.why("second", fmt.Sprintf("queue %q has 1 cpu free of its capability, 2 needed; 2 cpu are kept for the guarantees of other queues", parent))
	s.createGroup(mustertesting.MakePodGroup("kept").MinMember(1).Queue(kept).MinResources("cpu", "2"))
	s.phase("kept", schedulingv1beta1.PodGroupInqueue)
}

func TestQueuesThatTakeNoWork(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.createGroup(mustertesting.MakePodGroup("g").MinMember(1).Queue(s.name("late")))
	s.why("g", fmt.Sprintf("queue %q does not exist", s.name("late")))
	s.createQueue(mustertesting.MakeQueue(s.name("late")))
	s.phase("g", schedulingv1beta1.PodGroupInqueue)
}

func TestAPodGroupMayMoveToAnotherQueue(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	full := s.createQueue(mustertesting.MakeQueue(s.name("full")).Capability("cpu", "0")).Name
	s.queueState(full, schedulingv1beta1.QueueStateOpen)
	s.createGroup(mustertesting.MakePodGroup("g").MinMember(1).Queue(full).MinResources("cpu", "1"))
	s.why("g", fmt.Sprintf("can never fit queue %q: 1 cpu asked, its capability is 0", full))
	_, err := muster.SchedulingV1beta1().PodGroups(s.namespace).Patch(s.ctx, "g", types.MergePatchType,
		[]byte(`{"spec":{"queue":"default"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	s.phase("g", schedulingv1beta1.PodGroupInqueue)
}

func TestFarMoreThanTheClusterHas(t *testing.T) {
	s := newFixture(t)
	s.createGroup(mustertesting.MakePodGroup("g").MinMember(1).MinResources("example.com/gpu", "12"))
	s.why("g", "the minimum needs 12 example.com/gpu, more than 1.2 times the 0 that all nodes have together")
	_, err := kube.CoreV1().Nodes().Patch(s.ctx, node, types.MergePatchType,
		[]byte(`{"status":{"allocatable":{"example.com/gpu":"10"}}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	s.phase("g", schedulingv1beta1.PodGroupInqueue)
}

func TestTheLifeOfAPodGroup(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.createGroup(mustertesting.MakePodGroup("g").MinMember(2).MinResources("cpu", "2"))
	s.phase("g", schedulingv1beta1.PodGroupInqueue)
	s.createPods("g", "a", "b", "c")

	s.setWaiting("0/1 nodes are available", "a", "b", "c")
	waits := func(want string) func() bool {
		return func() bool {
			conditions := s.group("g").Status.Conditions
			return len(conditions) == 1 && conditions[0].Message == want
		}
	}
	s.eventually("the reason stands on the PodGroup", waits("3/3 tasks in gang unschedulable: 0/1 nodes are available"))
	s.setWaiting("0/1 nodes are available: 1 Insufficient cpu", "a")
	s.eventually("the more telling reason", waits("3/3 tasks in gang unschedulable: 0/1 nodes are available: 1 Insufficient cpu"))

	s.bind("a", "b")
	s.phase("g", schedulingv1beta1.PodGroupRunning)
	s.event(s.namespace, "PodGroup", "g", "Scheduled", "pod group is ready")
	assert.Empty(t, s.events(s.namespace, "PodGroup", "g")["Unschedulable"], "what the scheduler found, the scheduler tells")
	s.setPhase(corev1.PodRunning, "a", "b")
	s.eventually("both are counted", func() bool { return s.group("g").Status.Running == 2 })
	s.setPhase(corev1.PodFailed, "a")
	s.eventually("one has failed", func() bool {
		status := s.group("g").Status
		return status.Running == 1 && status.Failed == 1 && status.Phase == schedulingv1beta1.PodGroupRunning
	})
	s.deletePods("c")
	s.setPhase(corev1.PodSucceeded, "b")
	s.phase("g", schedulingv1beta1.PodGroupCompleted)
	status := s.group("g").Status
	assert.Equal(t, []int32{0, 1, 1}, []int32{status.Running, status.Succeeded, status.Failed})
	s.deletePods("a", "b")
	s.never("it is anything but completed", func() bool { return s.group("g").Status.Phase != schedulingv1beta1.PodGroupCompleted })
	assert.Len(t, s.events(s.namespace, "PodGroup", "g")["Scheduled"], 1)
}

func TestPartOfAGangThatCannotBeCompleted(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.createGroup(mustertesting.MakePodGroup("g").MinMember(3))
	s.createPods("g", "a", "b", "c")
	s.bind("a", "b", "c")
	s.setPhase(corev1.PodRunning, "a", "b", "c")
	s.phase("g", schedulingv1beta1.PodGroupRunning)
	s.deletePods("c")
	s.phase("g", schedulingv1beta1.PodGroupUnknown) // though nothing waits yet
	s.createPods("g", "c2")
	s.bind("c2")
	s.phase("g", schedulingv1beta1.PodGroupRunning)
	s.setPhase(corev1.PodRunning, "c2")

	// Pods that Muster removes, and a raised minimum, are no losses. But the status says that the rest finds no room.
	removed, err := kube.CoreV1().Pods(s.namespace).Get(s.ctx, "c2", metav1.GetOptions{})
	require.NoError(s, err)
	podGroups.Removing(removed.UID)
	s.deletePods("c2")
	s.phase("g", schedulingv1beta1.PodGroupInqueue) // admitted once, never Pending again
	s.createPods("g", "c3")
	s.bind("c3")
	s.phase("g", schedulingv1beta1.PodGroupRunning)
	_, err = muster.SchedulingV1beta1().PodGroups(s.namespace).Patch(s.ctx, "g", types.MergePatchType, []byte(`{"spec":{"minMember":4}}`), metav1.PatchOptions{})
	require.NoError(s, err)
	s.phase("g", schedulingv1beta1.PodGroupInqueue)
	s.createPods("g", "d")
	s.setWaiting("0/1 nodes are available: 1 Insufficient cpu", "d")
	s.phase("g", schedulingv1beta1.PodGroupUnknown)
	s.bind("d")
	s.phase("g", schedulingv1beta1.PodGroupRunning)
}

func TestPromisesOutliveTheController(t *testing.T) {
	s := newFixture(t)
	team := s.createQueue(mustertesting.MakeQueue(s.name("team")).Capability("cpu", "4")).Name
	s.createGroup(mustertesting.MakePodGroup("first").Queue(team).MinMember(3).MinResources("cpu", "3"))
	s.phase("first", schedulingv1beta1.PodGroupInqueue)
	whileDown(func() {
		s.createGroup(mustertesting.MakePodGroup("second").MinMember(1).Queue(team).MinResources("cpu", "2"))
		s.createPods("first", "a")
		s.bind("a")
	})
	s.why("second", fmt.Sprintf("queue %q has 1 cpu free of its capability, 2 needed", team))
	whileDown(func() { s.deleteGroup("first") })
	s.never("the pod of a group that is gone leaves room it does not have", func() bool {
		return s.queue(team).Status.Allocated.Cpu().Value() > 4
	})
	s.deletePods("a")
	s.phase("second", schedulingv1beta1.PodGroupInqueue)
}

func TestOthersMayWriteTheSpecMeanwhile(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.createGroup(mustertesting.MakePodGroup("g").MinMember(2))
	s.createPods("g", "a", "b")
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 100 {
			_, err := muster.SchedulingV1beta1().PodGroups(s.namespace).Patch(s.ctx, "g", types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, i), metav1.PatchOptions{})
			assert.NoError(t, err)
		}
	})
	s.bind("a", "b")
	s.setPhase(corev1.PodRunning, "a", "b")
	writer.Wait()
	s.eventually("the status is right in the end", func() bool {
		status := s.group("g").Status
		return status.Phase == schedulingv1beta1.PodGroupRunning && status.Running == 2
	})
	assert.Equal(t, "99", s.group("g").Annotations["n"])
}

func TestABigGangCostsFewWrites(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	const size = 60
	s.createGroup(mustertesting.MakePodGroup("g").MinMember(size))
	s.phase("g", schedulingv1beta1.PodGroupInqueue)
	watch, err := muster.SchedulingV1beta1().PodGroups(s.namespace).Watch(s.ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", "g").String(), ResourceVersion: s.group("g").ResourceVersion,
	})
	require.NoError(t, err)
	defer watch.Stop()

	var names []string
	for i := range size {
		names = append(names, fmt.Sprint("p", i))
	}
	start := time.Now()
	s.createPods("g", names...)
	s.bind(names...)
	s.setPhase(corev1.PodRunning, names...)
	s.eventually("all are counted", func() bool { return s.group("g").Status.Running == size })
	took := time.Since(start)

	writes := 0
	for last := int32(0); last < size; writes++ {
		last = (<-watch.ResultChan()).Object.(*schedulingv1beta1.PodGroup).Status.Running
	}
	// One for the phase, and one each time that the numbers have changed for a while.
	assert.LessOrEqual(t, writes, 4+int(took/(200*time.Millisecond)))
}

// TestSucceededPodsOfAJobCountWhenTheyAreGone: a gang counts on its members that have succeeded. When their objects are removed, the Job
// remembers them.
func TestSucceededPodsOfAJobCountWhenTheyAreGone(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	jobs := muster.BatchV1alpha1().Jobs(s.namespace)
	job, err := jobs.Create(s.ctx, mustertesting.MakeJob("j").Namespace(s.namespace).Task(mustertesting.MakeTask("a", 2)).Obj(), metav1.CreateOptions{})
	require.NoError(t, err)
	remember := func(succeeded int32) {
		require.NoError(t, clients.Change(s.ctx, job.Name, jobs.Get, jobs.UpdateStatus, func(job *batchv1alpha1.Job) { job.Status.Succeeded = succeeded }))
	}
	group := batchv1alpha1.PodGroupName(job)
	s.createGroup(mustertesting.MakePodGroup(group).MinMember(2).Owner(job))
	s.createPods(group, "a", "b")
	s.bind("a", "b")
	s.phase(group, schedulingv1beta1.PodGroupRunning)
	s.setPhase(corev1.PodSucceeded, "a")
	counts := func(n int32) {
		t.Helper()
		s.eventually(fmt.Sprintf("%d have succeeded", n), func() bool { return s.group(group).Status.Succeeded == n })
	}
	counts(1)
	remember(1)
	s.deletePods("a")
	s.setPhase(corev1.PodRunning, "b")
	s.eventually("it is looked at again, and still counts", func() bool {
		status := s.group(group).Status
		return status.Running == 1 && status.Succeeded == 1 && status.Phase == schedulingv1beta1.PodGroupRunning
	})
	remember(0) // as when a policy restarts what has succeeded
	counts(0)
	remember(2)
	counts(2)
}

// TestSucceededMembersCountWhenTheyAreGone: no Job of ours controls the PodGroup. Its finished pods are removed, as a TTL controller or
// cleanPodPolicy does.
func TestSucceededMembersCountWhenTheyAreGone(t *testing.T) {
	s := newFixture(t)
	team := s.createQueue(mustertesting.MakeQueue(s.name("team")).Capability("cpu", "3")).Name
	s.queueState(team, schedulingv1beta1.QueueStateOpen)
	s.createGroup(mustertesting.MakePodGroup("g").Queue(team).MinMember(3).MinResources("cpu", "3"))
	s.createPods("g", "a", "b", "c")
	s.bind("a", "b", "c")
	s.setPhase(corev1.PodRunning, "a", "b", "c")
	s.phase("g", schedulingv1beta1.PodGroupRunning)
	reaches := func(phase schedulingv1beta1.PodGroupPhase, succeeded int32) {
		t.Helper()
		s.eventually(fmt.Sprintf("%s, and %d have succeeded", phase, succeeded), func() bool {
			status := s.group("g").Status
			return status.Phase == phase && status.Succeeded == succeeded
		})
	}
	s.setPhase(corev1.PodSucceeded, "a")
	reaches(schedulingv1beta1.PodGroupRunning, 1)
	s.deletePods("a")
	s.createGroup(mustertesting.MakePodGroup("next").Queue(team).MinMember(1).MinResources("cpu", "1"))
	s.phase("next", schedulingv1beta1.PodGroupInqueue) // no quota is kept for a pod that never comes
	s.deleteGroup("next")
	s.setPhase(corev1.PodSucceeded, "b")
	s.deletePods("b")
	reaches(schedulingv1beta1.PodGroupRunning, 2)
	whileDown(func() {})
	s.deletePods("c") // its node is lost
	s.createPods("g", "d")
	reaches(schedulingv1beta1.PodGroupInqueue, 2) // so the scheduler starts the replacement by itself
	s.bind("d")
	s.setPhase(corev1.PodSucceeded, "d")
	reaches(schedulingv1beta1.PodGroupCompleted, 3)
	s.deletePods("d")
	whileDown(func() {})
	s.createGroup(mustertesting.MakePodGroup("all").Queue(team).MinMember(3).MinResources("cpu", "3"))
	s.phase("all", schedulingv1beta1.PodGroupInqueue) // a finished group takes no quota
	s.createPods("g", "e")
	reaches(schedulingv1beta1.PodGroupInqueue, 0) // the next run meets its minimum anew
}

// TestRoomForExecutorsIsKept: three applications share a queue of 4 cpu. Each has a driver as its minimum, and minResources of 3 cpu for the
// driver and two executors.
func TestRoomForExecutorsIsKept(t *testing.T) {
	s := newFixture(t)
	team := s.createQueue(mustertesting.MakeQueue(s.name("team")).Capability("cpu", "4")).Name
	s.queueState(team, schedulingv1beta1.QueueStateOpen)
	for _, name := range []string{"a", "b", "c"} {
		s.createGroup(mustertesting.MakePodGroup(name).Queue(team).MinMember(1).MinResources("cpu", "3"))
		s.createPods(name, name+"-driver")
		if name == "a" {
			s.phase(name, schedulingv1beta1.PodGroupInqueue)
		}
	}
	reserves := func(name string, cpu int64) func() bool {
		return func() bool {
			status := s.group(name).Status
			return status.Phase == schedulingv1beta1.PodGroupRunning && status.Reserved.Cpu().Value() == cpu
		}
	}
	lacks := fmt.Sprintf("queue %q has 1 cpu free of its capability, 3 needed", team)
	s.bind("a-driver")
	s.eventually("room is kept for the executors", reserves("a", 3))
	s.why("b", lacks)
	whileDown(func() {})
	s.never("another controller gives that room away", func() bool { return s.group("b").Status.Phase.Admitted() })
	s.createPods("a", "a-1", "a-2")
	s.bind("a-1", "a-2")
	s.eventually("the executors use it", reserves("a", 0))
	s.why("b", lacks)

	s.setPhase(corev1.PodSucceeded, "a-driver", "a-1", "a-2")
	s.phase("b", schedulingv1beta1.PodGroupInqueue)
	s.bind("b-driver")
	s.eventually("room is kept for the executors", reserves("b", 3))
	s.why("c", lacks)
	// All but the last second or two of its time has passed.
	bound := metav1.NewTime(time.Now().Add(2*time.Second - holdTimeout))
	s.changePods(func(status *corev1.PodStatus) {
		status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: bound}}
	}, "b-driver")
	s.phase("c", schedulingv1beta1.PodGroupInqueue)
	s.eventually("it is not kept any more", reserves("b", 0))
	s.event(s.namespace, "PodGroup", "b", "QuotaReleased",
		"no quota is kept for further members any more: members have not used all of minResources, and none was bound for 5m0s")
	assert.Equal(t, schedulingv1beta1.PodGroupScheduled, s.group("b").Status.Conditions[len(s.group("b").Status.Conditions)-1].Type)
}

// TestApplicationsAreHeldToTheTotalOfTheCluster: 16 drivers would fit, and then no executor would. Those wait whose executors would not fit.
func TestApplicationsAreHeldToTheTotalOfTheCluster(t *testing.T) {
	s := newFixture(t)
	_, err := kube.CoreV1().Nodes().Patch(s.ctx, node, types.MergePatchType,
		[]byte(`{"status":{"allocatable":{"example.com/slot":"10"}}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	team := s.createQueue(mustertesting.MakeQueue(s.name("team"))).Name
	s.queueState(team, schedulingv1beta1.QueueStateOpen)
	var names []string
	for i := range 16 {
		name := fmt.Sprintf("app-%02d", i)
		names = append(names, name)
		s.createPods(name, name)
		s.createGroup(mustertesting.MakePodGroup(name).Queue(team).MinMember(1).MinResources("cpu", "1", "example.com/slot", "2"))
	}
	admitted := func() (in []string) {
		for _, name := range names {
			if s.group(name).Status.Phase.Admitted() {
				in = append(in, name)
			}
		}
		return in
	}
	s.eventually("six are admitted, as 1.2 times the 10 slots are 12", func() bool { return len(admitted()) == 6 })
	first := admitted()
	s.bind(first...)
	for _, name := range first {
		s.phase(name, schedulingv1beta1.PodGroupRunning)
	}
	s.why(names[15], "minResources need 2 example.com/slot, and 12 are used or kept for admitted PodGroups: together more than 1.2 times the 10 that all nodes have together")
	whileDown(func() {})
	s.never("another driver starts", func() bool { return len(admitted()) != 6 })
	s.deletePods(names[0])
	s.deleteGroup(names[0])
	s.phase(names[6], schedulingv1beta1.PodGroupInqueue)
}
