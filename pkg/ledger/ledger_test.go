package ledger

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

func cpu(millis int64) resources.List { return resources.List{corev1.ResourceCPU: millis} }

func queue(name, parent, capability string) *schedulingv1beta1.Queue {
	return &schedulingv1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: schedulingv1beta1.QueueSpec{Parent: parent, Capability: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(capability),
		}},
	}
}

func TestPromisesTakeRoomButAreNotUsed(t *testing.T) {
	l := New()
	l.SetQueue(queue("q", "", "3"))
	l.Assume("gang", "q", cpu(2000))
	l.Charge("pod", "q", cpu(500))

	assert.Equal(t, cpu(500), l.Used("q"))
	require.NotNil(t, l.Room("q", cpu(1000)))
	assert.Nil(t, l.RoomFor("gang", nil, "q", cpu(2500)), "a promise does not stand in its holder's way")
	assert.NotNil(t, l.Room("q", cpu(1000)), "asking changes nothing")
	l.DropAssumed("gang")
	assert.Nil(t, l.Room("q", cpu(2500)))
}

func TestAChargeMovesWithItsQueue(t *testing.T) {
	l := New()
	l.Charge("pod", "a", cpu(100))
	l.Charge("pod", "b", cpu(300))
	assert.Equal(t, cpu(300), l.Used("b"))
	assert.True(t, l.Used("a").IsZero())
	assert.True(t, l.Release("pod"))
	assert.False(t, l.Release("pod"))
	assert.True(t, l.Used("root").IsZero())
}

func TestAChargeTellsWhetherItReplacedAnother(t *testing.T) {
	for name, c := range map[string]struct {
		queue    string
		amount   int64
		replaced bool
	}{
		"the same again": {"a", 100, false},
		"more":           {"a", 300, true},
		"less":           {"a", 50, true},
		"another queue":  {"b", 100, true},
	} {
		l := New()
		assert.False(t, l.Charge("pod", "a", cpu(100)), name)
		assert.Equal(t, c.replaced, l.Charge("pod", c.queue, cpu(c.amount)), name)
		queue, amount, charged := l.Charged("pod")
		assert.True(t, charged, name)
		assert.Equal(t, c.queue, queue, name)
		assert.Equal(t, cpu(c.amount), amount, name)
		assert.Equal(t, cpu(c.amount), l.Used("root"), name)
	}
	_, _, charged := New().Charged("pod")
	assert.False(t, charged)
}

// TestAPromiseTellsWhetherItFreesRoom: admission is asked again only if there may be more room than before, in any queue.
func TestAPromiseTellsWhetherItFreesRoom(t *testing.T) {
	const gpu = corev1.ResourceName("nvidia.com/gpu")
	before := resources.List{corev1.ResourceCPU: 100, gpu: 2}
	for name, c := range map[string]struct {
		queue  string
		amount resources.List
		freed  bool
	}{
		"the same again":                 {"a", before, false},
		"more":                           {"a", resources.List{corev1.ResourceCPU: 200, gpu: 2}, false},
		"less of one resource":           {"a", resources.List{corev1.ResourceCPU: 200, gpu: 1}, true},
		"nothing of one resource":        {"a", cpu(100), true},
		"the same in another queue":      {"b", before, true},
		"more in another queue":          {"b", resources.List{corev1.ResourceCPU: 200, gpu: 4}, true},
		"nothing":                        {"a", nil, true},
		"zero, which is the same":        {"a", resources.List{corev1.ResourceCPU: 0}, true},
		"another resource on top of all": {"a", resources.List{corev1.ResourceCPU: 100, gpu: 2, corev1.ResourceMemory: 1}, false},
	} {
		l := New()
		assert.False(t, l.Assume("gang", "a", before), name)
		assert.Equal(t, c.freed, l.Assume("gang", c.queue, c.amount), name)
		_, all := l.Totals("root")
		want := c.amount.Clone()
		want.Sub(all.List())
		assert.True(t, want.IsZero(), "%s: %v is promised", name, all)
	}
	assert.False(t, New().DropAssumed("gang"), "nothing was promised")
}

// TestRoomForTheHolderOfAPromise: its own promise does not count, and reservations for other gangs do, with or without a promise. The queue
// has 10 cores, of which a pod uses 2.
func TestRoomForTheHolderOfAPromise(t *testing.T) {
	for name, c := range map[string]struct {
		promised int64 // to the holder; 0 for nothing
		others   int64 // promised to another holder
		ahead    []quota.Claim
		want     int64
		fits     bool
		behind   bool
	}{
		"without a promise":              {want: 8000, fits: true},
		"without a promise, too much":    {want: 8001},
		"its own promise":                {promised: 6000, want: 8000, fits: true},
		"its own promise, too much":      {promised: 6000, want: 8001},
		"the promise of another":         {promised: 4000, others: 2000, want: 6000, fits: true},
		"the promise of another, more":   {promised: 4000, others: 2000, want: 6001},
		"a claim ahead":                  {ahead: []quota.Claim{{Queue: "q", Want: cpu(3000)}}, want: 5000, fits: true},
		"a claim ahead, more":            {ahead: []quota.Claim{{Queue: "q", Want: cpu(3000)}}, want: 5001, behind: true},
		"a promise and a claim":          {promised: 6000, ahead: []quota.Claim{{Queue: "q", Want: cpu(3000)}}, want: 5000, fits: true},
		"a promise and a claim, more":    {promised: 6000, ahead: []quota.Claim{{Queue: "q", Want: cpu(3000)}}, want: 5001, behind: true},
		"a claim in a queue without any": {promised: 6000, ahead: []quota.Claim{{Queue: "other", Want: cpu(3000)}}, want: 8000, fits: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := New()
			l.SetQueue(queue("q", "", "10"))
			l.Charge("pod", "q", cpu(2000))
			l.Assume("gang", "q", cpu(c.promised))
			l.Assume("another", "q", cpu(c.others))
			_, before := l.Totals("q")
			shortage := l.RoomFor("gang", c.ahead, "q", cpu(c.want))
			assert.Equal(t, c.fits, shortage == nil, "%v", shortage)
			if shortage != nil {
				assert.Equal(t, c.behind, shortage.Behind)
			}
			_, after := l.Totals("q")
			assert.Equal(t, before, after, "a question changes nothing")
		})
	}
}

// TestAPromiseIsACopy: the holder goes on to count with its own list.
func TestAPromiseIsACopy(t *testing.T) {
	l := New()
	amount := cpu(1000)
	l.Assume("gang", "q", amount)
	amount[corev1.ResourceCPU] = 400
	l.DropAssumed("gang")
	_, all := l.Totals("q")
	assert.True(t, all.IsZero(), "%v is left of a promise of 1000m", all)
}

// TestTheLedgerIsWhatItsEntriesSay repeats, shuffles and loses events of pods and gangs. It compares the ledger with its entries after
// each: every charge counts once, and nothing is left behind.
func TestTheLedgerIsWhatItsEntriesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New()
		charges, promises := map[types.UID]entry{}, map[string]entry{}
		queues := rapid.SampledFrom([]string{"a", "b", "c"})
		l.SetQueue(queue("b", "a", "10"))
		for step := range rapid.IntRange(1, 50).Draw(t, "steps") {
			pod := types.UID(fmt.Sprint("pod", rapid.IntRange(0, 5).Draw(t, fmt.Sprint("pod", step))))
			gang := fmt.Sprint("gang", rapid.IntRange(0, 2).Draw(t, "gang"))
			e := entry{queue: queues.Draw(t, "queue"), amount: cpu(rapid.Int64Range(1, 50).Draw(t, "amount"))}
			switch rapid.IntRange(0, 4).Draw(t, "verb") {
			case 0:
				l.Charge(pod, e.queue, e.amount)
				charges[pod] = e
			case 1:
				_, charged := charges[pod]
				assert.Equal(t, charged, l.Release(pod))
				delete(charges, pod)
			case 2:
				l.Assume(gang, e.queue, e.amount)
				promises[gang] = e
			case 3:
				l.DropAssumed(gang)
				delete(promises, gang)
			case 4:
				l.RoomFor(gang, nil, e.queue, e.amount)
			}
		}
		used := int64(0)
		for _, e := range charges {
			used += e.amount[corev1.ResourceCPU]
		}
		all := used
		for _, e := range promises {
			all += e.amount[corev1.ResourceCPU]
		}
		assert.Equal(t, used, l.Used("root")[corev1.ResourceCPU])
		assert.Equal(t, all, l.tree.Total("root").List()[corev1.ResourceCPU])
	})
}

// TestReclaimSeesWhatStays: b uses 4 of the share of 2. Reclaim for a, which deserves 2, does not count what is assumed for a's gang, nor
// pods that leave. It obeys reclaimable, which is true if it is not written.
func TestReclaimSeesWhatStays(t *testing.T) {
	for name, c := range map[string]struct {
		reclaimable *bool
		leaving     []types.UID
		want        quota.Rule
	}{
		"not written":          {nil, nil, quota.ByShare},
		"reclaimable":          {ptr.To(true), nil, quota.ByShare},
		"not reclaimable":      {ptr.To(false), nil, quota.NotAllowed},
		"what is above leaves": {nil, []types.UID{"1", "2", "uncharged"}, quota.NotAllowed},
		"a part of it leaves":  {nil, []types.UID{"1"}, quota.ByShare},
	} {
		t.Run(name, func(t *testing.T) {
			l := New()
			for _, name := range []string{"a", "b"} {
				q := queue(name, "", "10")
				q.Spec.Deserved = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
				q.Spec.Reclaimable = c.reclaimable
				l.SetQueue(q)
			}
			for _, pod := range []types.UID{"1", "2", "3", "4"} {
				l.Charge(pod, "b", cpu(1000))
			}
			l.Assume("gang", "a", cpu(2000))
			shares := l.ShareOut(cpu(4000), nil)
			unit := quota.Unit{Account: "b", Requests: cpu(1000)}
			assert.Equal(t, c.want, l.Reclaim("gang", shares, "a", 0, cpu(2000), c.leaving).Rule(unit))
			assert.Equal(t, quota.NotAllowed, l.Reclaim("other", shares, "a", 0, cpu(2000), nil).Rule(unit), "the share is assumed for another")
			assert.Equal(t, cpu(4000), l.Used("b"), "asking changes nothing")
		})
	}
}

// TestSharesAreComputedOnceAChange counts how often shares are computed, and compares them with fresh ones.
func TestSharesAreComputedOnceAChange(t *testing.T) {
	l, total, waiting := New(), cpu(4000), map[string]resources.Sums{}
	changes := map[string]func(){
		"a queue":           func() { l.SetQueue(queue("a", "", "10")) },
		"a charge":          func() { l.Charge("1", "a", cpu(1000)) },
		"an assumed amount": func() { l.Assume("gang", "a", cpu(2000)) },
		"the end of it":     func() { l.DropAssumed("gang") },
		"the end of a pod":  func() { l.Release("1") },
		"a queue that goes": func() { l.DeleteQueue("a") },
		"demand":            func() { waiting = map[string]resources.Sums{"b": {}}; waiting["b"].Add(cpu(500)) },
		"other nodes":       func() { total = cpu(8000) },
	}
	count := 0
	for _, name := range []string{"a queue", "a charge", "an assumed amount", "the end of it", "the end of a pod", "a queue that goes", "demand", "other nodes"} {
		changes[name]()
		count++
		for range 10 {
			shares := l.ShareOut(total, waiting)
			assert.Equal(t, l.tree.ShareOut(total, waiting), shares, name)
			l.Room("a", cpu(1000)) // asks, and changes nothing
		}
		assert.Equal(t, count, l.SharesComputed(), name)
	}
}

// TestAQueueThatContradictsItselfKeepsItsCapability: also when the program that keeps the ledger has just started and has seen nothing else
// of the queue. The ledger says which queue is new to it.
func TestAQueueThatContradictsItselfKeepsItsCapability(t *testing.T) {
	good := queue("q", "", "4")
	bad := queue("q", "", "1")
	bad.Spec.Guarantee.Resource = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	bad.Status.Muster = &schedulingv1beta1.QueueStatusExtension{LastValid: &schedulingv1beta1.QueueTerms{Capability: good.Spec.Capability}}
	for name, seen := range map[string][]*schedulingv1beta1.Queue{"it was good": {good, bad}, "it was never seen": {bad}} {
		l := New()
		for _, q := range seen {
			assert.True(t, l.SetQueue(q), name)
		}
		assert.False(t, l.SetQueue(bad.DeepCopy()), "%s: it is not new", name)
		assert.Nil(t, l.Room("q", cpu(4000)), name)
		assert.NotNil(t, l.Room("q", cpu(4001)), name)
		l.DeleteQueue("q")
		assert.Nil(t, l.Room("q", cpu(4001)), "%s: it is gone", name)
	}
}

// TestPodsThatLeaveDoNotCountAsOveruse, nor is anything evicted for them.
func TestPodsThatLeaveDoNotCountAsOveruse(t *testing.T) {
	l := New()
	l.SetQueue(queue("q", "", "1"))
	l.Charge("stays", "q", cpu(1000))
	l.Charge("goes", "q", cpu(500))
	units := []quota.Unit{{Account: "q", Requests: cpu(1000)}}
	assert.Len(t, l.Overused(nil), 1)
	assert.Len(t, l.AboveCapability("q", nil, units, nil), 1)
	leaving := []types.UID{"goes", "unknown"}
	assert.Empty(t, l.Overused(leaving))
	assert.Empty(t, l.AboveCapability("q", nil, units, leaving))
	assert.Equal(t, cpu(1500), l.Used("q"), "asking changes nothing")
}

// TestWhatChangesNothingIsNoChange: the shares would be computed anew.
func TestWhatChangesNothingIsNoChange(t *testing.T) {
	l := New()
	l.SetQueue(queue("q", "", "1"))
	l.Charge("pod", "q", cpu(1000))
	l.Assume("gang", "q", cpu(500))
	before := l.Changes()
	assert.False(t, l.SetQueue(queue("q", "", "1")))
	l.Charge("pod", "q", cpu(1000))
	l.Release("unknown")
	l.DropAssumed("unknown")
	assert.Nil(t, l.RoomFor("gang", nil, "q", cpu(0)))
	assert.Equal(t, before, l.Changes())
}

// TestWhatWaitsHasAShareWhenPodsGo: a queue of which nothing runs has a share of what its parent may use. Without it, a sibling would be
// within its own share and lose nothing.
func TestWhatWaitsHasAShareWhenPodsGo(t *testing.T) {
	l := New()
	l.SetTotal(cpu(10000))
	l.SetQueue(queue("org", "", "10"))
	for _, name := range []string{"a", "b", "c"} {
		l.SetQueue(queue(name, "org", "10"))
	}
	l.Charge("a", "a", cpu(4000))
	l.Charge("b", "b", cpu(8000))
	units := []quota.Unit{{Account: "a", Requests: cpu(2000)}, {Account: "b", Requests: cpu(2000)}}
	assert.Equal(t, []int{1}, l.AboveCapability("org", nil, units, nil))
	waits := resources.Sums{}
	waits.Add(cpu(10000))
	assert.Equal(t, []int{0}, l.AboveCapability("org", map[string]resources.Sums{"c": waits}, units, nil))
}
