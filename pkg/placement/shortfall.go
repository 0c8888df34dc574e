package placement

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// Shortfall is the least room that a demand lacks on nodes that do not refuse its pods. While it is not Covered, the demand certainly does
// not fit, unless a node that refused the pods has changed.
type Shortfall struct {
	pods    int            // how many more pods need room
	refused []string       // nodes on which more room does not help, sorted; at most maxRefused of them
	each    resources.List // what a pod takes
	kind    string         // of the need: kindOf(each, refused)
	scarce  []scarce
	any     int    // how many more pods may have room, counted where no resource is scarce on every node
	index   *Index // of the nodes
}

// scarce is a resource that limits every node: without more of it none takes another pod.
type scarce struct {
	name   corev1.ResourceName
	gained int // how many more pods may have room, by this resource alone
	// left is the rest on each node, less than a pod takes. Most amounts that come free are too small for one more pod and are summed here.
	// It holds numbers only, so that the garbage collector need not scan it for each waiting gang.
	left []int64
}

// Index finds nodes by their names. Shortfalls on the same nodes share one.
type Index struct {
	names []string
	at    map[string]int
}

// IndexOf returns the last index if it is of the same nodes in the same order, else a new one. last may be nil.
func IndexOf(nodes []Node, last *Index) *Index {
	if last != nil && slices.EqualFunc(last.names, nodes, func(name string, node Node) bool { return name == node.Name }) {
		return last
	}
	index := &Index{names: make([]string, len(nodes)), at: make(map[string]int, len(nodes))}
	for n := range nodes {
		index.names[n], index.at[nodes[n].Name] = nodes[n].Name, n
	}
	return index
}

// maxRefused bounds the memory for nodes that refuse a demand, as many gangs may wait in a large cluster. Room on further such nodes
// counts as useful.
const maxRefused = 1024

// Refuses says whether a node (by index) refuses the pods of a demand (by index) whatever room it has.
type Refuses func(demand, node int) bool

// Lacking returns the shortfall of the first demand that cannot be met with all free room where it may go. It is nil if there is none. The index
// is that of the nodes. The holder of a shortfall must discard it when a node stops refusing.
func Lacking(demands []Demand, nodes []Node, index *Index, refuses Refuses) *Shortfall {
	for d, demand := range demands {
		if short := lacking(demand, nodes, func(n int) bool { return refuses(d, n) }); short != nil {
			short.index = index
			return short
		}
	}
	return nil
}

func lacking(demand Demand, nodes []Node, refuses func(node int) bool) *Shortfall {
	missing := demand.Count
	var refused []string
	lacked := map[corev1.ResourceName]bool{}
	for name, amount := range demand.Requests {
		if amount > 0 {
			lacked[name] = true
		}
	}
	if len(lacked) == 0 {
		return nil // the pods take nothing: they lack nodes, not room
	}
	each := demand.Requests.Clone()
	for n := range nodes {
		if refuses(n) {
			if len(refused) < maxRefused {
				refused = append(refused, nodes[n].Name)
			}
			continue
		}
		slots := Slots(demand, nodes[n].Free)
		if missing -= slots; missing <= 0 {
			return nil
		}
		// A resource that would allow more pods on this node is not the one that limits it.
		for name := range lacked {
			if max(0, nodes[n].Free[name]/each[name]) > int64(slots) {
				delete(lacked, name)
			}
		}
	}
	slices.Sort(refused)
	short := &Shortfall{pods: missing, refused: refused, each: each, kind: kindOf(each, refused)}
	for name := range lacked {
		short.scarce = append(short.scarce, scarce{name: name, left: leftOver(name, each[name], nodes)})
	}
	return short
}

// leftOver is the rest of a resource on each node that is full of pods which take each of it.
func leftOver(name corev1.ResourceName, each int64, nodes []Node) []int64 {
	left := make([]int64, len(nodes))
	for n := range nodes {
		left[n] = nodes[n].Free[name]
		left[n] -= max(0, left[n]/each) * each
	}
	return left
}

// Free counts an amount that has come free on a node. The node is "" if it is new or has changed. Whether it refuses the pods is not known,
// and the amount is all of its free room.
func (s *Shortfall) Free(node string, amount resources.List) {
	if _, refused := slices.BinarySearch(s.refused, node); refused && node != "" {
		return
	}
	n, known := s.index.at[node]
	for i := range s.scarce {
		short := &s.scarce[i]
		each, free := s.each[short.name], amount[short.name]
		switch {
		case free <= 0:
		case node == "":
			short.gained = addCapped(short.gained, int(min(math.MaxInt32, free/each)))
		case known:
			short.gained = addCapped(short.gained, short.add(n, free, each))
		default: // the node is newer than the shortfall
			short.gained = addCapped(short.gained, s.podsFor(short.name, amount))
		}
	}
	if len(s.scarce) > 0 {
		return
	}
	most := 0
	for name := range s.each {
		most = max(most, s.podsFor(name, amount))
	}
	s.any = addCapped(s.any, most)
}

// add adds a free amount to the rest on a node, and returns how many more pods have enough now.
func (s *scarce) add(n int, free, each int64) int {
	s.left[n] += min(free, math.MaxInt64-max(0, s.left[n]))
	if s.left[n] < each {
		return 0
	}
	more := s.left[n] / each
	s.left[n] -= more * each
	return int(min(math.MaxInt32, more))
}

// Covered says whether the amounts that have come free may be enough.
func (s *Shortfall) Covered() bool {
	for i := range s.scarce {
		if s.scarce[i].gained < s.pods {
			return false
		}
	}
	return len(s.scarce) > 0 || s.any >= s.pods
}

// podsFor is how many more pods may have enough of a resource on a node whose rest is not known. The amount may complete that rest.
func (s *Shortfall) podsFor(name corev1.ResourceName, amount resources.List) int {
	each, free := s.each[name], amount[name]
	if each <= 0 || free <= 0 {
		return 0
	}
	return int(min(math.MaxInt32, (free-1)/each+1))
}

func addCapped(a, b int) int { return min(math.MaxInt32, a+b) }

// IsHurtBy says whether taking an amount from a node's free room leaves fewer places for pods that lack room. A node that refuses them is
// never hurt. Surplus pods ask it of each node and for each kind of need.
func (s *Shortfall) IsHurtBy(node string, free, taken resources.List) bool {
	before, after := int64(math.MaxInt64), int64(math.MaxInt64)
	for name, amount := range s.each {
		if amount <= 0 {
			continue
		}
		if before = min(before, free[name]/amount); before <= 0 {
			return false // no place is there to be lost
		}
		after = min(after, (free[name]-taken[name])/amount)
	}
	if after >= before {
		return false
	}
	_, closed := slices.BinarySearch(s.refused, node)
	return !closed
}

// Kind is equal for needs of equal pods that the same nodes refuse: they are hurt alike.
func (s *Shortfall) Kind() string { return s.kind }

// kindOf makes the kind of a need: what each pod takes, and a hash of the nodes that refuse it.
func kindOf(each resources.List, refused []string) string {
	var kind strings.Builder
	for _, name := range slices.SortedFunc(maps.Keys(each), func(a, b corev1.ResourceName) int { return strings.Compare(string(a), string(b)) }) {
		if each[name] > 0 {
			fmt.Fprintf(&kind, "%s=%d,", name, each[name])
		}
	}
	hash := fnv.New128a()
	for _, node := range refused {
		fmt.Fprintf(hash, "%s,", node)
	}
	return fmt.Sprintf("%s%x", kind.String(), hash.Sum(nil))
}
