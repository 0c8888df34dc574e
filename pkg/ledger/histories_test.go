package ledger

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// histories is how many random histories the test goes through in continuous integration; with those of pkg/gang 100,000.
const histories = 50_000

// TestHistories drives a ledger through random histories of charges, releases and promises, repeated and in any order. Queues come, change
// their parents and capabilities, and go. After each step the sums of the tree are those of the entries. A caller that asks for room before
// it takes it never takes a queue or an ancestor above its capability.
func TestHistories(t *testing.T) {
	mustertesting.Histories(t, histories, func(t *rapid.T) {
		h := &history{t: t, ledger: New(), queues: map[string]shape{}, charges: map[types.UID]booking{}, promises: map[string]booking{}}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			h.step()
			h.compare()
		}
		h.releaseAll()
	})
}

// shape is a queue as it was set.
type shape struct {
	parent     string
	capability int64
}

// booking is an amount of milli-CPUs in a queue.
type booking struct {
	queue  string
	amount int64
}

// history is a ledger and what it should hold.
type history struct {
	t        *rapid.T
	ledger   *Ledger
	queues   map[string]shape
	charges  map[types.UID]booking
	promises map[string]booking
}

func (h *history) draw(label string, from, to int) int {
	return rapid.IntRange(from, to).Draw(h.t, label)
}

// names are in an order in which each may have the ones before it as its parent.
var names = []string{"a", "b", "c", "d"}

func (h *history) step() {
	pod, holder := types.UID(fmt.Sprint("pod-", h.draw("pod", 0, 4))), fmt.Sprint("gang-", h.draw("holder", 0, 2))
	b := booking{queue: names[h.draw("queue", 0, 3)], amount: int64(h.draw("amount", 0, 40)) * 100}
	switch h.draw("event", 0, 8) {
	case 0:
		h.setQueue()
	case 1:
		h.ledger.DeleteQueue(b.queue)
		delete(h.queues, b.queue)
	case 2: // a bound pod is charged, whether there is room or not
		h.ledger.Charge(pod, b.queue, cpu(b.amount))
		h.charges[pod] = b
	case 3:
		h.release(pod)
	case 4:
		h.ledger.DropAssumed(holder)
		delete(h.promises, holder)
	case 5:
		h.reserve(pod, b)
	case 6, 7:
		h.promise(holder, b)
	case 8:
		h.reservePromised(holder, pod)
	}
}

func (h *history) setQueue() {
	at := h.draw("which", 0, 3)
	s := shape{capability: int64(h.draw("capability", 0, 8)) * 1000}
	if parent := h.draw("parent", -1, at-1); parent >= 0 {
		s.parent = names[parent]
	}
	h.queues[names[at]] = s
	h.ledger.SetQueue(queue(names[at], s.parent, fmt.Sprintf("%dm", s.capability)))
}

func (h *history) release(pod types.UID) {
	_, charged := h.charges[pod]
	if got := h.ledger.Release(pod); got != charged {
		h.t.Fatalf("releasing %s says %v, it was charged: %v", pod, got, charged)
	}
	delete(h.charges, pod)
	if h.ledger.Release(pod) {
		h.t.Fatalf("%s is released twice", pod)
	}
}

// reserve charges a pod if there is room, as for a pod without a promise.
func (h *history) reserve(pod types.UID, b booking) {
	if _, charged := h.charges[pod]; charged || h.ledger.Room(b.queue, cpu(b.amount)) != nil {
		return
	}
	h.ledger.Charge(pod, b.queue, cpu(b.amount))
	h.charges[pod] = b
	h.withinCapability(b)
}

// promise sets an amount aside if there is room beside all other promises.
func (h *history) promise(holder string, b booking) {
	if h.ledger.RoomFor(holder, nil, b.queue, cpu(b.amount)) != nil {
		return
	}
	h.ledger.Assume(holder, b.queue, cpu(b.amount))
	h.promises[holder] = b
	h.withinCapability(b)
}

// reservePromised charges a pod a part of a promise, which shrinks by it.
func (h *history) reservePromised(holder string, pod types.UID) {
	b, promised := h.promises[holder]
	if _, charged := h.charges[pod]; charged || !promised || b.amount == 0 {
		return
	}
	part := booking{queue: b.queue, amount: min(b.amount, int64(h.draw("part", 1, 40))*100)}
	b.amount -= part.amount
	before := h.total(b.queue)
	h.ledger.Assume(holder, b.queue, cpu(b.amount))
	h.ledger.Charge(pod, b.queue, cpu(part.amount))
	h.promises[holder], h.charges[pod] = b, part
	if after := h.total(b.queue); after != before {
		h.t.Fatalf("a reservation out of a promise changes what queue %s has left, from %d to %d in use", b.queue, before, after)
	}
}

// path is a queue and its ancestors. A queue whose parent does not exist hangs below the root.
func (h *history) path(queue string) []string {
	path := []string{queue}
	for {
		parent := h.queues[queue].parent
		if _, exists := h.queues[parent]; !exists {
			return path
		}
		queue = parent
		path = append(path, queue)
	}
}

// total is what is charged and promised in a queue and below it.
func (h *history) total(queue string) int64 { return h.charged(queue) + h.promised(queue) }

func (h *history) charged(queue string) (sum int64) {
	for _, b := range h.charges {
		if slices.Contains(h.path(b.queue), queue) {
			sum += b.amount
		}
	}
	return sum
}

func (h *history) promised(queue string) (sum int64) {
	for _, b := range h.promises {
		if slices.Contains(h.path(b.queue), queue) {
			sum += b.amount
		}
	}
	return sum
}

// withinCapability is what an answer of yes has promised: no queue on the path has more than its capability. An empty amount always fits.
func (h *history) withinCapability(b booking) {
	if b.amount == 0 {
		return
	}
	for _, name := range h.path(b.queue) {
		if s, exists := h.queues[name]; exists && h.total(name) > s.capability {
			h.t.Fatalf("there was room, and now queue %s has %d of its %d", name, h.total(name), s.capability)
		}
	}
}

func (h *history) compare() {
	for _, name := range names {
		if used, want := h.ledger.Used(name)[corev1.ResourceCPU], h.charged(name); used != want {
			h.t.Fatalf("queue %s uses %d, its pods have %d", name, used, want)
		}
		if all, want := h.ledger.tree.Total(name).List()[corev1.ResourceCPU], h.total(name); all != want {
			h.t.Fatalf("queue %s has %d used and promised, counted by hand %d", name, all, want)
		}
	}
}

// releaseAll takes everything back: nothing must be left.
func (h *history) releaseAll() {
	for pod := range h.charges {
		h.release(pod)
	}
	for holder := range h.promises {
		h.ledger.DropAssumed(holder)
	}
	for _, name := range append([]string{"root"}, names...) {
		if left := h.ledger.tree.Total(name); !left.IsZero() {
			h.t.Fatalf("queue %s has %v left of nothing", name, left)
		}
	}
}
