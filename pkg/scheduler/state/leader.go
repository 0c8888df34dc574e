package state

import (
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
)

// If a scheduler has two replicas, only the leader runs scheduling cycles. The tracker writes nothing until it sees the first cycle. A
// standby does not know the attempts, so it must not evict, nominate or report.
//
// If all pending pods are held at the gate there is no cycle. So as long as the tracker follows, one member, the probe, passes the gate. A
// standby never takes it from the queue, a leader does so at once.

// Leadership is whether this process runs scheduling cycles.
type Leadership struct {
	t     *State
	leads atomic.Bool
	probe types.UID // "" if there is none
	since time.Time // when it became the probe
}

// NewLeadership makes a standby.
func NewLeadership(t *State) *Leadership { return &Leadership{t: t} }

// Lead says that this process runs scheduling cycles.
func (l *Leadership) Lead() {
	if l.leads.Swap(true) {
		return
	}
	l.t.Lock()
	defer l.t.Unlock()
	now := l.t.Clock.Now()
	for _, g := range l.t.Gangs {
		if !g.PartialSince.IsZero() {
			g.PartialSince = now // this process has yet to try to complete it
		}
		l.t.Apply(g, gang.Only(gang.ToReport|gang.ToLook))
	}
}

// Leads says whether this process runs scheduling cycles. Only then it may write to the API.
func (l *Leadership) Leads() bool { return l.leads.Load() }

// MayBeProbe says whether a pod passes the gate as the probe: it is the probe, or there is none.
func (l *Leadership) MayBeProbe(pod *corev1.Pod) bool {
	if l.leads.Load() || !l.t.Synced || pod.DeletionTimestamp != nil {
		return false
	}
	if _, m := l.t.Find(pod.UID); m == nil || m.State != gang.Waiting || m.Terminating {
		return false // it is bound or gone, or has scheduling gates, and would never be taken from the queue
	}
	return l.probe == NoUID || l.probe == pod.UID
}

// BecomeProbe notes that a pod has passed the gate as the probe.
func (l *Leadership) BecomeProbe(pod types.UID) {
	if l.probe == NoUID {
		l.probe, l.since = pod, l.t.Clock.Now()
	}
}

// EndProbe forgets the probe if a pod is it, and says whether it was. Another pod may be it then.
func (l *Leadership) EndProbe(pod types.UID) (wasProbe bool) {
	if wasProbe = l.probe == pod; wasProbe {
		l.probe = NoUID
	}
	return wasProbe
}

// ProbeTimeout is how long a member is the probe: another plugin's gate may be closed to it.
const ProbeTimeout = 10 * time.Second

// NextProbe returns a waiting member to activate if another probe is needed, else nil.
func (l *Leadership) NextProbe(now time.Time) []*corev1.Pod {
	if l.leads.Load() || l.probe != NoUID && now.Sub(l.since) < ProbeTimeout {
		return nil
	}
	l.probe = NoUID
	for _, g := range l.t.Gangs {
		if g.CountWaiting() > 0 {
			return gang.Pods(g.Waiting()[:1])
		}
	}
	return nil
}
