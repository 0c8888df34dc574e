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
	"k8s.io/kubernetes/pkg/apis/scheduling"
	clocktesting "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// lineTest is a Store with an org of 10 cores, its children a, with 6, and b, without a limit, and a queue beside them. A gang
// may be passed once, or for a minute.
type lineTest struct {
	*testing.T
	*Store
	clock *clocktesting.FakeClock
	next  int
}

func newLineTest(t *testing.T) *lineTest {
	s := openStore()
	s.args.MaxOvertakes, s.args.MaxOvertakeTime = 1, metav1.Duration{Duration: time.Minute}
	s.SetQueue(mustertesting.MakeQueue("org").Capability("cpu", "10").Obj())
	s.SetQueue(mustertesting.MakeQueue("a").Parent("org").Capability("cpu", "6").Obj())
	s.SetQueue(mustertesting.MakeQueue("b").Parent("org").Obj())
	s.SetQueue(mustertesting.MakeQueue("other").Capability("cpu", "6").Obj())
	return &lineTest{T: t, Store: s, clock: s.clock.(*clocktesting.FakeClock)}
}

// gang makes a gang of pods of one core.
func (l *lineTest) gang(name, queue string, size int) *group {
	l.Helper()
	l.clock.Step(time.Second)
	l.SetPodGroup(mustertesting.MakePodGroup(name).UID(name).Queue(queue).MinMember(int32(size)).
		Phase(schedulingv1beta1.PodGroupInqueue).Created(l.clock.Now()).Obj())
	for i := range size {
		l.SetPod(mustertesting.MakePod(fmt.Sprint(name, i)).UID(fmt.Sprint(name, i)).Group(name).SchedulerName("muster").Requests("cpu", "1").Obj())
	}
	return l.gangs[Key{Namespace: metav1.NamespaceDefault, Name: name}]
}

// single is a pod without a gang that names a queue.
func (l *lineTest) single(queue, requested, amount string, priority int32) *corev1.Pod {
	l.next++
	pod := mustertesting.MakePod(fmt.Sprint("single", l.next)).UID(fmt.Sprint("single", l.next)).QueueName(queue).
		SchedulerName("muster").Requests(requested, amount).Obj()
	pod.Spec.Priority = &priority
	pod.CreationTimestamp = metav1.NewTime(l.clock.Now())
	return pod
}

// start has a pod without a gang start if there is quota for it.
func (l *lineTest) start(pod *corev1.Pod) bool {
	if l.QuotaShortage(pod) != nil {
		return false
	}
	l.Reserve(pod, "node")
	verdict, _, _ := l.Permit(pod)
	require.Equal(l, Allow, verdict)
	return true
}

// judge has a gang judged; if it has its quota, there is no room for it.
func (l *lineTest) judge(g *group) *Round {
	l.Helper()
	l.mu.Lock()
	g.parked = false
	d := l.callScout(g)
	l.mu.Unlock()
	require.Len(l, d, 1)
	round := l.Judge(d[0])
	require.NotNil(l, round)
	l.Park(round, d[0], "why", d[0])
	return round
}

// waitLong has a gang judged, which lacks quota, and passed by the start of a pod.
func (l *lineTest) waitLong(g *group) {
	l.Helper()
	require.NotNil(l, l.judge(g).Quota)
	l.clock.Step(time.Second)
	require.True(l, l.start(l.single(g.queue, "cpu", "1", 0)))
	require.True(l, g.isSavedFor())
}

func TestWhichStartsPassAGangThatLacksQuota(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	lacks := &quota.Shortage{Queue: "org", Resource: corev1.ResourceCPU}
	amount := func(name corev1.ResourceName) func() resources.List {
		return func() resources.List { return resources.List{name: 1} }
	}
	priority := int32(5)
	g := &group{priority: &priority, since: at(100)}
	for name, c := range map[string]struct {
		start         start
		path          []string
		behind, takes bool
	}{
		"a younger one":                  {start{5, at(101), false, "q", amount("cpu")}, []string{"q", "org", "root"}, true, true},
		"an older one":                   {start{5, at(99), false, "q", amount("cpu")}, []string{"q", "org", "root"}, false, true},
		"surplus of an older one":        {start{5, at(99), true, "q", amount("cpu")}, []string{"q", "org", "root"}, true, true},
		"a lower priority":               {start{4, at(99), false, "q", amount("cpu")}, []string{"q", "org", "root"}, true, true},
		"a higher priority":              {start{6, at(101), true, "q", amount("cpu")}, []string{"q", "org", "root"}, false, true},
		"in a queue of another branch":   {start{5, at(101), false, "q", amount("cpu")}, []string{"q", "root"}, true, false},
		"that uses another resource":     {start{5, at(101), false, "q", amount("memory")}, []string{"q", "org", "root"}, true, false},
		"in the queue that lacks itself": {start{5, at(101), false, "org", amount("cpu")}, []string{"org", "root"}, true, true},
	} {
		assert.Equal(t, c.behind, c.start.comesAfter(g), name)
		assert.Equal(t, c.takes, c.start.takesFrom(c.path, lacks), name)
	}
}

func TestWhoStandsBackForAGangThatQuotaIsSetAsideFor(t *testing.T) {
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
			l := newLineTest(t)
			first := l.single("a", "cpu", "2", 0)
			require.True(t, l.start(first))
			l.waitLong(l.gang("big", "a", 6))
			shortage := l.QuotaShortage(l.single(c.queue, c.resource, "1", c.priority))
			assert.Equal(t, c.may, shortage == nil)
			assert.True(t, shortage == nil || shortage.Behind)
			// a has 3 of its 6 free, and so has the gang: of the 7 that the org has free, 4 are for all.
			assert.Nil(t, l.QuotaShortage(l.single("b", "cpu", "4", 0)))
			assert.NotNil(t, l.QuotaShortage(l.single("b", "cpu", "5", 0)))
		})
	}
}

func TestWhoStandsBackIsWokenWhenTheGangHasGone(t *testing.T) {
	for name, end := range map[string]func(l *lineTest, g *group){
		"its PodGroup is deleted": func(l *lineTest, g *group) {
			l.DeletePodGroup(mustertesting.MakePodGroup("big").UID("big").Obj())
		},
		"a member is deleted": func(l *lineTest, g *group) { l.DeletePod(g.Members()[0].Pod); l.Store.next(g.key) },
		"it goes to another queue": func(l *lineTest, g *group) {
			l.SetPodGroup(mustertesting.MakePodGroup("big").UID("big").Queue("other").MinMember(6).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
		},
		"its queue does not admit it any more": func(l *lineTest, g *group) {
			l.SetPodGroup(mustertesting.MakePodGroup("big").UID("big").Queue("a").MinMember(6).Phase(schedulingv1beta1.PodGroupPending).Obj())
			l.Store.next(g.key)
		},
		"the capability is lowered below what it asks for": func(l *lineTest, g *group) {
			l.SetQueue(mustertesting.MakeQueue("a").Parent("org").Capability("cpu", "5").Obj())
			require.True(l, l.judge(g).Exceeds)
		},
		"it was in vain": func(l *lineTest, g *group) { l.clock.Step(4 * time.Minute); l.check() },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLineTest(t)
			require.True(t, l.start(l.single("a", "cpu", "1", 0)))
			big := l.gang("big", "a", 6)
			l.waitLong(big)
			small, single := l.gang("small", "a", 1), l.single("a", "cpu", "1", 0)
			require.True(t, l.judge(small).Quota.Behind)
			require.True(t, l.QuotaShortage(single).Behind)
			end(l, big)
			assert.False(t, big.isSavedFor())
			assert.NotContains(t, l.savedFor, big)
			assert.False(t, small.parked, "the gang is called")
			assert.Equal(t, []types.UID{single.UID}, uidsIn(l.Store.next(quotaKey).activate), "the pod is called")
			assert.Nil(t, l.judge(small).Quota)
		})
	}
}

func uidsIn(pods []*corev1.Pod) []types.UID {
	var uids []types.UID
	for _, pod := range pods {
		uids = append(uids, pod.UID)
	}
	return uids
}

func TestAGangThatAsksForMoreThanTheCapabilityHoldsNothing(t *testing.T) {
	l := newLineTest(t)
	huge := l.gang("huge", "a", 7)
	require.True(t, l.judge(huge).Exceeds)
	l.clock.Step(time.Hour)
	for range 6 {
		require.True(t, l.start(l.single("a", "cpu", "1", 0)))
		l.check()
		l.judge(huge)
		assert.False(t, huge.isSavedFor())
	}
	// It is no trouble for the one behind it, and has its turn when the capability is raised.
	big := l.gang("big", "a", 3)
	require.NotNil(t, l.judge(big).Quota)
	l.clock.Step(time.Minute)
	l.check()
	assert.True(t, big.isSavedFor())
	l.SetQueue(mustertesting.MakeQueue("a").Parent("org").Capability("cpu", "8").Obj())
	assert.False(t, huge.parked, "it is called")
	require.False(t, l.judge(huge).Exceeds)
	assert.True(t, huge.isSavedFor())
	assert.False(t, big.isSavedFor())
}

func TestTwoGangsBelowOneParentHaveQuotaSetAsideOneAfterTheOther(t *testing.T) {
	l := newLineTest(t)
	running := []*corev1.Pod{l.single("a", "cpu", "3", 0), l.single("b", "cpu", "4", 0)}
	for _, pod := range running {
		require.True(t, l.start(pod))
	}
	older, younger := l.gang("older", "b", 6), l.gang("younger", "a", 6)
	require.NotNil(t, l.judge(older).Quota)
	require.NotNil(t, l.judge(younger).Quota)
	l.clock.Step(time.Minute)
	l.check()
	require.Equal(t, []*group{older, younger}, l.savedFor)
	assert.NotNil(t, l.QuotaShortage(l.single("b", "cpu", "1", 0)))
	for _, pod := range running {
		l.DeletePod(pod)
	}
	assert.True(t, l.judge(younger).Quota.Behind, "the younger one stands back")
	assert.Nil(t, l.judge(older).Quota)
}

func TestAGangThatHasItsQuotaAtLastKeepsItWhileItLacksRoom(t *testing.T) {
	l := newLineTest(t)
	running := l.single("a", "cpu", "2", 0)
	require.True(t, l.start(running))
	big := l.gang("big", "a", 5)
	l.waitLong(big)
	l.DeletePod(running)
	require.Nil(t, l.judge(big).Quota, "there is no room for it")
	require.True(t, big.isSavedFor())
	assert.True(t, l.QuotaShortage(l.single("a", "cpu", "1", 0)).Behind)
	l.check()
	require.False(t, big.parked, "it is due for room")
	round := l.judge(big)
	require.True(t, round.Choose)
	l.SetAside(round, map[types.UID]string{"big0": "n"}, nil)
	assert.True(t, l.isAsideFor(big))
	// Not for ever: it has neither in the end, and others their turn.
	l.clock.Step(4 * time.Minute)
	l.check()
	assert.False(t, big.isSavedFor())
	assert.True(t, l.start(l.single("a", "cpu", "1", 0)))
	require.NotNil(t, l.judge(big).Quota)
	assert.False(t, l.isAsideFor(big))
	assert.False(t, big.isSavedFor(), "it has a pause")
	l.clock.Step(time.Minute)
	l.judge(big)
	assert.True(t, big.isSavedFor(), "and then another turn")
}

func TestAGangThatNoNodesHoldHasNoQuotaSetAside(t *testing.T) {
	l := newLineTest(t)
	running := l.single("a", "cpu", "2", 0)
	require.True(t, l.start(running))
	big := l.gang("big", "a", 5)
	l.waitLong(big)
	l.DeletePod(running)
	l.judge(big)
	l.SetAside(l.judge(big), nil, nil)
	assert.False(t, big.isSavedFor())
	assert.True(t, l.start(l.single("a", "cpu", "1", 0)))
}

func TestAGangThatNeedsMoreThanAllNodesHaveHasNoQuotaSetAside(t *testing.T) {
	l := newLineTest(t)
	running := l.single("a", "cpu", "2", 0)
	require.True(t, l.start(running))
	big := l.gang("big", "a", 5)
	l.waitLong(big)
	l.DeletePod(running)
	round := l.Judge(big.Members()[0].Pod)
	require.Nil(t, round.Quota)
	round.Beyond = true
	l.Park(round, big.Members()[0].Pod, "no room", big.Members()[0].Pod, "NodeResourcesFit")
	assert.False(t, big.isSavedFor())
	assert.True(t, l.start(l.single("a", "cpu", "1", 0)))
}

func TestAPromiseTakesThePlaceOfWhatIsSetAside(t *testing.T) {
	l := newLineTest(t)
	running := l.single("a", "cpu", "2", 0)
	require.True(t, l.start(running))
	big := l.gang("big", "a", 5)
	l.waitLong(big)
	l.DeletePod(running)
	scout := l.Store.next(big.key).activate[0]
	round := l.Judge(scout)
	require.Nil(t, round.Quota)
	_, ok := l.Admit(round, nil)
	require.True(t, ok)
	assert.Empty(t, l.savedBefore(nil, 0), "it counts once")
	for _, m := range round.Members {
		l.Reserve(m.Pod, "node")
	}
	for _, m := range round.Members {
		l.Permit(m.Pod)
	}
	require.True(t, big.Seated())
	assert.Empty(t, l.savedFor)
	assert.Empty(t, l.lines)
	assert.Zero(t, big.lack)
}
