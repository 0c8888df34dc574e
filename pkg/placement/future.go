package placement

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
)

// Places are nodes for the members of a gang that has to wait for them.
type Places struct {
	// Of has the node of each member.
	Of map[types.UID]string
	// Avoid are the nodes that were avoided.
	Avoid sets.Set[string]
	// AwaitsOwn: pods of the gang's own queue must end before it fits there. With a start, they end last.
	AwaitsOwn bool
	// Start is when the pods there that are in the way will have ended. It is zero if that is not known.
	Start time.Time
}

// waiting selects the pods, and the nodes, that a reservation waits for.
type waiting struct {
	avoid       sets.Set[string] // nodes that are not used
	keepEndless bool             // pods that never end by themselves are not waited for
	keepOwn     bool             // pods of the gang's own queue are not waited for
}

// ways are the selections to try, the best first.
func (p *Problem) ways(avoid sets.Set[string]) (ways []waiting) {
	owns, avoids := []bool{false}, []sets.Set[string]{nil}
	if p.OwnQueue != nil {
		owns = []bool{true, false}
	}
	if avoid.Len() > 0 {
		avoids = []sets.Set[string]{avoid, nil}
	}
	for _, keepOwn := range owns {
		for _, avoid := range avoids {
			ways = append(ways, waiting{avoid, true, keepOwn}, waiting{avoid, false, keepOwn})
		}
	}
	return ways
}

// chooseReservation chooses the places to reserve for a gang that does not fit. They are nil if there are none even when all pods that it
// may wait for have ended. If possible it waits for no pods of the gang's own queue. It avoids nodes with pods that never end by themselves, and nodes
// that are to be avoided, if it can.
func (v *view) chooseReservation(p *Problem) *Places {
	before := v.reservedPlaces(p.Reserved)
	avoid := p.Avoid.Clone()
	if p.Renew {
		before = v.withoutLate(before, avoid)
	}
	if places := v.earliest(p, before); places != nil || p.OnlyWithStart {
		return places
	}
	for _, w := range p.ways(avoid) {
		if places, ok := v.placesLater(p, w, before); ok {
			return &Places{Of: v.nodesOf(places), Avoid: w.avoid, AwaitsOwn: p.OwnQueue != nil && !w.keepOwn}
		}
	}
	return nil
}

// placesLater finds places on which the gang fits in the end, the earlier ones if possible.
func (v *view) placesLater(p *Problem, w waiting, before [][]Place) ([][]Place, bool) {
	return v.placesIn(v.later(p, w), w.avoid, before)
}

// placesIn finds places in the cluster as it will be. It takes the earlier ones if possible, and no nodes that are to be avoided.
func (v *view) placesIn(later *view, avoid sets.Set[string], before [][]Place) ([][]Place, bool) {
	if v.constraints != nil && v.apart == nil {
		s := later.newSearch()
		s.avoid = avoid
		found, _ := s.run(v.nodesOf(before))
		return found.Places, found.Feasibility == Possible
	}
	if v.apart != nil {
		return v.apart(later, avoid, before)
	}
	fits := func(demand, node int) bool { return !avoid.Has(v.nodes[node].Name) && later.fits(demand, node) }
	return PackLater(v.demands, v.nodes, freeOf(later.nodes), fits, before)
}

// reservedPlaces are reserved places of members, by demand.
func (v *view) reservedPlaces(reserved map[types.UID]string) [][]Place {
	index := make(map[string]int, len(v.nodes))
	for n, node := range v.nodes {
		index[node.Name] = n
	}
	places := make([][]Place, len(v.demands))
	for d, class := range v.classes {
		counts := map[int]int{}
		for _, m := range class {
			if n, ok := index[reserved[m.UID]]; ok {
				counts[n]++
			}
		}
		for n := range v.nodes {
			if counts[n] > 0 {
				places[d] = append(places[d], Place{Node: n, Count: counts[n]})
			}
		}
	}
	return places
}

// withoutLate drops the places whose room has not come free. It adds their nodes to the nodes to avoid.
func (v *view) withoutLate(before [][]Place, avoid sets.Set[string]) [][]Place {
	wanted := make([]resources.List, len(v.nodes))
	for d := range before {
		for _, place := range before[d] {
			total := wanted[place.Node].Clone()
			total.Add(v.demands[d].Requests.Scale(int64(place.Count)))
			wanted[place.Node] = total
		}
	}
	for n, amount := range wanted {
		if Slots(Demand{Requests: amount}, v.nodes[n].Free) == 0 {
			avoid.Insert(v.nodes[n].Name)
		}
	}
	kept := make([][]Place, len(before))
	for d := range before {
		for _, place := range before[d] {
			if !avoid.Has(v.nodes[place.Node].Name) {
				kept[d] = append(kept[d], place)
			}
		}
	}
	return kept
}

// later is the cluster as it will be. The pods that a reservation may wait for have ended, and held room is given back.
func (v *view) later(p *Problem, w waiting) *view {
	later := v.whatIf()
	later.ended.withoutNominated = true
	for n, info := range v.infos {
		later.nodes[n].Free.Add(v.held[n])
		later.nodes[n].Free.Add(v.nominated[n])
		for _, pod := range info.GetPods() {
			if !p.stays(pod.GetPod(), w) {
				later.remove(n, pod, freedBy(pod, v.names))
			}
		}
	}
	return later
}

// stays says whether a reservation does not wait for a pod. Such a pod has a higher priority, is tied to its node or is of the gang itself.
// The selection keeps further ones. These are pods of the own queue, and single pods that never end by themselves.
func (p *Problem) stays(pod *corev1.Pod, w waiting) bool {
	switch {
	case p.SameGang != nil && p.SameGang(pod):
		return true
	case corev1helpers.PodPriority(pod) > p.Priority || gang.IsOfDaemonSet(pod):
		return true
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return true
	case w.keepOwn && p.OwnQueue(pod):
		return true
	case p.InGang != nil && p.InGang(pod):
		return false
	}
	return w.keepEndless && pod.Spec.RestartPolicy == corev1.RestartPolicyAlways && pod.DeletionTimestamp == nil
}

// isTooLarge says whether some demand exceeds the total of the nodes that take its pods, even when they are empty.
func (v *view) isTooLarge() bool {
	for d, demand := range v.demands {
		missing := demand.Count
		for n := 0; n < len(v.infos) && missing > 0; n++ {
			if !v.refuses(d, n) {
				has := v.infos[n].GetAllocatable()
				missing -= slotsIn(demand, func(name corev1.ResourceName) int64 { return amountOf(has, name) })
			}
		}
		if missing > 0 {
			return true
		}
	}
	return false
}
