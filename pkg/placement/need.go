package placement

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// IsHurtBy says whether taking an amount from a node's free room leaves fewer places for pods that lack room. A node that refuses them is
// never hurt. Surplus pods ask it of each node and for each kind of need.
func (s *Shortfall) IsHurtBy(node string, free, taken resources.List) bool {
	before, after := int64(math.MaxInt64), int64(math.MaxInt64)
	for name, amount := range s.each {
		if amount <= 0 {
			continue
		}
		if before = min(before, free[name]/amount); before <= 0 {
			return false // no place is there to be lost
		}
		after = min(after, (free[name]-taken[name])/amount)
	}
	if after >= before {
		return false
	}
	_, closed := slices.BinarySearch(s.refused, node)
	return !closed
}

// Kind is equal for needs of equal pods that the same nodes refuse: they are hurt alike.
func (s *Shortfall) Kind() string { return s.kind }

// kindOf makes the kind of a need: what each pod takes, and a hash of the nodes that refuse it.
func kindOf(each resources.List, refused []string) string {
	var kind strings.Builder
	for _, name := range slices.SortedFunc(maps.Keys(each), func(a, b corev1.ResourceName) int { return strings.Compare(string(a), string(b)) }) {
		if each[name] > 0 {
			fmt.Fprintf(&kind, "%s=%d,", name, each[name])
		}
	}
	hash := fnv.New128a()
	for _, node := range refused {
		fmt.Fprintf(hash, "%s,", node)
	}
	return fmt.Sprintf("%s%x", kind.String(), hash.Sum(nil))
}
