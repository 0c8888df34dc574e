package placement

import (
	"slices"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/topology"
)

// Groups with bounds of their own whose members claim devices. The search counts how many members a node has devices for. It does so only for nodes
// that it tries. In the end all members reserve their devices in their places. That shows what the counts do not know.

// maxDeviceCalls bounds the reservations by which devices are counted for one decision. Nodes beyond that are counted by amounts.
const maxDeviceCalls = 1000

// exactlyWithDevices is how many pods of a demand a node of the tree holds. If groups have bounds of their own, devices count, too.
func (d *domains) exactlyWithDevices(demand, at int) int {
	slots := d.exactly(demand, at)
	if slots == 0 || d.constraints != nil || !d.claimsDevices(demand) || !d.isDivided() || d.deviceCalls >= maxDeviceCalls {
		return slots
	}
	class := d.classes[demand]
	class = class[:min(slots, len(class))]
	d.deviceCalls += len(class)
	if reserved := d.reserveAt(class, func(*gang.Member) int { return d.indexOf(at) }); reserved < len(class) {
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
	places, claiming := d.places(choice), []*gang.Member(nil)
	for demand, class := range d.classes {
		if d.claimsDevices(demand) {
			claiming = append(claiming, class...)
		}
	}
	if d.reserveAt(claiming, func(m *gang.Member) int { return d.indexOf(d.topology.Tree.IndexOf(places[m.UID])) }) < len(claiming) {
		return nil
	}
	return &Decision{Feasibility: Possible, Members: d.problem.Members, Places: places}
}

// reserveAt has members reserve their devices on their nodes until one cannot, and returns how many could. All of it is undone.
func (d *domains) reserveAt(members []*gang.Member, nodeOf func(*gang.Member) int) int {
	var reserved []dryReservation
	for _, m := range members {
		n := nodeOf(m)
		f, name := d.newFilterState(m.Pod), d.nodes[n].Name
		if !f.leaves(name) || !d.reserveOn(f.cycle, m.Pod, n) {
			break
		}
		reserved = append(reserved, dryReservation{cycle: f.cycle, pod: m.Pod, node: name})
	}
	for _, r := range slices.Backward(reserved) {
		d.profile.RunReservePluginsUnreserve(d.ctx, r.cycle, r.pod, r.node)
	}
	return len(reserved)
}
