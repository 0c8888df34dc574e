package placement

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/topology"
)

// freeRoom is what is free on the nodes of the snapshot if nothing is kept for others. Few nodes change between two decisions, so it is kept.
type freeRoom struct {
	tree  *topology.Tree
	infos []fwk.NodeInfo
	seen  []int64                         // of each node: its generation. No other node has or had the same, and each change gives it another one
	at    []int                           // of each node: its index in the tree, -1 if it is not there
	of    []int                           // of each node of the tree: its index in the snapshot, -1 if it is not there
	free  map[corev1.ResourceName][]int64 // of each resource that was asked for, of each node
}

// update looks at the nodes that have changed.
func (a *freeRoom) update(tree *topology.Tree, infos []fwk.NodeInfo, names []corev1.ResourceName) {
	if a.tree != tree || len(a.seen) != len(infos) {
		none := slices.Repeat([]int{-1}, len(infos))
		*a = freeRoom{tree: tree, seen: slices.Repeat([]int64{-1}, len(infos)), at: none, free: map[corev1.ResourceName][]int64{}}
	}
	a.infos = infos
	for _, name := range names {
		if a.free[name] == nil {
			a.free[name] = make([]int64, len(infos))
			for n, info := range infos {
				a.free[name][n] = leftOn(info, name)
			}
		}
	}
	moved := a.of == nil
	for n, info := range infos {
		generation := info.GetGeneration()
		if a.seen[n] == generation {
			continue
		}
		a.seen[n] = generation
		for name, free := range a.free {
			free[n] = leftOn(info, name)
		}
		if at := tree.IndexOf(info.Node().Name); at != a.at[n] {
			a.at[n], moved = at, true
		}
	}
	if moved {
		a.of = slices.Repeat([]int{-1}, len(tree.Nodes))
		for n, at := range a.at {
			if at >= 0 {
				a.of[at] = n
			}
		}
	}
}

// infoOf is a node of the tree, nil if the snapshot does not have it.
func (a *freeRoom) infoOf(at int) fwk.NodeInfo {
	if n := a.of[at]; n >= 0 {
		return a.infos[n]
	}
	return nil
}

// slots writes how many pods of a demand each node of the tree holds at most.
func (a *freeRoom) slots(demand Demand, slots []int) {
	most := int64(math.MaxInt32)
	if demand.MaxPerNode > 0 {
		most = int64(demand.MaxPerNode)
	}
	for at, n := range a.of {
		if n >= 0 {
			slots[at] = int(most)
		}
	}
	for name, amount := range demand.Requests {
		if amount <= 0 {
			continue
		}
		free := a.free[name]
		for at, n := range a.of {
			if n >= 0 && slots[at] > 0 {
				slots[at] = int(min(int64(slots[at]), max(0, free[n])/amount))
			}
		}
	}
}
