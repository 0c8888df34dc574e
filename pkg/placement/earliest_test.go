package placement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
)

// noon is when problems with a start are solved.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// endsAfter has a pod end so many minutes after noon.
func endsAfter(minutes int) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, "ends", fmt.Sprint(minutes)) }
}

func endOf(pod *corev1.Pod) (time.Time, bool) {
	minutes, known := 0, false
	if _, err := fmt.Sscan(pod.Annotations["ends"], &minutes); err == nil {
		known = true
	}
	return noon.Add(time.Duration(minutes) * time.Minute), known
}

// keptOn is a reservation of CPUs on a node from a start on, whose gang ends at a time.
func keptOn(node string, cpus int64, start, until int) Kept {
	amount := resources.List{corev1.ResourceCPU: 1000 * cpus}
	return Kept{Amounts: map[string]resources.List{node: amount}, Until: noon.Add(time.Duration(until) * time.Minute),
		On: func(on string, ending func(time.Time) resources.List) resources.List {
			kept := amount.Clone()
			kept.Sub(ending(noon.Add(time.Duration(start) * time.Minute)))
			return kept
		}}
}

// TestTheEarliestStart finds when two pods of 3 CPUs fit on nodes of 4.
func TestTheEarliestStart(t *testing.T) {
	a, b := types.UID("a"), types.UID("b")
	tests := map[string]struct {
		nodes    []fwk.NodeInfo
		reserved map[types.UID]string
		kept     []Kept
		held     map[string]resources.List
		refused  string
		start    int // minutes, -1 for none
		places   map[types.UID]string
	}{
		"when the second node comes free": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "4", endsAfter(9))), nodeWith("n2", running("q", "4", endsAfter(5))), nodeWith("n3", running("r", "4", endsAfter(7)))},
			start: 7, places: map[types.UID]string{a: "n2", b: "n3"}},
		"a free node is taken first": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "4", endsAfter(9))), nodeWith("n2"), nodeWith("n3", running("r", "4", endsAfter(7)))},
			start: 7, places: map[types.UID]string{a: "n2", b: "n3"}},
		"the last of several pods on a node counts": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "2", endsAfter(1)), running("q", "2", endsAfter(8))), nodeWith("n2")},
			start: 8, places: map[types.UID]string{a: "n1", b: "n2"}},
		"a pod without an end never ends": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2")}, start: -1},
		"a pod of a higher priority is waited for": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "4", urgent, endsAfter(3))), nodeWith("n2")},
			start: 3, places: map[types.UID]string{a: "n1", b: "n2"}},
		"a pod that should have ended ends at once": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "4", endsAfter(-3))), nodeWith("n2")},
			start: 0, places: map[types.UID]string{a: "n1", b: "n2"}},
		"pods of the gang itself stay": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "4", ofGang("own"), endsAfter(3))), nodeWith("n2")}, start: -1},
		"a node that a filter refuses": {
			nodes:   []fwk.NodeInfo{nodeWith("n1", running("p", "4", endsAfter(3))), nodeWith("n2"), nodeWith("n3", running("r", "4", endsAfter(7)))},
			refused: "n1", start: 7, places: map[types.UID]string{a: "n2", b: "n3"}},
		"the reserved places stay where that costs no time": {
			nodes:    []fwk.NodeInfo{nodeWith("n1", running("p", "4", endsAfter(7))), nodeWith("n2", running("q", "4", endsAfter(7))), nodeWith("n3", running("r", "4", endsAfter(7)))},
			reserved: map[types.UID]string{a: "n2", b: "n3"}, start: 7, places: map[types.UID]string{a: "n2", b: "n3"}},
		"and move where they come free too late": {
			nodes:    []fwk.NodeInfo{nodeWith("n1", running("p", "4", endsAfter(2))), nodeWith("n2", running("q", "4", endsAfter(7))), nodeWith("n3", running("r", "4", endsAfter(3)))},
			reserved: map[types.UID]string{a: "n2", b: "n3"}, start: 3, places: map[types.UID]string{a: "n1", b: "n3"}},
		"what is kept for another gang comes free when that has ended": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "4", endsAfter(2))), nodeWith("n2")}, kept: []Kept{keptOn("n1", 4, 2, 60)},
			start: 60, places: map[types.UID]string{a: "n1", b: "n2"}},
		"what other gangs have assumed does not come free": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "4", endsAfter(2))), nodeWith("n2")}, held: map[string]resources.List{"n2": {corev1.ResourceCPU: 2000}}, start: -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			problem := &Problem{Reserved: test.reserved, Kept: test.kept, Held: test.held, EndOf: endOf, Now: noon, OnlyWithStart: true,
				SameGang: func(p *corev1.Pod) bool { return p.Annotations["gang"] == "own" }}
			for _, uid := range []types.UID{a, b} {
				problem.Members = append(problem.Members, memberFor(running(string(uid), "3")))
			}
			m := &members{classes: [][]*gang.Member{problem.Members}, demands: []Demand{{Requests: problem.Members[0].Requests, Count: 2}}}
			places := problem.on(t.Context(), &cpuProfile{refused: test.refused}, m, test.nodes).chooseReservation(problem)
			if test.start < 0 {
				assert.Nil(t, places)
				return
			}
			require.NotNil(t, places)
			assert.Equal(t, time.Duration(test.start)*time.Minute, places.Start.Sub(noon))
			assert.Equal(t, test.places, places.Of)
		})
	}
}

// TestAStartThatNeedsManyTries: many small pods end before there is room on one node. The start is found, though not each time is tried.
func TestAStartThatNeedsManyTries(t *testing.T) {
	var nodes []fwk.NodeInfo
	for n := range 100 {
		nodes = append(nodes, nodeWith(fmt.Sprint("n", n), running(fmt.Sprint("p", n), "2", endsAfter(1+n)), running(fmt.Sprint("q", n), "2", endsAfter(300+n))))
	}
	problem := &Problem{Members: []*gang.Member{memberFor(running("a", "3"))}, EndOf: endOf, Now: noon}
	m := &members{classes: [][]*gang.Member{problem.Members}, demands: []Demand{{Requests: problem.Members[0].Requests, Count: 1}}}
	places := problem.on(t.Context(), &cpuProfile{}, m, nodes).chooseReservation(problem)
	require.NotNil(t, places)
	assert.Equal(t, 300*time.Minute, places.Start.Sub(noon))
}

// TestWhatIsKeptFromAGang: of a reservation with a start, the room that will not have come free by itself.
func TestWhatIsKeptFromAGang(t *testing.T) {
	nodes := []fwk.NodeInfo{nodeWith("n1", running("p", "2", endsAfter(5))), nodeWith("n2", running("q", "2", endsAfter(50))), nodeWith("n3")}
	for name, c := range map[string]struct {
		kept []Kept
		want []int64 // free CPUs
	}{
		"nothing where it comes free":  {[]Kept{keptOn("n1", 2, 10, 60)}, []int64{2, 2, 4}},
		"all where it is free already": {[]Kept{keptOn("n3", 3, 10, 60)}, []int64{2, 2, 1}},
		"what comes free too late":     {[]Kept{keptOn("n2", 2, 10, 60)}, []int64{2, 0, 4}},
		"a part":                       {[]Kept{keptOn("n1", 3, 10, 60)}, []int64{1, 2, 4}},
		"what comes free for one only": {[]Kept{keptOn("n1", 2, 10, 60), keptOn("n1", 2, 20, 60)}, []int64{0, 2, 4}},
		"for each of two reservations": {[]Kept{keptOn("n3", 1, 10, 60), keptOn("n3", 2, 20, 60)}, []int64{2, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			problem := &Problem{Members: []*gang.Member{memberFor(running("a", "1"))}, Kept: c.kept, EndOf: endOf, Now: noon}
			m := &members{classes: [][]*gang.Member{problem.Members}, demands: []Demand{{Requests: problem.Members[0].Requests, Count: 1}}}
			v := problem.on(t.Context(), &cpuProfile{}, m, nodes)
			for n, want := range c.want {
				assert.Equal(t, 1000*want, v.nodes[n].Free[corev1.ResourceCPU], v.nodes[n].Name)
			}
			assert.Nil(t, problem.Held, "the problem does not change")
		})
	}
}

// TestNoVictimGivesAStartItsRoom: a gang is to start on a node when what runs there has ended. No other gang evicts that for room that it would
// not get.
func TestNoVictimGivesAStartItsRoom(t *testing.T) {
	planner, infos := plannerOn(t, []*corev1.Node{nodeIn("z1", "n1", 1), nodeIn("z1", "n2", 1)}, in("p", "p1", on("n1"), endsAfter(5)), in("p", "p2", on("n2"), endsAfter(5)))
	kept := func(node string) Kept {
		one := resources.List{corev1.ResourceCPU: 1000}
		return Kept{Amounts: map[string]resources.List{node: one}, On: func(_ string, ending func(time.Time) resources.List) resources.List {
			left := one.Clone()
			left.Sub(ending(noon.Add(10 * time.Minute)))
			return left
		}}
	}
	for want, reserved := range map[string][]Kept{"p2": {kept("n1")}, "p1": {kept("n2")}, "": {kept("n1"), kept("n2")}} {
		problem := problemOf(some(1, "m"))
		problem.EndOf, problem.Now, problem.Kept = endOf, noon, reserved
		seat := planner.MakeRoom(t.Context(), problem, infos, singlesOn(infos), allow{})
		if want == "" {
			assert.Nil(t, seat)
			continue
		}
		require.NotNil(t, seat)
		assert.Equal(t, []string{want}, namesOf(seat.Victims))
	}
}

// TestAStartThatAwaitsTheOwnQueue: if its own pods end last, other queues could not start the gang sooner.
func TestAStartThatAwaitsTheOwnQueue(t *testing.T) {
	own := func(p *corev1.Pod) { p.Labels = map[string]string{"queue": "own"} }
	isOwn := func(p *corev1.Pod) bool { return p.Labels["queue"] == "own" }
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		kept []Kept
		want bool
	}{
		"its own pod is in the way":     {[]*corev1.Pod{running("p", "4", own, endsAfter(2))}, nil, true},
		"another pod is":                {[]*corev1.Pod{running("p", "4", endsAfter(2))}, nil, false},
		"its own pod ends, too":         {[]*corev1.Pod{running("p", "3", endsAfter(2)), running("q", "1", own, endsAfter(1))}, nil, false},
		"its own pod ends first":        {[]*corev1.Pod{running("p", "2", endsAfter(2)), running("q", "2", own, endsAfter(1))}, nil, false},
		"its own pod ends last":         {[]*corev1.Pod{running("p", "2", endsAfter(1)), running("q", "2", own, endsAfter(2))}, nil, true},
		"both end at the same time":     {[]*corev1.Pod{running("p", "2", endsAfter(2)), running("q", "2", own, endsAfter(2))}, nil, false},
		"its own pod is in no way":      {[]*corev1.Pod{running("p", "3", endsAfter(1)), running("q", "1", own, endsAfter(1))}, nil, false},
		"another reservation ends last": {[]*corev1.Pod{running("q", "2", own, endsAfter(1))}, []Kept{keptOn("n1", 2, 1, 60)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			problem := &Problem{Members: []*gang.Member{memberFor(running("a", "3"))}, OwnQueue: isOwn, EndOf: endOf, Now: noon, Kept: c.kept}
			m := &members{classes: [][]*gang.Member{problem.Members}, demands: []Demand{{Requests: problem.Members[0].Requests, Count: 1}}}
			places := problem.on(t.Context(), &cpuProfile{}, m, []fwk.NodeInfo{nodeWith("n1", c.pods...)}).chooseReservation(problem)
			require.NotNil(t, places)
			assert.Equal(t, c.want, places.AwaitsOwn)
		})
	}
}

// slots is the quota that pods use. One of the own queue that ends gives its own back.
type slots struct {
	used    sets.Set[types.UID]
	missing int
	own     bool
}

func (s *slots) Pods() []types.UID { return s.used.UnsortedList() }
func (s *slots) End(p types.UID) {
	if strings.HasPrefix(string(p), "own-") {
		s.missing--
	}
}
func (s *slots) Suffices() bool { return s.missing <= 0 }
func (s *slots) IsOwn() bool    { return s.own }

// TestAStartAwaitsQuotaAndRoom: it is known when both come free. The gang awaits its own queue if that is the last to give its quota back.
func TestAStartAwaitsQuotaAndRoom(t *testing.T) {
	own := func(p *corev1.Pod) { p.UID = "own-" + p.UID }
	for name, c := range map[string]struct {
		nodes     []fwk.NodeInfo
		missing   int
		of        bool // its own queue
		start     int  // minutes, -1 for none
		awaitsOwn bool
		gone      bool // a pod of the own queue is on no node any more, and is counted still
	}{
		"room is free now": {[]fwk.NodeInfo{nodeWith("n1", running("p", "1", own, endsAfter(5))), nodeWith("n2")}, 1, true, 5, true, false},
		"the second pod gives enough": {
			[]fwk.NodeInfo{nodeWith("n1", running("p", "1", own, endsAfter(5)), running("q", "1", own, endsAfter(8))), nodeWith("n2")}, 2, true, 8, true, false},
		"a parent lacks it": {[]fwk.NodeInfo{nodeWith("n1", running("p", "1", own, endsAfter(5))), nodeWith("n2")}, 1, false, 5, false, false},
		"room comes last":   {[]fwk.NodeInfo{nodeWith("n1", running("p", "1", own, endsAfter(5)), running("q", "3", endsAfter(9)))}, 1, true, 9, false, false},
		"quota comes last":  {[]fwk.NodeInfo{nodeWith("n1", running("p", "1", own, endsAfter(9)), running("q", "3", endsAfter(5)))}, 1, true, 9, true, false},
		"its end is not known": {
			[]fwk.NodeInfo{nodeWith("n1", running("p", "1", own), running("q", "1", endsAfter(5))), nodeWith("n2")}, 1, true, -1, false, false},
		"one is on no node any more": {[]fwk.NodeInfo{nodeWith("n1", running("p", "1", endsAfter(5)))}, 1, true, 0, false, true},
		"that one is not enough":     {[]fwk.NodeInfo{nodeWith("n1", running("p", "1", own, endsAfter(5)))}, 2, true, 5, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			used := sets.New[types.UID]()
			if c.gone {
				used.Insert("own-gone")
			}
			for _, node := range c.nodes {
				for _, pod := range node.GetPods() {
					used.Insert(pod.GetPod().UID)
				}
			}
			problem := &Problem{
				Members: []*gang.Member{memberFor(running("a", "3"))}, EndOf: endOf, Now: noon, Quota: func() Quota { return &slots{used, c.missing, c.of} },
			}
			m := &members{classes: [][]*gang.Member{problem.Members}, demands: []Demand{{Requests: problem.Members[0].Requests, Count: 1}}}
			places := problem.on(t.Context(), &cpuProfile{}, m, c.nodes).earliest(problem, nil)
			if c.start < 0 {
				assert.Nil(t, places)
				return
			}
			require.NotNil(t, places)
			assert.Equal(t, time.Duration(c.start)*time.Minute, places.Start.Sub(noon))
			assert.Equal(t, c.awaitsOwn, places.AwaitsOwn)
		})
	}
}
