package gangs_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestWhyAGangWaits: the texts are part of what users and their tools read, so they are spelled out here.
func TestWhyAGangWaits(t *testing.T) {
	const couldNot = "the gang was found to fit, but its members could not be placed together; it is tried again"
	inqueue := schedulingv1beta1.PodGroupInqueue
	pod := memberNamed("m").Obj()
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		prepare func(*testing.T, *gangs.Tracker, *clocktesting.FakeClock)
		want    report.Explanation
	}{
		"no PodGroup": {func(*testing.T, *gangs.Tracker, *clocktesting.FakeClock) {},
			report.Explanation{Reason: "WaitingForPodGroup", Message: "waiting for the pod's PodGroup to be created"}},
		"not admitted": {func(_ *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 1))
		}, report.Explanation{Reason: "WaitingForAdmission", Message: "waiting for the PodGroup to be admitted by its queue"}},
		"too few": {func(_ *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) { tr.SetPodGroup(groupIn(inqueue, 3)) },
			report.Explanation{Reason: "NotEnoughTasks", Message: "waiting for members: fewer pods exist than the 3 that start together"}},
		"a member has scheduling gates": {func(_ *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 2))
			tr.SetPod(withGate(memberNamed("gated").Obj()))
		}, report.Explanation{Reason: "NotEnoughTasks",
			Message: "waiting for members: fewer pods may be scheduled than the 2 that start together: pods of the gang have scheduling gates"}},
		"a member is for another scheduler, one of its task has gates": {func(_ *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			group := groupIn(inqueue, 1)
			group.Spec.MinTaskMember = map[string]int32{"worker": 1}
			tr.SetPod(memberNamed("elsewhere").SchedulerName("other").Obj())
			tr.SetPod(withGate(memberNamed("gated").Obj()))
			tr.SetPodGroup(group)
		}, report.Explanation{Reason: "NotEnoughPodsOfTask", Message: `waiting for members: fewer pods of task "worker" may be scheduled than the 1 that its minimum asks for: ` +
			"pods of the gang have scheduling gates, and pods of the gang name another scheduler"}},
		"gates are gone, or their pods are": {func(_ *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			gated := withGate(memberNamed("gated").Obj())
			tr.SetPodGroup(groupIn(inqueue, 3))
			setPods(tr, gated, withGate(memberNamed("freed").Obj()), memberNamed("freed").Obj())
			tr.DeletePod(gated)
		}, report.Explanation{Reason: "NotEnoughTasks", Message: "waiting for members: fewer pods exist than the 3 that start together"}},
		"a pod of the earlier run is still ending": {func(_ *testing.T, tr *gangs.Tracker, clock *clocktesting.FakeClock) {
			tr.SetPod(memberNamed("earlier").Terminating(clock.Now()).Obj())
			tr.SetPodGroup(groupIn(inqueue, 3))
		}, report.Explanation{Reason: "NotEnoughTasks",
			Message: "waiting for members: earlier pods of the gang are still ending, and the 3 that start together are not all created yet"}},
		"too few of a task": {func(_ *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			group := groupIn(inqueue, 1)
			group.Spec.MinTaskMember = map[string]int32{"worker": 1}
			tr.SetPodGroup(group)
		}, report.Explanation{Reason: "NotEnoughPodsOfTask", Message: `waiting for members: fewer pods of task "worker" exist than the 1 that its minimum asks for`}},
		"no room": {func(t *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			refuse(t, tr, pod, "no room")
		}, report.Explanation{Reason: "Unschedulable", Message: "no room", FoundAt: now}},
		"no room, found twice": {func(t *testing.T, tr *gangs.Tracker, clock *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			refuse(t, tr, pod, "no room")
			clock.Step(time.Hour)
			refuse(t, tr, pod, "no room")
		}, report.Explanation{Reason: "Unschedulable", Message: "no room", FoundAt: now}},
		"less room": {func(t *testing.T, tr *gangs.Tracker, clock *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			refuse(t, tr, pod, "no room")
			clock.Step(time.Hour)
			refuse(t, tr, pod, "less room")
		}, report.Explanation{Reason: "Unschedulable", Message: "less room", FoundAt: now.Add(time.Hour)}},
		"no room, about to be decided again": {func(t *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			refuse(t, tr, pod, "no room")
			tr.Hints.Wake(pod)
		}, report.Explanation{Reason: "Unschedulable", Message: "no room", FoundAt: now}},
		"no quota": {func(t *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "0").Obj())
			refuse(t, tr, pod, "no quota")
		}, report.Explanation{Reason: "WaitingForQuota", Message: "no quota", FoundAt: now}},
		"room, it seemed": {func(t *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			refuse(t, tr, pod, "no room")
			tr.Hints.Wake(pod)
			begin(t, tr, pod, nil)
			require.True(t, tr.Fail(pod))
		}, report.Explanation{Reason: "Unschedulable", Message: couldNot}},
		"quota, and room, it seemed": {func(t *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "0").Obj())
			refuse(t, tr, pod, "no quota")
			tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
			for range 2 { // the second time it goes exactly where the decision says
				begin(t, tr, pod, map[types.UID]string{"m": "n"})
				require.True(t, tr.Fail(pod))
			}
		}, report.Explanation{Reason: "Unschedulable", Message: couldNot}},
		"no room after all": {func(t *testing.T, tr *gangs.Tracker, clock *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			begin(t, tr, pod, nil)
			require.True(t, tr.Fail(pod))
			clock.Step(time.Second)
			refuse(t, tr, pod, "no room")
		}, report.Explanation{Reason: "Unschedulable", Message: "no room", FoundAt: now.Add(time.Second)}},
		"about to be decided": {func(_ *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) { tr.SetPodGroup(groupIn(inqueue, 1)) }, report.Explanation{}},
		"running":             {func(_ *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) { tr.SetPodGroup(groupIn(inqueue, 0)) }, report.Explanation{}},
		"starting": {func(t *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			tr.SetPodGroup(groupIn(inqueue, 1))
			begin(t, tr, pod, nil)
		}, report.Explanation{}},
		"not read yet": {func(_ *testing.T, tr *gangs.Tracker, _ *clocktesting.FakeClock) { tr.Synced = false }, report.Explanation{}},
	} {
		t.Run(name, func(t *testing.T) {
			tr, clock := newTestTracker(t)
			tr.SetPod(pod)
			tc.prepare(t, tr, clock)
			got := report.NewReports(tr).TakeReport(theGang).Explanation
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.want == report.Explanation{}, got.IsZero())
		})
	}
}

func TestATextSaysWhenItsNumbersWereFound(t *testing.T) {
	assert.Equal(t, "2 more CPUs are needed (found at 1970-01-01T00:16:40Z)", report.Explanation{Reason: report.ReasonUnschedulable, Message: "2 more CPUs are needed", FoundAt: time.Unix(1000, 0)}.Text())
	assert.Equal(t, "waiting", report.Explanation{Reason: report.ReasonNotEnoughPods, Message: "waiting"}.Text())
}

func TestAnExplanationHoldsForMembersThatWait(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 2))
	setPods(tr, memberNamed("m1").Obj(), memberNamed("m0").Obj(), memberNamed("bound").Node("n").Obj())
	e := report.Explanation{Reason: report.ReasonWaitingForAdmission, Message: "waiting for the PodGroup to be admitted by its queue"}
	assert.Equal(t, []string{"m0", "m1"}, namesOf(report.NewReports(tr).WaitingPods(theGang)))
	assert.True(t, report.NewReports(tr).StillWaits(theGang, "m0", e))
	assert.False(t, report.NewReports(tr).StillWaits(theGang, "bound", e))
	assert.False(t, report.NewReports(tr).StillWaits(theGang, "gone", e))
	assert.False(t, report.NewReports(tr).StillWaits(keyNamed("other"), "m0", e))
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 5))
	assert.False(t, report.NewReports(tr).StillWaits(theGang, "m0", e))
}

func TestTheReporterExplainsMembersOfGangsThatDoNotRun(t *testing.T) {
	tr := openTracker(t)
	waiting, surplus := gangOf(tr, "waiting", 2, 1)[0], gangOf(tr, "running", 1, 2)
	tr.SetPod(on(surplus[0], "n"))
	assert.True(t, report.NewReports(tr).Explains(waiting))
	assert.True(t, report.NewReports(tr).Explains(memberNamed("unseen").Obj()))
	assert.False(t, report.NewReports(tr).Explains(surplus[1]), "it is single or surplus")
	assert.False(t, report.NewReports(tr).Explains(singleNamed("single", "q").Obj()))
}

// TestEveryWaitReasonHasAText: the gate returns it, and is open without one.
func TestEveryWaitReasonHasAText(t *testing.T) {
	assert.ElementsMatch(t, gang.WaitReasons, slices.Collect(maps.Keys(gangs.WaitTexts)))
	for reason, text := range gangs.WaitTexts {
		assert.NotEmpty(t, text, reason)
	}
}
