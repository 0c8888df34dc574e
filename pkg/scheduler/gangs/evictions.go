package gangs

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/gang"
)

// useWithin is added to the victims' grace periods. A preemptor that is not bound by then has wasted its evictions.
const useWithin = time.Minute

// Evictions counts wasted evictions: those for a pod that was then not bound to the node.
type Evictions struct {
	clock  clock.Clock
	wasted *metrics.Counter

	mu   sync.Mutex
	made map[types.UID]eviction // preemptor -> evictions for it
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
	made := e.made[preemptor]
	if made.node != node {
		e.waste(preemptor)
		made = eviction{node: node}
	}
	if until := e.clock.Now().Add(gang.GraceOf(victim) + useWithin); until.After(made.until) {
		made.until = until
	}
	made.count++
	e.made[preemptor] = made
}

// Cancel takes back what Begin has noted: the eviction has failed, or the pod was not in the API.
func (e *Evictions) Cancel(preemptor types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	made, ok := e.made[preemptor]
	if made.count--; made.count <= 0 {
		delete(e.made, preemptor)
	} else if ok {
		e.made[preemptor] = made
	}
}

// use ends the count for a pod: if it was not bound to the node, the evictions were wasted.
func (e *Evictions) use(pod *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if made, ok := e.made[pod.UID]; ok && made.node == pod.Spec.NodeName {
		delete(e.made, pod.UID)
	} else if ok {
		e.waste(pod.UID)
	}
}

// sweep counts the evictions for pods that were not bound in time.
func (e *Evictions) sweep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for preemptor, made := range e.made {
		if e.clock.Now().After(made.until) {
			e.waste(preemptor)
		}
	}
}

func (e *Evictions) waste(preemptor types.UID) {
	e.wasted.Add(float64(e.made[preemptor].count))
	delete(e.made, preemptor)
}
