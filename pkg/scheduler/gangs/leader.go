package gangs

import (
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
)

// If a scheduler has two replicas, only the leader runs scheduling cycles. The tracker writes nothing until it sees the first cycle: a
// standby does not know the attempts, so it must not evict, nominate or report.
//
// If all pending pods are held at the gate there is no cycle. So as long as the tracker follows, one member, the probe, passes the gate: a
// standby never takes it from the queue, a leader does so at once.

// Leadership is whether this process runs scheduling cycles.
type Leadership struct {
	t     *Tracker
	leads atomic.Bool
	probe types.UID // "" if there is none
	since time.Time // when it became the probe
}

// Lead says that this process runs scheduling cycles.
func (l *Leadership) Lead() {
	if l.leads.Swap(true) {
		return
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.probe = noUID
	now := l.t.clock.Now()
	for _, g := range l.t.gangs {
		if !g.partialSince.IsZero() {
			g.partialSince = now // this process has yet to try to complete it
		}
		l.t.apply(g, gang.Only(gang.ToReport|gang.ToLook))
	}
}

// Leads says whether this process runs scheduling cycles. Only then it may write to the API.
func (l *Leadership) Leads() bool { return l.leads.Load() }

// mayBeProbe says whether a pod passes the gate as the probe: it is the probe, or there is none.
func (l *Leadership) mayBeProbe(pod *corev1.Pod) bool {
	if l.leads.Load() || !l.t.synced || pod.DeletionTimestamp != nil {
		return false
	}
	if _, m := l.t.find(pod.UID); m == nil || m.State != gang.Waiting || m.Terminating {
		return false // it may be bound or gone, or wait for the removal of its scheduling gates: it would never be taken from the queue
	}
	return l.probe == noUID || l.probe == pod.UID
}

// becomeProbe notes that a pod has passed the gate as the probe.
func (l *Leadership) becomeProbe(pod types.UID) {
	if l.probe == noUID {
		l.probe, l.since = pod, l.t.clock.Now()
	}
}

// probeGone makes room for another probe.
func (l *Leadership) probeGone(pod types.UID) {
	if l.probe == pod {
		l.probe = noUID
	}
}

// probePatience is how long a member is the probe: another plugin's gate may be closed to it.
const probePatience = 10 * time.Second

// nextProbe returns a waiting member to activate if another probe is needed, else nil.
func (l *Leadership) nextProbe(now time.Time) []*corev1.Pod {
	if l.leads.Load() || l.probe != noUID && now.Sub(l.since) < probePatience {
		return nil
	}
	l.probe = noUID
	for _, g := range l.t.gangs {
		if g.CountWaiting() > 0 {
			return pods(g.Waiting()[:1])
		}
	}
	return nil
}
