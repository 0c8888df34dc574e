package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// stream keeps a simulated cluster busy: small gangs and pods always wait, start when they can, and end after a while.
type stream struct {
	*simulation
	queued  bool // some of them are in queues
	longest int  // seconds that a pod may run
	ends    map[types.UID]time.Time
	drained bool // none of them waited when the big gang came
	big     *passedGang
}

// passedGang is the gang that they pass, with how often they have: not as the Store counts it.
type passedGang struct {
	*group
	passes   func(started *corev1.Pod) bool // whether a start counts, once it has been judged and as long as no older pod waits
	isDue    func() bool                    // whether it has borne enough
	isHelped func() bool                    // whether something is set aside for it, or room was found
	came     time.Time

	helped   bool // it was helped at some time
	before   int  // how many have passed it before it was due
	late     int  // and how many after that, before it was helped
	byNumber bool // it was due because of their number
}

// wasGivenRoom says whether room was found for a gang that has not started: its round goes on, or has failed.
func wasGivenRoom(g *group) bool { return g.phase == admitted || g.pin || g.failures > 0 }

// createGroup makes a gang of pods that are alike, all of which are its minimum.
func (s *simulation) createGroup(name string, size int, cpu int64, priority int32) Key {
	return s.createGroupIn("", name, size, cpu, priority)
}

func (s *simulation) createGroupIn(queue, name string, size int, cpu int64, priority int32) Key {
	pg := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(s.clock.Now())},
		Spec:       schedulingv1beta1.PodGroupSpec{MinMember: int32(size), Queue: queue},
		Status:     schedulingv1beta1.PodGroupStatus{Phase: schedulingv1beta1.PodGroupInqueue},
	}
	key := Key{Name: name}
	s.groups[key] = pg
	s.store.SetPodGroup(pg)
	for range size {
		s.createPod(name, cpu, 0, priority)
	}
	return key
}

// newStream has some bound on how often, or how long, a gang may be passed.
func newStream(t *rapid.T) *stream {
	s := &stream{simulation: newSimulation(t), longest: rapid.IntRange(1, 20).Draw(t, "longest"), ends: map[types.UID]time.Time{}}
	s.store.args.MaxOvertakes = int32(rapid.IntRange(0, 10).Draw(t, "overtakes"))
	atLeast := 0
	if s.store.args.MaxOvertakes == 0 {
		atLeast = 1
	}
	s.store.args.MaxOvertakeTime.Duration = time.Duration(rapid.IntRange(atLeast, 30).Draw(t, "overtakeSeconds")) * time.Second
	return s
}

// second is a second of the cluster's life.
func (s *stream) second() {
	for s.backlog() < 4 {
		queue := ""
		if s.queued {
			queue = s.drawQueue()
		}
		if rapid.Bool().Draw(s.t, "single") {
			s.createPodIn(queue, "", rapid.Int64Range(1, 3).Draw(s.t, "cpu")*1000, 0, 0)
		} else {
			s.createGroupIn(queue, s.newName("small"), rapid.IntRange(1, 2).Draw(s.t, "size"), rapid.Int64Range(1, 3).Draw(s.t, "cpu")*1000, 0)
		}
	}
	s.secondWithoutNews()
}

func (s *stream) secondWithoutNews() {
	for _, uid := range uidsOf(s.pods) {
		end, runs := s.ends[uid]
		switch pod := s.pods[uid]; {
		case pod == nil || pod.Spec.NodeName == "" || s.isBig(pod):
		case !runs:
			s.ends[uid] = s.clock.Now().Add(time.Duration(rapid.IntRange(1, s.longest).Draw(s.t, "runs")) * time.Second)
		case !s.clock.Now().Before(end):
			s.end(pod)
		}
	}
	for range cyclesASecond {
		s.cycle()
	}
	s.settle()
	s.clock.Step(time.Second)
}

// end ends a pod, and the members of its gang that have not started: nobody would make another in its place.
func (s *stream) end(ended *corev1.Pod) {
	s.deletePod(ended.UID)
	key, inGang := groupOf(ended)
	for _, uid := range uidsOf(s.pods) {
		if of, _ := groupOf(s.pods[uid]); inGang && of == key && s.pods[uid].Spec.NodeName == "" {
			s.deletePod(uid)
		}
	}
}

// cyclesASecond is how often a pod is tried until whoever was called has his turn.
const cyclesASecond = 10

// drain lets everything run that waits, so that who comes next is the first in order.
func (s *stream) drain() {
	for seconds := 0; s.backlog() > 0; seconds++ {
		s.secondWithoutNews()
		if !assert.Less(s.t, seconds, 1000, "small gangs do not start") {
			s.t.FailNow()
		}
	}
}

// cycle is a scheduling cycle. Of those whom it lets start it counts who passes the big gang.
func (s *stream) cycle() {
	if s.big == nil {
		s.scheduleOne()
		return
	}
	big := s.big
	big.helped = big.helped || big.isHelped()
	helped, due, known := big.helped, big.isDue(), sets.KeySet(s.binding)
	counts := !helped && !big.judged.IsZero() && !s.anOlderWaits()
	s.scheduleOne()
	big.helped = big.helped || big.isHelped()
	for uid, started := range s.binding {
		switch {
		case !counts || known.Has(uid) || started.CreationTimestamp.Time.Before(big.came) || !big.passes(started):
		case due:
			big.late++
		default:
			big.before++
		}
	}
	if limit := s.store.args.MaxOvertakeTime.Duration; !helped && big.isDue() && (limit == 0 || s.clock.Since(big.came) < limit) {
		big.byNumber = true
	}
}

// anOlderWaits says whether a pod waits that came before the big gang: then it is that one that others pass.
func (s *stream) anOlderWaits() bool {
	for uid, pod := range s.pods {
		if _, started := s.binding[uid]; !started && pod.Spec.NodeName == "" && pod.CreationTimestamp.Time.Before(s.big.came) {
			return true
		}
	}
	return false
}

// checkPassed checks that the gang was passed as often as it must bear and no more, not counting who was on the way when it became due.
func (s *stream) checkPassed() {
	limit := int(s.store.args.MaxOvertakes)
	if limit == 0 {
		return // only time bounds it
	}
	assert.LessOrEqual(s.t, s.big.before, limit, "passed before it was due")
	assert.LessOrEqual(s.t, s.big.late, cyclesASecond, "passed when it was due")
	if s.drained && s.big.byNumber {
		assert.Equal(s.t, limit, s.big.before, "due too soon")
	}
}

func (s *stream) isBig(pod *corev1.Pod) bool {
	key, _ := groupOf(pod)
	return key.Name == "big"
}

// backlog is the number of small pods that wait.
func (s *stream) backlog() int {
	n := 0
	for _, pod := range s.pods {
		if pod.Spec.NodeName == "" && !s.isBig(pod) {
			n++
		}
	}
	return n
}

// come has the big gang come.
func (s *stream) come(queue string, size int, cpu int64) *group {
	g := s.store.gangs[s.createGroupIn(queue, "big", size, cpu, 0)]
	s.big = &passedGang{group: g, came: s.clock.Now()}
	return g
}

// fill fills the cluster, and has all of them start who wait, or not.
func (s *stream) fill() {
	for range rapid.IntRange(1, 20).Draw(s.t, "warmUp") {
		s.second()
	}
	if s.drained = rapid.Bool().Draw(s.t, "drained"); s.drained {
		s.drain()
	}
}

// TestABigGangStartsHoweverManySmallOnesCome keeps a cluster full of small gangs and pods that end, and has a gang come
// that needs most of it, or all: it is passed no more often than it must bear, and starts within a bounded time after that, or after
// it has waited as long as it must.
func TestABigGangStartsHoweverManySmallOnesCome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStream(t)
		s.fill()
		shape := rapid.SampledFrom([]struct {
			size int
			cpu  int64
		}{{3, nodeSize}, {2, nodeSize}, {6, 3000}, {4, 4000 - 1000}, {3, 5000}}).Draw(t, "shape")
		g := s.come("", shape.size, shape.cpu)
		s.big.passes = func(*corev1.Pod) bool { return true }
		s.big.isDue = func() bool { return s.store.isDue(g) }
		s.big.isHelped = func() bool { return wasGivenRoom(g) || s.store.isAsideFor(g) }
		due := 0
		for seconds := 0; !g.Seated(); seconds++ {
			s.second()
			if g.short.index > 0 && s.store.isDue(g) {
				due++
			}
			if !assert.Less(t, due, s.longest+180, "due and not started") || !assert.Less(t, seconds, 1000, "not started") {
				t.FailNow()
			}
		}
		s.checkPassed()
		assert.False(t, s.store.isAsideFor(g), "what was set aside is given back")
	})
}

// TestABigGangGetsItsQuotaHoweverManySmallOnesCome does the same with queues: the gang needs most of the quota of its queue, or
// all, and room on nodes, which others take whose quota is not in question.
func TestABigGangGetsItsQuotaHoweverManySmallOnesCome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStream(t)
		s.queued = true
		s.fill()
		shape := rapid.SampledFrom([]struct {
			queue string
			size  int
			cpu   int64
		}{{"q", 2, nodeSize}, {"q", 4, 3000}, {"q", 3, 3000}, {"team", 1, nodeSize}, {"team", 2, 3000}, {"team", 2, 2000}}).Draw(t, "shape")
		g := s.come(shape.queue, shape.size, shape.cpu)
		s.big.passes = s.takesQuotaFromBig
		s.big.isDue = func() bool { return s.store.hasBorneEnough(&g.lack.shortage) }
		s.big.isHelped = func() bool { return wasGivenRoom(g) || g.isSavedFor() }
		due := 0
		for seconds := 0; !g.Seated(); seconds++ {
			s.second()
			if s.store.hasBorneEnough(&g.lack.shortage) || s.store.hasBorneEnough(&g.short) {
				due++
			}
			if !assert.Less(t, due, s.longest+300, "due and not started") || !assert.Less(t, seconds, 1500, "not started") {
				t.FailNow()
			}
		}
		s.checkPassed()
		assert.False(t, g.isSavedFor() || s.store.isAsideFor(g), "what was set aside is given back")
	})
}

// takesQuotaFromBig says whether a pod uses of the quota that the big gang was found to lack.
func (s *stream) takesQuotaFromBig(pod *corev1.Pod) bool {
	queue := pod.Annotations[schedulingv1beta1.QueueNameAnnotation]
	if key, inGang := groupOf(pod); inGang {
		queue = s.groups[key].Spec.Queue
	}
	lacks := s.big.lack.lacks
	return lacks != nil && queue != "" && (queue == lacks.Queue || lacks.Queue == "q") // the other queue is its child
}

// TestWhatIsSetAsideHoldsUpNobodyForEver lets gangs of all sizes come, those too that the cluster can never hold, and
// ends what runs: whatever fits into the empty cluster has run in the end, one after the other.
func TestWhatIsSetAsideHoldsUpNobodyForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		want := map[Key]bool{}
		for range rapid.IntRange(2, 8).Draw(t, "gangs") {
			size, cpu := rapid.IntRange(1, 6).Draw(t, "size"), rapid.Int64Range(1, 7).Draw(t, "cpu")*1000
			queue := s.drawQueue()
			may := map[string]int64{"": 1 << 40, "q": 12000, "team": 6000}[queue]
			want[s.createGroupIn(queue, s.newName("gang"), size, cpu, s.drawPriority())] = int64(size) <= 3*(nodeSize/cpu) && int64(size)*cpu <= may
			s.clock.Step(time.Second)
		}
		for range 300 {
			for range 5 {
				s.scheduleOne()
			}
			s.settle()
			s.clock.Step(time.Second)
			for _, uid := range uidsOf(s.pods) {
				pod := s.pods[uid]
				if _, binding := s.binding[uid]; pod == nil || pod.Spec.NodeName == "" || binding || rapid.IntRange(0, 4).Draw(t, "runsOn") > 0 {
					continue
				}
				s.finishGang(pod)
			}
		}
		for key, fits := range want {
			_, waits := s.groups[key]
			assert.Equal(t, fits, !waits, "%s: fits into the empty cluster: %v", key.Name, fits)
		}
	})
}

// finishGang deletes a gang whose pods have all started.
func (s *simulation) finishGang(pod *corev1.Pod) {
	key, _ := groupOf(pod)
	g := s.store.gangs[key]
	if g == nil || len(g.Bound()) < g.Len() {
		return
	}
	for _, m := range g.Members() {
		s.deletePod(m.UID)
	}
	s.store.DeletePodGroup(s.groups[key])
	delete(s.groups, key)
}

func TestAGangThatCanNeverFitHoldsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		s.store.args.MaxOvertakes = 1
		huge := s.store.gangs[s.createGroup("huge", 4, nodeSize, 0)]
		for range 30 {
			s.createGroup(s.newName("small"), 1, 1000, 0)
			s.scheduleOne()
			s.settle()
			s.clock.Step(time.Second)
			assert.False(t, s.store.isAsideFor(huge))
		}
		s.calmDown()
		assert.Len(t, s.boundPods(), 18, "the cluster is full")
	})
}

func (s *simulation) boundPods() (bound []*corev1.Pod) {
	for _, pod := range s.pods {
		if pod.Spec.NodeName != "" {
			bound = append(bound, pod)
		}
	}
	return bound
}

// TestTheOrderOfThoseThatWait checks who is first, whatever comes and goes.
func TestTheOrderOfThoseThatWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		var keys []Key
		for range rapid.IntRange(1, 8).Draw(t, "gangs") {
			keys = append(keys, s.createGroup(s.newName("gang"), 1, 1000, s.drawPriority()))
			s.clock.Step(time.Second)
		}
		lacks := map[Key]bool{}
		for range 20 {
			key := rapid.SampledFrom(keys).Draw(t, "gang")
			if g := s.store.gangs[key]; rapid.Bool().Draw(t, "lacks") {
				s.store.fellShort(g)
				lacks[key] = true
			} else {
				s.store.endShortage(g)
				delete(lacks, key)
			}
			var first *group
			for _, key := range keys { // by age
				if g := s.store.gangs[key]; lacks[key] && (first == nil || s.store.gangPriority(g) > s.store.gangPriority(first)) {
					first = g
				}
			}
			assert.Equal(t, first, s.store.firstShort())
		}
	})
}

// TestRoomIsSetAsideForAPartialGangAtOnce: a scheduler that comes up finds a gang of which one member is bound and another waits.
func TestRoomIsSetAsideForAPartialGangAtOnce(t *testing.T) {
	partial := func(group *schedulingv1beta1.PodGroup) (s *Store, waiting *corev1.Pod) {
		s, _ = newTestStore()
		s.SetPodGroup(group)
		s.SetPod(memberNamed("a").Node("n").Obj())
		waiting = memberNamed("b").Obj()
		s.SetPod(waiting)
		require.Empty(t, s.Gate(waiting))
		return s, waiting
	}
	setAside := func(s *Store, waiting *corev1.Pod) {
		round := s.Judge(waiting)
		require.True(t, round.Choose)
		s.SetAside(round, map[types.UID]string{waiting.UID: "m"}, nil)
		s.Park(round, waiting, "no room", waiting, "NodeResourcesFit")
	}
	passes := func(s *Store, priority int32) bool {
		return s.AsideFrom(mustertesting.MakePod("p").UID("p").SchedulerName("muster").Priority(priority).Obj()) == nil
	}

	t.Run("until it is complete", func(t *testing.T) {
		s, waiting := partial(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
		setAside(s, waiting)
		assert.False(t, passes(s, 1000), "only what is critical goes before it")
		assert.True(t, passes(s, scheduling.SystemCriticalPriority))
		s.SetPod(memberNamed("b").Node("m").Obj())
		assert.True(t, passes(s, 0))
		assert.Empty(t, s.asides.broken)
	})
	t.Run("until it is partial no more", func(t *testing.T) {
		s, waiting := partial(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
		setAside(s, waiting)
		s.DeletePod(memberNamed("a").Node("n").Obj())
		assert.True(t, passes(s, 0))
	})
	t.Run("until it is gone", func(t *testing.T) {
		s, waiting := partial(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
		setAside(s, waiting)
		s.DeletePodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
		assert.True(t, passes(s, 0))
		assert.Empty(t, s.asides.broken)
	})
	t.Run("not if it had started", func(t *testing.T) {
		s, waiting := partial(groupIn(schedulingv1beta1.PodGroupRunning, 2))
		assert.False(t, s.Judge(waiting).Choose, "it has lost a member: its policies decide")
	})
	t.Run("nor if it is in no queue", func(t *testing.T) {
		group := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
		group.Spec.Queue = ""
		s, waiting := partial(group)
		assert.False(t, s.Judge(waiting).Choose, "it would not be evicted in the end")
	})
	t.Run("nor if it would not fit into an empty cluster", func(t *testing.T) {
		s, waiting := partial(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
		round := s.Judge(waiting)
		s.SetAside(round, nil, nil)
		s.Park(round, waiting, "no room", waiting, "NodeResourcesFit")
		assert.Nil(t, s.firstDue(), "others have their turn")
	})
	t.Run("nor if it needs more than all nodes have", func(t *testing.T) {
		s, waiting := partial(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
		round := s.Judge(waiting)
		round.Beyond = true
		s.Park(round, waiting, "no room", waiting, "NodeResourcesFit")
		assert.Nil(t, s.firstDue(), "others have their turn")
	})
}

// TestNobodyLooksForRoomForGangsThatNeedMoreThanThereIs: hundreds of gangs, each of which asks for more than all nodes have, had places
// looked for, one after the other, when they had waited for long, and again and again after that.
func TestNobodyLooksForRoomForGangsThatNeedMoreThanThereIs(t *testing.T) {
	s, clock := newTestStore()
	s.args.MaxOvertakeTime.Duration = time.Minute
	park := func(name string, beyond bool) *Round {
		scout := s.gangs[Key{Namespace: "ns", Name: name}].Members()[0].Pod
		round := s.Judge(scout)
		require.NotNil(t, round)
		round.Beyond = beyond
		s.Park(round, scout, "no room", scout, "NodeResourcesFit")
		return round
	}
	for _, name := range []string{"a", "b", "c"} {
		gate(s, name, 1, 1)
	}
	park("a", true)
	park("b", true)
	park("c", false)
	clock.Step(time.Minute)
	s.tendAside()
	assert.True(t, s.gangs[Key{Namespace: "ns", Name: "a"}].parked)
	assert.False(t, s.gangs[Key{Namespace: "ns", Name: "c"}].parked, "the first of those that may fit some time is called")
	for range 3 {
		assert.False(t, park("a", true).Choose)
		assert.False(t, park("b", true).Choose)
		assert.True(t, park("c", false).Choose)
		clock.Step(time.Hour)
	}
	assert.False(t, park("a", false).Choose, "nodes have come")
	assert.True(t, park("a", false).Choose, "it has waited long enough since it came")
	s.SetAside(park("a", false), map[types.UID]string{"a-0": "n"}, nil)
	require.True(t, s.isAsideFor(s.gangs[Key{Namespace: "ns", Name: "a"}]))
	park("a", true)
	assert.False(t, s.isAsideFor(s.gangs[Key{Namespace: "ns", Name: "a"}]), "they have gone: others may have the rest")
	assert.True(t, park("c", false).Choose)
}

// TestAGangThatIsFoundToFitAndFailsKeepsNobodyFromBeingTheFirst: its members cannot be placed together for a reason that the judgement does
// not see. It lacked room once, and is older than one that lacks it truly.
func TestAGangThatIsFoundToFitAndFailsKeepsNobodyFromBeingTheFirst(t *testing.T) {
	prepare := func(t *testing.T) (s *Store, older, younger *group, park func(*group) *Round) {
		t.Helper()
		s, clock := newTestStore()
		s.args.MaxOvertakeTime.Duration = time.Minute
		gate(s, "a", 1, 1)
		gate(s, "b", 1, 1)
		older, younger = s.gangs[Key{Namespace: "ns", Name: "a"}], s.gangs[Key{Namespace: "ns", Name: "b"}]
		park = func(g *group) *Round {
			scout := g.Members()[0].Pod
			round := s.Judge(scout)
			require.NotNil(t, round)
			s.Park(round, scout, "no room", scout, "NodeResourcesFit")
			return round
		}
		park(older)
		park(younger)
		clock.Step(time.Minute)
		require.True(t, park(older).Choose)
		require.False(t, park(younger).Choose)
		return s, older, younger, park
	}
	fail := func(t *testing.T, s *Store, g *group, places map[types.UID]string) {
		t.Helper()
		scout := g.Members()[0].Pod
		_, ok := s.Admit(s.Judge(scout), places)
		require.True(t, ok)
		require.True(t, s.Fail(scout))
	}
	somewhere := map[types.UID]string{"a-0": "n"}

	t.Run("while it is found to fit", func(t *testing.T) {
		s, older, younger, park := prepare(t)
		for range 3 {
			fail(t, s, older, somewhere)
			assert.True(t, park(younger).Choose)
		}
		park(older)
		assert.False(t, park(younger).Choose)
		assert.True(t, park(older).Choose, "what it has gone through is not forgotten")
	})
	t.Run("not if it is not certain that it fits", func(t *testing.T) {
		s, older, younger, park := prepare(t)
		fail(t, s, older, nil)
		assert.False(t, park(younger).Choose)
		assert.True(t, park(older).Choose, "room is to be set aside for it")
	})
	t.Run("not at once if room is set aside for it", func(t *testing.T) {
		s, older, younger, park := prepare(t)
		s.SetAside(park(older), somewhere, nil)
		for range 2 * maxFailuresAside {
			require.True(t, s.isAsideFor(older))
			assert.False(t, park(younger).Choose)
			fail(t, s, older, somewhere)
		}
		assert.False(t, s.isAsideFor(older))
		assert.True(t, park(younger).Choose)
	})
}
