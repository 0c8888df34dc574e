package quota

import (
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// world is a random cluster, and the naive model of reclaim in it. The model adds everything up anew for each question.
type world struct {
	total   resources.List
	terms   map[string]Terms
	units   []Unit // in use
	gone    []bool // of each unit
	waiting []Unit // the first is what units are evicted for
	shares  Shares
}

var modelResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

func drawWorld(t *rapid.T, accounts ...string) *world {
	w := &world{terms: map[string]Terms{}}
	scale := rapid.SampledFrom([]int64{1, 1, 1000, resources.MaxAmount / 8}).Draw(t, "scale")
	list := func(label string, most int) resources.List {
		list := resources.List{}
		for _, name := range modelResources {
			if n := rapid.IntRange(-1, most).Draw(t, label+" "+string(name)); n >= 0 {
				list[name] = min(int64(n)*scale, resources.MaxAmount)
			}
		}
		return list
	}
	w.total = list("total", 40)
	parents := map[string][]string{"a": {""}, "b": {"", "a"}, "c": {"", "a"}, "d": {"", "b", "a"}, "e": {"", "c", "b"}, "f": {"", "d"}}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		terms := Terms{Parent: rapid.SampledFrom(parents[name]).Draw(t, "parent of "+name), NotReclaimable: rapid.IntRange(0, 9).Draw(t, "keep "+name) == 0,
			Guarantee: list("guarantee", 4), Weight: rapid.Int64Range(0, 3).Draw(t, "weight")}
		if rapid.Bool().Draw(t, "is share written") {
			terms.Deserved = list("deserved", 8)
		}
		if rapid.IntRange(0, 3).Draw(t, "is limited") == 0 {
			terms.Capability = list("capability", 12)
		}
		w.terms[name] = terms
	}
	accounts = append(accounts, "a", "b", "c", "d", "e", "f", "f/ann", "e/bob", "")
	if rapid.Bool().Draw(t, "are few used") { // so that several units are above one share
		accounts = rapid.Permutation(accounts).Draw(t, "used")[:2]
	}
	unit := func() Unit {
		queue := rapid.SampledFrom(accounts).Draw(t, "account")
		u := Unit{queue, rapid.Int32Range(0, 3).Draw(t, "priority"), list("requests", 4), rapid.IntRange(0, 3).Draw(t, "asks to stay") == 0}
		if rapid.IntRange(0, 3).Draw(t, "has more") == 0 {
			u.Requests["example.com/not-shared-out"] = 1
		}
		return u
	}
	for range rapid.IntRange(0, 14).Draw(t, "units") {
		w.units = append(w.units, unit())
	}
	for range rapid.IntRange(1, 4).Draw(t, "waiting") {
		w.waiting = append(w.waiting, unit())
	}
	w.gone = make([]bool, len(w.units))
	w.shares = w.tree().ShareOut(w.total, w.waits())
	return w
}

// tree has all units that are in use and not gone.
func (w *world) tree() *Tree {
	tree := NewTree()
	for name, terms := range w.terms {
		tree.Set(name, terms)
	}
	for i, u := range w.units {
		if !w.gone[i] && u.Account != "" {
			tree.Add(u.Account, u.Requests)
		}
	}
	return tree
}

func (w *world) waits() map[string]resources.Sums {
	waits := map[string]resources.Sums{}
	for _, u := range w.waiting {
		queue := QueueOf(u.Account)
		waits[queue] = waits[queue].Clone()
		waits[queue].Add(u.Requests)
	}
	return waits
}

// path is the queue of an account and its ancestors. The users of an undeclared queue hang below the root.
func (w *world) path(account string) []string {
	var path []string
	if _, declared := w.terms[QueueOf(account)]; IsUser(account) && !declared {
		return []string{Root}
	}
	for name := QueueOf(account); name != ""; name = w.terms[name].Parent {
		path = append(path, name)
	}
	return append(path, Root)
}

// sides are the parts of the paths of two accounts that they do not have in common.
func (w *world) sides(account, other string) (own, others []string) {
	own, others = w.path(account), w.path(other)
	for len(own) > 0 && len(others) > 0 && own[len(own)-1] == others[len(others)-1] {
		own, others = own[:len(own)-1], others[:len(others)-1]
	}
	return own, others
}

// sum adds up what of the units is below a queue. "without" is left out, and what is gone if it is not to be counted.
func (w *world) sum(queue string, name corev1.ResourceName, countGone bool, without int) *big.Int {
	sum := new(big.Int)
	for i, u := range w.units {
		if u.Account != "" && i != without && (countGone || !w.gone[i]) && slices.Contains(w.path(u.Account), queue) {
			sum.Add(sum, big.NewInt(u.Requests[name]))
		}
	}
	return sum
}

// isValid says whether the units that are gone may be evicted together for the first that waits.
func (w *world) isValid() bool {
	first := w.waiting[0]
	for i, u := range w.units {
		switch {
		case !w.gone[i]:
		case u.Account == "" || first.Account == "" || QueueOf(u.Account) == QueueOf(first.Account):
			if u.Priority >= first.Priority || u.AsksToStay {
				return false
			}
		case !w.isDue(i):
			return false
		}
	}
	return true
}

// isDue says whether a unit that is gone may be so by share.
func (w *world) isDue(i int) bool {
	first, u := w.waiting[0], w.units[i]
	waitingSide, side := w.sides(first.Account, u.Account)
	if len(waitingSide) == 0 || len(side) == 0 {
		return false
	}
	for _, queue := range waitingSide {
		for name, amount := range first.Requests {
			share, isShared := w.shares[queue][name]
			sum := w.sum(queue, name, true, -1)
			if isShared && amount > 0 && sum.Add(sum, big.NewInt(amount)).Cmp(big.NewInt(share)) > 0 {
				return false
			}
		}
		if w.shares[queue] == nil {
			return false
		}
	}
	for _, queue := range side {
		if w.terms[queue].NotReclaimable || !w.isAboveShareFor(queue, i) || w.breaksGuarantee(queue, u) {
			return false
		}
	}
	return true
}

// isAboveShareFor says whether a queue would be above its share with a unit that is gone. It looks at resources of the unit and of the
// first that waits.
func (w *world) isAboveShareFor(queue string, i int) bool {
	for name, amount := range w.units[i].Requests {
		share, isShared := w.shares[queue][name]
		left := w.sum(queue, name, false, -1)
		left.Add(left, big.NewInt(amount))
		if isShared && amount > 0 && w.waiting[0].Requests[name] > 0 && left.Cmp(big.NewInt(share)) > 0 {
			return true
		}
	}
	return false
}

func (w *world) breaksGuarantee(queue string, u Unit) bool {
	for name, amount := range u.Requests {
		least := big.NewInt(w.terms[queue].Guarantee[name])
		if amount > 0 && w.sum(queue, name, true, -1).Cmp(least) >= 0 && w.sum(queue, name, false, -1).Cmp(least) < 0 {
			return true
		}
	}
	return false
}

func (w *world) reclaim(tree *Tree) *Reclaim {
	return tree.Reclaim(w.shares, w.waiting[0].Account, w.waiting[0].Priority, w.waiting[0].Requests)
}

// TestReclaimIsThatOfTheModel compares the answers in random clusters.
func TestReclaimIsThatOfTheModel(t *testing.T) {
	mustertesting.Histories(t, 3000, func(t *rapid.T) {
		drawWorld(t, "undeclared", "undeclared/ann").compare(t)
	})
}

// TestUnitsThatDifferInOneResourceAreNotTheSame compares them where only the memory of a queue is above its share. All units have the same cpu.
func TestUnitsThatDifferInOneResourceAreNotTheSame(t *testing.T) {
	mustertesting.Histories(t, 1000, func(t *rapid.T) {
		list := func(cpu, memory int64) resources.List {
			return resources.List{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
		}
		w := &world{total: list(40, 20), terms: map[string]Terms{"a": {Deserved: list(20, 16)}, "b": {Deserved: list(20, 4)}},
			waiting: []Unit{{Account: "a", Requests: list(1, rapid.Int64Range(12, 16).Draw(t, "waits"))}}}
		for range rapid.IntRange(3, 8).Draw(t, "units") {
			w.units = append(w.units, Unit{Account: "b", Requests: list(1, rapid.Int64Range(1, 6).Draw(t, "memory"))})
		}
		w.gone = make([]bool, len(w.units))
		w.shares = w.tree().ShareOut(w.total, w.waits())
		w.compare(t)
	})
}

// compare takes units and gives them back in random order, and asks both of every unit after each step.
func (w *world) compare(t *rapid.T) {
	tree := w.tree()
	r := w.reclaim(tree)
	for range rapid.IntRange(0, 12).Draw(t, "steps") {
		if len(w.units) == 0 {
			return
		}
		for i, u := range w.units {
			if w.gone[i] {
				continue
			}
			w.gone[i] = true
			require.Equal(t, w.isValid(), r.Rule(u) != NotAllowed, "unit %d, %+v", i, u)
			w.gone[i] = false
		}
		i := rapid.IntRange(0, len(w.units)-1).Draw(t, "unit")
		if w.gone[i] {
			r.GiveBack(w.units[i])
			w.gone[i] = false
		} else {
			w.gone[i] = r.Take(w.units[i])
		}
		require.True(t, w.isValid(), "what is given back leaves the rest valid")
	}
	if w.waiting[0].Account != "" {
		require.Equal(t, w.tree().Room(w.waiting[0].Account, w.waiting[0].Requests), r.Shortage())
	}
	clear(w.gone)
	for name := range w.terms {
		require.Equal(t, w.tree().Total(name), tree.Total(name), "the tree itself does not change")
	}
}

// take takes units in random order, as many as go, and returns the rule of each.
func (w *world) take(t *rapid.T, r *Reclaim) map[int]Rule {
	rules := map[int]Rule{}
	for _, i := range rapid.Permutation(indices(w.units)).Draw(t, "order") {
		if rule := r.Rule(w.units[i]); r.Take(w.units[i]) {
			rules[i], w.gone[i] = rule, true
		}
	}
	return rules
}

func indices(units []Unit) []int {
	var list []int
	for i := range units {
		list = append(list, i)
	}
	return list
}

// TestAnyPartMayBeEvictedInAnyOrder: if units may be evicted together, each part of them may, and in each order.
func TestAnyPartMayBeEvictedInAnyOrder(t *testing.T) {
	mustertesting.Histories(t, 3000, func(t *rapid.T) {
		w := drawWorld(t, "undeclared", "undeclared/ann")
		rules := w.take(t, w.reclaim(w.tree()))
		clear(w.gone)
		r := w.reclaim(w.tree())
		for _, i := range rapid.Permutation(indices(w.units)).Draw(t, "part and order") {
			if rule, taken := rules[i]; taken && rapid.Bool().Draw(t, "is part") {
				require.Equal(t, rule, r.Rule(w.units[i]))
				require.True(t, r.Take(w.units[i]))
			}
		}
	})
}

// TestNoGuaranteeIsBroken: no queue that other queues take from falls below its guarantee.
func TestNoGuaranteeIsBroken(t *testing.T) {
	mustertesting.Histories(t, 3000, func(t *rapid.T) {
		w := drawWorld(t, "undeclared", "undeclared/ann")
		before := w.tree()
		rules := w.take(t, w.reclaim(before))
		after := w.tree()
		for i, rule := range rules {
			if rule != ByShare {
				continue
			}
			_, side := w.sides(w.waiting[0].Account, w.units[i].Account)
			for _, queue := range side {
				for name, least := range w.terms[queue].Guarantee {
					if before.Total(queue).Amount(name) >= least {
						require.GreaterOrEqual(t, after.Total(queue).Amount(name), least, "%s of %s", name, queue)
					}
				}
			}
		}
	})
}

// TestWhatWasEvictedDoesNotReclaim: the waiting units run now, the evicted ones wait, and nothing else has changed. Then no unit that was
// evicted by share may reclaim from another queue. Nor may a gang of several such units of one account. That holds even with shares that
// are worked out anew. Undeclared queues are left out: they ask for nothing any more once all their units are gone.
func TestWhatWasEvictedDoesNotReclaim(t *testing.T) {
	mustertesting.Histories(t, 3000, func(t *rapid.T) {
		w := drawWorld(t)
		rules := w.take(t, w.reclaim(w.tree()))
		after := &world{total: w.total, terms: w.terms, units: []Unit{w.waiting[0]}, waiting: w.waiting[1:]}
		back := map[string]resources.List{}
		for i, u := range w.units {
			if rule, taken := rules[i]; taken {
				after.waiting = append(after.waiting, u)
				if rule == ByShare {
					gang := back[u.Account].Clone()
					gang.Add(u.Requests)
					back[u.Account] = gang
				}
				continue
			}
			after.units = append(after.units, u)
		}
		after.gone = make([]bool, len(after.units))
		shares := after.tree().ShareOut(after.total, after.waits())
		for name := range w.terms {
			require.Equal(t, w.shares[name], shares[name], "all ask for what they asked for")
		}
		comes := func(u Unit) {
			r := after.tree().Reclaim(shares, u.Account, u.Priority, u.Requests)
			for _, victim := range after.units {
				require.NotEqual(t, ByShare, r.Rule(victim), "%+v comes back and evicts %+v", u, victim)
			}
		}
		for i, rule := range rules {
			if rule == ByShare {
				comes(w.units[i])
			}
		}
		for account, amount := range back {
			comes(Unit{Account: account, Priority: 3, Requests: amount})
		}
	})
}

// TestReclaimEnds lets all waiting units reclaim by share again and again, with nothing else changing. Seated units stay, so it ends.
func TestReclaimEnds(t *testing.T) {
	mustertesting.Histories(t, 3000, func(t *rapid.T) {
		w := drawWorld(t)
		seated := map[int]bool{} // by index of the unit
		for rounds := 0; ; rounds++ {
			require.LessOrEqual(t, rounds, len(w.units)+len(w.waiting))
			next := -1
			var rules map[int]Rule
			for i := range w.waiting {
				w.waiting[0], w.waiting[i] = w.waiting[i], w.waiting[0]
				clear(w.gone)
				r := w.reclaim(w.tree())
				rules = map[int]Rule{}
				for j, u := range w.units {
					if r.Rule(u) == ByShare && r.Take(u) {
						require.False(t, seated[j], "what reclaimed by share is never evicted by share")
						rules[j] = ByShare
					}
				}
				if len(rules) > 0 {
					next = i
					break
				}
			}
			if next < 0 {
				return
			}
			first := w.waiting[0]
			w.waiting = w.waiting[1:]
			var stay []Unit
			stays := map[int]bool{}
			for j, u := range w.units {
				if _, gone := rules[j]; gone {
					w.waiting = append(w.waiting, u)
					continue
				}
				stays[len(stay)] = seated[j]
				stay = append(stay, u)
			}
			stays[len(stay)] = true
			stay = append(stay, first)
			w.units, seated = stay, stays
			w.gone = make([]bool, len(w.units))
			if len(w.waiting) == 0 {
				return
			}
		}
	})
}
