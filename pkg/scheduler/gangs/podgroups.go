package gangs

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// SetPodGroup takes over the spec and status of a PodGroup.
func (t *store) SetPodGroup(pg *schedulingv1beta1.PodGroup) {
	t.SetPodGroupAs(state.Key{Namespace: pg.Namespace, Name: pg.Name}, pg)
}

// SetPodGroupAs takes over a PodGroup under the key that its members name.
func (t *store) SetPodGroupAs(key state.Key, pg *schedulingv1beta1.PodGroup) {
	t.Lock()
	defer t.Unlock()
	g := t.Group(key)
	isNew := !g.PodGroup.Exists || g.PodGroup.UID != pg.UID
	var e gang.Effects
	if isNew {
		e = t.renew(g, pg)
	}
	if g.Succeeded != int(pg.Status.Succeeded) || g.Failed != int(pg.Status.Failed) {
		g.OutcomeUntil = time.Time{}
	}
	wasReserved, before := g.PodGroup.Reserved, g.PodGroup.Runtime
	differs := g.Take(pg, accountOf(pg))
	if g.PodGroup.Runtime != before && g.Started() {
		t.WaitList.Book.RoomMoved() // other gangs may start at another time
	}
	e.Add(t.settleAccount(g))
	if isNew {
		e.Add(t.Quota.ChargeMembers(g)) // its bound members may have kept the account of an earlier PodGroup
	}
	e.Add(t.Quota.KeepFor(g, wasReserved))
	e.Add(gang.Only(gang.ToReport)) // the scheduler's own condition may have been overwritten
	if isNew || differs {           // and no place, count or condition alone
		e.Add(g.Change())
	}
	switch {
	case !t.IsAdmitted(g):
		g.PodGroup.Admitted = time.Time{}
		e.Add(t.RollBack(g, "")) // its queue has taken the admission back
	case g.PodGroup.Admitted.IsZero():
		g.PodGroup.Admitted = t.Clock.Now()
	}
	e.Add(t.endIfSeated(g)) // the minimum may have been lowered to the reserved members
	if g.Attempt != nil && !g.SeatedWith(g.ToCome()) {
		e.Add(t.RollBack(g, "")) // the minimum was raised above the number of chosen members
	}
	t.Apply(g, e)
}

// renew makes a gang belong to another PodGroup.
func (t *store) renew(g *gang.Group, pg *schedulingv1beta1.PodGroup) gang.Effects {
	e := t.RollBack(g, "")
	t.WaitList.Book.Forget(g.Key)
	g.Renew(pg.CreationTimestamp.Time)
	return e
}

// settleAccount finds the account of a gang again. If it is another one than before, the gang is decided anew. Bound members stay charged to
// the account that was written with their binding.
func (t *store) settleAccount(g *gang.Group) (e gang.Effects) {
	account := g.Account()
	if account == g.PodGroup.Account {
		return e
	}
	e = t.RollBack(g, "") // its assumed quota is in another queue
	t.WaitList.Book.ForgetQuota(g.Key)
	g.PodGroup.Account = account
	e.Add(t.Quota.ChargeMembers(g))
	e.Add(gang.Only(gang.QuotaFreed)) // for its own waiting members, too
	e.Add(g.Change())
	return e
}

// accountOf is the account that a PodGroup names: its queue, or its user there; "" for none.
func accountOf(pg *schedulingv1beta1.PodGroup) string {
	return quota.Account(pg.Spec.Queue, pg.Labels[schedulingv1beta1.UserLabel])
}

// DeletePodGroup forgets a PodGroup. Its members wait for another of the same name. Bound members stay charged.
func (t *store) DeletePodGroup(pg *schedulingv1beta1.PodGroup) {
	t.deletePodGroup(state.Key{Namespace: pg.Namespace, Name: pg.Name}, pg.UID)
}

func (t *store) deletePodGroup(key state.Key, uid types.UID) {
	t.Lock()
	defer t.Unlock()
	g, ok := t.Gangs[key]
	if !ok || g.PodGroup.Exists && g.PodGroup.UID != uid {
		return
	}
	e := t.RollBack(g, "")
	t.WaitList.Book.Forget(g.Key)
	wasReserved := g.PodGroup.Reserved
	g.LosePodGroup()
	e.Add(t.Quota.KeepFor(g, wasReserved))
	e.Add(g.Change())
	t.Apply(g, e)
}
