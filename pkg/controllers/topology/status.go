package topology

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
	"github.com/muster-sched/muster/pkg/text"
	"github.com/muster-sched/muster/pkg/topology"
	"github.com/muster-sched/muster/pkg/topology/watch"
)

// shownFaults is how many faults the condition of one object describes.
const shownFaults = 3

// description is the objects that describe the network, with what follows from them.
type description struct {
	hyperNodes []*topologyv1alpha1.HyperNode
	lists      []*musterv1alpha1.NetworkTopology
	tree       *topology.Tree
	faults     map[string][]topology.Fault // by kind and name
}

// build finds the tree and all faults.
func (d *description) build(lists []topology.Labels, nodes []topology.Node) {
	d.faults = map[string][]topology.Fault{}
	add := func(faults []topology.Fault) {
		for _, fault := range faults {
			key := fault.Kind + "/" + fault.Object
			d.faults[key] = append(d.faults[key], fault)
		}
	}
	hyperNodes := make([]topology.HyperNode, len(d.hyperNodes))
	for i, object := range d.hyperNodes {
		var faults []topology.Fault
		hyperNodes[i], faults = watch.FromHyperNode(object)
		add(faults)
	}
	for _, object := range d.lists {
		_, faults := watch.FromNetworkTopology(object)
		add(faults)
	}
	d.tree = topology.Build(hyperNodes, lists, nodes)
	add(d.tree.Faults())
}

// statusWrite is a status that differs from the one in the API.
type statusWrite struct {
	kind, name string
	uid        string
	nodeCount  int64
	conditions []metav1.Condition
	faulty     bool
}

// due returns the statuses that are to be written, those with faults first.
func (d *description) due(now metav1.Time) []statusWrite {
	var due []statusWrite
	add := func(kind string, object metav1.Object, nodeCount, oldCount int64, old []metav1.Condition, nodes int) {
		condition, conditions := d.condition(kind, object, nodes, now), slices.Clone(old)
		if changed := meta.SetStatusCondition(&conditions, condition); changed || nodeCount != oldCount {
			due = append(due, statusWrite{kind, object.GetName(), string(object.GetUID()), nodeCount, conditions, condition.Status == metav1.ConditionFalse})
		}
	}
	for _, object := range d.hyperNodes {
		domain, _ := d.tree.OfHyperNode(object.Name)
		add(topology.HyperNodeKind, object, int64(domain.Members), object.Status.NodeCount, object.Status.Conditions, domain.Size())
	}
	for _, object := range d.lists {
		nodes := d.tree.NodesOf(watch.NetworkTopologyKind, object.Name)
		add(watch.NetworkTopologyKind, object, int64(nodes), object.Status.NodeCount, object.Status.Conditions, nodes)
	}
	slices.SortStableFunc(due, func(a, b statusWrite) int { return weight(a) - weight(b) })
	return due
}

func weight(s statusWrite) int {
	if s.faulty {
		return 0
	}
	return 1
}

// condition says whether all of an object is used. nodes is how many nodes it has.
func (d *description) condition(kind string, object metav1.Object, nodes int, now metav1.Time) metav1.Condition {
	condition := metav1.Condition{
		Type: topologyv1alpha1.ConditionValid, Status: metav1.ConditionTrue, Reason: "Valid", Message: "It has " + text.Count(nodes, "node") + ".",
		ObservedGeneration: object.GetGeneration(), LastTransitionTime: now,
	}
	if faults := d.faults[kind+"/"+object.GetName()]; len(faults) > 0 {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, faults[0].Reason, messageOf(faults)
	}
	return condition
}

// messageOf describes the first faults, with field and remedy, and counts the rest.
func messageOf(faults []topology.Fault) string {
	var lines []string
	for _, f := range faults[:min(len(faults), shownFaults)] {
		lines = append(lines, fmt.Sprintf("%s: %s. %s", f.Field, text.Cut(f.Message, text.MaxMessage/shownFaults), f.Remedy))
	}
	if more := len(faults) - shownFaults; more > 0 {
		lines = append(lines, "There are "+text.Count(more, "more fault")+".")
	}
	return strings.Join(lines, " ")
}

// patch is a merge patch of the status.
func (s *statusWrite) patch() ([]byte, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": s.uid},
		"status":   map[string]any{"nodeCount": s.nodeCount, "conditions": s.conditions},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the status of %s %s: %w", s.kind, s.name, err)
	}
	return patch, nil
}
