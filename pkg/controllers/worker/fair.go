package worker

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// fairQueue is the order in which a Worker takes keys. Namespaces take turns, one key each. In a namespace preferred keys come first, then
// all other keys, each in the order in which they were added. So at most one key of each other namespace comes before a key.
//
// The workqueue calls it under its own lock; the lock here is for countIn, which Reports ask meanwhile.
type fairQueue struct {
	mu    sync.Mutex
	keys  map[string][]string // namespace -> its keys that wait; no empty lists
	turns []string            // the namespaces that have keys, the next one first
	total int

	preferred map[string]bool // keys, until they are taken
	ahead     map[string]int  // namespace -> how many of its keys, at the front, are preferred
}

var _ workqueue.Queue[string] = &fairQueue{}

func newFairQueue() *fairQueue {
	return &fairQueue{keys: map[string][]string{}, preferred: map[string]bool{}, ahead: map[string]int{}}
}

// namespaceOf is the namespace of a key; "" for what has none.
func namespaceOf(key string) string {
	namespace, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return namespace
}

// prefer has a key go before the other keys of its namespace when it is added next.
func (q *fairQueue) prefer(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.preferred[key] = true
}

// Touch is called for a key that is added again. It keeps its place unless it is preferred now.
func (q *fairQueue) Touch(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.preferred[key] {
		return // before the key is searched for: many may wait
	}
	namespace := namespaceOf(key)
	at := slices.Index(q.keys[namespace], key)
	if at < q.ahead[namespace] {
		return
	}
	q.keys[namespace] = slices.Delete(q.keys[namespace], at, at+1)
	q.insert(namespace, key)
}

// Push adds a key.
func (q *fairQueue) Push(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := namespaceOf(key)
	if len(q.keys[namespace]) == 0 {
		q.turns = append(q.turns, namespace)
	}
	q.insert(namespace, key)
	q.total++
}

// insert adds a preferred key behind the other preferred keys, and any other key at the end.
func (q *fairQueue) insert(namespace, key string) {
	if !q.preferred[key] {
		q.keys[namespace] = append(q.keys[namespace], key)
		return
	}
	q.keys[namespace] = slices.Insert(q.keys[namespace], q.ahead[namespace], key)
	q.ahead[namespace]++
}

// take notes that a key at a place of its namespace waits no longer.
func (q *fairQueue) take(namespace, key string, at int) {
	q.total--
	if at >= q.ahead[namespace] {
		return
	}
	delete(q.preferred, key)
	if q.ahead[namespace]--; q.ahead[namespace] == 0 {
		delete(q.ahead, namespace)
	}
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
	q.take(namespace, key, 0)
	return key
}

// countIn is the number of keys of a namespace that wait.
func (q *fairQueue) countIn(namespace string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys[namespace])
}
