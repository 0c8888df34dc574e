package quota

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/resources"
)

// TestLoweredCapability has queues as a reclaimCase has them. The units are in the order of eviction. The first queue is asked.
func TestLoweredCapability(t *testing.T) {
	for _, c := range []struct{ name, queues, running, evicted string }{
		{"nothing above, nothing goes", "q c6", "q 2 x3", ""},
		{"no capability, nothing goes", "q", "q 2 x3", ""},
		{"one unit too many", "q c4", "q 2 x3", "q1"},
		{"the first in order go", "q c4", "q 1 @1; q 1 @2; q 2 @3; q 2 @4", "q1 q2"},
		{"as many as needed", "q c1", "q 1 x5", "q1 q2 q3 q4"},
		{"a capability of zero empties the queue", "q c0", "q 1 x2; q 3", "q1 q2 q3"},
		{"one larger than the excess is passed over", "q c6", "q 5; q 1 x3", "q2 q3"},
		{"it goes if nothing smaller is left", "q c5", "q 4 x2", "q1"},
		{"then those that it makes needless stay", "q c5", "q 1; q 4; q 4", "q2"},
		{"of two large ones the first goes", "q c8", "q 5; q 4", "q1"},
		{"never below the guarantee", "q c2 g4", "q 2 x4", "q1 q2"},
		{"nor one that would jump below it", "q c2 g3", "q 2 x4", "q1 q2"},
		{"a child keeps its guarantee, the other pays", "q c4; a <q g3; b <q", "a 1 x4; b 1 x3", "a1 b1 b2"},
		{"children that are guaranteed all stay", "q c2; a <q g3; b <q g3", "a 1 x3; b 1 x3", ""},
		{"the guarantee of the parent does not count", "q c2 <org; org g6", "q 2 x3", "q1 q2"},
		{"only what is used below the queue goes", "q c2; other", "other 1 x3; q 1 x3", "q1"},
		{"grandchildren go too", "q c2; a <q; b <a", "b 1 x3; q 1", "b1 b2"},
		{"each resource counts", "q c2 c1gpu", "q 1; q 1gpu; q 1 x2; q 1gpu", "q1 q2"},
		{"one that has the resource above goes, not the other", "q c9 c1gpu", "q 1 x3; q 1 1gpu; q 1 1gpu", "q4"},
		{"a guarantee of another resource holds it", "q c1gpu g4", "q 2 1gpu x2", ""},
		{"a queue that is not reclaimable keeps what it has", "q c2 keep", "q 1 x4", ""},
		{"so does a child, and the other pays", "q c4; a <q keep; b <q", "a 1 x4; b 1 x3", "b1 b2 b3"},
		{"and what is below such a child", "q c2; a <q keep; b <a", "b 1 x4", ""},
		{"an ancestor that is not reclaimable does not count", "q c2 <org; org keep", "q 1 x4", "q1 q2"},
		{"of two children the first in order pay", "q c3; a <q; b <q", "b 1 @1; a 1 @2; b 1 @3; a 1 x2 @4", "b1 a1"},
		{"a child above its own capability does not matter to the parent", "q c9; a <q c1", "a 1 x3", ""},
		{"the child itself is asked for that", "a c1 <q; q c9", "a 1 x3", "a1 a2"},
		{"a capability that was raised again", "q c9", "q 2 x4", ""},
		{"a resource that is not named has no limit", "q c4", "q 1gpu x9; q 1 x4", ""},
		{"units that use nothing stay", "q c1", "q 0; q 1 x2", "q2"},
		{"a user's quota was lowered", "q c2", "q/ann 1 x2; q/bob 1", "q/ann1"},
		{"no queue, no unit", "q c0", "none 1; q 1", "q1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree, units := treeOf(t, c.queues), unitsOf(t, c.running)
			require.Equal(t, c.evicted, lower(tree, statements(c.queues)[0][0], 0, units))
		})
	}
}

// TestOneQueueDoesNotPayForAnother: pods that others have bound, or a lowered capability, leave a queue above its capability. The queues are as
// in TestLoweredCapability; the cluster has an amount of CPU, which the shares are of.
func TestOneQueueDoesNotPayForAnother(t *testing.T) {
	for _, c := range []struct {
		name             string
		cpu              int64
		queues, running  string
		evicted, without string // without regard to shares
	}{
		{"the child above its share pays", 20, "org c8; a <org; b <org", "b 1 x4 @1; a 2 x4 @2", "a1 a2", "b1 b2 b3 b4"},
		{"even if only large units of it remain", 20, "org c8; a <org; b <org", "b 1 x4 @1; a 8 @2", "a1", "b1 b2 b3 b4"},
		{"no other one if it must stay", 20, "org c8; a <org keep; b <org", "b 1 x4; a 2 x4", "", "b1 b2 b3 b4"},
		{"nor if its pods are no candidates", 20, "org c8; a <org; b <org", "b 1 x4; a 0 +8", "", "b1 b2 b3 b4"},
		{"all pay what they have above their shares", 20, "org c6; a <org; b <org", "b 1 x5; a 1 x4", "b1 b2 a1", "b1 b2 b3"},
		{"all pay if none is above its share", 20, "org c6; a <org d5; b <org d5", "b 1 x4; a 1 x4", "b1 b2", "b1 b2"},
		{"in a tree each level counts", 20, "org c8; t <org; a <t; b <t; c <org", "c 1 x4; b 1 x2; a 1 x6", "a1 a2 a3 a4", "c1 c2 c3 c4"},
		{"another resource does not make a culprit", 20, "org c4; a <org; b <org", "a 1 3gpu; b 1 x4", "b1", "a1"},
		{"a user pays beside a child above its share", 20, "org c4; a <org d1", "org/ann 1 x3 @1; a 1 x3 @2", "org/ann1 org/ann2", "org/ann1 org/ann2"},
		{"users have no shares", 20, "q c3", "q/ann 1 x3; q/bob 1 x2", "q/ann1 q/ann2", "q/ann1 q/ann2"},
		{"a queue itself pays beside its children", 20, "org c4; a <org", "a 1 x3; org 1 x3", "a1 a2", "a1 a2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for cpu, want := range map[int64]string{c.cpu: c.evicted, 0: c.without} {
				tree, running := treeOf(t, c.queues), c.running
				if before, used, found := strings.Cut(running, " 0 +"); found { // not among the units
					running = before[:strings.LastIndex(before, ";")]
					tree.Add("a", listOf(t, used))
				}
				require.Equal(t, want, lower(tree, statements(c.queues)[0][0], cpu, unitsOf(t, running)))
			}
		})
	}
}

// lower charges the units, and names the evicted ones. total is what the cluster has, 0 to look at no shares.
func lower(tree *Tree, account string, total int64, units []named) string {
	var plain []Unit
	for i := range units {
		if units[i].Account != "" {
			tree.Add(units[i].Account, units[i].Requests)
		}
		plain = append(plain, units[i].Unit)
	}
	var shares Shares
	if total > 0 {
		shares = tree.ShareOut(cpu(total), nil)
	}
	var names []string
	for _, i := range tree.AboveCapability(account, shares, plain) {
		names = append(names, units[i].name)
	}
	return strings.Join(names, " ")
}

func TestLoweredQuotaOfAUser(t *testing.T) {
	tree := NewTree()
	tree.Set("q", Terms{EachUser: listOf(t, "3"), Users: map[string]resources.List{"bob": listOf(t, "1")}})
	units := unitsOf(t, "q/ann 1 x3; q/bob 1 x3")
	require.Equal(t, "q/bob1 q/bob2", lower(tree, "q/bob", 0, units))
	require.Equal(t, int64(3), tree.Total("q/bob").Amount("cpu"), "the tree does not change")
}

func TestLoweredCapabilityOfHugeAmounts(t *testing.T) {
	tree := NewTree()
	tree.Set("q", Terms{Capability: cpu(5)})
	var units []Unit
	for range 6 { // more than an int64 holds in all
		units = append(units, Unit{Account: "q", Requests: cpu(resources.MaxAmount)})
		tree.Add("q", cpu(resources.MaxAmount))
	}
	units = append(units, Unit{Account: "q", Requests: cpu(5)})
	tree.Add("q", cpu(5))
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, tree.AboveCapability("q", nil, units))
}

// TestOverused: descendants come before ancestors.
func TestOverused(t *testing.T) {
	tree := treeOf(t, "org c5; a <org c2 u1; b <org c4")
	for _, u := range unitsOf(t, "a/ann 2; a/bob 1; b 4 1gpu") {
		tree.Add(u.Account, u.Requests)
	}
	var texts []string
	for _, o := range tree.Overused() {
		texts = append(texts, o.Error())
	}
	require.Equal(t, []string{
		`user "ann" of queue "a" uses 2m cpu, and its quota is 1m`,
		`queue "a" uses 3m cpu, and its capability is 2m`,
		`queue "org" uses 7m cpu, and its capability is 5m`,
	}, texts)
}
