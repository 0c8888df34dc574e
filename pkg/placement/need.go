package placement

import (
	"slices"

	"github.com/muster-sched/muster/pkg/resources"
)

// IsHurtBy says whether taking an amount from a node's free room leaves fewer places for pods that lack room. A node that refuses them is
// never hurt.
func (s *Shortfall) IsHurtBy(node string, free, taken resources.List) bool {
	if _, closed := slices.BinarySearch(s.refused, node); closed {
		return false
	}
	left := free.Clone()
	left.Sub(taken)
	need := Demand{Requests: s.each}
	return Slots(need, left) < Slots(need, free)
}
