package state

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// The tests below are of Jobs that are restarted: what holds for one incarnation of a gang does not for the next.

const jobVersion = "volcano.sh/job-version"

func memberOf(version int, name string) *mustertesting.PodWrapper {
	return memberNamed(name).Annotation(jobVersion, strconv.Itoa(version))
}

// ranAs is the PodGroup of a gang whose incarnation was bound as a whole, and of which some members have succeeded.
func ranAs(version, succeeded, minMember int32) *schedulingv1beta1.PodGroup {
	pg := groupIn(schedulingv1beta1.PodGroupInqueue, minMember)
	pg.Status.JobVersion, pg.Status.Succeeded = &version, succeeded
	pg.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{Type: schedulingv1beta1.PodGroupScheduled, Status: corev1.ConditionTrue}}
	return pg
}

func TestWhatAnEarlierIncarnationHasAchievedDoesNotCount(t *testing.T) {
	s := openStore()
	s.SetPodGroup(ranAs(0, 2, 2))
	first := memberOf(1, "first").Obj()
	s.SetPod(first)
	assert.Equal(t, notComplete, s.Gate(first), "the two that have succeeded are of the incarnation before")
	s.SetPodGroup(ranAs(1, 1, 2))
	assert.Empty(t, s.Gate(first), "one of its own incarnation has")
}

func TestAnIncarnationThatNeverReachedItsMinimumIsTakenDown(t *testing.T) {
	for name, c := range map[string]struct {
		bound, now int
		taken      int
	}{
		"the one before was whole": {bound: 0, now: 1, taken: 1},
		"this one was whole":       {bound: 1, now: 1, taken: 0},
		"the first, and it was":    {bound: 0, now: 0, taken: 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, groupFirst := range []bool{true, false} {
				s, clock := newTestStore()
				pg := ranAs(int32(c.bound), 0, 2)
				if groupFirst {
					s.SetPodGroup(pg)
				}
				s.SetPod(on(memberOf(c.now, "m").Obj(), "node"))
				s.SetPodGroup(pg)
				s.check()
				clock.Step(2 * time.Hour)
				evict, _ := s.check()
				assert.Len(t, evict, c.taken, "the PodGroup is seen first: %v", groupFirst)
			}
		})
	}
}

// A status that a release before wrote is about whatever there is.
func TestAStatusThatDoesNotSayWhichIncarnationIsBelieved(t *testing.T) {
	for _, phase := range []schedulingv1beta1.PodGroupPhase{schedulingv1beta1.PodGroupInqueue, schedulingv1beta1.PodGroupRunning} {
		s, fake := newTestStore()
		pg := ranAs(0, 1, 3)
		pg.Status.Phase, pg.Status.JobVersion = phase, nil
		s.SetPodGroup(pg)
		s.SetPod(on(memberOf(3, "m").Obj(), "node"))
		waiting := memberOf(3, "waiting").Obj()
		assert.Empty(t, s.Gate(waiting), "with the one that has succeeded there are enough")
		s.check()
		fake.Step(2 * time.Hour)
		evict, _ := s.check()
		assert.Empty(t, evict, "it has been whole")
	}
}

func TestThePhaseOfPodsThatGoDoesNotVouchForThoseThatCome(t *testing.T) {
	s, clock := newTestStore()
	pg := groupIn(schedulingv1beta1.PodGroupRunning, 2)
	pg.Status.JobVersion = ptr.To[int32](1) // the Job has begun anew, the phase is that of its old pods
	s.SetPodGroup(pg)
	s.SetPod(on(memberOf(1, "m").Obj(), "node"))
	s.check()
	clock.Step(2 * time.Hour)
	evict, _ := s.check()
	assert.Len(t, evict, 1)
}

// A gang that waits for one more is complete as soon as the status says that one has succeeded; until then nobody can tell.
func TestAGangWaitsToHearHowAMemberHasEnded(t *testing.T) {
	s, fake := newTestStore()
	pg := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
	s.SetPodGroup(pg)
	ends, stays, surplus := on(memberNamed("ends").Obj(), "node"), on(memberNamed("stays").Obj(), "node"), memberNamed("surplus").Obj()
	for _, pod := range []*corev1.Pod{ends, stays, surplus} {
		s.SetPod(pod)
	}
	woken(s)
	s.DeletePod(ends) // as its watch shows a pod that has succeeded
	require.Equal(t, notHeard, s.Gate(surplus))
	assert.Empty(t, s.next(theGang).activate)

	told := pg.DeepCopy()
	told.Status.Succeeded = 1
	s.SetPodGroup(told)
	assert.Equal(t, []string{"surplus"}, namesOf(s.next(theGang).activate))
	assert.Empty(t, s.Gate(surplus))
	assert.Equal(t, Surplus, s.Enter(surplus).Role, "the minimum has what it needs")

	s.DeletePod(stays) // and nobody says anything
	require.Equal(t, notHeard, s.Gate(surplus))
	fake.Step(hearFor)
	assert.Equal(t, []string{"surplus"}, namesOf(s.next(theGang).activate))
	assert.Equal(t, Scout, s.Enter(surplus).Role, "it takes the place of the member that is gone")
}

func TestAMemberThatWasToldToGoIsReplacedAtOnce(t *testing.T) {
	s := openStore()
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	goes, stays, comes := on(memberNamed("goes").Obj(), "node"), on(memberNamed("stays").Obj(), "node"), memberNamed("comes").Obj()
	for _, pod := range []*corev1.Pod{goes, stays} {
		s.SetPod(pod)
	}
	s.SetPod(going(goes))
	s.DeletePod(going(goes))
	assert.Empty(t, s.Gate(comes))
}

// Two of three are bound and the third is being bound, which may take minutes: its volume is made. That is no reason to keep the
// replacement of one that is lost.
func TestAMemberThatIsBeingBoundKeepsNobodyWaiting(t *testing.T) {
	s := openStore()
	startRound(t, s, 3)
	var pods []*corev1.Pod
	for i := range 3 {
		pods = append(pods, memberNamed(fmt.Sprint("m", i)).Obj())
	}
	for _, pod := range pods[1:] {
		s.Reserve(pod, "node")
	}
	verdict, _, released := s.Permit(pods[2])
	require.Equal(t, Allow, verdict)
	require.Len(t, released, 3)
	s.SetPod(on(pods[0], "node"))
	s.SetPod(on(pods[1], "node"))
	s.SetPod(going(on(pods[0], "node")))
	s.DeletePod(going(on(pods[0], "node")))

	replacement := memberNamed("replacement").Obj()
	s.SetPod(replacement)
	require.Empty(t, s.Gate(replacement))
	d := s.next(theGang)
	assert.Empty(t, d.reject, "what is being bound keeps its room")
	round := s.Judge(replacement)
	require.NotNil(t, round)
	assert.Len(t, round.Members, 1)
	_, ok := s.Admit(round, nil)
	require.True(t, ok)
	s.Reserve(replacement, "node")
	verdict, _, _ = s.Permit(replacement)
	assert.Equal(t, Allow, verdict)
}

// What becomes of a pod of the run before, which is still being bound, is nothing to the round of the run that follows.
func TestAMemberOfAnEarlierIncarnationEndsNoRound(t *testing.T) {
	s := openStore()
	startRound(t, s, 1)
	old := memberNamed("m0").Obj()
	verdict, _, _ := s.Permit(old)
	require.Equal(t, Allow, verdict)
	pods := []*corev1.Pod{memberOf(1, "n0").Obj(), memberOf(1, "n1").Obj()}
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	for _, pod := range pods {
		s.SetPod(pod)
	}
	require.Empty(t, s.Gate(pods[0]), "it holds nobody up either")
	_, ok := s.Admit(s.Judge(pods[0]), nil)
	require.True(t, ok)
	s.Reserve(pods[0], "node")
	s.SetPod(going(old))
	s.Unreserve(old)
	s.DeletePod(going(old))
	assert.Equal(t, admitted, s.gangs[theGang].phase)
	assert.Zero(t, s.gangs[theGang].failures)
}

// A member may be let go before it is in Permit's waiting room, so the net does it again; unless the minimum is not there any more.
func TestWhoWasLetGoTooEarlyIsLetGoAgainWhileTheMinimumIsThere(t *testing.T) {
	for name, tc := range map[string]struct {
		lost   bool
		allow  []types.UID
		reject []types.UID
	}{
		"the minimum is there": {false, []types.UID{"m0", "m1"}, nil},
		"it is not":            {true, nil, []types.UID{"m1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore()
			startRound(t, s, 2)
			s.Reserve(memberNamed("m1").Obj(), "node")
			_, _, released := s.Permit(memberNamed("m1").Obj())
			require.Len(t, released, 2)
			if tc.lost {
				s.SetPod(going(memberNamed("m0").Obj()))
				s.Unreserve(memberNamed("m0").Obj())
				s.DeletePod(going(memberNamed("m0").Obj()))
			}
			s.check()
			d := s.next(theGang)
			assert.ElementsMatch(t, tc.allow, d.allow)
			assert.ElementsMatch(t, tc.reject, d.reject)
		})
	}
}
