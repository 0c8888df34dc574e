package coscheduling

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
)

// scoresKey is where the scores of a pod's nodes are in its cycle.
const scoresKey fwk.StateKey = "Scores" + Name

// scores are the scores of a pod's nodes, by name. They do not change.
type scores map[string]int64

// Clone returns the scores themselves.
func (s scores) Clone() fwk.StateData { return s }

// PreScore scores the nodes of a pod that asks for an extended resource, such as GPUs. Domains that are in use fill up first, so that others stay
// whole. Members of gangs with a network topology are skipped, and every pod while no domain is known.
func (c *Coscheduling) PreScore(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	scarce, names := scarceIn(resources.PodRequests(pod))
	if len(names) == 0 || gang.IsMember(pod) && c.tracker.Topology.Binds(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	tree := c.tracker.Topology.Known()
	if tree == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	all, err := c.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(err)
	}
	slots, demand := make([]int, len(tree.Nodes)), placement.Demand{Requests: scarce}
	for _, node := range all {
		if at := tree.IndexOf(node.Node().Name); at >= 0 && !node.Node().Spec.Unschedulable {
			slots[at] = placement.Slots(demand, placement.FreeOn(node, names))
		}
	}
	var candidates []int
	for _, node := range nodes {
		if at := tree.IndexOf(node.Node().Name); at >= 0 {
			candidates = append(candidates, at)
		}
	}
	scored := make(scores, len(candidates))
	for place, group := range tree.Fill(slots, candidates) {
		for _, n := range group {
			scored[tree.Nodes[n]] = scoreAt(place)
		}
	}
	cycle.Write(scoresKey, scored)
	return nil
}

// scoreAt is the score of the nodes at a place in the order. The best ones are far ahead, so that with the shipped weight no preference for
// empty nodes is stronger.
func scoreAt(place int) int64 { return fwk.MaxScore / int64(place+1) }

// scarceIn are the requests for extended resources, whose names have a domain.
func scarceIn(requests resources.List) (scarce resources.List, names []corev1.ResourceName) {
	for name, amount := range requests {
		if amount > 0 && strings.Contains(string(name), "/") {
			if scarce == nil {
				scarce = resources.List{}
			}
			scarce[name] = amount
			names = append(names, name)
		}
	}
	return scarce, names
}

// Score is the score that PreScore has found.
func (*Coscheduling) Score(_ context.Context, cycle fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := cycle.Read(scoresKey)
	if err != nil {
		return 0, nil // PreScore has not run
	}
	scored, _ := data.(scores)
	return scored[node.Node().Name], nil
}

// ScoreExtensions returns nil: the scores are in range.
func (*Coscheduling) ScoreExtensions() fwk.ScoreExtensions { return nil }
