package topology

import (
	"cmp"
	"slices"
)

// Spread is how close nodes are to each other.
type Spread struct {
	// Tier is that of the lowest domain that has all of them.
	Tier int
	// Leaves is how many of the lowest domains they are in. Fewest is the smallest number of lowest domains that have as many nodes.
	Leaves, Fewest int
}

// SpreadOf says how close nodes are. Nodes that are not known are left out.
func (t *Tree) SpreadOf(nodes []string) (s Spread, known bool) {
	domain := t.CommonDomain(nodes)
	if domain < 0 {
		return s, false
	}
	used, leaves := map[int]bool{}, map[int]bool{}
	for _, name := range nodes {
		if n := t.IndexOf(name); n >= 0 {
			used[n], leaves[t.domainOf[n]] = true, true
		}
	}
	sizes := make([]int, len(t.Domains))
	for _, d := range t.domainOf {
		sizes[d]++
	}
	slices.SortFunc(sizes, func(a, b int) int { return cmp.Compare(b, a) })
	s = Spread{Tier: t.Domains[domain].Tier, Leaves: len(leaves)}
	for left := len(used); left > 0; s.Fewest++ {
		left -= sizes[s.Fewest]
	}
	return s, true
}
