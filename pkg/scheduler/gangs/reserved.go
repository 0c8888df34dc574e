package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/reservations"
)

// needOf is what a gang lacks on nodes, nil if that is not known.
func needOf(shortfall *placement.Shortfall) reservations.Need {
	if shortfall == nil {
		return nil
	}
	return shortfall
}

// applyReservations acts on what has changed in the book of waiting gangs.
func (t *Tracker) applyReservations() {
	events := t.book.TakeEvents()
	if events.RoomFreed {
		t.heldIsFree()
	}
	if events.RoomFreed || events.HoldFreed {
		t.held.freed++
		if len(t.held.pods) > 0 {
			t.look(heldBackKey)
		}
	}
	if events.QuotaFreed {
		t.wakeQuotaWaiters()
	}
	for _, key := range events.Decide {
		if g := t.gangs[key]; g != nil {
			t.wake(g)
		}
	}
}

// reserveNodes reserves the places that a decision has found for a gang that has to wait, or gives it up if it has found none.
func (t *Tracker) reserveNodes(g *group, d *placement.Decision, now time.Time) {
	switch {
	case d.GivenUp:
		t.book.GiveUp(g.key, now)
	case d.Reserve != nil:
		t.book.ReserveNodes(g.key, d.Reserve.Of, amountsOf(d.Members, d.Reserve.Of), d.Reserve.Avoid, now)
	}
}

// standsBack says whether a gang must leave to another what is reserved for that. Gangs under repair need not.
func (t *Tracker) standsBack(g *group, reserved *Reserved) bool {
	priority := t.priorityOf(g)
	return g.key != reserved.Key && priority <= reserved.Priority && priority < systemCritical && !g.Partial()
}

// reservedAgainst returns what is reserved on nodes against a pod that is about to be tried, nil if nothing is. Pods of DaemonSets can go
// nowhere else, and those of native pod groups are upstream's: both pass.
func (t *Tracker) reservedAgainst(g *group, pod *corev1.Pod) *Reserved {
	reserved := t.book.Nodes()
	if reserved == nil || pod.Spec.SchedulingGroup != nil || isOfDaemonSet(pod) {
		return nil
	}
	if g == nil {
		if priority := corev1helpers.PodPriority(pod); priority > reserved.Priority || priority >= systemCritical {
			return nil
		}
		return reserved
	}
	if !t.standsBack(g, reserved) {
		return nil
	}
	if g.attempt != nil && g.attempt.version != reserved.Version {
		return nil // the gang got its places before
	}
	return reserved
}

// ReservedAgainst returns what is reserved on nodes against a pod, nil if nothing is.
func (t *Tracker) ReservedAgainst(pod *corev1.Pod) *Reserved {
	t.mu.Lock()
	defer t.mu.Unlock()
	g, _ := t.find(pod.UID)
	return t.reservedAgainst(g, pod)
}

// reservedVersion tells what is reserved on nodes now from what was at another time.
func (t *Tracker) reservedVersion() int {
	if reserved := t.book.Nodes(); reserved != nil {
		return reserved.Version
	}
	return 0
}

// WaitForReserved notes that a pod found no node because of what is reserved, or needed by a waiting gang. It is activated when that changes.
func (t *Tracker) WaitForReserved(pod *corev1.Pod, entry Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held.pods[pod.UID] = pod
	if entry.freed != t.held.freed {
		t.look(heldBackKey)
	}
}

func isOfDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}
