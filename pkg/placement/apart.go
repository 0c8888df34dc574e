package placement

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/topology"
)

// Groups with bounds of their own whose members claim devices. The search counts how many members a node has devices for. It does so only for nodes
// that it tries. In the end all members reserve their devices in their places. That shows what the counts do not know.

// maxDeviceCalls bounds the reservations by which devices are counted for one decision. Nodes beyond that are counted by amounts.
const maxDeviceCalls = 1000

// exactlyWithDevices is how many pods of a demand a node of the tree holds. If groups have bounds of their own, devices count, too.
func (d *domains) exactlyWithDevices(demand, at int) int {
	slots := d.exactly(demand, at)
	if slots == 0 || d.constraints != nil || !d.claimsDevices(demand) || !d.isDivided() {
		return slots
	}
	class, node, places := d.classes[demand], d.indexOf(at), map[types.UID]int{}
	for _, m := range class[:min(slots, len(class))] {
		places[m.UID] = node
	}
	if d.deviceCalls >= maxDeviceCalls {
		return slots
	}
	d.deviceCalls += len(places)
	if reserved := d.reserveAt(demand, places); reserved < len(places) {
		slots = reserved
	}
	d.withDevices[pair{demand, at}] = slots
	return slots
}

// decideApart has all members reserve their devices in the places of a choice. It returns nil if one of them cannot. It does so, too, if members have
// inter-pod constraints. Where one may go depends on those before it, and the search for that does not know groups.
func (d *domains) decideApart(choice *topology.Choice) *Decision {
	if d.constraints != nil {
		return nil
	}
	places := d.places(choice)
	at := make(map[types.UID]int, len(places))
	for uid, node := range places {
		at[uid] = d.indexOf(d.topology.Tree.IndexOf(node))
	}
	var claiming []int
	for demand := range d.demands {
		if d.claimsDevices(demand) {
			claiming = append(claiming, demand)
		}
	}
	if d.reserveAll(claiming, at) {
		return &Decision{Feasibility: Possible, Members: d.problem.Members, Places: places}
	}
	return nil
}

// reserveAll says whether the members of demands can reserve their devices on their nodes together.
func (d *domains) reserveAll(demands []int, nodes map[types.UID]int) bool {
	if len(demands) == 0 {
		return true
	}
	all := false
	d.reserving(demands[0], nodes, func(reserved int) {
		all = reserved == len(d.classes[demands[0]]) && d.reserveAll(demands[1:], nodes)
	})
	return all
}

// reserveAt is how many members of a demand can reserve their devices on their nodes. Members without a node do not count.
func (d *domains) reserveAt(demand int, nodes map[types.UID]int) (count int) {
	d.reserving(demand, nodes, func(reserved int) { count = reserved })
	return count
}

// reserving has members of a demand reserve their devices on their nodes, until one cannot. All of it is undone after then.
func (d *domains) reserving(demand int, nodes map[types.UID]int, then func(reserved int)) {
	var reserved []dryReservation
	defer func() {
		for _, r := range slices.Backward(reserved) {
			d.profile.RunReservePluginsUnreserve(d.ctx, r.cycle, r.pod, r.node)
		}
	}()
	for _, m := range d.classes[demand] {
		n, placed := nodes[m.UID]
		if !placed {
			continue
		}
		f, name := d.newFilterState(m.Pod), d.nodes[n].Name
		if !f.leaves(name) || !d.reserveOn(f.cycle, m.Pod, n) {
			d.unplaced = m.Pod
			break
		}
		reserved = append(reserved, dryReservation{cycle: f.cycle, pod: m.Pod, node: name})
	}
	then(len(reserved))
}
