package gangs

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// SetQueue takes over the parent and the capability of a queue.
func (t *store) SetQueue(queue *schedulingv1beta1.Queue) {
	changed := t.Quota.Ledger.SetQueue(queue)
	t.Lock()
	defer t.Unlock()
	delete(t.Quota.Terms, queue.Name)
	if own := queue.Spec.Muster; own != nil && (own.MinRuntime != nil || own.PreemptionDelay != nil) {
		t.Quota.Terms[queue.Name] = state.QueueTerms{MinRuntime: ptr.Deref(own.MinRuntime, metav1.Duration{}).Duration, PreemptionDelay: ptr.Deref(own.PreemptionDelay, metav1.Duration{}).Duration}
	}
	e := t.Quota.SetNodeGroups(queue.Name, quota.NodeGroupsOf(queue), changed)
	e.Add(gang.Only(gang.SearchDiffers))
	if !t.Quota.Queues.Has(queue.Name) {
		t.Quota.Queues.Insert(queue.Name)
		t.queueCameOrWent(queue.Name)
	}
	groups := t.Quota.Groups.Set(queue)
	e.Add(t.chargeGroups(groups))
	e.Add(gang.Freed(changed || len(groups) > 0))
	t.Apply(nil, e)
}

// DeleteQueue forgets a queue.
func (t *store) DeleteQueue(queue *schedulingv1beta1.Queue) {
	t.Quota.Ledger.DeleteQueue(queue.Name)
	t.Lock()
	defer t.Unlock()
	delete(t.Quota.Terms, queue.Name)
	e := t.Quota.SetNodeGroups(queue.Name, nil, true)
	t.Metrics.DropQueue(queue.Name)
	t.Quota.Queues.Delete(queue.Name)
	t.queueCameOrWent(queue.Name)
	e.Add(t.chargeGroups(t.Quota.Groups.Delete(queue.Name)))
	e.Add(gang.Only(gang.SearchDiffers | gang.QuotaFreed))
	t.Apply(nil, e)
}

// queueCameOrWent looks again at the gangs of a queue that is new or gone. Attempts without a queue end.
func (t *store) queueCameOrWent(queue string) {
	for _, g := range t.Gangs {
		if quota.QueueOf(g.PodGroup.Account) != queue {
			continue
		}
		e := g.Change()
		if !t.IsAdmitted(g) {
			e.Add(t.RollBack(g, ""))
		}
		t.Apply(g, e)
	}
}

// chargeGroups books the use of pods in PrimeHub's groups again. The pods are listed under the lock. A pod that is deleted meanwhile is
// still to be reported, and loses its charge then.
func (t *store) chargeGroups(groups []string) (e gang.Effects) {
	if len(groups) == 0 || t.PodLister == nil {
		return e
	}
	pods, _ := t.PodLister.List(labels.Everything()) // a lister never fails
	for _, pod := range pods {
		if _, isMember := gang.KeyOf(pod); (!isMember || t.IsOfOthers(pod)) && slices.Contains(groups, ledger.PrimeHubGroupOf(pod)) {
			e.Add(t.Quota.ChargeBound(pod, nil, nil))
		}
	}
	for _, g := range t.Gangs {
		t.Apply(g, t.nameMembers(g))
	}
	return e
}

// nameMembers finds again which accounts the members of a gang name.
func (t *store) nameMembers(g *gang.Group) gang.Effects {
	for _, m := range g.Members() {
		g.Names(m, t.Quota.NamedBy(m.Pod))
	}
	e := t.settleAccount(g)
	e.Add(t.Quota.ChargeMembers(g))
	return e
}
