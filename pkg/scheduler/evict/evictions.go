package evict

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/gang"
)

// UseWithin is added to the victims' grace periods. A preemptor that is not bound by then has wasted its evictions.
const UseWithin = time.Minute

// Evictions counts wasted evictions: those for a pod that was then not bound to the node.
type Evictions struct {
	clock  clock.Clock
	wasted *metrics.Counter

	mu   sync.Mutex
	Made map[types.UID]eviction // preemptor -> evictions for it
}

// eviction is how many pods were evicted for a pod that is not bound yet.
type eviction struct {
	node  string // the pod's intended node
	count int
	until time.Time // the time by which it should be bound
}

// Begin notes an eviction that is about to be made for a pod, on the pod's intended node. Earlier evictions for it on another node are
// counted as wasted.
func (e *Evictions) Begin(preemptor types.UID, node string, victim *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	made := e.Made[preemptor]
	if made.node != node {
		e.waste(preemptor)
		made = eviction{node: node}
	}
	if until := e.clock.Now().Add(gang.GraceOf(victim) + UseWithin); until.After(made.until) {
		made.until = until
	}
	made.count++
	e.Made[preemptor] = made
}

// Cancel takes back what Begin has noted: the eviction has failed, or the pod was not in the API.
func (e *Evictions) Cancel(preemptor types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	made, ok := e.Made[preemptor]
	if made.count--; made.count <= 0 {
		delete(e.Made, preemptor)
	} else if ok {
		e.Made[preemptor] = made
	}
}

// Use ends the count for a pod: if it was not bound to the node, the evictions were wasted.
func (e *Evictions) Use(pod *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if made, ok := e.Made[pod.UID]; ok && made.node == pod.Spec.NodeName {
		delete(e.Made, pod.UID)
	} else if ok {
		e.waste(pod.UID)
	}
}

// Sweep counts the evictions for pods that were not bound in time.
func (e *Evictions) Sweep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for preemptor, made := range e.Made {
		if e.clock.Now().After(made.until) {
			e.waste(preemptor)
		}
	}
}

func (e *Evictions) waste(preemptor types.UID) {
	e.wasted.Add(float64(e.Made[preemptor].count))
	delete(e.Made, preemptor)
}
