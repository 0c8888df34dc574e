package gang

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/resources"
)

// UnitKind is what is evicted or kept together. At the same priority, a lower kind is evicted first. The scheduler, the admission of
// PodGroups and lowered capabilities all evict these units, and no others.
type UnitKind int

// The kinds of units.
const (
	// NotStarted is quota that is kept for a PodGroup of which nothing runs: it needs no eviction.
	NotStarted UnitKind = iota
	// SurplusMember is a member without which its gang keeps its minimum.
	SurplusMember
	// SinglePod is a pod that no gang needs.
	SinglePod
	// WholeGang is all members of a gang but the surplus, on all nodes. If it is evicted the surplus is evicted with it.
	WholeGang
)

// Unit is members of a gang that are evicted or kept together.
type Unit struct {
	Kind    UnitKind
	Members []*Member
	// Priority of the most important member, and since when the first of them runs. For a WholeGang the surplus counts here: it goes, too.
	Priority int32
	Since    time.Time
	// AsksToStay: one of these pods says itself that it must not be evicted.
	AsksToStay bool
	// Requests of the Members.
	Requests resources.List
}

// Units splits the members of a gang that hold room. Each spare one (Remaining.Spare) is a unit, and the rest is one, nil if there is none. No
// member counts for less than the floor. asks says which pods ask to stay.
func Units(holding, spare []*Member, floor int32, asks func(*corev1.Pod) bool) (surplus []*Unit, rest *Unit) {
	for _, m := range spare {
		one := []*Member{m}
		surplus = append(surplus, unitOf(SurplusMember, one, one, floor, asks))
	}
	isSpare := sets.New(UIDs(spare)...)
	needed := slices.DeleteFunc(slices.Clone(holding), func(m *Member) bool { return isSpare.Has(m.UID) })
	if len(needed) == 0 {
		return surplus, nil
	}
	return surplus, unitOf(WholeGang, needed, holding, floor, asks)
}

// unitOf is a unit of some members. going are all that go with it.
func unitOf(kind UnitKind, members, going []*Member, floor int32, asks func(*corev1.Pod) bool) *Unit {
	u := &Unit{Kind: kind, Members: members, Priority: floor, Requests: resources.List{}, Since: StartOf(going[0].Pod).Time}
	for _, m := range members {
		u.Requests.Add(m.Requests)
	}
	for _, m := range going {
		u.Priority, u.AsksToStay = max(u.Priority, m.Priority), u.AsksToStay || asks(m.Pod)
		if start := StartOf(m.Pod).Time; start.Before(u.Since) {
			u.Since = start
		}
	}
	return u
}
