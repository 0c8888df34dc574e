package quota

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// aged is a tree that has changed many times, with what it should hold.
type aged struct {
	tree  *Tree
	terms map[string]Terms
	used  map[string]resources.Sums // by account
	nodes resources.List
}

// anew makes a tree that has never changed.
func (a *aged) anew() *Tree {
	tree := NewTree()
	for name, terms := range a.terms {
		tree.Set(name, terms)
	}
	for account, amount := range a.used {
		if list := amount.List(); len(list) > 0 {
			tree.Add(account, list)
		}
	}
	tree.SetTotal(a.nodes)
	return tree
}

// clone is a copy of both.
func (a *aged) clone() *aged {
	used := map[string]resources.Sums{}
	for account, amount := range a.used {
		used[account] = amount.Clone()
	}
	return &aged{a.tree.Clone(), maps.Clone(a.terms), used, a.nodes}
}

var agedAccounts = []string{"a", "b", "c", "d", "a/ann", "d/bob", "undeclared"}

// draws are the random values of a history.
type draws struct{ *rapid.T }

func (d draws) list(label string, most int64) resources.List {
	list := resources.List{}
	for _, name := range modelResources {
		if n := rapid.Int64Range(-1, most).Draw(d.T, label+" "+string(name)); n >= 0 {
			list[name] = n
		}
	}
	return list
}

func (d draws) account() string { return rapid.SampledFrom(agedAccounts).Draw(d.T, "account") }

func (d draws) unit() Unit {
	return Unit{Account: d.account(), Priority: rapid.Int32Range(0, 2).Draw(d.T, "priority"), Requests: d.list("unit", 3)}
}

// change does one thing to the tree and to what it should hold.
func (a *aged) change(d draws) {
	at := rapid.IntRange(0, 3).Draw(d.T, "queue")
	name := agedAccounts[at]
	switch rapid.IntRange(0, 6).Draw(d.T, "verb") {
	case 0, 1:
		terms := Terms{Parent: rapid.SampledFrom(append([]string{"", "missing"}, agedAccounts[:at]...)).Draw(d.T, "parent"), Guarantee: d.list("guarantee", 2),
			Capability: d.list("capability", 9), EachUser: d.list("each user", 3), NotReclaimable: rapid.IntRange(0, 5).Draw(d.T, "keeps") == 0}
		a.tree.Set(name, terms)
		a.terms[name] = terms
	case 2:
		a.tree.Remove(name)
		delete(a.terms, name)
	case 3, 4:
		account, amount := d.account(), d.list("amount", 5)
		if amount.IsZero() {
			return // it would be kept as unused until it is taken back
		}
		a.tree.Add(account, amount)
		a.used[account] = a.used[account].Clone()
		a.used[account].Add(amount)
	case 5:
		account := d.account()
		a.tree.Sub(account, a.used[account].List())
		delete(a.used, account)
	case 6:
		a.nodes = d.list("nodes", 30)
		a.tree.SetTotal(a.nodes)
	}
}

// ask asks what changes nothing.
func (a *aged) ask(d draws) {
	shares := a.tree.Shares(nil)
	units := []Unit{d.unit(), d.unit(), d.unit()}
	for _, u := range units {
		r := a.tree.Reclaim(shares, d.account(), 1, d.list("wanted", 3))
		if r.HasClaim(); r.Take(u) {
			r.GiveBack(u)
			r.Take(u)
		}
	}
	e := a.tree.Evictions(shares, units)
	e.Add(d.account(), d.list("added", 3))
	e.CanMakeRoom(nil, d.account(), 1, d.list("asked", 3))
	a.tree.AboveCapability(rapid.SampledFrom(agedAccounts[:4]).Draw(d.T, "lowered"), shares, units)
	a.tree.MayTake(shares, Claim{Queue: d.account(), Want: d.list("held", 3)}, Claim{Queue: d.account(), Want: d.list("claimed", 3)})
	a.tree.Room(d.account(), d.list("wants", 3), Claim{Queue: d.account(), Want: d.list("ahead", 3)}, Claim{Queue: d.account(), Want: d.list("beside", 3), Beside: true})
}

// compare says whether the tree answers as one made anew.
func (a *aged) compare(d draws) {
	fresh := a.anew()
	require.Equal(d.T, fresh.Names(), a.tree.Names())
	require.Equal(d.T, fresh.Overused(), a.tree.Overused())
	require.Equal(d.T, fresh.Nodes(), a.tree.Nodes())
	require.Equal(d.T, fresh.HasGuarantees(), a.tree.HasGuarantees())
	require.Equal(d.T, fresh.Shares(nil), a.tree.Shares(nil))
	require.Empty(d.T, a.tree.Differing(a.used))
	for _, name := range append([]string{Root}, agedAccounts...) {
		require.True(d.T, fresh.Total(name).Equal(a.tree.Total(name)), "total of %s: %v, anew %v", name, a.tree.Total(name).List(), fresh.Total(name).List())
		require.Equal(d.T, fresh.Path(name), a.tree.Path(name))
		require.Equal(d.T, fresh.Limits(name), a.tree.Limits(name))
		require.Equal(d.T, fresh.Users(name), a.tree.Users(name))
		want := resources.List{corev1.ResourceCPU: 3, corev1.ResourceMemory: 3}
		require.Equal(d.T, fresh.Room(name, want), a.tree.Room(name, want))
		require.Equal(d.T, fresh.Exceeds(name, want), a.tree.Exceeds(name, want))
	}
}

// TestAChangedTreeIsAsOneMadeAnew changes a tree and its clones at random. Queues come, move, lose their guarantees, go and come again.
// After each step all of them answer as trees that were made for it. So neither a clone nor a question changes another tree.
func TestAChangedTreeIsAsOneMadeAnew(t *testing.T) {
	mustertesting.Histories(t, 1000, func(t *rapid.T) {
		d := draws{t}
		trees := []*aged{{tree: NewTree(), terms: map[string]Terms{}, used: map[string]resources.Sums{}}}
		for step := range rapid.IntRange(1, 15).Draw(t, "steps") {
			a := rapid.SampledFrom(trees).Draw(t, "tree")
			a.change(d)
			if rapid.IntRange(0, 2).Draw(t, "asks") == 0 {
				a.ask(d)
			}
			if step%5 == 2 {
				trees = append(trees, a.clone())
			}
			for _, each := range trees {
				each.compare(d)
			}
		}
	})
}

// TestClaimsBesideAreNotAddedUp: the queue has 10. Of it 2 are reserved, and each of two claims wants 4 to stay free.
func TestClaimsBesideAreNotAddedUp(t *testing.T) {
	tree := NewTree()
	tree.Set("q", Terms{Capability: cpu(10)})
	ahead := []Claim{{Queue: "q", Want: cpu(2)}, {Queue: "q", Want: cpu(4), Beside: true}, {Queue: "q", Want: cpu(4), Beside: true}}
	for range 2 { // the second answer is that of the first
		assert.Nil(t, tree.Room("q", cpu(4), ahead...))
		assert.NotNil(t, tree.Room("q", cpu(5), ahead...))
	}
}

// TestTheExcessOfAUserIsThatOfTheQueue: both users together have three times the share.
func TestTheExcessOfAUserIsThatOfTheQueue(t *testing.T) {
	tree := treeOf(t, "q d2; other d2")
	units := unitsOf(t, "q/ann 3; q/bob 3")
	for _, u := range units {
		tree.Add(u.Account, u.Requests)
	}
	r := tree.Reclaim(tree.ShareOut(cpu(4), nil), "other", 0, cpu(1))
	for _, u := range units {
		assert.Zero(t, r.Excess(u.Unit).Compare(Ratio{6, 2}), u.Account)
	}
}

// freedOf are the units that the model evicts for one that waits, in their order.
func (w *world) freedOf(t *rapid.T) {
	clear(w.gone)
	for i := range w.units {
		w.gone[i] = true
		w.gone[i] = w.isValid()
	}
	require.True(t, w.isValid(), "%s", fmt.Sprint(w.gone))
}

// TestEvictionsSayWhatTheModelDoes asks about each that waits, in turn. There is room if there is some in a tree without the units that the
// model evicts. Amounts that were added since can only change a yes to a no.
func TestEvictionsSayWhatTheModelDoes(t *testing.T) {
	mustertesting.Histories(t, 3000, func(t *rapid.T) {
		w := drawWorld(t, "undeclared", "undeclared/ann")
		e := w.tree().Evictions(w.shares, slices.Clone(w.units))
		waiting, added := slices.Clone(w.waiting), []Unit{}
		for _, u := range append(waiting, waiting...) {
			if u.Account == "" {
				continue
			}
			w.waiting = []Unit{u}
			w.freedOf(t)
			left := w.tree()
			for _, more := range added {
				left.Add(more.Account, more.Requests)
			}
			answer, want := e.CanMakeRoom(nil, u.Account, u.Priority, u.Requests), left.Room(u.Account, u.Requests) == nil
			if len(added) == 0 {
				require.Equal(t, want, answer, "%+v", u)
			}
			require.True(t, !answer || want, "%+v", u)
			if answer && rapid.Bool().Draw(t, "is added") {
				e.Add(u.Account, u.Requests)
				added = append(added, u)
			}
		}
	})
}
