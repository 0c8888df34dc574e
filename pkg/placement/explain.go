package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/text"
)

// explain is a sentence about what is missing. The text changes only when the missing amounts change. If more room on a node would not
// help, what the filters said comes before the requests.
func (o *outcome) explain() string {
	worst := o.worst()
	m := o.classes[worst][0]
	missing := o.demands[worst].Count - o.Placed[worst]
	more := fmt.Sprintf("%d more", missing)
	if m.Task != "" {
		more += fmt.Sprintf(" of task %q", m.Task)
	}
	requests := m.Requests.Clone()
	delete(requests, corev1.ResourcePods)
	need := requests.InWords()
	if need == "" {
		need = "a place"
	}
	needs, find, they := "need "+need+" each", "find", "they"
	if missing == 1 {
		needs, find, they = "needs "+need, "finds", "it"
	}
	if o.apart {
		needs += " where the inter-pod constraints of the gang let them go"
	}
	room, reasons, near := roomFor(sum(o.Placed), o.count()), o.refusals(worst), o.nearest(worst)
	switch {
	case reasons == "" && near == "":
		return fmt.Sprintf("%s; %s %s", room, more, needs)
	case reasons == "":
		return fmt.Sprintf("%s; %s %s; %s", room, more, needs, near)
	case near == "":
		return fmt.Sprintf("%s; %s %s no node (%s); %s %s", room, more, find, reasons, they, needs)
	}
	return fmt.Sprintf("%s; %s %s; %s (%s)", room, more, needs, near, reasons)
}

// refusals are the reasons of filters, and why a node takes no second pod of a demand. It is "" if there are none.
func (o *outcome) refusals(demand int) string {
	reasons := sets.List(o.reasons)
	if o.demands[demand].MaxPerNode > 0 && o.Placed[demand] > 0 {
		reasons = append([]string{needsOwnNode(o.example(demand))}, reasons...)
	}
	return strings.Join(reasons, ", ")
}

// needsOwnNode says why a pod keeps pods of its class off its node.
func needsOwnNode(pod *corev1.Pod) string {
	ports := hostPorts(pod)
	switch len(ports) {
	case 0:
		return "anti-affinity allows one of these pods on a node"
	case 1:
		return "host port " + ports[0] + " allows one of these pods on a node"
	}
	return "host ports " + strings.Join(ports, ", ") + " allow one of these pods on a node"
}

// roomFor says for how many of the members there is room. None of them starts, and the text must not sound as if some did. On a PodGroup it
// comes after the number of all its members that wait.
func roomFor(placed, members int) string {
	if members == 1 {
		return "no room for the one pod that the gang needs to start"
	}
	return fmt.Sprintf("room for %d of the %d members that start together", placed, members)
}

// outlook is the prospect of a gang that does not fit. othersTried says whether other members were tried in place of these.
func (o *outcome) outlook(othersTried bool) string {
	reserved := o.problem.Reserved != nil || o.reserve != nil
	switch {
	case o.tooLarge && !othersTried:
		return "; " + text.NotIfEmpty
	case o.tooLarge || o.noPlaces || o.problem.NoPlaces && !reserved:
		return "; no room is reserved for it: " + text.NotIfEnded
	case reserved:
		return "; room is being reserved for it"
	case o.problem.HeldByReservation:
		return "; room is reserved for a gang that has waited longer"
	}
	return ""
}

// worst is the demand with the most pods without a place.
func (o *outcome) worst() int {
	worst, most := 0, -1
	for d := range o.demands {
		if missing := o.demands[d].Count - o.Placed[d]; missing > most {
			worst, most = d, missing
		}
	}
	return worst
}

// mostRejected is the member that found no devices. If there is none, it is a pod of the demand that lacks most places.
func (o *outcome) mostRejected() *corev1.Pod {
	if o.unplaced != nil {
		return o.unplaced
	}
	return o.example(o.worst())
}

// maxNearest limits how many nodes are asked about for a message.
const maxNearest = 64

// nearest names the node on which one more pod of the demand lacks least, and the missing amounts. Only nodes count where it lacks nothing
// but room.
func (o *outcome) nearest(demand int) string {
	type candidate struct {
		node  int
		share float64 // missing part of a pod's requests, summed over the resources
	}
	requests := o.demands[demand].Requests
	candidates := make([]candidate, 0, len(o.Left))
	for n, free := range o.Left {
		share := 0.0
		for name, amount := range requests {
			if missing := missingOf(amount, free[name]); missing > 0 {
				share += float64(missing) / float64(amount)
			}
		}
		if share > 0 {
			candidates = append(candidates, candidate{n, share})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.share, b.share), cmp.Compare(o.nodes[a.node].Name, o.nodes[b.node].Name))
	})
	for _, c := range candidates[:min(len(candidates), maxNearest)] {
		if o.isFull(demand, c.node) || !o.lacksOnlyRoom(demand, c.node) {
			continue
		}
		missing := resources.List{}
		for name, amount := range requests {
			missing[name] = missingOf(amount, o.Left[c.node][name])
		}
		return fmt.Sprintf("nearest: %s lacks %s", o.nodes[c.node].Name, missing.InWords())
	}
	return ""
}

// isFull says whether a node has as many pods of a demand as it may hold, whatever room it has.
func (o *outcome) isFull(demand, node int) bool {
	most := o.demands[demand].MaxPerNode
	return most > 0 && len(o.Places) > demand &&
		slices.ContainsFunc(o.Places[demand], func(p Place) bool { return p.Node == node && p.Count >= most })
}

// missingOf is how much of a request is missing. Overcommitment of a node does not count.
func missingOf(request, free int64) int64 { return max(0, request-max(0, free)) }

// lacksOnlyRoom says whether the filter for room is the first that rejects a pod of the demand on a node. It is also true if no filter
// rejects it, as other gangs may hold the room.
func (v *view) lacksOnlyRoom(demand, node int) bool {
	f := v.filter(demand)
	if !f.leaves(v.nodes[node].Name) {
		return false
	}
	status := v.profile.RunFilterPluginsWithNominatedPods(v.ctx, f.cycle, v.example(demand), v.infos[node])
	return status.IsSuccess() || status.Plugin() == names.NodeResourcesFit
}
