package quota

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/resources"
)

func TestEvictions(t *testing.T) {
	for _, c := range []struct {
		name, queues, running, waits string
		want                         []bool
	}{
		{"siblings that borrow make room in a full parent", "org c12; a <org d6; b <org d6", "b 3 x4", "a 6", []bool{true}},
		{"not beyond the own share", "org c12; a <org d6; b <org d6", "b 3 x4", "a 7", []bool{false}},
		{"not from a sibling within its share", "org c12; a <org d6; b <org d6", "b 3 x2; a 3 x2", "a 3", []bool{false}},
		{"nor from one that is not reclaimable", "org c12; a <org d6; b <org d6 keep", "b 3 x4", "a 6", []bool{false}},
		{"a lower priority makes room in the own queue", "q c6", "q 3 x2 @1", "q 6 @2", []bool{true}},
		{"the same does not", "q c6", "q 3 x2 @2", "q 6 @2", []bool{false}},
		{"of several only the lower ones", "q c6", "q 3 @1; q 3 @2", "q 3 @2; q 6 @2", []bool{true, false}},
		{"a capability that is too small stays so", "q c6", "q 3 x2 @1", "q 7 @2", []bool{false}},
		{"each priority has an answer of its own", "q c6", "q 3 @1; q 3 @2", "q 6 @2; q 6 @3", []bool{false, true}},
		{"nothing is promised twice", "q c6", "q 3 x2 @1", "q 4 @2; q 4 @2; q 2 @2", []bool{true, false, true}},
		{"nor to two queues", "org c12; a <org d4; b <org d4; c <org d4", "c 2 x6", "a 4; b 4; a 2; b 2", []bool{true, true, false, false}},
		{"another user's pods free none of the own quota", "q c9 u3", "q/ann 3 @2; q/bob 3 @1", "q/ann 3 @2; q/bob 3 @2", []bool{false, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree, waits := treeOf(t, c.queues), map[string]resources.Sums{}
			var units []Unit
			for _, u := range unitsOf(t, c.running) {
				tree.Add(u.Account, u.Requests)
				units = append(units, u.Unit)
			}
			waiting := unitsOf(t, c.waits)
			for _, u := range waiting {
				queue := QueueOf(u.Account)
				waits[queue] = waits[queue].Clone()
				waits[queue].Add(u.Requests)
			}
			e := tree.Evictions(tree.ShareOut(cpu(12), waits), units)
			var got []bool
			for _, u := range waiting {
				can := e.CanMakeRoom(nil, u.Account, u.Priority, u.Requests)
				if can {
					e.Add(u.Account, u.Requests)
				}
				got = append(got, can)
			}
			require.Equal(t, c.want, got)
		})
	}
}
