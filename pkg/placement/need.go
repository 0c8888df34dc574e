package placement

import (
	"slices"

	"github.com/muster-sched/muster/pkg/resources"
)

// IsHurtBy says whether fewer pods of what lacks room would find it on a node with so much free if some of that is taken. A node that
// refuses them is never hurt.
func (s *Shortfall) IsHurtBy(node string, free, taken resources.List) bool {
	if _, closed := slices.BinarySearch(s.refused, node); closed {
		return false
	}
	left := free.Clone()
	left.Sub(taken)
	need := Demand{Requests: s.each}
	return Slots(need, left) < Slots(need, free)
}
