package gangs

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
)

// SetPodGroup takes over the spec and status of a PodGroup.
func (t *Tracker) SetPodGroup(pg *schedulingv1beta1.PodGroup) {
	t.setPodGroup(Key{Namespace: pg.Namespace, Name: pg.Name}, pg)
}

func (t *Tracker) setPodGroup(key Key, pg *schedulingv1beta1.PodGroup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.group(key)
	isNew := !g.podGroup.exists || g.podGroup.uid != pg.UID
	var e gang.Effects
	if isNew {
		e = t.renew(g, pg)
	}
	if g.Succeeded != int(pg.Status.Succeeded) || g.podGroup.failed != pg.Status.Failed {
		g.outcomeUntil = time.Time{}
	}
	wasReserved := g.podGroup.reserved
	g.take(pg)
	e.Add(t.settleAccount(g))
	if isNew {
		e.Add(t.Quota.chargeMembers(g)) // its bound members may have kept the account of an earlier PodGroup
	}
	e.Add(t.Quota.keepFor(g, wasReserved))
	e.Add(g.change())
	if !t.isAdmitted(g) {
		e.Add(t.rollBack(g, "")) // its queue has taken the admission back
	}
	e.Add(t.endIfSeated(g)) // the minimum may have been lowered to the reserved members
	if g.attempt != nil && !g.SeatedWith(g.membersToCome()) {
		e.Add(t.rollBack(g, "")) // the minimum was raised above the number of chosen members
	}
	t.apply(g, e)
}

// renew makes a gang belong to another PodGroup.
func (t *Tracker) renew(g *group, pg *schedulingv1beta1.PodGroup) gang.Effects {
	e := t.rollBack(g, "")
	t.WaitList.book.Forget(g.key)
	g.podGroup = podGroup{account: g.podGroup.account, created: pg.CreationTimestamp.Time}
	g.priority, g.decision = nil, nil
	g.minimumBound, g.timestamps, g.outcomeUntil = false, timestamps{}, time.Time{}
	return e
}

// settleAccount finds the account of a gang again. If it is another one than before, the gang is decided anew. Bound members stay charged to
// the account that was written with their binding.
func (t *Tracker) settleAccount(g *group) (e gang.Effects) {
	account := g.account()
	if account == g.podGroup.account {
		return e
	}
	e = t.rollBack(g, "") // its assumed quota is in another queue
	t.WaitList.book.ForgetQuota(g.key)
	g.podGroup.account = account
	e.Add(t.Quota.chargeMembers(g))
	e.Add(gang.Only(gang.QuotaFreed)) // for its own waiting members, too
	e.Add(g.change())
	return e
}

// accountOf is the account that a PodGroup names: its queue, or its user there; "" for none.
func accountOf(pg *schedulingv1beta1.PodGroup) string {
	return quota.Account(pg.Spec.Queue, pg.Labels[schedulingv1beta1.UserLabel])
}

// take copies the content of a PodGroup.
func (g *group) take(pg *schedulingv1beta1.PodGroup) {
	g.podGroup = podGroup{
		exists: true, uid: pg.UID, version: pg.ResourceVersion, created: g.podGroup.created, named: accountOf(pg), account: g.podGroup.account,
		class: pg.Spec.PriorityClassName, phase: pg.Status.Phase, failed: pg.Status.Failed, bound: lastBound(pg),
		reserved: resources.FromResourceList(pg.Status.Reserved),
	}
	g.BelongTo(pg.UID)
	if gang.IsRunOver(pg) { // the minimum of the next run was never bound
		g.podGroup.bound, g.minimumBound = -1, false
	}
	g.Spec = gang.SpecOf(pg)
	g.kept = nil
}

// lastBound is the last incarnation of a gang whose minimum was bound at some time, -1 if none was. While a Job restarts, the phase is
// still that of the old pods. Phase Unknown does not say that the minimum was bound: a crash may have left the gang in part.
func lastBound(pg *schedulingv1beta1.PodGroup) int64 {
	version, restarted := gang.IncarnationOf(pg), ptr.Deref(pg.Status.JobVersion, 0) > 0
	switch pg.Status.Phase {
	case schedulingv1beta1.PodGroupRunning, schedulingv1beta1.PodGroupCompleted:
		if !restarted {
			return version
		}
	}
	for _, condition := range pg.Status.Conditions {
		if condition.Type == schedulingv1beta1.PodGroupScheduled {
			return version
		}
	}
	return -1
}

// DeletePodGroup forgets a PodGroup. Its members wait for another of the same name. Bound members stay charged.
func (t *Tracker) DeletePodGroup(pg *schedulingv1beta1.PodGroup) {
	t.deletePodGroup(Key{Namespace: pg.Namespace, Name: pg.Name}, pg.UID)
}

func (t *Tracker) deletePodGroup(key Key, uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g, ok := t.gangs[key]
	if !ok || g.podGroup.exists && g.podGroup.uid != uid {
		return
	}
	e := t.rollBack(g, "")
	t.WaitList.book.Forget(g.key)
	wasReserved := g.podGroup.reserved
	g.podGroup = podGroup{created: g.podGroup.created, bound: -1}
	e.Add(t.Quota.keepFor(g, wasReserved))
	g.minimumBound, g.priority = false, nil
	g.BelongTo("")
	e.Add(g.change())
	t.apply(g, e)
}

// isAdmitted says whether a gang need not wait for its queue. PodGroups of scheduler-plugins never do, unless their members name different
// queues.
func (t *Tracker) isAdmitted(g *group) bool {
	if g.isDisputed() {
		return false
	}
	if g.key.Foreign || t.settings.args.Admission != config.AdmissionRequired {
		return true
	}
	return g.podGroup.phase.Admitted() && !t.Quota.lacksQueue(g)
}

// settleRepair finds out whether a gang is under repair. It keeps quota assumed for the missing members, if the queue has so much: the gang
// must be able to complete. It releases quota that the gang does not lack any more.
func (t *Tracker) settleRepair(g *group) gang.Effects {
	g.minimumBound = g.minimumBound || g.podGroup.exists && (g.Started() || g.podGroup.bound >= g.Version())
	if g.priority != nil {
		t.WaitList.book.Rerank(g.key, t.rank(g))
	}
	if g.attempt != nil {
		return gang.Effects{}
	}
	lacks := requests(nil)
	if g.underRepair = false; !g.podGroup.exists || !g.Partial() {
		g.partialSince = time.Time{}
	} else {
		if g.partialSince.IsZero() {
			g.partialSince = t.clock.Now()
		}
		missing := g.Choose()
		g.underRepair = !t.isRepairOver(g, t.clock.Now()) && (!g.minimumBound || g.Replace(missing))
		lacks = requests(missing)
	}
	account := g.podGroup.account
	if !g.underRepair || account == "" || t.Quota.Ledger.RoomFor(g.key.String(), nil, account, lacks) != nil {
		lacks = nil
	}
	return gang.Freed(t.Quota.Ledger.Assume(g.key.String(), account, lacks))
}

// rank orders the gang among the waiting gangs.
func (t *Tracker) rank(g *group) reservations.Rank {
	return reservations.Rank{Repair: g.needsRepair(), Priority: t.priorityOf(g), Since: g.podGroup.created, Seen: g.seen, Queue: t.Quota.queueOf(g.podGroup.account)}
}

// priorityOf is the priority of the whole gang. The class of a PodGroup without pods gives it none.
func (t *Tracker) priorityOf(g *group) int32 {
	if g.priority != nil {
		return *g.priority
	}
	priority := g.Priority(t.classValue(g.podGroup.class))
	if g.Len() == 0 {
		return min(0, priority)
	}
	return priority
}

// fixPriority has the priority of a gang stay as it is. It is called when the gang is decided, or a member passes the gate.
func (t *Tracker) fixPriority(g *group) {
	if g.priority == nil {
		g.priority = ptr.To(t.priorityOf(g))
	}
}

// classValue is the value of a PriorityClass, nil if it does not exist.
func (t *Tracker) classValue(name string) *int32 {
	if name == "" || t.classes == nil {
		return nil
	}
	class, err := t.classes.Get(name)
	if err != nil {
		return nil
	}
	return &class.Value
}
