package gangs

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
)

// Hints are the tracker's answers to queueing hints.
type Hints struct{ t *store }

// RejectedBy says whether an event for a plugin may help the scout's gang. It also returns the pods to ask the plugin about. An event that
// helps one of them may help the gang. Events of the gang's own pods count, too. Room that its members gave up may be seen only after the
// gang was decided again.
func (h *Hints) RejectedBy(plugin string, scoutPod *corev1.Pod) (rejected []*corev1.Pod, ask bool) {
	h.t.Lock()
	defer h.t.Unlock()
	g, m := h.t.Find(scoutPod.UID)
	if m == nil || g.Refusal == nil || g.Refusal.Woken || !g.Refusal.Rejectors.Has(plugin) || g.Scout.UID != m.UID {
		return nil, false
	}
	return g.Refusal.Rejected, true
}

// IsBlocked says whether a pod found no node because of what is reserved. More room on a node may help it, too.
func (h *Hints) IsBlocked(pod *corev1.Pod) bool {
	h.t.Lock()
	defer h.t.Unlock()
	_, ok := h.t.WaitList.Held.Pods[pod.UID]
	return ok && h.t.IsSingle(pod)
}

// Free notes that room has come free since the gang of a scout was decided. It says whether all of that room may be enough for the gang.
// The amount came free on a node; or a node has come or changed: then the name is "".
func (h *Hints) Free(scoutPod *corev1.Pod, node string, amount resources.List) (enough bool) {
	h.t.Lock()
	defer h.t.Unlock()
	g, m := h.t.Find(scoutPod.UID)
	if m == nil || g.Refusal == nil || g.Refusal.Shortfall == nil || g.Refusal.Woken {
		return true
	}
	g.Refusal.Shortfall.Free(node, amount)
	return g.Refusal.Shortfall.Covered()
}

// Wake has the gang of a scout decided again, as an event may have helped it.
func (h *Hints) Wake(scoutPod *corev1.Pod) {
	h.t.Lock()
	defer h.t.Unlock()
	if g, m := h.t.Find(scoutPod.UID); m != nil && h.t.Status(g).Phase == gang.Unschedulable {
		h.t.Apply(g, gang.Only(gang.ToWake))
	}
}

// NominationUnused notes that a pod goes to another node than it was nominated to. There it kept room from pods of its priority and below. The
// scheduling queue has no event for that, so the gangs are woken here that the room may help.
func (h *Hints) NominationUnused(node string, amount resources.List) {
	h.t.Lock()
	defer h.t.Unlock()
	for _, g := range h.t.Gangs {
		if g.Refusal == nil || g.Refusal.Woken || h.t.Status(g).Phase != gang.Unschedulable || g.Refusal.Lacks != gang.Room {
			continue
		}
		if short := g.Refusal.Shortfall; short != nil {
			if short.Free(node, amount); !short.Covered() {
				continue
			}
		}
		h.t.Apply(g, gang.Only(gang.ToWake))
	}
}
