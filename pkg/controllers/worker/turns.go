package worker

import (
	"slices"
	"sync"
)

// Turns shares bulk work out among keys. Few keys have a turn at the same time, so that each is done with its work soon. Namespaces get
// turns in sequence. The keys of a namespace get them in the order in which they began to wait. No worker waits for a turn: a key is
// enqueued when it has one.
//
// It is safe for concurrent use.
type Turns struct {
	atOnce  int
	bounds  TurnBounds
	enqueue func(key string)

	mu    sync.Mutex
	done  map[string]int // key that has a turn -> what it has done in it
	line  *fairQueue     // keys that wait for a turn
	waits map[string]bool
}

// TurnBounds say how much a key may do in a turn while other keys wait. It may do more while none does.
type TurnBounds struct {
	// OtherNamespace holds while a key of another namespace waits.
	OtherNamespace int
	// SameNamespace holds while any key waits.
	SameNamespace int
}

// NewTurns makes Turns of which that many are given at once. enqueue is called with each key that gets a turn after it has waited.
func NewTurns(atOnce int, bounds TurnBounds, enqueue func(key string)) *Turns {
	return &Turns{
		atOnce: atOnce, bounds: bounds, enqueue: enqueue,
		done: map[string]int{}, line: newFairQueue(), waits: map[string]bool{},
	}
}

// Take says whether the key may do n pieces of work now. If not, it waits, and is enqueued when it has a turn. A key whose turn is over
// waits behind the other keys of its namespace.
func (t *Turns) Take(key string, n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if done, has := t.done[key]; has {
		if !t.isOver(key, done) {
			t.done[key] = done + n
			return true
		}
		delete(t.done, key)
	}
	if !t.waits[key] {
		t.waits[key] = true
		t.line.Push(key)
	}
	t.next(key)
	if _, has := t.done[key]; !has {
		return false
	}
	t.done[key] = n
	return true
}

// Waits says whether the key waits for a turn.
func (t *Turns) Waits(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waits[key]
}

// Leave gives back the turn of a key, or its place among the waiting keys. It may have neither.
func (t *Turns) Leave(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waits[key] {
		delete(t.waits, key)
		t.line.remove(key)
	}
	delete(t.done, key)
	t.next("")
}

// isOver says whether a key has had its turn: other keys wait, and it has done enough.
func (t *Turns) isOver(key string, done int) bool {
	others := t.line.Len() - t.line.countIn(namespaceOf(key))
	return others > 0 && done >= t.bounds.OtherNamespace || t.line.Len() > 0 && done >= t.bounds.SameNamespace
}

// next gives away the free turns. It enqueues the keys that get one, except for the one that is being synced.
func (t *Turns) next(synced string) {
	for len(t.done) < t.atOnce && t.line.Len() > 0 {
		key := t.line.Pop()
		delete(t.waits, key)
		t.done[key] = 0
		if key != synced {
			t.enqueue(key)
		}
	}
}

// remove takes a key out, wherever it stands.
func (q *fairQueue) remove(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := namespaceOf(key)
	keys := q.keys[namespace]
	at := slices.Index(keys, key)
	if at < 0 {
		return
	}
	q.take(namespace, key, at)
	if len(keys) > 1 {
		q.keys[namespace] = slices.Delete(keys, at, at+1)
		return
	}
	delete(q.keys, namespace)
	q.turns = slices.DeleteFunc(q.turns, func(one string) bool { return one == namespace })
}
