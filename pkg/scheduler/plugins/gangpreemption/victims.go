package gangpreemption

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// kind says what a unit of victims is. At the same priority, a lower kind goes first.
type kind int

const (
	// surplus: a member that its gang can spare.
	surplus kind = iota
	// ordinary: a pod that no gang needs.
	ordinary
	// core: the rest of a gang, on all nodes. It goes whole, and its surplus with it.
	core
)

// unit is what is evicted or spared as one.
type unit struct {
	preemption.Victim
	kind kind
	// gang that a surplus or a core is of.
	gang state.Key
	// unseen are pods of a core that are not in the scheduler's snapshot; they go with it.
	unseen []*corev1.Pod
	// violations is the number of disruption budgets that the unit's going would violate.
	violations int
	// guarded: the unit, or surplus that would go with it, violates a disruption budget.
	guarded bool
}

// pods are all pods of the unit.
func (u *unit) pods() []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(u.Pods())+len(u.unseen))
	for _, info := range u.Pods() {
		pods = append(pods, info.GetPod())
	}
	return append(pods, u.unseen...)
}

// stage is a node on which victims are removed and put back to see whether the preemptor fits.
type stage interface {
	remove(u *unit) error
	add(u *unit) error
	fits() *fwk.Status
}

// choose finds the units that must go so that the preemptor fits: none of them could stay. It removes all, and puts back the
// most important first; a core before the surplus of its gang, which goes when the core does. It returns the rejection if
// the preemptor does not fit even without all units.
func choose(units []*unit, on stage) ([]*unit, *fwk.Status) {
	for _, u := range units {
		if err := on.remove(u); err != nil {
			return nil, fwk.AsStatus(err)
		}
	}
	if status := on.fits(); !status.IsSuccess() {
		return nil, status
	}
	var victims []*unit
	gone := map[state.Key]bool{}
	for _, u := range units {
		if u.kind == surplus && gone[u.gang] {
			victims = append(victims, u)
			continue
		}
		if err := on.add(u); err != nil {
			return nil, fwk.AsStatus(err)
		}
		if on.fits().IsSuccess() {
			continue
		}
		if err := on.remove(u); err != nil {
			return nil, fwk.AsStatus(err)
		}
		victims = append(victims, u)
		gone[u.gang] = gone[u.gang] || u.kind == core
	}
	return victims, nil
}

// rank sorts units by how much they are worth sparing: those that disruption budgets guard, then by priority, then cores
// before ordinary pods before surplus, and then as the upstream scheduler does.
func rank(units []*unit, pdbs []*policyv1.PodDisruptionBudget) []*unit {
	slices.SortStableFunc(units, byImportance)
	violating, _ := preemption.FilterVictimsWithPDBViolation(units, pdbs)
	guarded := map[state.Key]bool{}
	for _, v := range violating {
		v.Victim.violations, v.Victim.guarded = v.ViolateCount, true
		if v.Victim.kind == surplus {
			guarded[v.Victim.gang] = true
		}
	}
	for _, u := range units {
		u.guarded = u.guarded || u.kind == core && guarded[u.gang]
	}
	slices.SortStableFunc(units, func(a, b *unit) int {
		switch {
		case a.guarded == b.guarded:
			return 0
		case a.guarded:
			return -1
		}
		return 1
	})
	return units
}

func byImportance(a, b *unit) int {
	switch {
	case a.Priority() != b.Priority():
		if a.Priority() > b.Priority() {
			return -1
		}
		return 1
	case a.kind != b.kind:
		return int(b.kind - a.kind)
	case preemption.MoreImportantVictim(a, b):
		return -1
	case preemption.MoreImportantVictim(b, a):
		return 1
	}
	return 0
}
