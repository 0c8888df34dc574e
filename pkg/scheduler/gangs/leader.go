package gangs

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
)

// Of two replicas of a scheduler only the leader runs scheduling cycles. The tracker follows until it sees the first: what it knows of
// attempts is worth nothing in a standby, so it must not evict, nominate or report there.
//
// If all pending pods are held at the gate there is no cycle. So as long as the tracker follows, one member, the probe, passes the gate: a
// standby never takes it from the queue, a leader does so at once.

// Lead says that this process runs scheduling cycles.
func (t *Tracker) Lead() {
	if t.leads.Swap(true) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.probe = noUID
	for key := range t.gangs {
		t.report(key)
		t.look(key)
	}
}

// Leads says whether this process runs scheduling cycles. Only then it may write to the API.
func (t *Tracker) Leads() bool { return t.leads.Load() }

// isProbe says whether a pod passes the gate as the probe. The first waiting member that is asked about becomes it.
func (t *Tracker) isProbe(pod *corev1.Pod) bool {
	if t.leads.Load() || !t.synced || pod.DeletionTimestamp != nil {
		return false
	}
	if _, m := t.find(pod.UID); m == nil || m.State != gang.Waiting || m.Terminating {
		return false // it may be bound or gone, or wait for the removal of its scheduling gates: it would never be taken from the queue
	}
	if t.probe == noUID {
		t.probe = pod.UID
	}
	return t.probe == pod.UID
}

// probeGone makes room for another probe.
func (t *Tracker) probeGone(pod types.UID) {
	if t.probe == pod {
		t.probe = noUID
	}
}

// nextProbe returns a waiting member to activate if there is no probe and one is needed, else nil.
func (t *Tracker) nextProbe() []*corev1.Pod {
	if t.leads.Load() || t.probe != noUID {
		return nil
	}
	for _, g := range t.gangs {
		if g.CountWaiting() > 0 {
			return pods(g.Waiting()[:1])
		}
	}
	return nil
}
