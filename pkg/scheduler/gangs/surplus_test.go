package gangs_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// boundOf is the number of pods of a gang that the API says are bound.
func (s *simulation) boundOf(key state.Key) int { return len(s.boundPods(key)) }

func (s *simulation) boundPods(key state.Key) (bound []*corev1.Pod) {
	for _, uid := range simUIDs(s.api) {
		if k, _ := simKeyOf(s.api[uid]); k == key && s.api[uid].Spec.NodeName != "" {
			bound = append(bound, s.api[uid])
		}
	}
	return bound
}

// resize makes a cluster of n nodes of the same size.
func (s *simulation) resize(n int, cpu int64) {
	clear(s.nodes)
	for i := range n {
		s.nodes[fmt.Sprint("node", i)] = cpu
	}
}

// TestAMinimumThatWaitsGetsBothPlaces: two pods of an elastic gang end three seconds apart. The minimum of another gang waits for two
// places. No single event gives it enough room, so only what is kept for it lets it start.
func TestAMinimumThatWaitsGetsBothPlaces(t *testing.T) {
	for name, sinceSeconds := range map[string]int{"it has waited longer than a bound would allow": 60, "it has just come": 1} {
		t.Run(name, func(t *testing.T) {
			s := newSimulation(t, noDraw, simArgs())
			s.resize(3, 2000)
			elastic := s.createGang("elastic", gangSpec{size: 10, minimum: 1, cpu: 1000})
			s.run(time.Second)
			require.Equal(t, 6, s.boundOf(elastic))
			waits := s.createGang("waits", gangSpec{size: 2, minimum: 2, cpu: 1000})
			s.run(time.Duration(sinceSeconds) * time.Second)
			s.finish(s.boundPods(elastic)[2], true)
			s.run(3 * time.Second)
			assert.Equal(t, 5, s.boundOf(elastic), "surplus leaves the place alone")
			s.finish(s.boundPods(elastic)[3], true)
			s.run(time.Second)
			assert.Equal(t, 2, s.boundOf(waits))
			assert.Equal(t, 4, s.boundOf(elastic))
			s.finish(s.boundPods(elastic)[3], true)
			s.run(time.Second)
			assert.Equal(t, 4, s.boundOf(elastic), "surplus takes the room that no other pod waits for")
		})
	}
}

// TestSurplusLeavesRoomToAMinimumBehindManyOlderGangs: forty older gangs wait for whole nodes, and no place for a small pod helps them.
func TestSurplusLeavesRoomToAMinimumBehindManyOlderGangs(t *testing.T) {
	s := newSimulation(t, noDraw, simArgs())
	s.resize(3, 2000)
	elastic := s.createGang("elastic", gangSpec{size: 10, minimum: 1, cpu: 1000})
	s.run(time.Second)
	for range 40 {
		s.createGang(s.newName("older"), gangSpec{size: 1, minimum: 1, cpu: 2000})
	}
	s.run(time.Second)
	waits := s.createGang("waits", gangSpec{size: 2, minimum: 2, cpu: 1000})
	s.run(time.Second)
	first := s.boundPods(elastic)[1]
	s.finish(first, true)
	s.run(3 * time.Second)
	require.Equal(t, 5, s.boundOf(elastic), "surplus leaves the place alone")
	second := slices.IndexFunc(s.boundPods(elastic)[1:], func(p *corev1.Pod) bool { return p.Spec.NodeName != first.Spec.NodeName })
	s.finish(s.boundPods(elastic)[1+second], true)
	s.run(time.Second)
	assert.Equal(t, 2, s.boundOf(waits))
	assert.Equal(t, 4, s.boundOf(elastic))
}

// TestAMinimumStartsBeforeSurplusWhenNodesComeFree: five nodes come free within 0.22 seconds.
func TestAMinimumStartsBeforeSurplusWhenNodesComeFree(t *testing.T) {
	s := newSimulation(t, noDraw, simArgs())
	s.resize(6, 2000)
	elastic := s.createGang("elastic", gangSpec{size: 11, minimum: 1, cpu: 2000})
	var running []*corev1.Pod
	for range 5 {
		running = append(running, s.createSingle("", 2000, 1))
	}
	s.run(time.Second)
	require.Equal(t, 1, s.boundOf(elastic))
	waits := s.createGang("waits", gangSpec{size: 5, minimum: 5, cpu: 2000})
	s.run(2 * time.Second)
	var order []string
	s.bound = func(pod *corev1.Pod) {
		key, _ := simKeyOf(pod)
		order = append(order, key.Name)
	}
	for _, pod := range running {
		s.forgetPod(s.api[pod.UID])
		s.run(55 * time.Millisecond)
	}
	s.run(time.Second)
	assert.Equal(t, 5, s.boundOf(waits))
	assert.Equal(t, []string{"waits", "waits", "waits", "waits", "waits"}, order)
}

// TestAMinimumOfLowerPriorityDoesNotHoldSurplusBack: surplus leaves room only to minimums of its own priority and above.
func TestAMinimumOfLowerPriorityDoesNotHoldSurplusBack(t *testing.T) {
	for priority, want := range map[int32]int{-1: 6, 0: 5, 1: 5} {
		s := newSimulation(t, noDraw, simArgs())
		s.resize(3, 2000)
		elastic := s.createGang("elastic", gangSpec{size: 10, minimum: 1, cpu: 1000})
		s.run(time.Second)
		s.createGang("waits", gangSpec{size: 2, minimum: 2, cpu: 1000, priority: priority})
		s.run(time.Second)
		s.finish(s.boundPods(elastic)[2], true)
		s.run(time.Second)
		assert.Equal(t, want, s.boundOf(elastic), "a minimum of priority %d waits", priority)
	}
}

// TestSurplusLeavesRoomToAPartialGang: nodes are reserved at once for a gang that a crash left below its minimum. It may use other nodes,
// too, and is evicted if it is not completed soon.
func TestSurplusLeavesRoomToAPartialGang(t *testing.T) {
	s := newSimulation(t, noDraw, simArgs())
	s.resize(3, 2000)
	elastic := s.createGang("elastic", gangSpec{size: 10, minimum: 1, cpu: 1000})
	s.run(time.Second)
	partial := s.createGang("partial", gangSpec{queue: "q", size: 3, minimum: 3, cpu: 1000})
	last := s.boundPods(elastic)[5]
	s.forgetPod(last)
	for _, uid := range simUIDs(s.api) {
		if key, _ := simKeyOf(s.api[uid]); key == partial && s.boundOf(partial) == 0 {
			s.crashWhileBinding(s.api[uid], last.Spec.NodeName)
		}
	}
	s.run(100 * time.Millisecond)
	require.Equal(t, 5, s.boundOf(elastic))
	require.Equal(t, 1, s.boundOf(partial))
	require.NotNil(t, s.tracker.WaitList.Book.ReservedFor(partial))
	reserved := s.tracker.WaitList.Book.Nodes()
	endOne := func(onReserved bool) {
		surplus := s.boundPods(elastic)[1:]
		i := slices.IndexFunc(surplus, func(p *corev1.Pod) bool { return reserved.On(p.Spec.NodeName) == onReserved })
		s.finish(surplus[i], true)
		s.run(100 * time.Millisecond)
	}
	endOne(false)
	assert.Equal(t, 4, s.boundOf(elastic), "surplus leaves the place alone, though other nodes are reserved")
	endOne(true)
	assert.Equal(t, 3, s.boundOf(partial))
	assert.Equal(t, 3, s.boundOf(elastic))
}

// TestSurplusOfEqualGangsIsSharedEvenly compares gangs that were created in the same second and are alike. Their surplus differs by at most
// one pod, and the gang that was seen first has the odd pod. This holds also after pods have ended.
func TestSurplusOfEqualGangsIsSharedEvenly(t *testing.T) {
	mustertesting.Histories(t, 50, func(t *rapid.T) {
		s := newSimulation(t, func(label string, lowest, highest int) int { return rapid.IntRange(lowest, highest).Draw(t, label) }, simArgs())
		s.resize(rapid.IntRange(4, 9).Draw(t, "nodes"), 2000)
		count, minimum := rapid.IntRange(2, 4).Draw(t, "gangs"), rapid.IntRange(1, 2).Draw(t, "minimum")
		var keys []state.Key
		for range count {
			keys = append(keys, s.createGang(s.newName("gang"), gangSpec{size: 30, minimum: minimum, cpu: 1000}))
		}
		s.run(time.Second)
		surplus := func() (least, most int) {
			least = 1000
			for _, key := range keys {
				least, most = min(least, s.boundOf(key)-minimum), max(most, s.boundOf(key)-minimum)
			}
			return least, most
		}
		least, most := surplus()
		assert.LessOrEqual(t, most-least, 1)
		assert.GreaterOrEqual(t, least, 0)
		for i := 1; i < len(keys); i++ {
			assert.LessOrEqual(t, s.boundOf(keys[i]), s.boundOf(keys[i-1]), "the one that was seen first goes first")
		}
		for range rapid.IntRange(1, 4).Draw(t, "times") {
			key := rapid.SampledFrom(keys).Draw(t, "of")
			for range rapid.IntRange(1, 3).Draw(t, "ended") {
				if bound := s.boundPods(key); len(bound) > minimum {
					s.forgetPod(bound[len(bound)-1])
				}
			}
			s.run(200 * time.Millisecond)
			least, most := surplus()
			assert.LessOrEqual(t, most-least, 1)
		}
		total := 0
		for _, key := range keys {
			total += s.boundOf(key)
		}
		assert.Equal(t, 2*len(s.nodes), total, "nothing is left over")
	})
}

// TestSurplusIsSharedEvenlyThoughItBacksOff has room come for one pod after the other. Each time the scheduling queue tries the surplus of
// one gang only. The surplus of the others backs off there, or has not been activated yet.
func TestSurplusIsSharedEvenlyThoughItBacksOff(t *testing.T) {
	mustertesting.Histories(t, 100, func(t *rapid.T) {
		s := newSimulation(t, func(label string, lowest, highest int) int { return rapid.IntRange(lowest, highest).Draw(t, label) }, simArgs())
		s.resize(3, 1000)
		keys := []state.Key{}
		for i := range 3 {
			keys = append(keys, s.createGang(fmt.Sprint("gang", i), gangSpec{size: 30, minimum: 1, cpu: 1000}))
		}
		s.run(time.Second)
		tried := keys[0]
		s.backsOff = func(pod *corev1.Pod) bool { key, _ := simKeyOf(pod); return key != tried }
		for i := range rapid.IntRange(1, 20).Draw(t, "nodes") {
			tried = rapid.SampledFrom(keys).Draw(t, "tried")
			name := fmt.Sprint("node", 3+i)
			s.nodes[name] = 1000
			s.tracker.Quota.NodesChanged(false)
			s.roomFreed("", &simRoom{node: name, cpu: 1000})
			s.run(50 * time.Millisecond)
			bound := []int{s.boundOf(keys[0]), s.boundOf(keys[1]), s.boundOf(keys[2])}
			assert.LessOrEqual(t, slices.Max(bound)-slices.Min(bound), 1, "%v are bound", bound)
			assert.Equal(t, 4+i, bound[0]+bound[1]+bound[2], "the room is used")
		}
	})
}

// TestSurplusThatDoesNotFitDelaysNoOtherGang: the gang with less surplus needs larger nodes than the new ones.
func TestSurplusThatDoesNotFitDelaysNoOtherGang(t *testing.T) {
	s := newSimulation(t, noDraw, simArgs())
	s.resize(2, 2000)
	large := s.createGang("large", gangSpec{size: 1, minimum: 1, cpu: 2000})
	small := s.createGang("small", gangSpec{size: 20, minimum: 1, cpu: 1000})
	s.run(time.Second)
	for i := range 4 {
		s.createMember("large", "a", 1+i, 2000, 0, 0, "")
	}
	s.run(time.Second)
	require.Equal(t, []int{1, 2}, []int{s.boundOf(large), s.boundOf(small)})
	for i := range 10 {
		name := fmt.Sprint("node", 3+i)
		s.nodes[name] = 1000
		s.tracker.Quota.NodesChanged(false)
		s.roomFreed("", &simRoom{node: name, cpu: 1000})
		s.run(50 * time.Millisecond)
		assert.Equal(t, 3+i, s.boundOf(small))
	}
	assert.Equal(t, 1, s.boundOf(large))
}

// TestNoSurplusTakesWhatAWaitingMinimumCouldUse keeps a cluster full of elastic gangs whose pods end, while other gangs' minimums wait. The
// books judge each Reserve of a surplus pod.
func TestNoSurplusTakesWhatAWaitingMinimumCouldUse(t *testing.T) {
	mustertesting.Histories(t, 100, func(t *rapid.T) {
		s := newRapidSimulation(t)
		for range rapid.IntRange(1, 3).Draw(t, "elastic") {
			s.createGang(s.newName("elastic"), gangSpec{queue: s.drawQueue(), size: 12, minimum: 1, cpu: int64(s.draw("cpu", 1, 2)) * 1000, priority: s.drawPriority()})
		}
		s.run(50 * time.Millisecond)
		if s.draw("crowd", 0, 3) == 3 { // older gangs whose members are larger than any place that comes free
			for range 34 {
				s.createGang(s.newName("large"), gangSpec{size: 1, minimum: 1, cpu: simNodeSize})
			}
		}
		for range rapid.IntRange(3, 15).Draw(t, "rounds") {
			if s.draw("comes", 0, 2) == 0 {
				size := s.draw("size", 2, 5)
				s.createGang(s.newName("waits"), gangSpec{queue: s.drawQueue(), size: size, minimum: size, cpu: int64(s.draw("cpu", 1, 3)) * 1000, priority: s.drawPriority()})
			}
			for range s.draw("ends", 0, 3) {
				var bound []*corev1.Pod
				for _, uid := range simUIDs(s.api) {
					if s.api[uid].Spec.NodeName != "" {
						bound = append(bound, s.api[uid])
					}
				}
				if pod, ok := simPick(s, "pod", bound); ok {
					s.finish(pod, true)
				}
			}
			s.run(time.Duration(s.draw("ms", 1, 100)) * 10 * time.Millisecond)
		}
		s.calmDown()
		s.books.checkRest()
	})
}
