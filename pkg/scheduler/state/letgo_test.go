package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// The tests below are what random histories through the real scheduling queue have found, one at a time.

// openStore makes a Store that is open and enforces quota.
func openStore() *Store {
	s, _ := newTestStore()
	s.EnforceQuota()
	return s
}

func groupIn(phase schedulingv1beta1.PodGroupPhase, minMember int32) *schedulingv1beta1.PodGroup {
	return mustertesting.MakePodGroup("g").UID("g").MinMember(minMember).Queue("q").Phase(phase).Obj()
}

func memberNamed(name string) *mustertesting.PodWrapper {
	return mustertesting.MakePod(name).UID(name).Group("g").SchedulerName("muster").Requests("cpu", "1")
}

// theGang is the key of the PodGroup of these tests.
var theGang = Key{Namespace: metav1.NamespaceDefault, Name: "g"}

func namesOf(pods []*corev1.Pod) []string {
	names := []string{}
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

// startRound has a gang of n members judged and admitted, and the first reserved.
func startRound(t *testing.T, s *Store, n int) {
	t.Helper()
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, int32(n)))
	var first *corev1.Pod
	for i := range n {
		pod := memberNamed(fmt.Sprint("m", i)).Obj()
		s.SetPod(pod)
		if i == 0 {
			first = pod
		}
	}
	require.Empty(t, s.Gate(first))
	round := s.Judge(first)
	require.NotNil(t, round)
	_, ok := s.Admit(round, nil)
	require.True(t, ok)
	s.Reserve(first, "node")
	require.Equal(t, admitted, s.gangs[theGang].phase)
}

func TestMembersOfAGangWithMinimumZeroWakeWhenItIsAdmitted(t *testing.T) {
	s := openStore()
	pod := memberNamed("m").Obj()
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 0))
	require.Equal(t, notAdmitted, s.Gate(pod))
	require.Empty(t, s.next(theGang).activate)
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
	assert.Equal(t, []string{"m"}, namesOf(s.next(theGang).activate))
	assert.Empty(t, s.next(theGang).activate, "once is enough")
}

func TestMembersThatCameBeforeTheCachesWereFullWakeWhenTheirGangIsAdmitted(t *testing.T) {
	s := openStore()
	s.synced = false
	pod := memberNamed("m").Obj()
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 0))
	s.SetPod(pod)
	require.Equal(t, notSynced, s.Gate(pod))
	s.Open()
	require.Empty(t, s.next(theGang).activate)
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
	assert.Equal(t, []string{"m"}, namesOf(s.next(theGang).activate))
}

// TestTheFirstPodOfAJobShowsThatItsPodGroupIsAdmitted: the controller creates it after the admission, which may stand in the status
// much later.
func TestTheFirstPodOfAJobShowsThatItsPodGroupIsAdmitted(t *testing.T) {
	job := mustertesting.MakeJob("j").UID("job").Obj()
	groupOfJob := func(uid string) *schedulingv1beta1.PodGroup {
		group := groupIn("", 0)
		group.UID, group.OwnerReferences = types.UID(uid), memberNamed("x").Owner(job).Obj().OwnerReferences
		return group
	}
	s := openStore()
	stranger := memberNamed("stranger").Obj()
	s.SetPodGroup(groupOfJob("first"))
	require.Equal(t, notAdmitted, s.Gate(stranger), "nobody knows what it came after")
	require.Empty(t, s.next(theGang).activate)

	own := memberNamed("own").Owner(job)
	require.Empty(t, s.Gate(own.Obj()))
	s.SetPod(own.Terminating(s.clock.Now()).Obj())
	assert.Contains(t, namesOf(s.next(theGang).activate), "stranger", "the gang has a turn though its own pod is gone")
	assert.False(t, s.mustBeAdmitted(s.gangs[theGang]), "what has been shown stays so")

	s.SetPodGroup(groupOfJob("second"))
	assert.True(t, s.mustBeAdmitted(s.gangs[theGang]), "pods that go are of the PodGroup before")
	s.SetPod(memberNamed("next").Owner(job).Obj())
	assert.False(t, s.mustBeAdmitted(s.gangs[theGang]))

	late := openStore()
	late.SetPod(memberNamed("own").Owner(job).Obj())
	late.SetPodGroup(groupOfJob("first"))
	assert.False(t, late.mustBeAdmitted(late.gangs[theGang]), "the pod was known first")
}

// TestRoomOfARoundThatWasLetGoIsNoPartOfTheNext: the member that could not be placed may be back in the queue before the others have
// lost their room. Judged then, the gang needed a place for that one only, was let go to be bound, and lost the others.
func TestRoomOfARoundThatWasLetGoIsNoPartOfTheNext(t *testing.T) {
	s := openStore()
	startRound(t, s, 3)
	s.gangs[theGang].sure = true // there was a place for each: the next round goes exactly there, at once
	reserved, failed := memberNamed("m0").Obj(), memberNamed("m1").Obj()
	require.Empty(t, s.Gate(failed))
	s.Unreserve(failed) // no node had room for it
	require.Equal(t, idle, s.gangs[theGang].phase)

	assert.Equal(t, notGivenBack, s.Gate(failed))
	assert.Nil(t, s.Judge(failed))
	d := s.next(theGang)
	assert.Equal(t, []types.UID{"m0"}, d.reject)
	assert.Empty(t, d.activate)

	s.Unreserve(reserved)
	assert.Equal(t, []string{"m1"}, namesOf(s.next(theGang).activate))
	require.Empty(t, s.Gate(failed))
	round := s.Judge(failed)
	require.NotNil(t, round)
	assert.Len(t, round.Members, 3, "all are placed anew")
}

func TestAMinimumRaisedAboveTheChosenLetsGo(t *testing.T) {
	s := openStore()
	startRound(t, s, 2)
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 5))
	assert.Equal(t, idle, s.gangs[theGang].phase)
	assert.Equal(t, []types.UID{"m0"}, s.next(theGang).reject)
}

func TestAMinimumThatStaysDoesNotLetGo(t *testing.T) {
	s := openStore()
	startRound(t, s, 2)
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	assert.Equal(t, admitted, s.gangs[theGang].phase)
}

func TestANewIncarnationLetsGo(t *testing.T) {
	s := openStore()
	startRound(t, s, 2)
	s.SetPod(memberNamed("new").Version(1).Obj())
	assert.Equal(t, idle, s.gangs[theGang].phase)
	assert.Equal(t, []types.UID{"m0"}, s.next(theGang).reject)
}

func TestAScoutThatIsNotChosenHasTheChosenActivated(t *testing.T) {
	s := openStore()
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	scout := memberNamed("scout").Obj()
	s.SetPod(scout)
	require.Empty(t, s.Gate(scout))
	s.SetPod(memberNamed("higher").Priority(10).Obj())
	round := s.Judge(scout)
	_, ok := s.Admit(round, nil)
	require.True(t, ok)
	assert.Positive(t, s.waker.Len(), "the waker is asked")
	assert.Equal(t, []string{"higher"}, namesOf(s.next(theGang).activate))
}

func TestPodsOfADeletedPodGroupAreChargedNowhere(t *testing.T) {
	s := openStore()
	group := groupIn(schedulingv1beta1.PodGroupRunning, 1)
	s.SetPodGroup(group)
	s.SetPod(memberNamed("m").Node("node").Obj())
	require.Equal(t, int64(1000), s.ledger.Used("q")[corev1.ResourceCPU])
	s.DeletePodGroup(group)
	assert.True(t, s.ledger.Used("q").IsZero())
}

func TestAGangThatMovesToAnotherQueueMakesRoomInItsOld(t *testing.T) {
	s := openStore()
	s.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
	group := groupIn(schedulingv1beta1.PodGroupRunning, 1)
	s.SetPodGroup(group)
	s.SetPod(memberNamed("m").Node("node").Obj())
	single := mustertesting.MakePod("single").UID("single").SchedulerName("muster").Requests("cpu", "1").QueueName("q").Obj()
	require.NotNil(t, s.QuotaShortage(single))
	group.Spec.Queue = "other"
	s.SetPodGroup(group)
	assert.Equal(t, []string{"single"}, namesOf(s.next(quotaKey).activate))
	assert.Nil(t, s.QuotaShortage(single))
}

func TestAWaitingMemberKeepsNoNomination(t *testing.T) {
	s := openStore()
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	pod := memberNamed("m").Obj()
	pod.Status.NominatedNodeName = "node"
	s.SetPod(pod)
	_, holders := s.check()
	assert.Equal(t, []string{"m"}, namesOf(holders), "its gang is not complete: others may have the room")
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = ""
	s.SetPod(pod)
	_, holders = s.check()
	assert.Empty(t, holders)
}

func TestARoomThatWasReservedInTheOldQueueIsFreeWhenThePodIsBound(t *testing.T) {
	for _, queue := range []string{"other", ""} {
		s := openStore()
		s.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
		startRound(t, s, 1)
		single := mustertesting.MakePod("single").UID("single").SchedulerName("muster").Requests("cpu", "1").QueueName("q").Obj()
		moved := groupIn(schedulingv1beta1.PodGroupInqueue, 1)
		moved.Spec.Queue = queue
		s.SetPodGroup(moved)
		s.next(quotaKey)
		require.NotNil(t, s.QuotaShortage(single), "the room was reserved under the old queue's name")
		s.SetPod(memberNamed("m0").Node("node").Obj())
		assert.Equal(t, []string{"single"}, namesOf(s.next(quotaKey).activate), queue)
		assert.Nil(t, s.QuotaShortage(single))
	}
}

// T12: what is held for a gang whose members do not come in time is given back: its places, and its queue's quota.
func TestT12_HoldTimesOutAndGivesQuotaBack(t *testing.T) {
	s := openStore()
	s.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "2").Obj())
	startRound(t, s, 2)
	one := resources.List{corev1.ResourceCPU: 1000}
	require.NotNil(t, s.ledger.Room("q", one), "one member has its share, the other is promised it")
	clock := s.clock.(*clocktesting.FakeClock)
	clock.Step(time.Minute - time.Second)
	require.Empty(t, s.next(theGang).reject)
	clock.Step(time.Second)
	require.Equal(t, []types.UID{"m0"}, s.next(theGang).reject, "the one that waits for the other is let go")
	require.Nil(t, s.ledger.Room("q", one), "nothing is promised any more")
	s.Unreserve(memberNamed("m0").Obj())
	require.Nil(t, s.ledger.Room("q", resources.List{corev1.ResourceCPU: 2000}), "nothing is charged any more")
	require.Empty(t, s.gangs[theGang].planned)
}

// Of a change of a member the queue tells the plugins that rejected that member. The gang is parked under the name of its scout,
// which may be another: here it waits for the claim of g-0.
func TestAParkedGangIsJudgedAgainWhenAMemberChanges(t *testing.T) {
	claimed := func(pod *corev1.Pod) {
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "device", ResourceClaimName: ptr.To("g-0-device")}}
	}
	said := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"it has got its claim":     {claimed, true},
		"it is told why it waits":  {said, false},
		"it tolerates another one": {func(pod *corev1.Pod) { pod.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} }, true},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, while it is judged: %t", name, late), func(t *testing.T) {
				s, _ := newTestStore()
				s.SetPodGroup(testGroup("g", 2))
				pods := testPods("g", 2)
				for _, pod := range pods {
					s.Gate(pod)
				}
				scout, key := pods[1], Key{Namespace: "ns", Name: "g"}
				s.next(key)
				round := s.Judge(scout)
				require.NotNil(t, round)
				changed := pods[0].DeepCopy()
				tc.change(changed)
				if late {
					s.SetPod(changed)
					s.next(key) // the waker is quicker than the judgement
				}
				s.Park(round, scout, "one has no claim", pods[0], "DynamicResources")
				if !late {
					s.SetPod(changed)
				}
				assert.Equal(t, tc.want, len(s.next(key).activate) == 1, "the scout tries again")
			})
		}
	}
}

func TestWhoIsParkedBehindAPlugin(t *testing.T) {
	s, _ := newTestStore()
	for name, rejector := range map[string]string{"a": "DynamicResources", "b": "NodeResourcesFit", "c": ""} {
		s.SetPodGroup(testGroup(name, 2))
		pods := testPods(name, 2)
		for _, pod := range pods {
			s.Gate(pod)
		}
		if rejector != "" {
			s.Park(s.Judge(pods[1]), pods[1], "in the way", pods[0], rejector)
		}
	}
	assert.Equal(t, []types.NamespacedName{{Namespace: "ns", Name: "a-1"}}, s.ParkedBehind("DynamicResources"))
	assert.Empty(t, s.ParkedBehind("VolumeBinding"))
}

// TestAPodWaitsForThePodGroupItWasCreatedFor: pods and PodGroups are watched apart. A gang runs and its minimum is raised; new members
// that the scheduler hears of before that are not beyond the minimum.
func TestAPodWaitsForThePodGroupItWasCreatedFor(t *testing.T) {
	s := openStore()
	group := func(version string, minMember int32) *schedulingv1beta1.PodGroup {
		pg := groupIn(schedulingv1beta1.PodGroupRunning, minMember)
		pg.ResourceVersion = version
		return pg
	}
	s.SetPodGroup(group("9", 2))
	for _, name := range []string{"m0", "m1"} {
		pod := memberNamed(name).Obj()
		pod.Spec.NodeName = "n"
		s.SetPod(pod)
	}
	surplus, raised := memberNamed("surplus").Obj(), memberNamed("raised").Obj()
	raised.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation] = "12"
	require.Empty(t, s.Gate(surplus), "beyond the minimum")
	require.Equal(t, notCaughtUp, s.Gate(raised))
	s.SetPodGroup(group("11", 2))
	require.Equal(t, notCaughtUp, s.Gate(raised), "something else has changed")
	s.SetPodGroup(group("12", 5))
	require.Equal(t, notComplete, s.Gate(raised))
	s.SetPodGroup(group("30", 2))
	require.Empty(t, s.Gate(raised), "what comes later says what holds now")

	raised.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation] = "nonsense"
	require.Empty(t, s.Gate(raised))
}

// What a round was promised is of the quota of the queue that it began in.
func TestAGangThatChangesItsQueueInARoundIsLetGo(t *testing.T) {
	s := openStore()
	startRound(t, s, 2)
	moved := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
	moved.Spec.Queue = "other"
	s.SetPodGroup(moved)
	assert.Equal(t, idle, s.gangs[theGang].phase)
	assert.Equal(t, []types.UID{"m0"}, s.next(theGang).reject)
	used, all := s.ledger.Totals("other")
	assert.Equal(t, used, all, "nothing is promised of the new one")
}

func TestAGangThatHasChangedSinceItWasJudgedIsNotAdmitted(t *testing.T) {
	for name, change := range map[string]func(*Store, *schedulingv1beta1.PodGroup){
		"its PodGroup is gone":   func(s *Store, pg *schedulingv1beta1.PodGroup) { s.DeletePodGroup(pg) },
		"it is in another queue": func(s *Store, pg *schedulingv1beta1.PodGroup) { pg.Spec.Queue = "other"; s.SetPodGroup(pg) },
		"another one is not let in yet": func(s *Store, pg *schedulingv1beta1.PodGroup) {
			pg.UID, pg.Status.Phase = "another", schedulingv1beta1.PodGroupPending
			s.SetPodGroup(pg)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore()
			s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
			pod := memberNamed("m").Obj()
			require.Empty(t, s.Gate(pod))
			round := s.Judge(pod)
			require.NotNil(t, round)
			change(s, groupIn(schedulingv1beta1.PodGroupInqueue, 1))
			_, ok := s.Admit(round, map[types.UID]string{"m": "node"})
			assert.False(t, ok)
		})
	}
}

// A pod that waits in Permit is of no use to a gang that it has left, nor to the one that it has joined.
func TestAPodThatLeavesItsGangWhileItHoldsRoomGivesItBack(t *testing.T) {
	s := openStore()
	startRound(t, s, 2)
	s.SetPod(mustertesting.MakePod("m0").UID("m0").Group("another").SchedulerName("muster").Requests("cpu", "1").Obj())
	assert.Equal(t, []types.UID{"m0"}, s.next(theGang).reject)
	woken(s)
	s.check()
	assert.Contains(t, woken(s), theGang, "it may have been on its way there")
	s.Unreserve(memberNamed("m0").Obj())
	assert.Empty(t, s.next(theGang).reject)
}

// A round of thousands of members takes as long as it takes, as long as they come.
func TestARoundThatGoesOnHasTime(t *testing.T) {
	s, fake := newTestStore()
	startRound(t, s, 3)
	permit := s.args.PermitTimeout.Duration
	fake.Step(permit - time.Second)
	s.Reserve(memberNamed("m1").Obj(), "node")
	_, wait, _ := s.Permit(memberNamed("m1").Obj())
	assert.Greater(t, wait, permit, "the Store ends the round, not the framework")
	fake.Step(permit - time.Second)
	s.next(theGang)
	assert.Equal(t, admitted, s.gangs[theGang].phase)
	fake.Step(time.Second)
	assert.ElementsMatch(t, []types.UID{"m0", "m1"}, s.next(theGang).reject, "the last has not come")
}
