package gangs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// refusedGang is a gang of one pod in queue q. It was refused for lack of quota or room, and nothing has woken it since.
func refusedGang(t *testing.T, tr *gangs.Tracker, lacks gang.WaitReason) *gang.Group {
	t.Helper()
	key := keyNamed("other")
	tr.SetPodGroup(mustertesting.MakePodGroup("other").UID("other").Queue("q").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	pod := mustertesting.MakePod("o").UID("o").Group("other").SchedulerName("muster").Requests("cpu", "1").Obj()
	tr.SetPod(pod)
	s := tr.Decisions.Snapshot(pod)
	require.NotNil(t, s)
	require.Equal(t, lacks == gang.Quota, s.Lacks != nil)
	_, ok := tr.Decisions.Commit(s, no(s, "why", pod, "NodeResourcesFit"))
	require.True(t, ok)
	require.False(t, isWoken(tr.Gangs[key]))
	return tr.Gangs[key]
}

// TestTheEndOfAnAttemptIsPassedOn: the attempt holds all quota of the queue, and room on nodes. It fails, as a member finds no node.
func TestTheEndOfAnAttemptIsPassedOn(t *testing.T) {
	begin := func(t *testing.T, cpus string) (*gangs.Tracker, func()) {
		tr := openTracker(t)
		tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", cpus).Obj())
		startAttempt(t, tr, 2)
		return tr, func() {
			tr.Gangs[theGang].Attempt.Certain = false // it backs off at once
			tr.Fail(memberNamed("m1").Obj())
			require.Nil(t, tr.Gangs[theGang].Attempt)
		}
	}
	t.Run("its quota wakes a gang that lacks quota", func(t *testing.T) {
		tr, fail := begin(t, "2")
		waits := refusedGang(t, tr, gang.Quota)
		fail()
		assert.True(t, isWoken(waits))
	})
	t.Run("its room wakes a gang that may fit with it", func(t *testing.T) {
		tr, fail := begin(t, "3")
		waits := refusedGang(t, tr, gang.Room)
		tr.WaitList.Held.Gangs.Insert(waits.Key)
		fail()
		assert.True(t, isWoken(waits))
	})
	t.Run("it is reported", func(t *testing.T) {
		tr, fail := begin(t, "2")
		tr.Gangs[theGang].Reporting = false
		fail()
		assert.True(t, tr.Gangs[theGang].Reporting)
	})
	t.Run("its reservation of quota counts again", func(t *testing.T) {
		tr, fail := begin(t, "2")
		book, now := tr.WaitList.Book, time.Unix(1000, 0)
		book.SetBounds(reservations.Bounds{Age: time.Minute})
		claim := quota.Claim{Queue: "q", Want: resources.List{corev1.ResourceCPU: 2000}}
		book.WaitForQuota(theGang, reservations.Rank{Queue: "q"}, claim, nil, false, now)
		book.Tick(now.Add(time.Hour))
		claims := func() []quota.Claim { return book.Claims(keyNamed("other"), 0, false) }
		require.Len(t, claims(), 1)
		book.Attempts(theGang, true)
		require.Empty(t, claims(), "the attempt has the quota assumed")
		fail()
		assert.Len(t, claims(), 1)
	})
	t.Run("it is looked at when the pause is over", func(t *testing.T) {
		tr, clock := newTestTracker(t)
		startAttempt(t, tr, 2)
		tr.Gangs[theGang].Attempt.Certain = false
		tr.Fail(memberNamed("m1").Obj())
		unreserve(tr, memberNamed("m0").Obj())
		require.Equal(t, gang.BackingOff, phaseOf(tr, theGang))
		dispatch.NewDispatcher(tr).NextActions(theGang)
		toLookAt(tr)
		clock.Step(testArgs.InitialBackoff.Duration)
		assert.Contains(t, lookAgain(t, tr), theGang)
	})
}

// TestTheEndOfASeatIsPassedOn: pods that must leave its room alone are tried, and claims let surplus come again.
func TestTheEndOfASeatIsPassedOn(t *testing.T) {
	tr, clock, waiting, low := evicting(t)
	evictAll(t, tr, waiting, low)
	blocked := singleNamed("blocked", "q").Priority(-1).Obj()
	tr.WaitList.Held.Pods[blocked.UID] = blocked
	freed := tr.WaitList.Held.Freed
	toLookAt(tr)
	clock.Step(time.Hour)
	dispatch.NewDispatcher(tr).NextActions(theGang)
	require.Nil(t, tr.Gangs[theGang].Attempt, "the victims have not gone in time")
	assert.Contains(t, toLookAt(tr), state.BlockedKey)
	assert.Greater(t, tr.WaitList.Held.Freed, freed)
}

func TestADroppedClaimLetsSurplusComeAgain(t *testing.T) {
	tr, _, _ := trackerWithGang(t, 2, 3)
	tr.Victims.ClaimVictims("a", []types.UID{"g0", "g1", "g2"})
	tr.Gangs[theGang].SurplusOpen = true
	toLookAt(tr)
	tr.Victims.DropClaims("a")
	assert.Contains(t, toLookAt(tr), theGang)
	assert.False(t, tr.Gangs[theGang].SurplusOpen, "its waiting members are activated")
}

// TestAGangIsWokenOnceForWhatItLacked: it waited for quota, and lacks room now. Quota does not help it any more.
func TestAGangIsWokenOnceForWhatItLacked(t *testing.T) {
	tr := openTracker(t)
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
	single := on(singleNamed("single", "q").Obj(), "n")
	tr.SetPod(single)
	waits := refusedGang(t, tr, gang.Quota)
	tr.DeletePod(single)
	require.True(t, isWoken(waits))
	refusedGang(t, tr, gang.Room)
	tr.Apply(nil, gang.Only(gang.QuotaFreed))
	assert.False(t, isWoken(waits))
}

// TestAGangThatRunsLeavesTheBook: another scheduler has bound its minimum while it waited for room.
func TestAGangThatRunsLeavesTheBook(t *testing.T) {
	tr := openTracker(t)
	waits := refusedGang(t, tr, gang.Room)
	tr.WaitList.Book.ReserveNodes(waits.Key, reservations.Choice{}, time.Unix(1000, 0))
	require.NotNil(t, tr.WaitList.Book.ReservedFor(waits.Key))
	tr.SetPod(onByHand(waits.Waiting()[0].Pod, "n"))
	require.Equal(t, gang.Running, phaseOf(tr, waits.Key))
	assert.Nil(t, tr.WaitList.Book.ReservedFor(waits.Key))
}
