package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// load is a gang, or a pod without one, of which every pod that is evicted is submitted again.
type load struct {
	name, queue string
	priority    int32
	min         int // 0 for a pod without a gang
	pods        []*corev1.Pod
}

// evictionHistory is a cluster whose queues are asked for more than it has, with a load that does not change. It must come to rest.
type evictionHistory struct {
	t       *rapid.T
	nodes   []*corev1.Node
	queues  map[string]quota.Terms
	loads   []*load
	clock   int64
	evicted int
	log     []string
}

// TestHistoriesWithEvictionsComeToRest: waiting units are seated in sequence, with evictions where the rules allow them. Each seat is for
// all pods and takes no needless victim. No capability is exceeded, and no gang is broken. After a bounded number of evictions nothing
// changes any more.
func TestHistoriesWithEvictionsComeToRest(t *testing.T) {
	evictions := 0
	mustertesting.HistoriesUntil(t, 300, func() bool { return evictions > 0 }, func(t *rapid.T) {
		h := drawHistory(t)
		most := len(h.loads) * len(h.loads) * 4
		for h.step() {
			require.LessOrEqual(t, h.evicted, most, "the load goes in circles: %s", strings.Join(h.log, "; "))
			h.check()
		}
		evictions += h.evicted
	})
	require.Positive(t, evictions)
}

func drawHistory(t *rapid.T) *evictionHistory {
	h := &evictionHistory{t: t, queues: map[string]quota.Terms{}}
	total := int64(0)
	for n := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		gpus := rapid.IntRange(1, 6).Draw(t, "gpus")
		total += int64(gpus)
		h.nodes = append(h.nodes, mustertesting.MakeNode(nodeName(n)).Allocatable("cpu", "100", "pods", "50", string(gpu), fmt.Sprint(gpus)).Obj())
	}
	names := []string{"a", "b", "c"}
	for _, name := range names {
		terms := quota.Terms{NotReclaimable: rapid.IntRange(0, 9).Draw(t, "keeps all") == 0, Weight: 1}
		if rapid.Bool().Draw(t, "deserved is written") {
			terms.Deserved = resources.List{gpu: rapid.Int64Range(0, total).Draw(t, "deserved")}
		}
		if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
			terms.Capability = resources.List{gpu: rapid.Int64Range(1, total).Draw(t, "capability")}
		}
		if name != "a" && rapid.IntRange(0, 3).Draw(t, "is a child") == 0 {
			terms.Parent = "org"
			h.queues["org"] = quota.Terms{Weight: 1, Deserved: resources.List{gpu: total / 2}}
		}
		h.queues[name] = terms
	}
	for i := range rapid.IntRange(3, 9).Draw(t, "loads") {
		l := &load{name: fmt.Sprintf("l%d", i), queue: rapid.SampledFrom(names).Draw(t, "queue"), priority: rapid.Int32Range(0, 3).Draw(t, "priority")}
		size, gpus := rapid.IntRange(1, 4).Draw(t, "size"), rapid.IntRange(1, 3).Draw(t, "gpus of a pod")
		if size > 1 {
			l.min = rapid.IntRange(0, size).Draw(t, "minimum")
		}
		for m := range size {
			p := mustertesting.MakePod(fmt.Sprintf("%s-%d", l.name, m)).Requests(string(gpu), fmt.Sprint(gpus)).Priority(l.priority).
				Annotation("queue", l.queue).Annotation("gang", "").Obj()
			p.UID = types.UID(p.Name)
			if size > 1 {
				p.Annotations["gang"] = l.name
			}
			l.pods = append(l.pods, p)
		}
		h.loads = append(h.loads, l)
	}
	return h
}

// waits are the pods of a load that are tried together next: the minimum, or one that is surplus.
func (l *load) waits() []*corev1.Pod {
	waiting := slices.DeleteFunc(slices.Clone(l.pods), func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	running := len(l.pods) - len(waiting)
	if running < l.min {
		return waiting[:l.min-running]
	}
	return waiting[:min(1, len(waiting))]
}

// step seats what can be seated first, in a random order of loads. It says false if nothing can.
func (h *evictionHistory) step() bool {
	order := rapid.Permutation(h.loads).Draw(h.t, "order")
	for _, evicts := range []bool{false, true} {
		for _, l := range order {
			if pods := l.waits(); len(pods) > 0 && h.seat(l, pods, evicts) {
				return true
			}
		}
	}
	return false
}

// seat seats pods in free room and quota, or with evictions.
func (h *evictionHistory) seat(l *load, pods []*corev1.Pod, evicts bool) bool {
	w := h.town(l, pods)
	if !evicts {
		if w.anyRules().HasQuota() {
			problem := problemOf(pods)
			v := problem.on(h.t.Context(), w.planner.profile, membersOf(w.planner.profile, problem.Members), w.infos)
			if packing, _, _ := v.place(v.fits); packing.Feasibility == Possible {
				h.start(pods, v.nodesOf(packing.Places))
				return true
			}
		}
		return false
	}
	seat := w.makeRoom(w.candidates)
	if seat == nil || len(seat.Victims) == 0 {
		return false
	}
	w.checkSeat(h.t, seat)
	require.Empty(h.t, namesOf(w.couldStay(seat.Victims)), "could stay")
	gone := sets.New(namesOf(seat.Victims)...)
	h.log = append(h.log, fmt.Sprintf("%s of %s evicts %v", l.name, l.queue, sets.List(gone)))
	for _, other := range h.loads {
		for _, p := range other.pods {
			if gone.Has(p.Name) {
				require.NotEqual(h.t, l, other, "a gang evicts its own members")
				p.Spec.NodeName = ""
				h.evicted++
			}
		}
	}
	h.start(pods, seat.Places)
	return true
}

func (h *evictionHistory) start(pods []*corev1.Pod, places map[types.UID]string) {
	h.clock++
	for _, p := range pods {
		p.Spec.NodeName, p.CreationTimestamp = places[p.UID], metav1.NewTime(time.Unix(h.clock, 0))
	}
}

// town is the cluster as it is now, for pods of a load that wait.
func (h *evictionHistory) town(l *load, pods []*corev1.Pod) *town {
	w := &town{
		nodes: h.nodes, waiting: pods, specs: map[string]gangSpec{}, queues: quota.NewTree(), asks: map[string]resources.Sums{},
		claimant: &quota.Unit{Account: l.queue, Priority: l.priority},
	}
	for name, terms := range h.queues {
		w.queues.Set(name, terms)
	}
	for _, other := range h.loads {
		w.specs[other.name] = gangSpec{min: other.min}
		for _, p := range other.pods {
			if p.Spec.NodeName != "" {
				w.pods = append(w.pods, p)
				continue
			}
			if w.asks[other.queue] == nil {
				w.asks[other.queue] = resources.Sums{}
			}
			w.asks[other.queue].Add(resources.List{gpu: resources.PodRequests(p)[gpu]})
		}
	}
	w.open(h.t)
	w.candidates = slices.DeleteFunc(w.candidates, func(v *Victim) bool { return v.Gang == l.name })
	return w
}

// check checks what holds after each step.
func (h *evictionHistory) check() {
	used, tree := map[string]int64{}, quota.NewTree()
	for name, terms := range h.queues {
		tree.Set(name, terms)
	}
	for _, l := range h.loads {
		running := 0
		for _, p := range l.pods {
			if p.Spec.NodeName != "" {
				running++
				for _, queue := range tree.Path(l.queue) {
					used[queue] += resources.PodRequests(p)[gpu]
				}
			}
		}
		require.True(h.t, running == 0 || running >= l.min, "%d of %s run, its minimum is %d: %v", running, l.name, l.min, h.log)
	}
	for queue, amount := range used {
		if most, limited := h.queues[queue].Capability[gpu]; limited {
			require.LessOrEqual(h.t, amount, most, "the capability of %s: %v", queue, h.log)
		}
	}
}
