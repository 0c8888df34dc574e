package gangs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// The tests below are of members whose binding fails after their gang was released.

func TestAMemberWhoseBindingFailsIsTriedAgainAtOnceAndFirst(t *testing.T) {
	tr, clock := newTestTracker(t)
	key := keyNamed("g")
	pods := gangOf(tr, "g", 3, 3)
	release(t, tr, pods)
	tr.SetPod(on(pods[0], "g-0"))

	failed := on(pods[1], "g-1")
	fail := func() {
		unreserve(tr, failed)
		unreserve(tr, failed) // a second time changes nothing
	}
	fail()
	assert.Empty(t, tr.Gate(pods[1]), "the gate is open to it")
	assert.Equal(t, []string{"g-1"}, namesOf(dispatch.NewDispatcher(tr).NextActions(key).Activate))
	order := tr.Order.OrderKey(pods[1], clock.Now())
	assert.Equal(t, gangs.RankPartial, order.Rank)
	assertChosen(t, tr, pods[1], state.Entry{}) // the gang is not decided again

	// Another gang that is decided in the meantime sees that the room is taken.
	other := gangOf(tr, "h", 1, 1)[0]
	require.Empty(t, tr.Gate(other))
	s := tr.Decisions.Snapshot(other)
	require.NotNil(t, s)
	assert.Equal(t, resources.List{corev1.ResourceCPU: 1000, corev1.ResourcePods: 1}, s.Problem.Held["g-1"])

	// Another binding fails, too; the gang is not rolled back.
	unreserve(tr, on(pods[2], "g-2"))
	assert.Empty(t, tr.Gate(pods[2]))
	assert.Empty(t, tr.Gate(pods[1]))

	// It fails again: the first time it was at once, now it backs off.
	for i, pod := range pods[1:] {
		require.Equal(t, isChosen, enter(tr, pod))
		result, _ := permit(tr, pod)
		require.Equal(t, []gangs.PermitResult{gangs.Wait, gangs.Allow}[i], result)
	}
	fail()
	assert.Equal(t, "the gang could not be placed and backs off", tr.Gate(pods[1]))
	assert.Equal(t, gang.Status{Phase: gang.Attempting, Reason: gang.BackOff, Until: clock.Now().Add(time.Second)}, statusOf(tr, key))
	assert.Empty(t, dispatch.NewDispatcher(tr).NextActions(key).Activate)
	clock.Step(time.Second)
	assert.Empty(t, tr.Gate(pods[1]))
	assert.Equal(t, []string{"g-1"}, namesOf(dispatch.NewDispatcher(tr).NextActions(key).Activate))

	// It finds no node any more: now the gang is decided like any gang, and it still goes first.
	require.Equal(t, isChosen, enter(tr, pods[1]))
	assert.True(t, tr.Fail(pods[1]))
	clock.Step(10 * time.Second)
	tr.SetPod(on(pods[2], "g-2"))
	assert.Empty(t, tr.Gate(pods[1]))
	assert.Equal(t, gangs.RankPartial, tr.Order.OrderKey(pods[1], clock.Now()).Rank)
	assert.Equal(t, isScout, enter(tr, pods[1]))
}

func TestTheQuotaOfAMemberWhoseBindingFailsStaysAssumed(t *testing.T) {
	tr := openTracker(t)
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "2").Obj())
	startAttempt(t, tr, 2)
	result, _ := permit(tr, memberNamed("m1").Obj())
	require.Equal(t, gangs.Allow, result)
	tr.SetPod(memberNamed("m0").Node("n").Obj())
	unreserve(tr, memberNamed("m1").Node("n").Obj())
	single := singleNamed("single", "q").Obj()
	assert.NotNil(t, tr.Quota.QuotaShortage(single), "nothing comes in between")
	assert.Nil(t, tr.Quota.QuotaShortage(memberNamed("m1").Obj()), "the member has its quota")
	result, _ = permit(tr, memberNamed("m1").Obj())
	assert.Equal(t, gangs.Allow, result)
	assert.EqualValues(t, 2000, tr.Quota.Ledger.Used("q")[corev1.ResourceCPU])
}

func TestABindingThatFailedIsForgottenWhenItsGangIsBoundAsAWhole(t *testing.T) {
	tr := openTracker(t)
	pods := gangOf(tr, "g", 2, 2)
	release(t, tr, pods)
	unreserve(tr, on(pods[1], "n"))
	require.Equal(t, isChosen, enter(tr, pods[1]))
	result, _ := permit(tr, pods[1])
	require.Equal(t, gangs.Allow, result)
	setPods(tr, on(pods[0], "n"), on(pods[1], "n"))
	require.Equal(t, gang.Running, phaseOf(tr, keyNamed("g")))

	// The next failure is the first again: the member is tried at once.
	tr.SetPod(deleting(on(pods[1], "n")))
	tr.DeletePod(deleting(on(pods[1], "n")))
	replacement := mustertesting.MakePod("new").UID("new").Group("g").SchedulerName("muster").Requests("cpu", "1").Obj()
	tr.SetPod(replacement)
	require.Empty(t, tr.Gate(replacement))
	begin(t, tr, replacement, nil)
	result, _ = permit(tr, replacement)
	require.Equal(t, gangs.Allow, result)
	unreserve(tr, on(replacement, "n"))
	assert.Empty(t, tr.Gate(replacement))
	assert.Equal(t, []string{"new"}, namesOf(dispatch.NewDispatcher(tr).NextActions(keyNamed("g")).Activate))
}

func TestAMemberThatIsPlacedAnewIsRolledBackWhenBoundOnesAreLost(t *testing.T) {
	for name, lose := range map[string]func(*gangs.Tracker, *corev1.Pod){
		"deleted":       func(tr *gangs.Tracker, pod *corev1.Pod) { tr.DeletePod(pod) },
		"being deleted": func(tr *gangs.Tracker, pod *corev1.Pod) { tr.SetPod(deleting(pod)) },
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			pods := gangOf(tr, "g", 3, 3)
			release(t, tr, pods)
			setPods(tr, on(pods[0], "g-0"), on(pods[1], "g-1"))
			unreserve(tr, on(pods[2], "g-2"))
			require.Equal(t, isChosen, enter(tr, pods[2]))

			// Before it has its room again, two that it needs go. The gang has no other pods, so the attempt cannot end well.
			lose(tr, on(pods[0], "g-0"))
			lose(tr, on(pods[1], "g-1"))
			assert.Nil(t, tr.Gangs[keyNamed("g")].Attempt)
			assert.Equal(t, isHeld, enter(tr, pods[2]))
		})
	}
}

// TestAGangIsDecidedAgainWhenABindingFailsAfterTheMinimumWasRaised shows that the member gives its room back. The random histories found
// that it took its room again, alone, and held it until the attempt expired.
func TestAGangIsDecidedAgainWhenABindingFailsAfterTheMinimumWasRaised(t *testing.T) {
	tr := openTracker(t)
	pods := gangOf(tr, "g", 1, 2)
	release(t, tr, pods[:1])
	tr.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").MinMember(2).Phase("Inqueue").Obj())
	unreserve(tr, on(pods[0], "g-0"))
	assert.Equal(t, gang.Ready, phaseOf(tr, keyNamed("g")))
	assert.Empty(t, tr.Gate(pods[0]))
	assert.Equal(t, isScout, enter(tr, pods[0]))
}

// TestAMemberThatIsBoundAfterAllEndsItsAttempt covers a binding that succeeded although its answer was lost. The random histories found
// that the member's room was then counted twice.
func TestAMemberThatIsBoundAfterAllEndsItsAttempt(t *testing.T) {
	tr := openTracker(t)
	pods := gangOf(tr, "g", 3, 3)
	release(t, tr, pods)
	unreserve(tr, on(pods[1], "g-1"))
	require.NotNil(t, tr.Gangs[keyNamed("g")].Attempt)
	tr.SetPod(on(pods[1], "g-1"))
	assert.Equal(t, gang.Running, phaseOf(tr, keyNamed("g")))
	assert.Nil(t, tr.Gangs[keyNamed("g")].Attempt)

	tr.DeletePod(pods[0])
	other := gangOf(tr, "h", 1, 1)[0]
	require.Empty(t, tr.Gate(other))
	s := tr.Decisions.Snapshot(other)
	require.NotNil(t, s)
	assert.Empty(t, s.Problem.Held["g-1"])
}

// TestAMemberGoesFirstThoughNoOtherIsBoundYet: they are being bound. Once it is tried it is like any other of its gang.
func TestAMemberGoesFirstThoughNoOtherIsBoundYet(t *testing.T) {
	tr, clock := newTestTracker(t)
	pods := gangOf(tr, "g", 2, 2)
	release(t, tr, pods)
	unreserve(tr, on(pods[0], "n"))
	require.Empty(t, tr.Gate(pods[0]))
	assert.Equal(t, gangs.RankPartial, tr.Order.OrderKey(pods[0], clock.Now()).Rank)
	require.Equal(t, isChosen, enter(tr, pods[0]))
	require.Empty(t, tr.Gate(pods[0]))
	assert.Equal(t, gangs.RankNormal, tr.Order.OrderKey(pods[0], clock.Now()).Rank)
}
