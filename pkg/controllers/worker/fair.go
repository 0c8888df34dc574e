package worker

import (
	"strings"
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// fairQueue is the order in which a Worker takes keys: namespaces take turns, one key each, and the keys of one namespace go in
// the order in which they came. A key so waits for at most one key of each other namespace before it, however many they have.
//
// The workqueue calls it under its own lock; the lock here is for countIn, which Reports ask meanwhile.
type fairQueue struct {
	mu    sync.Mutex
	keys  map[string][]string // namespace -> its keys that wait; no empty lists
	turns []string            // the namespaces that have keys, the next one first
	total int
}

var _ workqueue.Queue[string] = &fairQueue{}

func newFairQueue() *fairQueue { return &fairQueue{keys: map[string][]string{}} }

// namespaceOf is the namespace of a key; "" for what has none.
func namespaceOf(key string) string {
	namespace, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return namespace
}

// Touch does nothing: a key that is added again keeps its place.
func (q *fairQueue) Touch(string) {}

// Push adds a key.
func (q *fairQueue) Push(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := namespaceOf(key)
	if len(q.keys[namespace]) == 0 {
		q.turns = append(q.turns, namespace)
	}
	q.keys[namespace] = append(q.keys[namespace], key)
	q.total++
}

// Len is the number of keys that wait.
func (q *fairQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}

// Pop takes the next key. There must be one.
func (q *fairQueue) Pop() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := q.turns[0]
	q.turns = q.turns[1:]
	keys := q.keys[namespace]
	key := keys[0]
	keys[0] = "" // so that the array does not keep it in memory
	if rest := keys[1:]; len(rest) > 0 {
		q.keys[namespace] = rest
		q.turns = append(q.turns, namespace)
	} else {
		delete(q.keys, namespace)
	}
	q.total--
	return key
}

// countIn is the number of keys of a namespace that wait.
func (q *fairQueue) countIn(namespace string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys[namespace])
}
