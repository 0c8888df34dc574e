package explain

import (
	"fmt"
	"strings"

	"github.com/muster-sched/muster/pkg/admission"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// headingShare is the question of whom the queue's share has gone to.
const headingShare = "What share has its queue?"

// place is what muster-controller wrote on a PodGroup about its place in the queue; nil if nothing. Its owner may read it, whatever else is not
// readable.
func (f *Facts) place() *schedulingv1beta1.PodGroupPlace {
	if f.Group == nil || !waits(f.Group) {
		return nil
	}
	return f.Group.Status.Place
}

// inPlace says at which place a PodGroup waits, as muster-controller found it.
func (f *Facts) inPlace(group *schedulingv1beta1.PodGroup) string {
	place := group.Status.Place
	position := "the " + ordinal(int(place.Position)) + " that waits"
	if place.Position > admission.ExactPlaces {
		position = fmt.Sprintf("one of the first %d that wait", place.Position)
	}
	return fmt.Sprintf("%s in queue %s (found %s)", position, admission.QueueOf(group), f.ago(place.FoundAt.Time))
}

// share compares what the queue uses with its share, and says what others borrow in sum.
func (f *Facts) share() []string {
	place := f.place()
	if place == nil {
		return nil
	}
	var lines []string
	for i := range place.Shares {
		s := &place.Shares[i]
		line := fmt.Sprintf("Queue %s uses %s %s of its share of %s", admission.QueueOf(f.Group), s.Used.String(), s.Resource, s.Share.String())
		if s.BorrowedByOthers.IsZero() {
			line += "; no other queue uses more than its share"
		} else {
			line += fmt.Sprintf("; other queues use %s more than their shares", s.BorrowedByOthers.String())
		}
		lines = append(lines, line+" (found "+f.ago(place.FoundAt.Time)+").")
	}
	return lines
}

// own lists the PodGroups of a queue in the reader's namespace that have not ended. It is for readers who may not read other namespaces.
func (f *Facts) own(queue string) []string {
	var lines []string
	for i := range f.Own {
		group := &f.Own[i]
		if admission.QueueOf(group) != queue || group.Status.Phase == schedulingv1beta1.PodGroupCompleted {
			continue
		}
		line := titleOf(group)
		switch {
		case !waits(group):
			line += ": runs"
		case group.Status.Place != nil:
			line += ": " + f.inPlace(group)
		default:
			line += ": waits"
		}
		if c := schedulingv1beta1.CurrentCondition(group.Status.Conditions); c != nil && waits(group) {
			line += "; " + inOneLine(c.Message)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}
