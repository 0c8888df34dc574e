package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/topology"
)

// Read reads the objects once, and makes the tree that the scheduler has. A kind that the API server does not serve has no objects. Topologies
// of Kueue that the reader may not read are left out.
func Read(ctx context.Context, muster versioned.Interface, foreign dynamic.Interface, nodes []corev1.Node) (*topology.Tree, error) {
	recent := metav1.ListOptions{ResourceVersion: "0"}
	hyperNodes, err := muster.TopologyV1alpha1().HyperNodes().List(ctx, recent)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading HyperNodes: %w", err)
	}
	topologies, err := muster.MusterV1alpha1().NetworkTopologies().List(ctx, recent)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading NetworkTopologies: %w", err)
	}
	var objects []topology.HyperNode
	if hyperNodes != nil {
		for i := range hyperNodes.Items {
			object, _ := FromHyperNode(&hyperNodes.Items[i])
			objects = append(objects, object)
		}
	}
	var lists []topology.Labels
	if topologies != nil {
		for i := range topologies.Items {
			if list, _ := FromNetworkTopology(&topologies.Items[i]); len(list.Levels) > 0 {
				lists = append(lists, list)
			}
		}
	}
	slices.SortFunc(lists, func(a, b topology.Labels) int { return cmp.Compare(a.Name, b.Name) })
	theirs, err := readKueue(ctx, foreign, recent)
	if err != nil {
		return nil, err
	}
	all := make([]topology.Node, len(nodes))
	for i := range nodes {
		all[i] = topology.Node{Name: nodes[i].Name, Labels: nodes[i].Labels}
	}
	return topology.Build(objects, append(lists, theirs...), all), nil
}

// readKueue reads the Topologies of Kueue by name. One that is served in two versions counts once.
func readKueue(ctx context.Context, foreign dynamic.Interface, options metav1.ListOptions) (lists []topology.Labels, err error) {
	var all []unstructured.Unstructured
	for _, resource := range Kueue {
		found, err := foreign.Resource(resource).List(ctx, options)
		switch {
		case err == nil:
			all = append(all, found.Items...)
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return nil, fmt.Errorf("reading Topologies of Kueue: %w", err)
		}
	}
	slices.SortStableFunc(all, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for i := range all {
		if i > 0 && all[i-1].GetName() == all[i].GetName() {
			continue
		}
		if list, err := fromKueue(&all[i]); err == nil && len(list.Levels) > 0 {
			lists = append(lists, list)
		}
	}
	return lists, nil
}
