package ledger

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestHugeChargesLeaveNothingBehind: pods that ask for 8Ei come and go, and the quota is what it was.
func TestHugeChargesLeaveNothingBehind(t *testing.T) {
	memory := func(amount string) resources.List {
		return resources.FromResourceList(mustertesting.Resources("memory", amount))
	}
	l := New()
	l.SetQueue(mustertesting.MakeQueue("q").Capability("memory", "10Gi").Obj())
	l.Charge("running", "q", memory("8Gi"))
	for n := range 3 {
		l.Charge(types.UID(fmt.Sprint(n)), "q", memory("8Ei"))
	}
	require.NotNil(t, l.Room("q", memory("1")))
	for n := range 3 {
		require.True(t, l.Release(types.UID(fmt.Sprint(n))))
	}
	assert.Equal(t, memory("8Gi"), l.Used("q"))
	assert.NotNil(t, l.Room("q", memory("8Gi")), "2Gi are free")
	assert.Nil(t, l.Room("q", memory("2Gi")))
}

// booked is a ledger as tables: an amount without bounds for each pod and each holder.
type booked struct {
	parents map[string]string
	charges map[types.UID]entry
	assumed map[string]entry
}

// isBelow says whether a queue is another or below it.
func (b *booked) isBelow(queue, other string) bool {
	for range len(b.parents) + 1 {
		if queue == other || other == "root" {
			return true
		}
		queue = b.parents[queue]
	}
	return false
}

// sums are what a queue uses, and that with what is assumed, of a resource.
func (b *booked) sums(queue string, name corev1.ResourceName) (used, all *big.Int) {
	used, all = new(big.Int), new(big.Int)
	for _, e := range b.charges {
		if b.isBelow(e.queue, queue) {
			used.Add(used, big.NewInt(e.amount[name]))
		}
	}
	all.Set(used)
	for _, e := range b.assumed {
		if b.isBelow(e.queue, queue) {
			all.Add(all, big.NewInt(e.amount[name]))
		}
	}
	return used, all
}

func bounded(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

var hugeAmounts = rapid.OneOf(rapid.Int64Range(0, 1<<40), rapid.SampledFrom([]int64{
	0, 1, resources.MaxAmount, resources.MaxAmount - 1, math.MaxInt64, math.MaxInt64 - 1, -resources.MaxAmount, math.MinInt64,
}))

// TestTotalsAreExact charges, assumes, moves and gives back any amounts in any order while queues move. After each step it compares the
// totals with those of math/big. At the end nothing is left.
func TestTotalsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New()
		b := &booked{parents: map[string]string{}, charges: map[types.UID]entry{}, assumed: map[string]entry{}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			changeBoth(t, l, b)
			compareBoth(t, l, b)
		}
		for pod := range b.charges {
			l.Release(pod)
		}
		for holder := range b.assumed {
			l.DropAssumed(holder)
		}
		for _, name := range append(slices.Clone(names), "root") {
			used, all := l.Totals(name)
			require.True(t, used.IsZero() && all.IsZero(), name)
		}
	})
}

// changeBoth does the same to a ledger and to its tables.
func changeBoth(t *rapid.T, l *Ledger, b *booked) {
	pod, holder := types.UID(rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(t, "pod")), rapid.SampledFrom([]string{"g", "h"}).Draw(t, "holder")
	at := rapid.IntRange(0, len(names)-1).Draw(t, "queue")
	e := entry{queue: names[at], amount: resources.List{"a": hugeAmounts.Draw(t, "a"), "b": hugeAmounts.Draw(t, "b")}}
	switch rapid.IntRange(0, 6).Draw(t, "step") {
	case 0, 1:
		l.Charge(pod, e.queue, e.amount)
		b.charges[pod] = e
	case 2:
		l.Release(pod)
		delete(b.charges, pod)
	case 3:
		l.Assume(holder, e.queue, e.amount)
		b.assumed[holder] = e
	case 4:
		l.DropAssumed(holder)
		delete(b.assumed, holder)
	case 5:
		l.RoomFor(holder, nil, e.queue, e.amount)
	case 6:
		parent := ""
		if n := rapid.IntRange(-1, at-1).Draw(t, "parent"); n >= 0 && b.parents[names[n]] != "" {
			parent = names[n]
		}
		l.SetQueue(mustertesting.MakeQueue(e.queue).Parent(parent).Obj())
		b.parents[e.queue] = "root"
		if parent != "" {
			b.parents[e.queue] = parent
		}
	}
}

func compareBoth(t *rapid.T, l *Ledger, b *booked) {
	for _, queue := range append(slices.Clone(names), "root") {
		used, all := l.Totals(queue)
		for _, name := range []corev1.ResourceName{"a", "b"} {
			wantUsed, wantAll := b.sums(queue, name)
			require.Equal(t, bounded(wantUsed), used.List()[name], "used of %s", queue)
			require.Equal(t, bounded(wantAll), all.List()[name], "all of %s", queue)
			require.Equal(t, bounded(new(big.Int).Sub(big.NewInt(1000), wantAll)), all.Left(name, 1000), "left of %s", queue)
		}
	}
	require.Empty(t, l.Differing())
}

// TestTheLedgerFindsTotalsThatAreWrong spoils a total in each way that matters.
func TestTheLedgerFindsTotalsThatAreWrong(t *testing.T) {
	for name, spoil := range map[string]func(l *Ledger){
		"used of a queue":           func(l *Ledger) { l.used.Add("child", cpu(1)) },
		"total of a queue":          func(l *Ledger) { l.tree.Sub("child", cpu(1)) },
		"a charge that is nowhere":  func(l *Ledger) { l.charges["other"] = entry{"child", cpu(1)} },
		"an assumption left behind": func(l *Ledger) { delete(l.assumed, "gang") },
	} {
		l := New()
		l.SetQueue(queue("q", "", "10"))
		l.SetQueue(queue("child", "q", "10"))
		l.Charge("pod", "child", cpu(1000))
		l.Assume("gang", "child", cpu(2000))
		require.Empty(t, l.Differing(), name)
		spoil(l)
		assert.Equal(t, []string{"child", "q", "root"}, l.Differing(), name)
	}
}

// TestConcurrentCallersLeaveExactTotals has callers charge, assume, release and ask side by side while queues move. At the end the totals
// are the sums of the charges that the callers have left.
func TestConcurrentCallersLeaveExactTotals(t *testing.T) {
	const callers, rounds = 8, 300
	l := New()
	for _, name := range names {
		l.SetQueue(queue(name, "", "100"))
	}
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() { useLedger(l, caller, rounds) })
	}
	group.Go(func() {
		for n := range rounds {
			l.SetQueue(queue(names[1+n%3], []string{"", "a"}[n%2], fmt.Sprint(n)))
			l.Differing()
		}
	})
	group.Wait()

	require.Empty(t, l.Differing())
	want := resources.Sums{}
	for caller := range callers {
		want.Add(amountOf(caller, rounds-1))
	}
	used, all := l.Totals("root")
	assert.True(t, used.Equal(want), "%v are used, %v charged", used.List(), want.List())
	want.Add(cpu(callers * 100))
	assert.True(t, all.Equal(want))
	assert.Len(t, l.Pods(), callers)
}

// useLedger charges a pod of its own again and again, each time another amount in another queue. It leaves the last charge and an
// assumption of 100.
func useLedger(l *Ledger, caller, rounds int) {
	own, passing, holder := types.UID(fmt.Sprint("own-", caller)), types.UID(fmt.Sprint("passing-", caller)), fmt.Sprint("gang-", caller)
	for n := range rounds {
		name := names[(caller+n)%len(names)]
		l.Charge(own, name, amountOf(caller, n))
		l.Charge(passing, name, amountOf(n, caller))
		l.Assume(holder, name, cpu(int64(n)))
		l.RoomFor(holder, nil, name, cpu(int64(n)))
		l.Used(name)
		l.Release(passing)
	}
	l.Assume(holder, names[caller%len(names)], cpu(100))
}

// amountOf is another amount for each caller and round, some of them huge.
func amountOf(caller, round int) resources.List {
	if (caller+round)%3 == 0 {
		return resources.List{corev1.ResourceCPU: resources.MaxAmount, corev1.ResourceMemory: math.MaxInt64}
	}
	return resources.List{corev1.ResourceCPU: int64(1000*caller + round)}
}
