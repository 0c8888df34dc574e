package gangs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/scheduling"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// chargedTo is the account that a pod is charged to, "" for none.
func chargedTo(tr *gangs.Tracker, pod types.UID) string {
	account, _, _ := tr.Quota.Ledger.Charged(pod)
	return account
}

// TestTheAccountOfABoundPodIsFixed: it was written with the pod's binding. Nothing that is changed later moves it or frees it, also not for a
// scheduler that starts later.
func TestTheAccountOfABoundPodIsFixed(t *testing.T) {
	group := groupIn(schedulingv1beta1.PodGroupRunning, 1)
	bound := memberNamed("m").Node("node").Annotation(schedulingv1beta1.ChargedToAnnotation, "q/bob").Obj()
	moved := group.DeepCopy()
	moved.Spec.Queue = "other"
	group.Labels = map[string]string{schedulingv1beta1.UserLabel: "bob"}
	renewed := moved.DeepCopy()
	renewed.UID = "another"
	of := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := bound.DeepCopy()
		change(pod)
		return pod
	}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		happens func(*gangs.Tracker)
	}{
		"nothing":                     {bound, func(*gangs.Tracker) {}},
		"the PodGroup is deleted":     {bound, func(tr *gangs.Tracker) { tr.DeletePodGroup(group) }},
		"the PodGroup is moved":       {bound, func(tr *gangs.Tracker) { tr.SetPodGroup(moved) }},
		"the PodGroup loses its user": {bound, func(tr *gangs.Tracker) { tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupRunning, 1)) }},
		"the PodGroup is made again":  {bound, func(tr *gangs.Tracker) { tr.DeletePodGroup(group); tr.SetPodGroup(renewed) }},
		"the PodGroup is replaced":    {bound, func(tr *gangs.Tracker) { tr.SetPodGroup(renewed) }},
		"the pod names another queue": {of(func(p *corev1.Pod) { p.Annotations[schedulingv1beta1.QueueNameAnnotation] = "other" }), nil},
		"the pod leaves its gang":     {of(func(p *corev1.Pod) { delete(p.Annotations, schedulingv1beta1.GroupNameAnnotation) }), nil},
		"the pod names another gang":  {of(func(p *corev1.Pod) { p.Annotations[schedulingv1beta1.GroupNameAnnotation] = "other" }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			running, restarted := openTracker(t), openTracker(t)
			running.SetPodGroup(group)
			running.SetPod(bound)
			restarted.SetPod(c.pod)
			for _, tr := range []*gangs.Tracker{running, restarted} {
				tr.SetPod(c.pod)
				if c.happens != nil {
					c.happens(tr)
				}
				assert.Equal(t, "q/bob", chargedTo(tr, "m"))
				assert.Equal(t, "q/bob", tr.Quota.AccountOf(c.pod))
				assert.Empty(t, report.Drifting(tr, []*corev1.Pod{c.pod}))
				tr.DeletePod(c.pod)
				assert.Empty(t, chargedTo(tr, "m"))
			}
		})
	}
}

// TestAPodBoundWithoutAQueueStaysUncharged: its PodGroup may name a queue later.
func TestAPodBoundWithoutAQueueStaysUncharged(t *testing.T) {
	tr := openTracker(t)
	group := groupIn(schedulingv1beta1.PodGroupRunning, 1)
	bound := memberNamed("m").Node("node").QueueName("other").Annotation(schedulingv1beta1.ChargedToAnnotation, "").Obj()
	tr.SetPodGroup(group)
	tr.SetPod(bound)
	assert.Empty(t, tr.Quota.Ledger.Pods())
	assert.Empty(t, tr.Quota.AccountOf(bound))
	assert.Empty(t, report.Drifting(tr, []*corev1.Pod{bound}))
}

// TestABindingSaysWhatThePodIsChargedTo covers the pods that the Bind plugin writes on. Annotations of others are replaced.
func TestABindingSaysWhatThePodIsChargedTo(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	member, forged := memberNamed("m").Obj(), singleNamed("forged", "").Annotation(schedulingv1beta1.ChargedToAnnotation, "q").
		Annotation(schedulingv1beta1.BoundForAnnotation, "g").Obj()
	tr.SetPod(member)
	begin(t, tr, member, nil)
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want map[string]string
	}{
		"a member":                {member, map[string]string{schedulingv1beta1.ChargedToAnnotation: "q", schedulingv1beta1.BoundForAnnotation: "g"}},
		"a pod that names one":    {singleNamed("single", "q").Label(schedulingv1beta1.UserLabel, "bob").Obj(), map[string]string{schedulingv1beta1.ChargedToAnnotation: "q/bob"}},
		"a pod without a queue":   {singleNamed("free", "").Obj(), map[string]string{schedulingv1beta1.ChargedToAnnotation: ""}},
		"a group without a queue": {singleNamed("group", "").Label(primehubv1alpha1.PodGroupLabel, "escaped-x").Obj(), map[string]string{}},
		"annotations of another":  {forged, map[string]string{schedulingv1beta1.ChargedToAnnotation: "", schedulingv1beta1.BoundForAnnotation: ""}},
	} {
		charged, shortage := tr.Quota.Charge(c.pod)
		require.Nil(t, shortage)
		assert.Equal(t, c.want, charged.Annotations(c.pod), name)
	}
}

// TestAGangIsCheckedAgainstTheQueueThatItsPodsName covers PodGroups that name no queue: those of scheduler-plugins cannot.
func TestAGangIsCheckedAgainstTheQueueThatItsPodsName(t *testing.T) {
	for _, foreign := range []bool{true, false} {
		tr := openTracker(t)
		tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "2").Obj())
		key := state.Key{Namespace: "default", Name: "g", Foreign: foreign}
		group := groupIn(schedulingv1beta1.PodGroupInqueue, 3)
		group.Spec.Queue = ""
		member := func(name, queue string) *corev1.Pod {
			pod := memberNamed(name).QueueName(queue).Obj()
			if foreign {
				delete(pod.Annotations, schedulingv1beta1.GroupNameAnnotation)
				pod.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "g"}
			}
			return pod
		}
		tr.SetPodGroupAs(key, group)
		pods := []*corev1.Pod{member("m0", "q"), member("m1", ""), member("m2", "q")}
		setPods(tr, pods...)
		require.Equal(t, gang.Ready, phaseOf(tr, key))
		s := tr.Decisions.Snapshot(pods[0])
		require.NotNil(t, s)
		require.NotNil(t, s.Lacks, "it needs 3 cpu of a queue of 2")
		assert.Contains(t, s.Lacks.Error(), `queue "q"`)

		tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "3").Obj())
		begin(t, tr, pods[0], nil)
		for _, pod := range pods {
			permit(tr, pod)
			tr.SetPod(on(pod, "node"))
			assert.Equal(t, "q", chargedTo(tr, pod.UID), "a pod that names no queue is charged with its gang")
		}
	}
}

// TestAGangWhosePodsNameDifferentQueuesWaits says which queues, and what to change.
func TestAGangWhosePodsNameDifferentQueuesWaits(t *testing.T) {
	tr := openTracker(t)
	tr.SetQueue(mustertesting.MakeQueue("red").Obj())
	group := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
	group.Spec.Queue = ""
	tr.SetPodGroup(group)
	red, blue := memberNamed("m0").QueueName("red").Obj(), memberNamed("m1").QueueName("blue").Obj()
	tr.SetPod(red)
	tr.SetPod(blue)
	assert.Equal(t, gang.Status{Phase: gang.NotAdmitted, Reason: gang.DifferentQueues}, statusOf(tr, theGang))
	assert.Equal(t, "waiting until all pods of the gang name the same queue", tr.Gate(red))
	assert.Equal(t, report.Explanation{Reason: "DifferentQueues", Message: `the pods of the gang name different queues, "blue" and "red": give all of them the same annotation ` +
		`scheduling.volcano.sh/queue-name and the same label muster.sh/user, or name a queue in spec.queue of the PodGroup`}, report.NewReports(tr).TakeReport(theGang).Explanation)

	tr.SetPod(memberNamed("m1").QueueName("red").Obj())
	assert.Empty(t, tr.Gate(red))
	tr.SetPod(blue)
	require.Equal(t, gang.NotAdmitted, phaseOf(tr, theGang))
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	assert.Empty(t, tr.Gate(red), "the PodGroup decides")
}

// TestOnlyPodsThatWereBoundForThisPodGroupAreEvicted: the scheduler repairs what a crash has left of its own attempt, and nothing else.
func TestOnlyPodsThatWereBoundForThisPodGroupAreEvicted(t *testing.T) {
	ours := memberNamed("ours").Node("node").Obj()
	byHand := onByHand(memberNamed("by-hand").Obj(), "node")
	earlier := memberNamed("earlier").Node("node").Annotation(schedulingv1beta1.BoundForAnnotation, "earlier").Obj()
	for name, c := range map[string]struct {
		bound   []*corev1.Pod
		evicted []string
	}{
		"a crash":                              {[]*corev1.Pod{ours}, []string{"ours"}},
		"a PodGroup that comes after its pods": {[]*corev1.Pod{byHand}, nil},
		"a PodGroup that was made again":       {[]*corev1.Pod{earlier}, nil},
		"all of these":                         {[]*corev1.Pod{ours, byHand, earlier}, []string{"ours"}},
	} {
		t.Run(name, func(t *testing.T) {
			tr, clock := newTestTracker(t)
			tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "8").Obj())
			waiting := memberNamed("waits").Obj()
			setPods(tr, append(c.bound, waiting)...)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, int32(len(c.bound)+1)))

			privileged := c.evicted != nil
			g := tr.Gangs[theGang]
			assert.Equal(t, privileged, tr.Rank(g).Repair)
			used, all := tr.Quota.Ledger.Totals("q")
			assert.Equal(t, privileged, !used.Equal(all), "quota is assumed for the missing member")
			require.Empty(t, tr.Gate(waiting), "the missing member may join")
			assert.Equal(t, privileged, tr.Order.OrderKey(waiting, clock.Now()).Rank == gangs.RankPartial)

			clock.Step(2 * time.Hour)
			assert.Equal(t, c.evicted, toEvict(tr))
			begin(t, tr, waiting, nil)
			result, _ := permit(tr, waiting)
			assert.Equal(t, gangs.Allow, result)
		})
	}
}

// TestAGangWhoseQueueWasDeletedWaits: nothing would limit it. A queue can be deleted just after it has admitted a PodGroup.
func TestAGangWhoseQueueWasDeletedWaits(t *testing.T) {
	queue := mustertesting.MakeQueue("q").Capability("cpu", "2").Obj()
	tr := openTracker(t)
	tr.DeleteQueue(queue)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	pods := []*corev1.Pod{memberNamed("m0").Obj(), memberNamed("m1").Obj(), memberNamed("m2").Obj()}
	setPods(tr, pods...)
	requireHeld := func() {
		t.Helper()
		require.Equal(t, gang.Status{Phase: gang.NotAdmitted, Reason: gang.Admission}, statusOf(tr, theGang))
		require.Equal(t, gangs.QueueIsGone, tr.Gate(pods[2]))
		require.Equal(t, report.Explanation{Reason: report.ReasonWaitingForAdmission, Message: gangs.QueueIsGone}, report.NewReports(tr).TakeReport(theGang).Explanation)
	}
	requireHeld()
	tr.SetQueue(queue)
	require.Contains(t, toLookAt(tr), theGang)

	begin(t, tr, pods[0], nil)
	tr.DeleteQueue(queue)
	requireHeld() // its attempt has ended
	tr.SetQueue(queue)
	begin(t, tr, pods[0], nil)
	for _, pod := range pods[:2] {
		permit(tr, pod)
		tr.SetPod(on(pod, "node"))
	}
	require.Equal(t, gang.Running, phaseOf(tr, theGang))
	tr.DeleteQueue(queue)
	requireHeld() // further members
	assert.Equal(t, "q", chargedTo(tr, "m0"), "members that run do so")
	tr.SetQueue(queue)
	assert.Empty(t, tr.Gate(pods[2]), "it is tried, and waits for quota")
	require.NotNil(t, tr.Quota.QuotaShortage(pods[2]))
}

// TestTheQueueDefaultIsNotLookedFor: muster-controller makes it, and it cannot be deleted.
func TestTheQueueDefaultIsNotLookedFor(t *testing.T) {
	tr := openTracker(t)
	group := groupIn(schedulingv1beta1.PodGroupInqueue, 1)
	group.Spec.Queue = schedulingv1beta1.DefaultQueue
	tr.SetPodGroup(group)
	pod := memberNamed("m0").Obj()
	tr.SetPod(pod)
	assert.Empty(t, tr.Gate(pod))
}

// TestASystemCriticalPodIsChargedAndNeverWaits: it may be what the cluster needs to run.
func TestASystemCriticalPodIsChargedAndNeverWaits(t *testing.T) {
	tr := openTracker(t)
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
	setPods(tr, singleNamed("first", "q").Node("n").Obj())
	require.NotNil(t, tr.Quota.QuotaShortage(singleNamed("other", "q").Obj()))
	critical := singleNamed("critical", "q").Priority(scheduling.SystemCriticalPriority).Obj()
	assert.Nil(t, tr.Quota.QuotaShortage(critical))
	charged, shortage := tr.Quota.Charge(critical)
	assert.Nil(t, shortage)
	assert.Equal(t, "q", charged.Account)
	assert.Equal(t, "q", chargedTo(tr, "critical"))
}

// TestMembersLoseTheAccountOfAnEarlierPodGroup: a pod that another client bound keeps its account when its PodGroup is deleted. A new PodGroup
// without an account ends that. The random histories found that the charge stayed.
func TestMembersLoseTheAccountOfAnEarlierPodGroup(t *testing.T) {
	tr := openTracker(t)
	first := groupIn(schedulingv1beta1.PodGroupInqueue, 1)
	first.Spec.Queue = "q"
	tr.SetPodGroup(first)
	pod := on(memberNamed("m1").Obj(), "node")
	tr.SetPod(pod)
	tr.DeletePodGroup(first)
	account, _, _ := tr.Quota.Ledger.Charged(pod.UID)
	require.Equal(t, "q", account)
	second := groupIn(schedulingv1beta1.PodGroupInqueue, 1)
	second.UID, second.Spec.Queue = "second", ""
	tr.SetPodGroup(second)
	_, _, charged := tr.Quota.Ledger.Charged(pod.UID)
	assert.False(t, charged)
}

// TestTheAccountOfAnotherPodGroupEnds: a pod that another client has bound is charged to what it names, when it names another PodGroup.
func TestTheAccountOfAnotherPodGroupEnds(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	pod := onByHand(memberNamed("m").QueueName("own").Obj(), "node")
	tr.SetPod(pod)
	require.Equal(t, "q", chargedTo(tr, "m"))
	moved := pod.DeepCopy()
	moved.Annotations[schedulingv1beta1.GroupNameAnnotation] = "phantom"
	tr.SetPod(moved)
	assert.Equal(t, "own", chargedTo(tr, "m"), "as after a restart, and as muster-controller has it")
}

// TestAMemberIsChargedToTheAccountThatWasChecked: the scheduling queue may know of a queue that the tracker has not seen yet.
func TestAMemberIsChargedToTheAccountThatWasChecked(t *testing.T) {
	tr := openTracker(t)
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "0").Obj())
	group := groupIn(schedulingv1beta1.PodGroupInqueue, 1)
	group.Spec.Queue = ""
	tr.SetPodGroup(group)
	tr.SetPod(memberNamed("m").Obj())
	named := memberNamed("m").QueueName("q").Obj()
	begin(t, tr, named, nil)
	charged, shortage := tr.Quota.Charge(named)
	require.Nil(t, shortage)
	assert.Equal(t, state.Charged{PodGroup: "g"}, charged)
	assert.Empty(t, chargedTo(tr, "m"))
}
