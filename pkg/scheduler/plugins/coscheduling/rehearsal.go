package coscheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
)

// rehearse checks a plan for pods that claim devices. A plan counts amounts, but which devices are left when some pods have
// taken theirs only the plugin that allocates them can tell. So the members that claim are reserved one after the other, in
// states that are not real, on nodes where the others leave room for them; in the end all is taken back.
func (k *cast) rehearse(result plan.Result) plan.Result {
	var claiming []int
	for d := range k.demands {
		if k.claims(d) {
			claiming = append(claiming, d)
		}
	}
	if len(claiming) == 0 || result.Verdict != plan.Possible {
		return result
	}
	best := k.rehearseInOrder(result, claiming)
	if best.Verdict == plan.Possible || len(claiming) == 1 {
		return best
	}
	// Who takes its devices first may decide whether the others find theirs.
	slices.Reverse(claiming)
	if other := k.rehearseInOrder(result, claiming); other.Verdict == plan.Possible {
		return other
	}
	return best
}

// claims says whether the pods of a demand ask for devices: by claims, or by a resource that no node advertises, which a
// device class may stand for.
func (k *cast) claims(demand int) bool {
	m := k.groups[demand][0]
	return len(m.Pod.Spec.ResourceClaims) > 0 || len(k.demands[demand].Requests) < len(m.Requests)
}

// reserved is a member that holds its devices in the rehearsal.
type reserved struct {
	cycle fwk.CycleState
	pod   *corev1.Pod
	node  string
}

// rehearseInOrder reserves one demand after the other. A demand for which a node is not left any more finds no place: the
// result is then impossible, and the seats say how far it came.
func (k *cast) rehearseInOrder(result plan.Result, claiming []int) plan.Result {
	var taken []reserved
	defer func() {
		for _, r := range slices.Backward(taken) {
			k.plugin.handle.RunReservePluginsUnreserve(k.ctx, r.cycle, r.pod, r.node)
		}
	}()
	out := plan.Result{Verdict: plan.Possible, Places: slices.Clone(result.Places), Seats: slices.Clone(result.Seats)}
	out.Left = k.leftBeside(result, claiming)
	for _, d := range claiming {
		out.Places[d], out.Seats[d] = nil, 0
		nodes := k.placesFirst(result.Places[d])
		for _, m := range k.groups[d] {
			r, node := k.reserveOne(d, m, &nodes, out.Left)
			if node < 0 {
				out.Verdict, k.stuck = plan.Impossible, m.Pod
				break
			}
			taken = append(taken, *r)
			left := out.Left[node].Clone()
			left.Sub(k.demands[d].Requests)
			out.Left[node] = left
			out.Places[d] = append(out.Places[d], plan.Place{Node: node, Count: 1})
			out.Seats[d]++
		}
	}
	return out
}

// leftBeside is what is free on each node when all demands but some have their places.
func (k *cast) leftBeside(result plan.Result, demands []int) []resources.List {
	left := make([]resources.List, len(k.nodes))
	for n := range k.nodes {
		left[n] = k.nodes[n].Free
	}
	for d, places := range result.Places {
		if slices.Contains(demands, d) {
			continue
		}
		for _, place := range places {
			amount := left[place.Node].Clone()
			amount.Sub(k.demands[d].Requests.Scale(int64(place.Count)))
			left[place.Node] = amount
		}
	}
	return left
}

// placesFirst are all nodes, those of the plan first.
func (k *cast) placesFirst(places []plan.Place) []int {
	nodes := make([]int, 0, len(k.nodes))
	for _, place := range places {
		nodes = append(nodes, place.Node)
	}
	planned := len(nodes)
	for n := range k.nodes {
		if !slices.Contains(nodes[:planned], n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// reserveOne reserves a member on the first node that has room and devices for it, and returns a node of -1 if none has.
// Nodes that have not are dropped from the list: what one member cannot have there, the next that is alike cannot either.
func (k *cast) reserveOne(demand int, m *gang.Member, nodes *[]int, left []resources.List) (*reserved, int) {
	run := k.newTrial(m.Pod)
	if !run.status.IsSuccess() {
		return nil, -1
	}
	for len(*nodes) > 0 {
		n := (*nodes)[0]
		name := k.nodes[n].Name
		if plan.Slots(k.demands[demand], left[n]) > 0 && (run.names == nil || run.names.Has(name)) && k.reserveOn(run, m.Pod, n) {
			if k.demands[demand].MaxPerNode == 1 {
				*nodes = (*nodes)[1:]
			}
			return &reserved{cycle: run.cycle, pod: m.Pod, node: name}, n
		}
		*nodes = (*nodes)[1:]
	}
	return nil, -1
}

// reserveOn has the plugins reserve a pod on a node if their filters let it go there.
func (k *cast) reserveOn(run *trialRun, pod *corev1.Pod, node int) bool {
	handle := k.plugin.handle
	status := handle.RunFilterPluginsWithNominatedPods(k.ctx, run.cycle, pod, k.infos[node])
	k.note(status)
	if !status.IsSuccess() {
		return false
	}
	name := k.nodes[node].Name
	if status := handle.RunReservePluginsReserve(k.ctx, run.cycle, pod, name); !status.IsSuccess() {
		k.note(status)
		handle.RunReservePluginsUnreserve(k.ctx, run.cycle, pod, name)
		return false
	}
	return true
}
