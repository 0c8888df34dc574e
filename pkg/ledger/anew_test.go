package ledger

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// aged is a ledger that has changed many times, with what it should hold.
type aged struct {
	*rapid.T
	ledger  *Ledger
	queues  map[string]*schedulingv1beta1.Queue
	charges map[types.UID]entry
	assumed map[string]entry
	nodes   resources.List

	changes int64 // of the ledger when it was compared last
	seen    string
}

// anew makes a ledger that has never changed.
func (a *aged) anew() *Ledger {
	l := New()
	for _, queue := range a.queues {
		l.SetQueue(queue)
	}
	for pod, e := range a.charges {
		l.Charge(pod, e.queue, e.amount)
	}
	for holder, e := range a.assumed {
		l.Assume(holder, e.queue, e.amount)
	}
	l.SetTotal(a.nodes)
	return l
}

var agedAccounts = []string{"a", "b", "c", "d", "a/ann", "c/bob"}

func (a *aged) cpu(label string, least, most int) resources.List {
	return cpu(int64(rapid.IntRange(least, most).Draw(a.T, label)) * 1000)
}

func (a *aged) account() string { return rapid.SampledFrom(agedAccounts).Draw(a.T, "account") }
func (a *aged) pod() types.UID {
	return types.UID(rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(a.T, "pod"))
}
func (a *aged) holder() string { return rapid.SampledFrom([]string{"g", "h"}).Draw(a.T, "holder") }

// drawQueue makes a queue. Its terms may contradict those of others, and it may have had others before.
func (a *aged) drawQueue() *schedulingv1beta1.Queue {
	at := rapid.IntRange(0, 3).Draw(a.T, "queue")
	made := mustertesting.MakeQueue(agedAccounts[at]).Parent(rapid.SampledFrom(append([]string{""}, agedAccounts[:at]...)).Draw(a.T, "parent"))
	amount := func(label string, set func(...string) *mustertesting.QueueWrapper) {
		if n := rapid.IntRange(-2, 6).Draw(a.T, label); n >= 0 {
			set("cpu", fmt.Sprint(n))
		}
	}
	amount("capability", made.Capability)
	amount("deserved", made.Deserved)
	amount("guarantee", made.Guarantee)
	queue := made.Obj()
	queue.CreationTimestamp = metav1.NewTime(time.Unix(int64(rapid.IntRange(1, 3).Draw(a.T, "created")), 0))
	if rapid.Bool().Draw(a.T, "was valid") {
		last := &schedulingv1beta1.QueueTerms{Deserved: mustertesting.Resources("cpu", fmt.Sprint(rapid.IntRange(0, 3).Draw(a.T, "last")))}
		queue.Status.Muster = &schedulingv1beta1.QueueStatusExtension{LastValid: last}
	}
	return queue
}

// change does one thing to the ledger and to what it should hold.
func (a *aged) change() {
	switch rapid.IntRange(0, 8).Draw(a.T, "verb") {
	case 0, 1:
		queue := a.drawQueue()
		a.ledger.SetQueue(queue)
		a.queues[queue.Name] = queue
	case 2, 3: // a queue goes, and may come again as it was
		name := rapid.SampledFrom(agedAccounts[:4]).Draw(a.T, "goes")
		queue := a.queues[name]
		a.ledger.DeleteQueue(name)
		delete(a.queues, name)
		if queue != nil && rapid.Bool().Draw(a.T, "comes again") {
			a.ledger.SetQueue(queue)
			a.queues[name] = queue
		}
	case 4:
		pod, e := a.pod(), entry{a.account(), a.cpu("charge", 1, 4)}
		a.ledger.Charge(pod, e.queue, e.amount)
		a.charges[pod] = e
	case 5:
		pod := a.pod()
		a.ledger.Release(pod)
		delete(a.charges, pod)
	case 6:
		holder, e := a.holder(), entry{a.account(), a.cpu("assumed", 1, 4)}
		a.ledger.Assume(holder, e.queue, e.amount)
		a.assumed[holder] = e
	case 7:
		holder := a.holder()
		a.ledger.DropAssumed(holder)
		delete(a.assumed, holder)
	case 8:
		a.nodes = a.cpu("nodes", 0, 20)
		a.ledger.SetTotal(a.nodes)
	}
}

// ask asks what changes nothing, twice: the second answer is that of the first.
func (a *aged) ask() {
	shares, leaving := a.ledger.ShareOut(a.nodes, nil), []types.UID{a.pod()}
	account, other, holder, want := a.account(), a.account(), a.holder(), a.cpu("wanted", 1, 4)
	lowered := rapid.SampledFrom(agedAccounts[:4]).Draw(a.T, "lowered")
	units := []quota.Unit{{Account: a.account(), Requests: want}, {Account: a.account(), Requests: want}}
	fresh := a.anew()
	for range 2 {
		for _, l := range []*Ledger{a.ledger, fresh} {
			r := l.Reclaim(holder, shares, account, 1, want, leaving)
			for _, u := range units {
				r.Take(u)
			}
		}
		require.Equal(a.T, fresh.RoomFor(holder, nil, account, want), a.ledger.RoomFor(holder, nil, account, want))
		require.Equal(a.T, fresh.Overused(leaving), a.ledger.Overused(leaving))
		require.Equal(a.T, fresh.AboveCapability(lowered, nil, units, leaving), a.ledger.AboveCapability(lowered, nil, units, leaving))
		held, claim := quota.Claim{Queue: other, Want: want}, quota.Claim{Queue: account, Want: want}
		require.Equal(a.T, fresh.MayTake(shares, held, holder, claim), a.ledger.MayTake(shares, held, holder, claim))
		require.Equal(a.T, fresh.Snapshot().Evictions(shares, units).CanMakeRoom(nil, account, 1, want), a.ledger.Snapshot().Evictions(shares, units).CanMakeRoom(nil, account, 1, want))
		require.Equal(a.T, fresh.MayReclaim(shares, account, want), a.ledger.MayReclaim(shares, account, want))
	}
}

// compare says whether the ledger answers as one made anew, and counts each change that is not of the nodes.
func (a *aged) compare() {
	fresh := a.anew()
	require.Empty(a.T, a.ledger.Differing())
	require.ElementsMatch(a.T, fresh.Queues(), a.ledger.Queues())
	require.ElementsMatch(a.T, fresh.Pods(), a.ledger.Pods())
	require.Equal(a.T, fresh.ShareOut(a.nodes, nil), a.ledger.ShareOut(a.nodes, nil))
	answers := ""
	for _, name := range append([]string{quota.Root}, agedAccounts...) {
		used, all := fresh.Totals(name)
		agedUsed, agedAll := a.ledger.Totals(name)
		require.True(a.T, used.Equal(agedUsed), "used of %s", name)
		require.True(a.T, all.Equal(agedAll), "used and assumed of %s", name)
		require.Equal(a.T, fresh.Exists(name), a.ledger.Exists(name))
		require.Equal(a.T, fmt.Sprint(fresh.Terms(name)), fmt.Sprint(a.ledger.Terms(name)), "terms of %s", name)
		require.Equal(a.T, fresh.Limits(name), a.ledger.Limits(name), "limits of %s", name)
		require.Equal(a.T, fresh.Path(name), a.ledger.Path(name))
		require.Equal(a.T, fresh.Users(name), a.ledger.Users(name))
		require.Equal(a.T, fresh.Room(name, cpu(3000)), a.ledger.Room(name, cpu(3000)), "room of %s", name)
		answers += fmt.Sprint(name, used.List(), all.List(), fresh.Terms(name), fresh.Path(name))
	}
	if answers != a.seen {
		require.Greater(a.T, a.ledger.Changes(), a.changes, "what has changed is counted")
	}
	a.changes, a.seen = a.ledger.Changes(), answers
}

// TestAChangedLedgerIsAsOneMadeAnew changes a ledger at random. Queues come, contradict each other, go and come again. Pods are charged
// twice, and gangs assume again. After each step it answers as a ledger that was made for it, so no question has changed it.
func TestAChangedLedgerIsAsOneMadeAnew(t *testing.T) {
	mustertesting.Histories(t, 1500, func(t *rapid.T) {
		a := &aged{T: t, ledger: New(), queues: map[string]*schedulingv1beta1.Queue{}, charges: map[types.UID]entry{}, assumed: map[string]entry{}, changes: -1}
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			a.change()
			if rapid.IntRange(0, 2).Draw(t, "asks") == 0 {
				a.ask()
			}
			if rapid.IntRange(0, 3).Draw(t, "looks") > 0 {
				a.compare()
			}
		}
		a.compare()
	})
}

// TestUsersAndLimits: what is assumed is not used, and a queue without a capability has that of its parent.
func TestUsersAndLimits(t *testing.T) {
	l := New()
	l.SetQueue(mustertesting.MakeQueue("org").Capability("cpu", "8").Obj())
	l.SetQueue(mustertesting.MakeQueue("q").Parent("org").Obj())
	l.Charge("pod", "q/ann", cpu(1000))
	l.Assume("gang", "q/bob", cpu(2000))
	assert.Equal(t, []quota.UserUse{{User: "ann", Used: cpu(1000)}}, l.Users("q"))
	assert.Equal(t, cpu(8000), l.Limits("q"))
}

// TestACallerMayChangeWhatItIsTold: the answers are copies.
func TestACallerMayChangeWhatItIsTold(t *testing.T) {
	l := New()
	l.Charge("pod", "q", cpu(1000))
	_, amount, charged := l.Charged("pod")
	require.True(t, charged)
	amount[corev1.ResourceCPU] = 7
	used, all := l.Totals("q")
	used.Add(cpu(5))
	all.Add(cpu(5))
	maps.Copy(l.Used("q"), cpu(9))
	assert.Equal(t, cpu(1000), l.Used("q"))
	assert.Empty(t, l.Differing())
	assert.True(t, l.Release("pod"))
	assert.True(t, l.Used("q").IsZero())
}

// TestALoweredCapabilityKeepsSharesOfAdmittedGangs: gangs of b are admitted, and their pods do not run yet. They count in the shares: a uses
// more than its own, so a pays for the lowered capability of both.
func TestALoweredCapabilityKeepsSharesOfAdmittedGangs(t *testing.T) {
	l := New()
	l.SetQueue(mustertesting.MakeQueue("org").Capability("cpu", "8").Obj())
	for _, name := range []string{"a", "b"} {
		l.SetQueue(mustertesting.MakeQueue(name).Parent("org").Obj())
	}
	l.SetTotal(cpu(8000))
	for i := range 6 {
		l.Charge(types.UID(fmt.Sprint("a", i)), "a", cpu(1000))
	}
	for i := range 3 {
		l.Charge(types.UID(fmt.Sprint("b", i)), "b", cpu(1000))
	}
	l.Assume("gang", "b", cpu(4000))
	units := []quota.Unit{{Account: "b", Requests: cpu(1000)}, {Account: "a", Requests: cpu(1000)}}
	assert.Equal(t, []int{1}, l.AboveCapability("org", nil, units, nil))
}

// TestAQueueMadeAgainUnseenIsYoung: the deletion is not seen, and the terms are the same. Two children ask for more than the parent has, so
// the younger one is at fault.
func TestAQueueMadeAgainUnseenIsYoung(t *testing.T) {
	child := func(name string, created int64) *schedulingv1beta1.Queue {
		queue := mustertesting.MakeQueue(name).Parent("org").Deserved("cpu", "3").Obj()
		queue.CreationTimestamp = metav1.NewTime(time.Unix(created, 0))
		return queue
	}
	l := New()
	l.SetQueue(mustertesting.MakeQueue("org").Deserved("cpu", "4").Obj())
	l.SetQueue(child("a", 1))
	l.SetQueue(child("b", 2))
	assert.Equal(t, cpu(3000), l.Terms("a").Deserved)
	assert.Empty(t, l.Terms("b").Deserved)
	l.SetQueue(child("a", 3))
	assert.Empty(t, l.Terms("a").Deserved)
	assert.Equal(t, cpu(3000), l.Terms("b").Deserved)
}
