package gangs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// stream keeps a simulated cluster busy. Small gangs and single pods always wait, start when they can, and end after a while. A big gang
// comes when none of them waits, so it is the first in order.
type stream struct {
	*simulation
	queued  bool // some are in queues
	longest int  // seconds that a pod may run
	ends    map[types.UID]time.Time
	big     state.Key
	came    time.Time
	starts  map[state.Key]bool // small gangs that have started
	passed  int                // starts since the big gang was found to lack something, until something was reserved for it or it started
}

func newStream(t *rapid.T, queued bool) *stream {
	args := simArgs()
	args.MaxOvertakes = int32(rapid.IntRange(0, 10).Draw(t, "bypasses"))
	atLeast := 0
	if args.MaxOvertakes == 0 {
		atLeast = 1
	}
	args.MaxOvertakeTime.Duration = time.Duration(rapid.IntRange(atLeast, 30).Draw(t, "age")) * time.Second
	draw := func(label string, lowest, highest int) int { return rapid.IntRange(lowest, highest).Draw(t, label) }
	s := &stream{simulation: newSimulation(t, draw, args), queued: queued, longest: draw("longest", 1, 20), ends: map[types.UID]time.Time{}, starts: map[state.Key]bool{}}
	s.bound = s.count
	for range draw("warmUp", 1, 20) {
		s.second(true)
	}
	for seconds := 0; s.backlog() > 0; seconds++ {
		s.second(false)
		if seconds > 1000 {
			t.Fatalf("small gangs do not start")
		}
	}
	return s
}

// count counts starts that bypass the big gang: each single pod, and each gang once.
func (s *stream) count(pod *corev1.Pod) {
	key, inGang := simKeyOf(pod)
	if s.big == (state.Key{}) || key == s.big || s.starts[key] {
		return
	}
	s.starts[key] = inGang
	if _, lacks := s.books.lacking[s.big]; lacks && !s.isHelped() {
		s.passed++
	}
}

// isHelped says whether places were reserved for the big gang, or found.
func (s *stream) isHelped() bool {
	return s.tracker.WaitList.Book.ReservedFor(s.big) != nil || s.books.chosen[s.big].Len() > 0 || s.books.short(s.big, s.books.holds) == 0
}

// backlog is the number of small pods that wait.
func (s *stream) backlog() int {
	n := 0
	for _, pod := range s.api {
		if key, _ := simKeyOf(pod); pod.Spec.NodeName == "" && key != s.big {
			n++
		}
	}
	return n
}

// second is a second of the cluster's life.
func (s *stream) second(come bool) {
	for come && s.backlog() < 4 {
		queue := ""
		if s.queued {
			queue = s.drawQueue()
		}
		if s.draw("single", 0, 1) == 1 {
			s.createSingle(queue, int64(s.draw("cpu", 1, 3))*1000, 0)
		} else {
			size := s.draw("size", 1, 2)
			s.createGang(s.newName("small"), gangSpec{queue: queue, size: size, minimum: size, cpu: int64(s.draw("cpu", 1, 3)) * 1000})
		}
	}
	for _, uid := range simUIDs(s.api) {
		pod := s.api[uid]
		end, runs := s.ends[uid]
		switch key, _ := simKeyOf(pod); {
		case pod.Spec.NodeName == "" || key == s.big && key != (state.Key{}):
		case !runs:
			s.ends[uid] = s.clock.Now().Add(time.Duration(s.draw("runs", 1, s.longest)) * time.Second)
		case !s.clock.Now().Before(end):
			s.forgetPod(pod)
		}
	}
	for range 100 {
		s.arrive()
		s.scheduleOne()
		s.leavePermit()
		s.bind()
		s.dispatch()
		s.clock.Step(10 * time.Millisecond)
	}
	s.tick()
}

// late is how many may start until a gang that is due has been decided. Decisions on a gang are at least 50 ms apart.
const late = 10

// come creates the big gang and runs the cluster until the gang has started or the given time has passed.
func (s *stream) come(spec gangSpec, limit int) {
	s.big, s.came = s.createGang("big", spec), s.clock.Now()
	for seconds := 0; s.boundOf(s.big) < spec.size; seconds++ {
		s.second(true)
		if seconds > limit {
			s.assertf(false, "the big gang has not started in %d seconds", seconds)
			s.t.FailNow()
		}
	}
	if n := int(s.args.MaxOvertakes); n > 0 {
		assert.LessOrEqual(s.t, s.passed, n+late, "the big gang was passed more often than it must bear")
	}
	assert.Nil(s.t, s.tracker.WaitList.Book.ReservedFor(s.big), "reserved room is given back")
	assert.False(s.t, s.tracker.WaitList.Book.StandingOf(s.big, s.clock.Now()).QuotaReserved, "reserved quota is given back")
}

// TestABigGangStartsHoweverManySmallOnesCome keeps a cluster full of small gangs and pods. Then a gang comes that needs most of the
// cluster, or all. It is bypassed no more often than allowed, and starts within a bounded time after that.
func TestABigGangStartsHoweverManySmallOnesCome(t *testing.T) {
	mustertesting.Histories(t, 40, func(t *rapid.T) {
		s := newStream(t, false)
		shape := rapid.SampledFrom([]gangSpec{{size: 3, cpu: 6000}, {size: 2, cpu: 6000}, {size: 6, cpu: 3000}, {size: 4, cpu: 3000}, {size: 3, cpu: 5000}}).Draw(t, "shape")
		shape.minimum = shape.size
		s.come(shape, 30+s.longest+180)
	})
}

// TestABigGangGetsItsQuotaHoweverManySmallOnesCome does the same with queues. The gang needs most of the quota of its queue, or all, and
// room on nodes. Pods of other queues take that room.
func TestABigGangGetsItsQuotaHoweverManySmallOnesCome(t *testing.T) {
	mustertesting.Histories(t, 40, func(t *rapid.T) {
		s := newStream(t, true)
		shape := rapid.SampledFrom([]gangSpec{
			{queue: "q", size: 2, cpu: 6000}, {queue: "q", size: 4, cpu: 3000}, {queue: "q", size: 3, cpu: 3000},
			{queue: "team", size: 1, cpu: 6000}, {queue: "team", size: 2, cpu: 3000}, {queue: "team", size: 2, cpu: 2000},
		}).Draw(t, "shape")
		shape.minimum = shape.size
		s.come(shape, 60+s.longest+300)
	})
}

// TestWhatIsReservedHoldsUpNoGangForEver creates gangs of all sizes, also gangs that the cluster can never hold, and ends running ones.
// Every gang that fits into the empty cluster has run in the end.
func TestWhatIsReservedHoldsUpNoGangForEver(t *testing.T) {
	mustertesting.Histories(t, 40, func(t *rapid.T) {
		s := newRapidSimulation(t)
		s.faults = false
		want := map[state.Key]bool{}
		for range rapid.IntRange(2, 8).Draw(t, "gangs") {
			size, cpu, queue := s.draw("size", 1, 6), int64(s.draw("cpu", 1, 7))*1000, s.drawQueue()
			may := map[string]int64{"": 1 << 40, "q": 12000, "team": 6000}[queue]
			key := s.createGang(s.newName("gang"), gangSpec{queue: queue, size: size, minimum: size, cpu: cpu, priority: s.drawPriority()})
			want[key] = int64(size) <= 3*(simNodeSize/cpu) && int64(size)*cpu <= may
			s.step(time.Second)
		}
		for range 300 {
			s.settle()
			s.step(time.Second)
			for _, key := range s.keys() {
				if s.books.startedIn(s.api, s.groups[key]) && s.draw("ends", 0, 4) == 0 {
					for _, pod := range s.boundPods(key) {
						s.forgetPod(pod)
					}
					s.forgetGroup(s.groups[key])
				}
			}
		}
		for key, fits := range want {
			_, waits := s.groups[key]
			s.assertf(fits == !waits, "%s: fits into the empty cluster: %v, waits: %v", key.Name, fits, waits)
		}
	})
}

// TestAGangThatCanNeverFitHoldsNothing: nothing is reserved for a gang that is larger than the cluster.
func TestAGangThatCanNeverFitHoldsNothing(t *testing.T) {
	args := simArgs()
	args.MaxOvertakes = 1
	s := newSimulation(t, noDraw, args)
	s.createGang("huge", gangSpec{size: 4, minimum: 4, cpu: simNodeSize})
	for i := range 30 {
		s.createGang(fmt.Sprint("small", i), gangSpec{size: 1, minimum: 1, cpu: 1000})
		s.settle()
		s.step(time.Second)
		assert.Nil(t, s.tracker.WaitList.Book.Nodes())
	}
	total := 0
	for _, key := range s.keys() {
		total += s.boundOf(key)
	}
	assert.Equal(t, 18, total, "the cluster is full")
}
