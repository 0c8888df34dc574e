package admission

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// A place changes with each start, and each change costs a status write. So these bound them. A position far behind is coarse, amounts may
// be old, and there is a limit per period.
const (
	// PlacesPeriod is how often places are found, and how long a PodGroup waits before it gets a place.
	PlacesPeriod = 5 * time.Second
	// placesPerPeriod is how many places are written in a period at most, the first positions first.
	placesPerPeriod = 100
	// ExactPlaces is up to which position it is exact.
	ExactPlaces = 10
	// farAge is how long the amounts of a place stay that is not among these. messageAge is how long the others stay.
	farAge = 10 * messageAge
	// sharesShown is how many resources a place has at most.
	sharesShown = 16
)

// Place is a place that was found for a PodGroup, to be written to its status.
type Place struct {
	// UID of the PodGroup.
	UID types.UID
	// checked is when its amounts were last compared.
	checked time.Time
	schedulingv1beta1.PodGroupPlace
}

// PlaceIn is the place that stands in the status of a PodGroup; nil if none does.
func PlaceIn(group *schedulingv1beta1.PodGroup) *Place {
	if written := group.Status.Place; written != nil {
		return &Place{group.UID, written.FoundAt.Time, *written}
	}
	return nil
}

// coarse rounds a position up: 11 to 20, 21 to 50, 51 to 100 and so on. In its whole wait a PodGroup has few positions.
func coarse(position int) int32 {
	if position <= ExactPlaces {
		return int32(position)
	}
	for step := ExactPlaces; ; step *= 10 {
		for _, most := range []int{2 * step, 5 * step, 10 * step} {
			if position <= most {
				return int32(most)
			}
		}
	}
}

// mayBeOutdated says whether a place is worth comparing: its position has changed, or its amounts are old.
func mayBeOutdated(last *Place, position int32, now time.Time) bool {
	if last == nil || last.Position != position {
		return true
	}
	age := messageAge
	if position > ExactPlaces {
		age = farAge
	}
	return now.Sub(last.checked) >= age
}

// differs says whether two places differ but for their times.
func differs(last *Place, next schedulingv1beta1.PodGroupPlace) bool {
	if last == nil {
		return true
	}
	next.FoundAt = last.FoundAt
	return !apiequality.Semantic.DeepEqual(last.PodGroupPlace, next)
}

// WaitsForStart says whether a PodGroup waits to be admitted, or to start.
func WaitsForStart(phase schedulingv1beta1.PodGroupPhase) bool {
	return !phase.Admitted() || phase == schedulingv1beta1.PodGroupInqueue
}

// FindPlaces finds the places of all candidates, and returns which of them have another place than before. last is the one before, nil for
// none. amounts are those of a place.
func FindPlaces(candidates []*Candidate, last func(*Candidate) *Place, amounts func(*Candidate) schedulingv1beta1.PodGroupPlace, now time.Time) (found map[string]Place, changed []string) {
	queues := map[string][]*Candidate{}
	for _, c := range candidates {
		queues[c.Queue] = append(queues[c.Queue], c)
	}
	found = map[string]Place{}
	positions := map[string]int32{}
	var outdated []*Candidate
	for _, waiting := range queues {
		slices.SortFunc(waiting, func(x, y *Candidate) int { return cmp.Or(x.notAdmitted()-y.notAdmitted(), byTurn(x, y)) })
		for i, c := range waiting {
			known := last(c)
			if known != nil {
				found[c.Key] = *known
			}
			positions[c.Key] = coarse(i + 1)
			isNew := now.Sub(c.Group.CreationTimestamp.Time) < PlacesPeriod // most PodGroups start at once
			if !isNew && mayBeOutdated(known, positions[c.Key], now) {
				outdated = append(outdated, c)
			}
		}
	}
	slices.SortFunc(outdated, func(x, y *Candidate) int {
		return cmp.Or(cmp.Compare(positions[x.Key], positions[y.Key]), cmp.Compare(x.Key, y.Key))
	})
	for _, c := range outdated {
		next := amounts(c)
		next.Position, next.FoundAt = positions[c.Key], metav1.NewTime(now.Truncate(time.Second))
		if known := last(c); !differs(known, next) {
			known.checked = now
			found[c.Key] = *known
			continue
		}
		found[c.Key] = Place{c.Group.UID, now, next}
		if changed = append(changed, c.Key); len(changed) == placesPerPeriod {
			break
		}
	}
	return found, changed
}

func (c *Candidate) notAdmitted() int {
	if c.Group.Status.Phase.Admitted() {
		return 0
	}
	return 1
}

// WithPlace sets the place in the next status of a PodGroup: found, or else what stands there. One that does not wait has none.
func WithPlace(next *schedulingv1beta1.PodGroupStatus, found *Place) {
	switch {
	case !WaitsForStart(next.Phase):
		next.Place = nil
	case found != nil:
		next.Place = found.PodGroupPlace.DeepCopy()
	}
}

// ShortageOf writes a shortage; nil for none.
func ShortageOf(s *quota.Shortage) *schedulingv1beta1.QuotaShortage {
	if s == nil {
		return nil
	}
	free := max(0, s.Free)
	return &schedulingv1beta1.QuotaShortage{
		Queue: quota.QueueOf(s.Queue), User: s.User(), Resource: s.Resource, Limit: resources.Quantity(s.Resource, s.Limit),
		Free: resources.Quantity(s.Resource, free), Asked: resources.Quantity(s.Resource, s.Want),
		Missing: resources.Quantity(s.Resource, s.Want-free),
	}
}

// SharesOf compares use and share for each resource of an amount that is shared out.
func SharesOf(lacks, used, share, borrowed resources.List) []schedulingv1beta1.ShareOfQueue {
	var all []schedulingv1beta1.ShareOfQueue
	for name, amount := range lacks {
		if deserved, isShared := share[name]; isShared && amount > 0 && name != corev1.ResourcePods {
			all = append(all, schedulingv1beta1.ShareOfQueue{
				Resource: name, Used: resources.Quantity(name, used[name]), Share: resources.Quantity(name, deserved),
				BorrowedByOthers: resources.Quantity(name, borrowed[name]),
			})
		}
	}
	slices.SortFunc(all, func(x, y schedulingv1beta1.ShareOfQueue) int { return cmp.Compare(x.Resource, y.Resource) })
	return all[:min(len(all), sharesShown)]
}
