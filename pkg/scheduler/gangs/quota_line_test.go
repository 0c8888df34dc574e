package gangs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	clocktesting "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// quotaTest is a tracker with a queue org of 10 cores. Its children are a, with 6 cores, and b, without a limit. Another queue stands
// beside them. A gang may be bypassed once, or wait for a minute.
type quotaTest struct {
	*testing.T
	*gangs.Tracker
	clock *clocktesting.FakeClock
	next  int
}

func newQuotaTest(t *testing.T) *quotaTest {
	t.Helper()
	tr, clock := newTestTracker(t)
	args := testArgs
	args.MaxOvertakes, args.MaxOvertakeTime = 1, metav1.Duration{Duration: time.Minute}
	require.NoError(t, tr.Configure("muster", args))
	tr.SetQueue(mustertesting.MakeQueue("org").Capability("cpu", "10").Obj())
	tr.SetQueue(mustertesting.MakeQueue("a").Parent("org").Capability("cpu", "6").Obj())
	tr.SetQueue(mustertesting.MakeQueue("b").Parent("org").Obj())
	tr.SetQueue(mustertesting.MakeQueue("other").Capability("cpu", "6").Obj())
	return &quotaTest{T: t, Tracker: tr, clock: clock}
}

// gang makes a gang of pods of one core.
func (q *quotaTest) gang(name, queue string, size int) *gang.Group {
	q.Helper()
	q.clock.Step(time.Second)
	q.SetPodGroup(mustertesting.MakePodGroup(name).UID(name).Queue(queue).MinMember(int32(size)).
		Phase(schedulingv1beta1.PodGroupInqueue).Created(q.clock.Now()).Obj())
	for i := range size {
		q.SetPod(mustertesting.MakePod(fmt.Sprint(name, i)).UID(fmt.Sprint(name, i)).Group(name).SchedulerName("muster").Requests("cpu", "1").Obj())
	}
	return q.Gangs[keyNamed(name)]
}

// single is a pod without a gang that names a queue.
func (q *quotaTest) single(queue, requested, amount string, priority int32) *corev1.Pod {
	q.next++
	name := fmt.Sprint("single", q.next)
	pod := mustertesting.MakePod(name).UID(name).QueueName(queue).SchedulerName("muster").Requests(requested, amount).Priority(priority).Obj()
	pod.CreationTimestamp = metav1.NewTime(q.clock.Now())
	return pod
}

// start has a pod without a gang start if there is quota for it.
func (q *quotaTest) start(pod *corev1.Pod) bool {
	if q.Quota.QuotaShortage(pod) != nil {
		return false
	}
	result, _ := permit(q.Tracker, pod)
	require.Equal(q, gangs.Allow, result)
	return true
}

// decide has a gang decided; if it has its quota, there is no room for it. change may change the decision.
func (q *quotaTest) decide(g *gang.Group, change ...func(*placement.Decision)) *gangs.Snapshot {
	q.Helper()
	if g.Refusal != nil {
		g.Refusal.Woken = true
	}
	scout := g.Waiting()[0].Pod
	require.Empty(q, q.Gate(scout))
	s := q.Decisions.Snapshot(scout)
	require.NotNil(q, s)
	d := no(s, "why", scout, "Capacity")
	for _, change := range change {
		change(d)
	}
	_, ok := q.Decisions.Commit(s, d)
	require.True(q, ok)
	return s
}

// isReserved says whether quota is reserved for a gang.
func (q *quotaTest) isReserved(g *gang.Group) bool {
	return q.WaitList.Book.StandingOf(g.Key, q.clock.Now()).QuotaReserved
}

// isWoken says whether a gang is about to be decided again.
func isWoken(g *gang.Group) bool { return g.Refusal == nil || g.Refusal.Woken }

// waitLong has a gang decided that lacks quota, and bypassed by the start of a pod.
func (q *quotaTest) waitLong(g *gang.Group) {
	q.Helper()
	require.NotNil(q, q.decide(g).Lacks)
	q.clock.Step(time.Second)
	require.True(q, q.start(q.single(g.PodGroup.Account, "cpu", "1", 0)))
	require.True(q, q.isReserved(g))
}

func TestReservedQuotaIsLeftToItsGang(t *testing.T) {
	for name, c := range map[string]struct {
		queue, resource string
		priority        int32
		may             bool
	}{
		"equal priority":                 {"a", "cpu", 0, false},
		"lower priority":                 {"a", "cpu", -1, false},
		"higher priority":                {"a", "cpu", 1, true},
		"system-critical":                {"a", "cpu", scheduling.SystemCriticalPriority, true},
		"another resource":               {"a", "memory", 0, true},
		"a sibling, within what a lacks": {"b", "cpu", 0, true},
		"a queue that it has no part in": {"other", "cpu", 0, true},
		"no queue":                       {"", "cpu", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQuotaTest(t)
			require.True(t, q.start(q.single("a", "cpu", "2", 0)))
			q.waitLong(q.gang("big", "a", 6))
			shortage := q.Quota.QuotaShortage(q.single(c.queue, c.resource, "1", c.priority))
			assert.Equal(t, c.may, shortage == nil)
			// The gang waits for what its own queue uses. So of the 7 that the org has free, all are for other queues.
			assert.Nil(t, q.Quota.QuotaShortage(q.single("b", "cpu", "7", 0)))
			assert.NotNil(t, q.Quota.QuotaShortage(q.single("b", "cpu", "8", 0)))
		})
	}
}

// TestQuotaIsReservedAgainstTheQueuesThatBypass: a gang of queue a lacks quota of the org, which b uses, too.
func TestQuotaIsReservedAgainstTheQueuesThatBypass(t *testing.T) {
	for name, c := range map[string]struct {
		bypasses string
		after    time.Duration
		reserves bool
	}{
		"its own queue":                   {"a", 0, false},
		"another queue":                   {"b", 0, true},
		"its own queue, and it is old":    {"a", time.Minute, true},
		"a queue that it has no part in":  {"other", 0, false},
		"none, and it waits long already": {"", time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQuotaTest(t)
			require.True(t, q.start(q.single("b", "cpu", "7", 0)))
			big := q.gang("big", "a", 5)
			require.Equal(t, "org", q.decide(big).Lacks.Queue)
			if c.bypasses != "" {
				require.True(t, q.start(q.single(c.bypasses, "cpu", "1", 0)))
			}
			q.clock.Step(c.after)
			dispatch.NewDispatcher(q.Tracker).Tick()
			assert.Equal(t, c.reserves, q.Quota.QuotaShortage(q.single("b", "cpu", "1", 0)) != nil)
			assert.Equal(t, c.bypasses == "a" || c.reserves, q.isReserved(big))
		})
	}
}

func TestWhatStoodBackIsWokenWhenQuotaIsReservedNoMore(t *testing.T) {
	for name, end := range map[string]func(q *quotaTest, g *gang.Group){
		"its PodGroup is deleted": func(q *quotaTest, _ *gang.Group) {
			q.DeletePodGroup(mustertesting.MakePodGroup("big").UID("big").Obj())
		},
		"a member is deleted":      func(q *quotaTest, g *gang.Group) { q.DeletePod(g.Members()[0].Pod) },
		"it goes to another queue": func(q *quotaTest, _ *gang.Group) { q.setBig("other", schedulingv1beta1.PodGroupInqueue) },
		"its queue does not admit it any more": func(q *quotaTest, _ *gang.Group) {
			q.setBig("a", schedulingv1beta1.PodGroupPending)
		},
		"the capability is lowered below what it asks for": func(q *quotaTest, g *gang.Group) {
			q.SetQueue(mustertesting.MakeQueue("a").Parent("org").Capability("cpu", "5").Obj())
			require.True(q, q.decide(g).ExceedsCapability)
		},
		"its turn failed": func(q *quotaTest, _ *gang.Group) {
			q.clock.Step(4 * time.Minute)
			dispatch.NewDispatcher(q.Tracker).Tick()
		},
		"no nodes are as large": func(q *quotaTest, g *gang.Group) {
			q.DeletePod(mustertesting.MakePod("single1").UID("single1").Obj())
			q.DeletePod(mustertesting.MakePod("single2").UID("single2").Obj())
			require.Nil(q, q.decide(g, func(d *placement.Decision) { d.TooLarge = true }).Lacks)
		},
		"there are no places for it": func(q *quotaTest, g *gang.Group) {
			q.DeletePod(mustertesting.MakePod("single1").UID("single1").Obj())
			q.DeletePod(mustertesting.MakePod("single2").UID("single2").Obj())
			require.Nil(q, q.decide(g, func(d *placement.Decision) { d.NoPlaces = true }).Lacks)
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQuotaTest(t)
			require.True(t, q.start(q.single("a", "cpu", "1", 0)))
			big := q.gang("big", "a", 6)
			q.waitLong(big)
			small, single := q.gang("small", "a", 1), q.single("a", "cpu", "1", 0)
			require.NotNil(t, q.decide(small).Lacks)
			require.NotNil(t, q.Quota.QuotaShortage(single))
			toLookAt(q.Tracker)
			end(q, big)
			assert.False(t, q.isReserved(big))
			assert.True(t, isWoken(small), "the gang is decided again")
			assert.Contains(t, toLookAt(q.Tracker), state.QuotaKey)
			assert.Equal(t, []string{single.Name}, namesOf(dispatch.NewDispatcher(q.Tracker).NextActions(state.QuotaKey).Activate), "the pod is activated")
			assert.Nil(t, q.decide(small).Lacks)
		})
	}
}

// setBig changes the PodGroup of the gang big.
func (q *quotaTest) setBig(queue string, phase schedulingv1beta1.PodGroupPhase) {
	q.SetPodGroup(mustertesting.MakePodGroup("big").UID("big").Queue(queue).MinMember(6).Phase(phase).Obj())
}

func TestAGangThatAsksForMoreThanTheCapabilityReservesNothing(t *testing.T) {
	q := newQuotaTest(t)
	huge := q.gang("huge", "a", 7)
	require.True(t, q.decide(huge).ExceedsCapability)
	q.clock.Step(time.Hour)
	for range 6 {
		require.True(t, q.start(q.single("a", "cpu", "1", 0)))
		dispatch.NewDispatcher(q.Tracker).Tick()
		q.decide(huge)
		assert.False(t, q.isReserved(huge))
	}
	// The one behind it has its turn; it has its own when the capability is raised.
	big := q.gang("big", "a", 3)
	require.NotNil(t, q.decide(big).Lacks)
	q.clock.Step(time.Minute)
	dispatch.NewDispatcher(q.Tracker).Tick()
	assert.True(t, q.isReserved(big))
	q.SetQueue(mustertesting.MakeQueue("a").Parent("org").Capability("cpu", "8").Obj())
	assert.True(t, isWoken(huge))
	require.False(t, q.decide(huge).ExceedsCapability)
	assert.True(t, q.isReserved(huge))
	assert.False(t, q.isReserved(big))
}

func TestQuotaIsReservedForTwoGangsBelowOneParentInOrder(t *testing.T) {
	q := newQuotaTest(t)
	running := []*corev1.Pod{q.single("a", "cpu", "3", 0), q.single("b", "cpu", "4", 0)}
	for _, pod := range running {
		require.True(t, q.start(pod))
	}
	older, younger := q.gang("older", "b", 6), q.gang("younger", "a", 6)
	require.NotNil(t, q.decide(older).Lacks)
	require.NotNil(t, q.decide(younger).Lacks)
	q.clock.Step(time.Minute)
	dispatch.NewDispatcher(q.Tracker).Tick()
	require.True(t, q.isReserved(older) && q.isReserved(younger))
	assert.NotNil(t, q.Quota.QuotaShortage(q.single("b", "cpu", "1", 0)))
	for _, pod := range running {
		q.DeletePod(pod)
	}
	assert.NotNil(t, q.decide(younger).Lacks, "the younger one leaves it to the older")
	assert.Nil(t, q.decide(older).Lacks)
}

// TestSurplusPassesNoMinimumThatWaitsForQuota: forty older gangs lack another resource, and more quota comes free than the first of them needs.
// Surplus of other queues does not wait for what the gangs wait for of their own queue.
func TestSurplusPassesNoMinimumThatWaitsForQuota(t *testing.T) {
	for name, queueOfSurplus := range map[string]string{"of the same queue": "a", "of another queue of the tree": "b"} {
		t.Run(name, func(t *testing.T) {
			q := newQuotaTest(t)
			q.SetQueue(mustertesting.MakeQueue("a").Parent("org").Capability("cpu", "6", "example.com/gpu", "1").Obj())
			q.SetQueue(mustertesting.MakeQueue("org").Capability("cpu", "6").Obj())
			elastic := q.gang("elastic", queueOfSurplus, 1)
			q.SetPod(mustertesting.MakePod("elastic0").UID("elastic0").Group("elastic").SchedulerName("muster").Requests("cpu", "1").Node("n").Obj())
			surplus := mustertesting.MakePod("elastic1").UID("elastic1").Group("elastic").SchedulerName("muster").Requests("cpu", "1").Obj()
			q.SetPod(surplus)
			require.True(t, elastic.Seated())
			require.True(t, q.start(q.single("a", "example.com/gpu", "1", 0)))
			running := q.single("a", "cpu", "5", 0)
			require.True(t, q.start(running))
			for i := range 40 {
				older := fmt.Sprint("older-", i)
				g := q.gang(older, "a", 1)
				q.SetPod(mustertesting.MakePod(older+"0").UID(older+"0").Group(older).SchedulerName("muster").Requests("cpu", "1", "example.com/gpu", "1").Obj())
				require.NotNil(t, q.decide(g).Lacks)
			}
			younger := q.gang("younger", "a", 4)
			require.NotNil(t, q.decide(younger).Lacks)
			q.DeletePod(running)
			assert.Equal(t, queueOfSurplus == "a", q.Quota.QuotaShortage(surplus) != nil, "the younger minimum needs it of its own queue")
			assert.Nil(t, q.Quota.QuotaShortage(q.single("a", "cpu", "1", 0)), "others than surplus may pass it")
			require.Nil(t, q.decide(younger).Lacks)
			q.DeletePodGroup(mustertesting.MakePodGroup("younger").UID("younger").Obj())
			assert.Nil(t, q.Quota.QuotaShortage(surplus), "the first of the others needs less")
		})
	}
}

func TestAGangKeepsItsQuotaWhileItLacksRoom(t *testing.T) {
	q := newQuotaTest(t)
	running := q.single("a", "cpu", "2", 0)
	require.True(t, q.start(running))
	big := q.gang("big", "a", 5)
	q.waitLong(big)
	q.DeletePod(running)
	require.Nil(t, q.decide(big).Lacks, "there is no room for it")
	require.True(t, q.isReserved(big))
	assert.NotNil(t, q.Quota.QuotaShortage(q.single("a", "cpu", "1", 0)))
	reserveNode := func(d *placement.Decision) {
		d.Reserve = &placement.Places{Of: map[types.UID]string{}}
		for _, m := range d.Members {
			d.Reserve.Of[m.UID] = "n"
		}
	}
	s := q.decide(big, reserveNode)
	require.True(t, s.Problem.Reserve, "it is starving")
	assert.NotNil(t, q.WaitList.Book.ReservedFor(big.Key))
	// Not for ever: In the end it has neither, and the other gangs have their turn.
	q.clock.Step(4 * time.Minute)
	dispatch.NewDispatcher(q.Tracker).Tick()
	assert.False(t, q.isReserved(big))
	assert.True(t, q.start(q.single("a", "cpu", "1", 0)))
	require.NotNil(t, q.decide(big).Lacks)
	assert.Nil(t, q.WaitList.Book.ReservedFor(big.Key))
	assert.False(t, q.isReserved(big), "it pauses")
	q.clock.Step(time.Minute)
	q.decide(big)
	assert.True(t, q.isReserved(big), "and has another turn")
}

func TestWhatIsAssumedTakesThePlaceOfWhatIsReserved(t *testing.T) {
	q := newQuotaTest(t)
	running := q.single("a", "cpu", "2", 0)
	require.True(t, q.start(running))
	big := q.gang("big", "a", 5)
	q.waitLong(big)
	q.DeletePod(running)
	begin(t, q.Tracker, big.Waiting()[0].Pod, nil)
	assert.Empty(t, q.WaitList.Book.Claims(state.Key{}, 0, false), "it counts once")
	assert.Nil(t, q.Quota.QuotaShortage(q.single("b", "cpu", "4", 0)))
	assert.NotNil(t, q.Quota.QuotaShortage(q.single("b", "cpu", "5", 0)))
	for _, m := range big.Waiting() {
		permit(q.Tracker, m.Pod)
	}
	require.True(t, big.Seated())
	assert.False(t, q.isReserved(big))
	assert.Empty(t, q.WaitList.Book.Claims(state.Key{}, 0, true), "it is on the list no more")
}

// TestRoomIsReservedForAPartialGangAtOnce: a scheduler that comes up finds a gang of which one member is bound and another waits.
func TestRoomIsReservedForAPartialGangAtOnce(t *testing.T) {
	partial := func(t *testing.T, group *schedulingv1beta1.PodGroup) (*gangs.Tracker, *gangs.Snapshot, *corev1.Pod) {
		t.Helper()
		tr := openTracker(t)
		waiting := memberNamed("b").Obj()
		tr.SetPodGroup(group)
		setPods(tr, memberNamed("a").Node("n").Obj(), waiting)
		require.Empty(t, tr.Gate(waiting))
		refuse(t, tr, waiting, "no room")
		s := tr.Decisions.Snapshot(waiting)
		require.NotNil(t, s)
		return tr, s, waiting
	}
	commit := func(tr *gangs.Tracker, s *gangs.Snapshot, waiting *corev1.Pod, change func(*placement.Decision)) {
		d := no(s, "no room", waiting, "NodeResourcesFit")
		change(d)
		tr.Decisions.Commit(s, d)
	}
	onM := func(d *placement.Decision) { d.Reserve = &placement.Places{Of: map[types.UID]string{"b": "m"}} }
	passes := func(tr *gangs.Tracker, priority int32) bool {
		return tr.Enter(mustertesting.MakePod("p").UID("p").SchedulerName("muster").Priority(priority).Obj()).Reserved == nil
	}
	for name, end := range map[string]func(tr *gangs.Tracker){
		"until it is complete":        func(tr *gangs.Tracker) { tr.SetPod(memberNamed("b").Node("m").Obj()) },
		"until it is partial no more": func(tr *gangs.Tracker) { tr.DeletePod(memberNamed("a").Node("n").Obj()) },
		"until it is gone":            func(tr *gangs.Tracker) { tr.DeletePodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2)) },
	} {
		t.Run(name, func(t *testing.T) {
			tr, s, waiting := partial(t, groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			require.True(t, s.Problem.Reserve)
			commit(tr, s, waiting, onM)
			assert.False(t, passes(tr, 1000), "only what is critical goes before it")
			assert.True(t, passes(tr, scheduling.SystemCriticalPriority))
			end(tr)
			assert.True(t, passes(tr, 0))
		})
	}
	t.Run("not if it had started", func(t *testing.T) {
		_, s, _ := partial(t, groupIn(schedulingv1beta1.PodGroupRunning, 2))
		assert.False(t, s.Problem.Reserve, "it has lost a member: its policies decide")
	})
	t.Run("nor if it is in no queue", func(t *testing.T) {
		group := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
		group.Spec.Queue = ""
		_, s, _ := partial(t, group)
		assert.False(t, s.Problem.Reserve, "it would not be evicted in the end")
	})
	for name, change := range map[string]func(*placement.Decision){
		"nor if it would not fit into an empty cluster": func(d *placement.Decision) { d.NoPlaces = true },
		"nor if it needs more than all nodes have":      func(d *placement.Decision) { d.TooLarge = true },
	} {
		t.Run(name, func(t *testing.T) {
			tr, s, waiting := partial(t, groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			commit(tr, s, waiting, change)
			assert.True(t, passes(tr, 0))
			assert.False(t, tr.WaitList.Book.StandingOf(theGang, tr.Clock.Now()).Choose, "others have their turn")
		})
	}
}

// TestAGangThatIsFoundToFitAndFailsBlocksNoOtherFromBeingFirst: its members cannot be placed together for a reason that the decision does not
// see. It lacked room once, and is older than one that lacks it truly.
func TestAGangThatIsFoundToFitAndFailsBlocksNoOtherFromBeingFirst(t *testing.T) {
	asked := func(q *quotaTest, g *gang.Group) bool { return q.WaitList.Book.StandingOf(g.Key, q.clock.Now()).Choose }
	prepare := func(t *testing.T) (q *quotaTest, older, younger *gang.Group) {
		t.Helper()
		q = newQuotaTest(t)
		older, younger = q.gang("older", "", 1), q.gang("younger", "", 1)
		q.decide(older)
		q.decide(younger)
		q.clock.Step(time.Minute)
		require.True(t, asked(q, older))
		require.False(t, asked(q, younger))
		return q, older, younger
	}
	fail := func(q *quotaTest, g *gang.Group, places map[types.UID]string) {
		q.Helper()
		q.clock.Step(time.Minute)
		scout := g.Members()[0].Pod
		g.Retry.Until = time.Time{}
		begin(q.T, q.Tracker, scout, places)
		require.True(q.T, q.Tracker.Fail(scout))
		q.clock.Step(time.Minute) // the pause is over
	}
	somewhere := map[types.UID]string{"older0": "n"}
	t.Run("while it is found to fit", func(t *testing.T) {
		q, older, younger := prepare(t)
		for range 3 {
			fail(q, older, somewhere)
			assert.True(t, asked(q, younger))
		}
		q.decide(older)
		assert.False(t, asked(q, younger))
		assert.True(t, asked(q, older), "what it has gone through is not forgotten")
	})
	t.Run("not if it is not certain that it fits", func(t *testing.T) {
		q, older, younger := prepare(t)
		fail(q, older, nil)
		assert.False(t, asked(q, younger))
		assert.True(t, asked(q, older))
	})
	t.Run("not at once if room is reserved for it", func(t *testing.T) {
		q, older, younger := prepare(t)
		q.decide(older, func(d *placement.Decision) { d.Reserve = &placement.Places{Of: somewhere} })
		failures := 0
		for q.WaitList.Book.ReservedFor(older.Key) != nil {
			assert.False(t, asked(q, younger))
			fail(q, older, somewhere)
			failures++
			require.LessOrEqual(t, failures, 2*state.MaxFailuresReserved)
		}
		assert.Greater(t, failures, state.MaxFailuresReserved)
		assert.True(t, asked(q, younger))
	})
}

// TestQuotaIsKeptForAStart from pods and gangs that would still run then. They are tried again when the reservation ends.
func TestQuotaIsKeptForAStart(t *testing.T) {
	q := newQuotaTest(t)
	first := q.gang("first", "a", 4)
	places := map[types.UID]string{}
	for _, m := range first.Members() {
		places[m.UID] = "n"
	}
	q.decide(first, func(d *placement.Decision) {
		d.Reserve = &placement.Places{Of: places, Start: q.clock.Now().Add(time.Hour)}
	})
	q.clock.Step(time.Second)
	lacks := func(queue, amount, estimate string) bool {
		pod := q.single(queue, "cpu", amount, 0)
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, schedulingv1beta1.RunningEstimateAnnotation, estimate)
		return q.Quota.QuotaShortage(pod) != nil
	}
	assert.False(t, lacks("a", "3", "30m"), "it ends before")
	assert.False(t, lacks("a", "2", "2h"), "that is left beside")
	assert.True(t, lacks("a", "3", "2h"))
	assert.True(t, lacks("a", "3", ""), "its end is not known")
	assert.True(t, lacks("b", "7", "2h"), "it is kept in the parent, too")
	short := q.single("a", "cpu", "3", 0)
	metav1.SetMetaDataAnnotation(&short.ObjectMeta, schedulingv1beta1.RunningEstimateAnnotation, "30m")
	require.True(t, q.start(short))
	require.NotNil(t, q.decide(first).Lacks)
	assert.True(t, lacks("a", "3", "2h"), "the start stays, though its quota is used for a while")
	later := q.gang("later", "a", 3)
	require.NotNil(t, q.decide(later).Lacks)
	require.False(t, isWoken(later))
	toLookAt(q.Tracker)
	q.WaitList.Book.Forget(first.Key)
	q.Apply(nil, gang.Effects{})
	assert.True(t, isWoken(later))
	assert.Contains(t, toLookAt(q.Tracker), state.QuotaKey)
}

// TestAGangThatLacksQuotaMayHaveAStart: its quota is counted as pods end. If no start is found, none is looked for again at once.
func TestAGangThatLacksQuotaMayHaveAStart(t *testing.T) {
	q := newQuotaTest(t)
	args := testArgs
	args.ReservationDepth = 1
	require.NoError(t, q.Configure("muster", args))
	running, other := q.single("a", "cpu", "3", 0), q.single("other", "cpu", "3", 0)
	require.True(t, q.start(running))
	require.True(t, q.start(other))
	first, places := q.gang("first", "a", 4), map[types.UID]string{}
	for _, m := range first.Members() {
		places[m.UID] = "n"
	}
	s := q.decide(first)
	require.NotNil(t, s.Problem.Quota)
	quota := s.Problem.Quota()
	assert.True(t, quota.IsOwn())
	assert.False(t, quota.Suffices())
	quota.End(other.UID)
	assert.False(t, quota.Suffices())
	quota.End(running.UID)
	assert.True(t, quota.Suffices())
	assert.False(t, s.Problem.Quota().Suffices(), "each search counts anew")

	assert.Nil(t, q.decide(first).Problem.Quota, "no start was found just before")
	q.clock.Step(time.Minute)
	start := q.clock.Now().Add(time.Hour)
	require.NotNil(t, q.decide(first, func(d *placement.Decision) { d.Reserve = &placement.Places{Of: places, Start: start} }).Problem.Quota)
	q.decide(first) // too soon for another choice
	reserved := q.WaitList.Book.ReservedFor(first.Key)
	require.NotNil(t, reserved)
	assert.Equal(t, start, reserved.Start)

	parent := q.single("b", "cpu", "3", 0)
	require.True(t, q.start(parent))
	s = q.decide(q.gang("second", "b", 5))
	require.NotNil(t, s.Problem.Quota)
	assert.False(t, s.Problem.Quota().IsOwn(), "queue org lacks it")
}
