package topology

import (
	"cmp"
	"slices"
)

// Fill sorts nodes for a pod that may go to any of them. Domains with much room stay whole. It is the rule by which gangs choose, for a single
// pod. The domain with the least room left comes first, and there the node with the least. Nodes that are in no domain come before all
// others. slots is how many of the pods each node of the tree has room for. Each group has nodes that are equally good.
func (t *Tree) Fill(slots, nodes []int) (groups [][]int) {
	sums := t.Sums(slots)
	compare := func(a, b int) int {
		return cmp.Or(t.compareRoom(sums, t.domainOf[a], t.domainOf[b]), slots[a]-slots[b])
	}
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(a, b int) int { return cmp.Or(compare(a, b), a-b) })
	for i, n := range sorted {
		if i == 0 || compare(sorted[i-1], n) != 0 {
			groups = append(groups, nil)
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], n)
	}
	return groups
}

// compareRoom is below 0 if the first domain has less room left, or else the domains around it. The root comes before all domains.
func (t *Tree) compareRoom(sums []int, a, b int) int {
	if a == b {
		return 0
	}
	if a == Root || b == Root {
		return a - b
	}
	x, y := &t.Domains[a], &t.Domains[b]
	by := cmp.Or(sums[a]-sums[b], x.Size()-y.Size())
	if by == 0 && x.Parent != Root && y.Parent != Root {
		by = t.compareRoom(sums, x.Parent, y.Parent)
	}
	return cmp.Or(by, a-b)
}
