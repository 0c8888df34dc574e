package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/topology"
)

// The labels of nodes, from the widest domain to the closest.
const (
	blockLabel = "example.com/block"
	rackLabel  = "example.com/rack"
)

// network is the nodes of a cluster, each with the labels of its block and rack.
type network struct {
	nodes []*corev1.Node
}

// lingjunLeaves are the numbers of hosts at the leaf switches of a real network. It has 847 hosts in three pods.
//
// Source: the data set alibaba-lingjun-dataset-2023 (data/topo.csv), Apache License 2.0; Cao et al., "Crux", SIGCOMM 2024. Only sizes are kept.
var lingjunLeaves = []string{
	"888888888887778878875888886678688888873878888888", "767885888688888878888888882277867876888888", "86747667858546875565662767877",
}

// lingjun is that network, with eight GPUs at each host.
func lingjun() *network {
	n := &network{}
	for block, leaves := range lingjunLeaves {
		for leaf, size := range leaves {
			for host := range int(size - '0') {
				n.add(fmt.Sprintf("host-%d-%02d-%d", block, leaf, host), block, leaf, gpus, "8")
			}
		}
	}
	return n
}

// racks are nodes in racks of a size, ten racks in a block.
func racks(nodes, size int) *network {
	n := &network{}
	for i := range nodes {
		rack := i / size
		n.add(fmt.Sprintf("node-%05d", i), rack/10, rack%10, "memory", "32Gi", gpus, "8")
	}
	return n
}

func (n *network) add(name string, block, rack int, has ...string) {
	node := mustertesting.MakeNode(name).Label(blockLabel, fmt.Sprint("b", block)).Label(rackLabel, fmt.Sprint("r", rack)).
		Allocatable(append(has, "cpu", "4", "pods", "110")...).Obj()
	node.UID = types.UID(name)
	n.nodes = append(n.nodes, node)
}

// object is the NetworkTopology that names the labels.
func (*network) object() *musterv1alpha1.NetworkTopology {
	object := &musterv1alpha1.NetworkTopology{ObjectMeta: metav1.ObjectMeta{Name: "network", UID: "network"}}
	object.Spec.Levels = []musterv1alpha1.Level{{NodeLabel: blockLabel}, {NodeLabel: rackLabel}}
	return object
}

// tree has the domains, as the scheduler sees them.
func (n *network) tree() *topology.Tree {
	nodes := make([]topology.Node, len(n.nodes))
	for i, node := range n.nodes {
		nodes[i] = topology.Node{Name: node.Name, Labels: node.Labels}
	}
	return topology.Build(nil, []topology.Labels{{Name: "network", Levels: []topology.Level{{Key: blockLabel, Tier: 2}, {Key: rackLabel, Tier: 1}}}}, nodes)
}

// largestLeaf is the number of nodes of the largest domain of tier 1.
func largestLeaf(tree *topology.Tree) int {
	return slices.Max(leafSums(tree, func(int) int { return 1 }))
}

// leafSums adds up what the nodes of each domain of tier 1 have.
func leafSums(tree *topology.Tree, of func(node int) int) []int {
	amounts, sums := make([]int, len(tree.Nodes)), []int(nil)
	for n := range amounts {
		amounts[n] = of(n)
	}
	for d, sum := range tree.Sums(amounts) {
		if tree.Domains[d].Tier == 1 {
			sums = append(sums, sum)
		}
	}
	return sums
}
