package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
)

// dryRunReserve checks a packing for members that claim devices. A packing counts amounts, but only the plugin that allocates devices knows
// which devices are left. So these members are reserved in sequence, in marked cycle states, on nodes where the other members leave room.
// In the end all of it is undone.
func (v *view) dryRunReserve(packing Packing) Packing {
	var claiming []int
	for d := range v.demands {
		if v.claimsDevices(d) {
			claiming = append(claiming, d)
		}
	}
	if len(claiming) == 0 || packing.Feasibility != Possible {
		return packing
	}
	best := v.reserveInOrder(packing, claiming)
	if best.Feasibility == Possible || len(claiming) == 1 {
		return best
	}
	// The demand that takes its devices first may leave none for the other.
	slices.Reverse(claiming)
	if other := v.reserveInOrder(packing, claiming); other.Feasibility == Possible {
		return other
	}
	return best
}

// claimsDevices says whether the pods of a demand claim devices. They do so by claims, or by a resource that only a device class stands
// for.
func (v *view) claimsDevices(demand int) bool {
	m := v.classes[demand][0]
	return len(m.Pod.Spec.ResourceClaims) > 0 || len(v.demands[demand].Requests) < len(m.Requests)
}

// dryReservation is a member that holds its devices in the dry-run.
type dryReservation struct {
	cycle fwk.CycleState
	pod   *corev1.Pod
	node  string
}

// reserveInOrder reserves the members of one demand after the other. If a demand runs out of nodes the result is Impossible, and Placed
// says how many members found places.
func (v *view) reserveInOrder(packing Packing, claiming []int) Packing {
	var reserved []dryReservation
	defer func() {
		for _, r := range slices.Backward(reserved) {
			v.profile.RunReservePluginsUnreserve(v.ctx, r.cycle, r.pod, r.node)
		}
	}()
	out := Packing{Feasibility: Possible, Places: slices.Clone(packing.Places), Placed: slices.Clone(packing.Placed)}
	out.Left = v.leftWithout(packing, claiming)
	for _, d := range claiming {
		out.Places[d], out.Placed[d] = nil, 0
		nodes := v.placesFirst(packing.Places[d])
		for _, m := range v.classes[d] {
			r, node := v.reserveOne(d, m, &nodes, out.Left)
			if r == nil {
				out.Feasibility, v.unplaced = Impossible, m.Pod
				break
			}
			reserved = append(reserved, *r)
			take(out.Left, node, v.demands[d].Requests, 1)
			out.Places[d] = append(out.Places[d], Place{Node: node, Count: 1})
			out.Placed[d]++
		}
	}
	return out
}

// leftWithout is the free room of each node when all demands but some have their places.
func (v *view) leftWithout(packing Packing, but []int) []resources.List {
	left := freeOf(v.nodes)
	for d, places := range packing.Places {
		if slices.Contains(but, d) {
			continue
		}
		for _, place := range places {
			take(left, place.Node, v.demands[d].Requests, place.Count)
		}
	}
	return left
}

// placesFirst are all nodes, beginning with the nodes of the places.
func (v *view) placesFirst(places []Place) []int {
	nodes, first := make([]int, 0, len(v.nodes)), sets.New[int]()
	for _, place := range places {
		nodes = append(nodes, place.Node)
		first.Insert(place.Node)
	}
	for n := range v.nodes {
		if !first.Has(n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// reserveOne reserves a member on the first node that has room and devices for it. It returns nil if none has. It drops nodes without room
// or devices from the list: no other member of the class will fit there.
func (v *view) reserveOne(demand int, m *gang.Member, nodes *[]int, left []resources.List) (*dryReservation, int) {
	f := v.newFilterState(m.Pod)
	if !f.status.IsSuccess() {
		return nil, 0
	}
	for len(*nodes) > 0 {
		n := (*nodes)[0]
		name := v.nodes[n].Name
		reserved := Slots(v.demands[demand], left[n]) > 0 && f.leaves(name) && v.reserveOn(f.cycle, m.Pod, n)
		if !reserved || v.demands[demand].MaxPerNode == 1 {
			*nodes = (*nodes)[1:]
		}
		if reserved {
			return &dryReservation{cycle: f.cycle, pod: m.Pod, node: name}, n
		}
	}
	return nil, 0
}

// reserveOn has the plugins reserve a pod on a node if their filters accept it there.
func (v *view) reserveOn(cycle fwk.CycleState, pod *corev1.Pod, node int) bool {
	status := v.profile.RunFilterPluginsWithNominatedPods(v.ctx, cycle, pod, v.info(node))
	v.note(status)
	if !status.IsSuccess() {
		return false
	}
	name := v.nodes[node].Name
	if status := v.profile.RunReservePluginsReserve(v.ctx, cycle, pod, name); !status.IsSuccess() {
		v.note(status)
		v.profile.RunReservePluginsUnreserve(v.ctx, cycle, pod, name)
		return false
	}
	return true
}
