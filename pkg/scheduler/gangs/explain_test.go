package gangs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestWhyAGangWaits: the texts are part of what users and their tools read, so they are spelled out here.
func TestWhyAGangWaits(t *testing.T) {
	const couldNot = "the gang was found to fit, but its members could not be placed together; it is tried again"
	inqueue := schedulingv1beta1.PodGroupInqueue
	pod := memberNamed("m").Obj()
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		prepare func(*testing.T, *Tracker, *clocktesting.FakeClock)
		want    Explanation
	}{
		"no PodGroup": {func(*testing.T, *Tracker, *clocktesting.FakeClock) {},
			Explanation{Reason: "WaitingForPodGroup", Message: "waiting for the pod's PodGroup to be created"}},
		"not admitted": {func(_ *testing.T, tr *Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 1))
		}, Explanation{Reason: "WaitingForAdmission", Message: "waiting for the PodGroup to be admitted by its queue"}},
		"too few": {func(_ *testing.T, tr *Tracker, _ *clocktesting.FakeClock) { tr.SetPodGroup(groupIn(inqueue, 3)) },
			Explanation{Reason: "NotEnoughTasks", Message: "waiting for members: fewer pods exist than the 3 that start together"}},
		"a member has scheduling gates": {func(_ *testing.T, tr *Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 2))
			tr.SetPod(withGate(memberNamed("gated").Obj()))
		}, Explanation{Reason: "NotEnoughTasks",
			Message: "waiting for members: fewer pods may be scheduled than the 2 that start together: pods of the gang have scheduling gates"}},
		"a member is for another scheduler, one of its task has gates": {func(_ *testing.T, tr *Tracker, _ *clocktesting.FakeClock) {
			group := groupIn(inqueue, 1)
			group.Spec.MinTaskMember = map[string]int32{"worker": 1}
			tr.SetPod(memberNamed("elsewhere").SchedulerName("other").Obj())
			tr.SetPod(withGate(memberNamed("gated").Obj()))
			tr.SetPodGroup(group)
		}, Explanation{Reason: "NotEnoughPodsOfTask", Message: `waiting for members: fewer pods of task "worker" may be scheduled than the 1 that its minimum asks for: ` +
			"pods of the gang have scheduling gates, and pods of the gang name another scheduler"}},
		"gates are gone, or their pods are": {func(_ *testing.T, tr *Tracker, _ *clocktesting.FakeClock) {
			gated := withGate(memberNamed("gated").Obj())
			tr.SetPodGroup(groupIn(inqueue, 3))
			setPods(tr, gated, withGate(memberNamed("freed").Obj()), memberNamed("freed").Obj())
			tr.DeletePod(gated)
		}, Explanation{Reason: "NotEnoughTasks", Message: "waiting for members: fewer pods exist than the 3 that start together"}},
		"too few of a task": {func(_ *testing.T, tr *Tracker, _ *clocktesting.FakeClock) {
			group := groupIn(inqueue, 1)
			group.Spec.MinTaskMember = map[string]int32{"worker": 1}
			tr.SetPodGroup(group)
		}, Explanation{Reason: "NotEnoughPodsOfTask", Message: `waiting for members: fewer pods of task "worker" exist than the 1 that its minimum asks for`}},
		"no room": {func(t *testing.T, tr *Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			refuse(t, tr, pod, "no room")
		}, Explanation{Reason: "Unschedulable", Message: "no room", FoundAt: now}},
		"no room, found twice": {func(t *testing.T, tr *Tracker, clock *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			refuse(t, tr, pod, "no room")
			clock.Step(time.Hour)
			refuse(t, tr, pod, "no room")
		}, Explanation{Reason: "Unschedulable", Message: "no room", FoundAt: now}},
		"less room": {func(t *testing.T, tr *Tracker, clock *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			refuse(t, tr, pod, "no room")
			clock.Step(time.Hour)
			refuse(t, tr, pod, "less room")
		}, Explanation{Reason: "Unschedulable", Message: "less room", FoundAt: now.Add(time.Hour)}},
		"no room, about to be decided again": {func(t *testing.T, tr *Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			refuse(t, tr, pod, "no room")
			tr.Hints.Wake(pod)
		}, Explanation{Reason: "Unschedulable", Message: "no room", FoundAt: now}},
		"no quota": {func(t *testing.T, tr *Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			tr.Quota.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "0").Obj())
			refuse(t, tr, pod, "no quota")
		}, Explanation{Reason: "WaitingForQuota", Message: "no quota", FoundAt: now}},
		"room, it seemed": {func(t *testing.T, tr *Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			refuse(t, tr, pod, "no room")
			tr.Hints.Wake(pod)
			begin(t, tr, pod, nil)
			require.True(t, tr.Fail(pod))
		}, Explanation{Reason: "Unschedulable", Message: couldNot}},
		"quota, and room, it seemed": {func(t *testing.T, tr *Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			tr.Quota.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "0").Obj())
			refuse(t, tr, pod, "no quota")
			tr.Quota.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
			for range 2 { // the second time it goes exactly where the decision says
				begin(t, tr, pod, map[types.UID]string{"m": "n"})
				require.True(t, tr.Fail(pod))
			}
		}, Explanation{Reason: "Unschedulable", Message: couldNot}},
		"no room after all": {func(t *testing.T, tr *Tracker, clock *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			begin(t, tr, pod, nil)
			require.True(t, tr.Fail(pod))
			clock.Step(time.Second)
			refuse(t, tr, pod, "no room")
		}, Explanation{Reason: "Unschedulable", Message: "no room", FoundAt: now.Add(time.Second)}},
		"about to be decided": {func(_ *testing.T, tr *Tracker, _ *clocktesting.FakeClock) { tr.SetPodGroup(groupIn(inqueue, 1)) }, Explanation{}},
		"running":             {func(_ *testing.T, tr *Tracker, _ *clocktesting.FakeClock) { tr.SetPodGroup(groupIn(inqueue, 0)) }, Explanation{}},
		"starting": {func(t *testing.T, tr *Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			begin(t, tr, pod, nil)
		}, Explanation{}},
		"not read yet": {func(_ *testing.T, tr *Tracker, _ *clocktesting.FakeClock) { tr.synced = false }, Explanation{}},
	} {
		t.Run(name, func(t *testing.T) {
			tr, clock := newTestTracker(t)
			tr.SetPod(pod)
			tc.prepare(t, tr, clock)
			got := tr.Reports.TakeReport(theGang).Explanation
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.want == Explanation{}, got.IsZero())
		})
	}
}

func TestATextSaysWhenItsNumbersWereFound(t *testing.T) {
	assert.Equal(t, "2 more CPUs are needed (found at 1970-01-01T00:16:40Z)", Explanation{ReasonUnschedulable, "2 more CPUs are needed", time.Unix(1000, 0)}.Text())
	assert.Equal(t, "waiting", Explanation{Reason: ReasonNotEnoughPods, Message: "waiting"}.Text())
}

func TestAnExplanationHoldsForMembersThatWait(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 2))
	setPods(tr, memberNamed("m1").Obj(), memberNamed("m0").Obj(), memberNamed("bound").Node("n").Obj())
	e := Explanation{Reason: ReasonWaitingForAdmission, Message: "waiting for the PodGroup to be admitted by its queue"}
	assert.Equal(t, []string{"m0", "m1"}, namesOf(tr.Reports.WaitingPods(theGang)))
	assert.True(t, tr.Reports.StillWaits(theGang, "m0", e))
	assert.False(t, tr.Reports.StillWaits(theGang, "bound", e))
	assert.False(t, tr.Reports.StillWaits(theGang, "gone", e))
	assert.False(t, tr.Reports.StillWaits(keyNamed("other"), "m0", e))
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 5))
	assert.False(t, tr.Reports.StillWaits(theGang, "m0", e))
}

func TestTheReporterSpeaksForMembersOfGangsThatDoNotRun(t *testing.T) {
	tr := openTracker(t)
	waiting, surplus := gangOf(tr, "waiting", 2, 1)[0], gangOf(tr, "running", 1, 2)
	tr.SetPod(on(surplus[0], "n"))
	assert.True(t, tr.Reports.SpeaksFor(waiting))
	assert.True(t, tr.Reports.SpeaksFor(memberNamed("unseen").Obj()))
	assert.False(t, tr.Reports.SpeaksFor(surplus[1]), "it stands for itself")
	assert.False(t, tr.Reports.SpeaksFor(singleNamed("single", "q").Obj()))
}
