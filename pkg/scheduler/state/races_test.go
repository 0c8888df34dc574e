package state

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// The tests below are of what changes about a gang at a moment when nobody expects it: the news of its pods and of its
// PodGroup, the cycles of the scheduler and the waker are not in step.

// going is a pod that is being deleted.
func going(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(2000, 0)}
	return pod
}

// woken is whom the waker is asked about, and asks it no more.
func woken(s *Store) []Key {
	var keys []Key
	for s.waker.Len() > 0 {
		key, _ := s.waker.Get()
		keys = append(keys, key)
		s.waker.Done(key)
	}
	return keys
}

// breakGang has a gang of two found with one of them bound, in a queue that has room for both, and a pod that waits for quota
// because the other's is promised.
func breakGang(t *testing.T, s *Store) (waits *corev1.Pod) {
	t.Helper()
	s.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "2").Obj())
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	s.SetPod(memberNamed("bound").Node("node").Obj())
	s.SetPod(memberNamed("missing").Obj())
	waits = mustertesting.MakePod("single").UID("single").SchedulerName("muster").Requests("cpu", "1").QueueName("q").Obj()
	require.NotNil(t, s.QuotaShortage(waits))
	return waits
}

// TestWhatABrokenGangNoLongerLacksOthersMayHave: the random histories found that the promise outlived the PodGroup; and nobody
// was woken when it became smaller.
func TestWhatABrokenGangNoLongerLacksOthersMayHave(t *testing.T) {
	for name, heal := range map[string]func(*Store){
		"PodGroup deleted":     func(s *Store) { s.DeletePodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2)) },
		"minimum lowered":      func(s *Store) { s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1)) },
		"member being deleted": func(s *Store) { s.SetPod(going(memberNamed("missing").Obj())) },
		"queue left": func(s *Store) {
			left := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
			left.Spec.Queue = ""
			s.SetPodGroup(left)
		},
		"queue changed": func(s *Store) {
			moved := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
			moved.Spec.Queue = "other"
			s.SetPodGroup(moved)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore()
			single := breakGang(t, s)
			woken(s)
			heal(s)
			assert.Contains(t, woken(s), quotaKey)
			assert.Equal(t, []string{"single"}, namesOf(s.next(quotaKey).activate))
			assert.Nil(t, s.QuotaShortage(single))
			used, all := s.ledger.Totals("q")
			assert.Equal(t, used, all, "nothing is promised")
		})
	}
}

func TestTheQuotaOfABrokenGangOutlivesARoundThatFails(t *testing.T) {
	s := openStore()
	single := breakGang(t, s)
	missing := memberNamed("missing").Obj()
	require.Empty(t, s.Gate(missing))
	round := s.Judge(missing)
	require.NotNil(t, round)
	_, ok := s.Admit(round, nil)
	require.True(t, ok)
	s.Fail(missing)
	assert.NotNil(t, s.QuotaShortage(single), "the gang must be able to complete")
}

func TestTheSurplusOfAGangThatChangesQueueTriesTheNewOne(t *testing.T) {
	s := openStore()
	s.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "0").Obj())
	group := groupIn(schedulingv1beta1.PodGroupInqueue, 0)
	s.SetPodGroup(group)
	pod := memberNamed("m").Obj()
	require.Empty(t, s.Gate(pod))
	require.NotNil(t, s.QuotaShortage(pod))
	s.next(theGang)
	woken(s)
	group.Spec.Queue = "other"
	s.SetPodGroup(group)
	assert.Contains(t, woken(s), quotaKey)
	assert.Equal(t, []string{"m"}, namesOf(s.next(quotaKey).activate))
}

// TestTheQueueIsBehind: the random histories found that a pod which the scheduling queue had not heard to be deleted came back
// as a member, was chosen, and never came.
func TestTheQueueIsBehind(t *testing.T) {
	pod := memberNamed("m").Obj()
	for name, tc := range map[string]struct {
		news   func(*Store)
		reason string
	}{
		"of a pod that is gone":  {func(s *Store) { s.DeletePod(pod) }, terminating},
		"of a pod that is going": {func(s *Store) { s.SetPod(going(pod)) }, terminating},
		"of a pod that is bound": {func(s *Store) { s.SetPod(on(pod, "node")) }, alreadyBound},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore()
			s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			s.SetPod(memberNamed("other").Obj())
			require.Empty(t, s.Gate(pod))
			tc.news(s)
			g := s.gangs[theGang]
			before := g.Len()
			assert.Equal(t, tc.reason, s.Gate(pod))
			assert.Equal(t, before, g.Len())
			for _, m := range g.Waiting() {
				assert.NotEqual(t, pod.UID, m.UID)
			}
		})
	}
}

func TestAPodThatComesBackIsAMemberAgain(t *testing.T) {
	s := openStore()
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	pod := memberNamed("m").Obj()
	s.SetPod(pod)
	s.DeletePod(pod) // an informer that has to list anew may be told less than it knew
	s.SetPod(pod)
	assert.Empty(t, s.Gate(pod))
}

func TestTheStoreForgetsWhoWasDeletedLongAgo(t *testing.T) {
	now := time.Unix(1000, 0)
	var r recent
	assert.False(t, r.has("a"))
	r.note("a", now)
	r.note("b", now.Add(goneFor))
	r.note("c", now.Add(goneFor+1))
	assert.True(t, r.has("a"), "at least so long")
	assert.True(t, r.has("b"))
	r.note("d", now.Add(3*goneFor))
	assert.False(t, r.has("a"))
	assert.False(t, r.has("b"))
	assert.True(t, r.has("c"))
	r.forget("c")
	assert.False(t, r.has("c"))
}

func TestAMemberThatIsFoundBoundWhileItIsTriedKeepsItsCharge(t *testing.T) {
	s := openStore()
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	pod := memberNamed("m").Obj()
	require.Empty(t, s.Gate(pod))
	round := s.Judge(pod)
	_, ok := s.Admit(round, nil)
	require.True(t, ok)
	s.SetPod(on(pod, "node")) // an earlier binding got through, though its answer was lost
	s.Reserve(pod, "another")
	verdict, _, _ := s.Permit(pod)
	assert.Equal(t, Reject, verdict)
	s.Unreserve(on(pod, "another"))
	assert.Equal(t, int64(1000), s.ledger.Used("q")[corev1.ResourceCPU])
	assert.Empty(t, s.gangs[theGang].Waiting())
	assert.True(t, s.gangs[theGang].Seated())
}

// TestAPodThatIsFoundBoundWhileItIsBoundKeepsItsCharge: the binding got through and the watch tells of it, and then the request fails,
// of which the answer was lost.
func TestAPodThatIsFoundBoundWhileItIsBoundKeepsItsCharge(t *testing.T) {
	pod := func(name string) *mustertesting.PodWrapper {
		return mustertesting.MakePod(name).UID(name).SchedulerName("muster").Requests("cpu", "1").QueueName("q")
	}
	for name, single := range map[string]*corev1.Pod{
		"without a gang":    pod("p").Obj(),
		"of a native group": pod("p").NativeGroup("native").Obj(),
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore()
			s.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
			other := pod("other").Obj()
			require.Nil(t, s.QuotaShortage(single))
			s.Reserve(single, "node")
			s.SetPod(on(single, "node"))
			s.Unreserve(on(single, "node"))
			assert.EqualValues(t, 1000, s.ledger.Used("q")[corev1.ResourceCPU])
			assert.NotNil(t, s.QuotaShortage(other))

			s.DeletePod(on(single, "node"))
			assert.Nil(t, s.QuotaShortage(other))
			s.Reserve(single, "node") // it was being tried when it was deleted
			s.Unreserve(single)
			assert.Nil(t, s.QuotaShortage(other), "what nobody has seen bound is given back")
			assert.Empty(t, s.settled)
		})
	}
}

// TestNoMemberIsBoundOnRoomThatIsAboutToBeGivenBack: the waker has decided to reject those who hold room, as one of the minimum is gone. Before
// it does so the minimum is lowered to what they are.
func TestNoMemberIsBoundOnRoomThatIsAboutToBeGivenBack(t *testing.T) {
	for name, reservesFirst := range map[string]bool{"who reserved before": true, "who reserves after": false} {
		t.Run(name, func(t *testing.T) {
			s := openStore()
			startRound(t, s, 5)
			waiting := []*corev1.Pod{memberNamed("m0").Obj(), memberNamed("m1").Obj(), memberNamed("m2").Obj()}
			for _, pod := range waiting {
				s.Reserve(pod, "node")
				verdict, _, _ := s.Permit(pod)
				require.Equal(t, Wait, verdict)
			}
			inFlight := memberNamed("m4").Obj()
			require.Equal(t, Chosen, s.Enter(inFlight).Role)
			if reservesFirst {
				s.Reserve(inFlight, "node")
			}
			s.DeletePod(memberNamed("m3").Obj())
			require.Subset(t, s.next(theGang).reject, []types.UID{"m0", "m1", "m2"})
			s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 3))

			s.Reserve(inFlight, "node")
			verdict, _, _ := s.Permit(inFlight)
			assert.Equal(t, Reject, verdict)
			again := s.next(theGang)
			assert.Empty(t, again.allow)
			assert.Empty(t, again.activate)
			for _, pod := range append(waiting, inFlight) {
				s.Unreserve(pod)
			}
			require.Len(t, s.next(theGang).activate, 1, "it is judged anew")

			round := s.Judge(waiting[0])
			require.NotNil(t, round)
			_, ok := s.Admit(round, nil)
			require.True(t, ok)
			for i, pod := range waiting {
				s.Reserve(pod, "node")
				s.Reserve(pod, "node") // once for each plugin
				verdict, _, _ := s.Permit(pod)
				assert.Equal(t, i == 2, verdict == Allow)
			}
		})
	}
}

func TestAMemberIsNotBoundWithoutItsPodGroup(t *testing.T) {
	s := openStore()
	startRound(t, s, 2)
	last := memberNamed("m1").Obj()
	require.Equal(t, Chosen, s.Enter(last).Role)
	s.Reserve(last, "node")
	s.DeletePodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	verdict, _, _ := s.Permit(last)
	assert.Equal(t, Reject, verdict)
	s.Unreserve(last)
	assert.Equal(t, "m0", string(s.next(theGang).reject[0]), "nor are those that wait for it")
}

func TestSurplusThatStoodBackIsTriedThoughNothingElseHappens(t *testing.T) {
	s, clock := newTestStore()
	s.SetPodGroup(testGroup("small", 1))
	pods := testPods("small", 2)
	s.SetPod(on(pods[0], "node"))
	require.Empty(t, s.Gate(pods[1]))
	scout := gate(s, "big", 1, 1)[0]
	big := s.gangs[Key{Namespace: "ns", Name: "big"}]
	s.unpark(big) // the waker has come, and is gone
	for _, key := range woken(s) {
		s.next(key)
	}
	s.unpark(big)
	require.Equal(t, Held, s.Enter(pods[1]).Role)
	round := s.Judge(scout)
	s.Park(round, scout, "no room", scout, "NodeResourcesFit")
	require.Zero(t, s.waker.Len())

	clock.Step(yieldFor)
	require.Eventually(t, func() bool { return s.waker.Len() > 0 }, 10*time.Second, time.Millisecond)
	key, _ := s.waker.Get()
	assert.Equal(t, []string{pods[1].Name}, namesOf(s.next(key).activate))
}

// TestMembersOfARoundThatFailedComeWhenTheirGangIsSeatedAtOnce: the random histories found that a gang which the waker had last
// seen seated, and sees seated again, had lost a round in between, and its members waited for ever.
func TestMembersOfARoundThatFailedComeWhenTheirGangIsSeatedAtOnce(t *testing.T) {
	for name, lose := range map[string]func(*Store, *corev1.Pod, *Round){
		"let go": func(s *Store, pod *corev1.Pod, round *Round) {
			_, ok := s.Admit(round, nil)
			require.True(t, ok)
			s.Reserve(pod, "node")
			s.Unreserve(pod)
		},
		"parked": func(s *Store, pod *corev1.Pod, round *Round) {
			s.Park(round, pod, "no room", pod, "NodeResourcesFit")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore()
			s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
			pod := memberNamed("m").Obj()
			require.Empty(t, s.Gate(pod))
			s.next(theGang)
			require.Empty(t, s.next(theGang).activate)

			s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
			require.Equal(t, Scout, s.Enter(pod).Role)
			lose(s, pod, s.Judge(pod))
			s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
			assert.Equal(t, []string{"m"}, namesOf(s.next(theGang).activate))
		})
	}
}

func TestAPodThatNamesAnotherGangLeavesItsOld(t *testing.T) {
	s := openStore()
	startRound(t, s, 2)
	other := memberNamed("m1").Group("other").Obj()
	s.SetPod(other)
	assert.Equal(t, 1, s.gangs[theGang].Len())
	assert.Equal(t, idle, s.gangs[theGang].phase, "the round cannot do without it")
	assert.Equal(t, noPodGroup, s.Gate(other))
	none := memberNamed("m1").Obj()
	none.Annotations = nil
	s.SetPod(none)
	assert.Empty(t, s.Gate(none))
	assert.NotContains(t, s.gangs, Key{Namespace: metav1.NamespaceDefault, Name: "other"})
}

func TestAMemberWhoseBindingFailsTakesItsRoomThoughItIsSetAside(t *testing.T) {
	s, _ := newTestStore()
	pods := gate(s, "g", 2, 2)
	scout := gate(s, "big", 1, 1)[0]
	round := s.Judge(scout)
	s.SetAside(round, map[types.UID]string{scout.UID: "g-1"}, nil)
	release(t, s, pods) // behind what is set aside
	s.Unreserve(on(pods[1], "g-1"))
	require.Equal(t, Chosen, s.Enter(pods[1]).Role)
	assert.Nil(t, s.AsideFrom(pods[1]))
}

// TestAPodThatWasCreatedAnewUnseenTakesTheOldOnesPlace: after a lost watch an informer tells of both in one update.
func TestAPodThatWasCreatedAnewUnseenTakesTheOldOnesPlace(t *testing.T) {
	s, _ := newTestStore()
	s.SetPodGroup(testGroup("g", 1))
	old := on(testPods("g", 1)[0], "n")
	s.SetPod(old)
	again := testPods("g", 1)[0]
	again.UID = "another"
	handlerFor(s.SetPod, s.DeletePod).OnUpdate(old, again)
	g := s.gangs[Key{Namespace: "ns", Name: "g"}]
	assert.Equal(t, 1, g.Len())
	assert.False(t, g.Seated())
}

// TestAGangThatWaitsIsJudgedWhenAPodJoins: the gate is closed to the pod behind the scout. It is for the waker to call that one, which may
// be parked or asleep.
func TestAGangThatWaitsIsJudgedWhenAPodJoins(t *testing.T) {
	for name, before := range map[string]func(*Store){
		"one more":            func(*Store) {},
		"for one that's gone": func(s *Store) { s.DeletePod(memberNamed("b").Obj()) },
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := newTestStore()
			s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			s.SetPod(memberNamed("a").Obj())
			s.SetPod(memberNamed("b").Obj())
			scout := memberNamed("a").Obj()
			require.Empty(t, s.Gate(scout))
			s.Park(s.Judge(scout), scout, "no room", scout, "NodeResourcesFit")
			before(s)
			for _, key := range woken(s) {
				require.Empty(t, s.next(key).activate)
			}

			s.SetPod(memberNamed("c").Obj())
			require.Equal(t, behindScout, s.Gate(memberNamed("c").Obj()))
			clock.Step(judgePause)
			require.Eventually(t, func() bool { return s.waker.Len() > 0 }, 10*time.Second, time.Millisecond)
			assert.Equal(t, []string{"a"}, namesOf(s.next(theGang).activate))
		})
	}
}

// TestAGangBacksOffForNoLongerThanItMust: of several times for one gang the waker keeps the first only.
func TestAGangBacksOffForNoLongerThanItMust(t *testing.T) {
	s, clock := newTestStore()
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	s.SetPod(memberNamed("a").Obj())
	g := s.gangs[theGang]
	woken(s)
	g.notBefore = clock.Now().Add(time.Second)
	require.Empty(t, s.next(theGang).activate, "it is asked about for another reason")
	clock.Step(time.Second)
	require.Eventually(t, func() bool { return s.waker.Len() > 0 }, 10*time.Second, time.Millisecond)
	assert.Equal(t, []string{"a"}, namesOf(s.next(theGang).activate))
}

func TestARoundEndsInTimeWhateverElseTheWakerWasToComeFor(t *testing.T) {
	s, clock := newTestStore()
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	s.SetPod(memberNamed("a").Obj())
	scout := memberNamed("a").Obj()
	require.Empty(t, s.Gate(scout))
	woken(s)
	s.waker.AddAfter(theGang, time.Millisecond)
	_, fits := s.Admit(s.Judge(scout), nil)
	require.True(t, fits)
	woken(s)
	s.waker.AddAfter(Key{Name: "probe"}, time.Microsecond) // when it comes the waker has taken in what was asked of it before
	clock.Step(time.Microsecond)
	require.Eventually(t, func() bool { return s.waker.Len() > 0 }, 10*time.Second, time.Millisecond)
	woken(s)
	for _, wait := range []time.Duration{time.Millisecond, s.args.PermitTimeout.Duration} {
		require.Equal(t, admitted, s.gangs[theGang].phase)
		clock.Step(wait)
		require.Eventually(t, func() bool { return s.waker.Len() > 0 }, 10*time.Second, time.Millisecond)
		for _, key := range woken(s) {
			s.next(key)
		}
	}
	assert.Equal(t, idle, s.gangs[theGang].phase)
}

// TestAGangThatWasJudgedForItsReportIsCalledWithTheOthers: it would find the room taken by those that come after it.
func TestAGangThatWasJudgedForItsReportIsCalledWithTheOthers(t *testing.T) {
	s, clock := newTestStore()
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	scout := memberNamed("a").Obj()
	s.SetPod(scout)
	require.Empty(t, s.Gate(scout))
	doesNotFit := func() { s.Park(s.Judge(scout), scout, "no room", scout, "NodeResourcesFit") }
	calledWithin := func(d time.Duration) bool {
		woken(s)
		s.Help(scout)
		probe := Key{Name: "probe"}
		s.waker.AddAfter(probe, d)
		clock.Step(d)
		var called []Key
		require.Eventually(t, func() bool {
			called = append(called, woken(s)...)
			return slices.Contains(called, probe)
		}, 10*time.Second, time.Millisecond)
		return slices.Contains(called, theGang)
	}
	doesNotFit()
	clock.Step(reportPause)
	s.judgeUnasked(s.gangs[theGang])
	doesNotFit()
	require.True(t, calledWithin(2*wakeDelay))
	doesNotFit()
	assert.False(t, calledWithin(2*wakeDelay), "on a busy cluster every pod that goes is an event")
	clock.Step(judgePause)
	require.Eventually(t, func() bool { return slices.Contains(woken(s), theGang) }, 10*time.Second, time.Millisecond)
}
