package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/admission"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/text"
)

func (a *Ahead) title() string { return a.Kind + " " + a.Namespace + "/" + a.Name }

// finding is what was found about something that waits.
type finding struct {
	reason, message string
	// cause is what the reason means; nil if it is not known.
	cause *cause
}

// findingOf looks a reason up.
func findingOf(causes map[string]cause, reason, message string) finding {
	found := finding{reason: reason, message: message}
	if known, isKnown := causes[reason]; isKnown {
		found.cause = &known
	}
	return found
}

// byAmounts says whether amounts decide, which a PodGroup's condition and its members say best.
func (found finding) byAmounts() bool { return found.cause == nil || found.cause.ever == notRuledOut }

// ofGroup is the finding about a PodGroup that waits: its condition, with the reason of its members. No reason means that nothing has been
// found.
func (f *Facts) ofGroup() finding {
	current := schedulingv1beta1.CurrentCondition(f.Group.Status.Conditions)
	if current == nil || current.Type != schedulingv1beta1.PodGroupUnschedulableType {
		return finding{message: f.nothingFound()}
	}
	reason := "Unschedulable"
	switch {
	case current.Reason == schedulingv1beta1.NotEnoughPodsReason, current.Reason == schedulingv1beta1.NotEnoughPodsOfTaskReason:
		return findingOf(podCauses, current.Reason, current.Message)
	case current.Reason == schedulingv1beta1.NotSupportedReason, current.Reason == schedulingv1beta1.QuotaExceededReason:
		reason = current.Reason
	case admitted(f.Group) == 0:
		reason = "PodGroupPending"
	}
	if inner, found := f.memberReason(bare(current.Message)); found && admitted(f.Group) == 1 {
		return findingOf(podCauses, inner, current.Message)
	}
	return findingOf(jobCauses, reason, current.Message)
}

// nothingFound says who has still to look at a PodGroup.
func (f *Facts) nothingFound() string {
	switch {
	case f.Group.Status.Phase == "":
		return "muster-controller has not looked at its PodGroup yet"
	case admitted(f.Group) == 0:
		return "its queue has not been asked yet"
	case len(f.Members) == 0:
		return "its queue has admitted it, and its pods do not exist yet"
	}
	return "the scheduler has not decided on it yet"
}

// memberReason is the reason of the waiting member with a message. If there is none, it is that of the first with a known reason.
func (f *Facts) memberReason(message string) (reason string, found bool) {
	for i := range f.Members {
		c := gang.ScheduledCondition(&f.Members[i])
		if c == nil || c.Status != corev1.ConditionFalse || ended(&f.Members[i]) {
			continue
		}
		if _, known := podCauses[c.Reason]; known && (!found || bare(c.Message) == message) {
			reason, found = c.Reason, true
		}
	}
	return reason, found
}

// best replaces a finding that amounts decide by that of the PodGroup, which was made by who decides.
func (f *Facts) best(found finding) finding {
	if f.Group == nil || !waits(f.Group) {
		return found
	}
	of := f.ofGroup()
	if found.byAmounts() && (of.reason != "" || found.message == "") || of.reason == schedulingv1beta1.NotSupportedReason {
		return of
	}
	return found
}

// addWait says why something waits, what is before it, what would free it and whether it can ever run.
func (f *Facts) addWait(page *Page, found finding) {
	w := &Wait{Reason: found.reason, Message: text.Cut(bare(found.message), longestText), Ever: found.ever(), Short: shortIn(found.message)}
	if at, known := text.TimeOf(found.message); known {
		w.FoundAt = &metav1.Time{Time: at}
	}
	page.Wait, page.said = w, append(page.said, bare(found.message))
	page.add("Why does it wait?", f.why(found, w)...)
	if f.Group != nil && waits(f.Group) {
		page.add(headingStart, f.starts(w)...)
		page.add(headingBefore, f.before(w)...)
		page.add(headingShare, f.share()...)
	}
	page.add(headingFrees, append(f.frees(found, w), f.move(w)...)...)
	page.add("Can it ever run?", found.answer(w))
}

// why quotes what was found.
func (f *Facts) why(found finding, w *Wait) []string {
	if found.reason == "" {
		return []string{"Nothing has been found yet: " + found.message + "."}
	}
	var lines []string
	if found.cause != nil {
		lines = append(lines, found.cause.means+" ("+found.reason+")")
	}
	if w.Message != "" {
		said := "It says"
		if w.FoundAt != nil {
			said += ", " + f.ago(w.FoundAt.Time)
		}
		lines = append(lines, said+": "+w.Message)
	}
	if reason := f.takesNothingBack(w); reason != "" {
		lines = append(lines, reason)
	}
	return lines
}

// ever says whether what was found can go on.
func (found finding) ever() Ever {
	switch {
	case found.reason == "":
		return notKnown
	case text.RulesOut(found.message):
		return never
	case found.cause != nil:
		return found.cause.ever
	}
	return notRuledOut
}

// answer is that in words.
func (found finding) answer(w *Wait) string {
	switch {
	case w.Ever == never && w.Short != nil && w.Short.Queue != "":
		return fmt.Sprintf("No: it asks for more than the whole %s of %s. Ask for less, or raise that.", w.Short.limitName(), w.Short.owner())
	case w.Ever == never:
		return "No, not on the nodes that there are: ask for less, or add nodes that its pods may use."
	case w.Ever == notRuledOut && strings.Contains(found.message, text.NotIfEnded):
		return "Not soon: pods of a higher priority would have to end, or nodes would have to be added or changed."
	}
	return inWords[w.Ever]
}

// frees says what would help.
func (f *Facts) frees(found finding, w *Wait) []string {
	switch {
	case w.Ever == never:
		return nil // the answer to "Can it ever run?" says so
	case w.HeldUpBy != nil:
		return []string{w.HeldUpBy.title() + " holds it up: that one has to start first, or to be deleted."}
	case w.Short != nil:
		return []string{w.Short.remedy()}
	case found.cause != nil && found.cause.frees != "":
		return []string{found.cause.frees}
	}
	return nil
}

// before says at which place of its queue a PodGroup waits, and what is before it.
func (f *Facts) before(w *Wait) []string {
	w.Queue = admission.QueueOf(f.Group)
	if f.Lacks(PartGroups, PartPriorities, PartPhJobs) {
		place := f.place()
		if place == nil {
			return nil
		}
		w.Position = int(place.Position)
		return []string{"It is " + f.inPlace(f.Group) + "."}
	}
	waiting := f.waiting(w.Queue)
	place := slices.IndexFunc(waiting, func(group *schedulingv1beta1.PodGroup) bool { return group.UID == f.Group.UID })
	if place < 0 {
		return nil
	}
	w.Position, w.Waiting = place+1, len(waiting)
	for _, group := range waiting[:place] {
		w.Before = append(w.Before, f.aheadOf(group))
	}
	if by := f.holder(waiting[:place]); by >= 0 {
		w.HeldUpBy = &w.Before[by]
	}
	if len(waiting) == 1 {
		return append([]string{"It is the only one that waits in queue " + w.Queue + "."}, f.beforeOnNodes()...)
	}
	lines := append([]string{fmt.Sprintf("It is the %s of %d that wait in queue %s.", ordinal(place+1), len(waiting), w.Queue)}, f.beforeOnNodes()...)
	ahead := make([]string, 0, place)
	for i := range w.Before {
		ahead = append(ahead, w.Before[i].title()+" ("+w.Before[i].Why+")")
	}
	lines = append(lines, first(5, ahead)...)
	if queue := f.queue(w.Queue); place > 0 && queue != nil && queue.Spec.DequeueStrategy == schedulingv1beta1.DequeueStrategyFIFO {
		return append(lines, "The queue is first in, first out: none of them is passed.")
	}
	return lines
}

// aheadOf names a PodGroup that is before another, and says why it is.
func (f *Facts) aheadOf(group *schedulingv1beta1.PodGroup) Ahead {
	kind, name := ownerOf(group)
	ahead := Ahead{Kind: kind, Namespace: group.Namespace, Name: name, Why: "older"}
	switch {
	case admitted(group) > admitted(f.Group):
		ahead.Why = "already admitted"
	case f.priority(group) > f.priority(f.Group):
		ahead.Why = fmt.Sprintf("priority %d, not %d", f.priority(group), f.priority(f.Group))
	case f.since(group).Equal(f.since(f.Group)):
		ahead.Why = "of the same second, and first by name"
	}
	return ahead
}

// holder is the place of the one that a PodGroup may not pass, -1 if there is none. PhJobs pass none that lacks quota of the queue, or of
// the same user. Nor does anything in a queue that is first in, first out.
func (f *Facts) holder(ahead []*schedulingv1beta1.PodGroup) int {
	queue := f.queue(admission.QueueOf(f.Group))
	isFIFO := queue != nil && queue.Spec.DequeueStrategy == schedulingv1beta1.DequeueStrategyFIFO
	return slices.IndexFunc(ahead, func(group *schedulingv1beta1.PodGroup) bool {
		current := schedulingv1beta1.CurrentCondition(group.Status.Conditions)
		kind, _ := ownerOf(group)
		if admitted(group) == 1 || current == nil || kind != "PhJob" && !isFIFO || text.RulesOut(current.Message) {
			return false
		}
		short := shortIn(current.Message)
		return short != nil && (short.User == "" || admission.AccountOf(group) == admission.AccountOf(f.Group))
	})
}

// beforeOnNodes counts the gangs of other queues that wait for nodes before an admitted one: nodes are for all queues.
func (f *Facts) beforeOnNodes() []string {
	n := 0
	for i := range f.Groups {
		other := &f.Groups[i]
		if waits(other) && admitted(other) == 1 && admission.QueueOf(other) != admission.QueueOf(f.Group) && f.compare(other, f.Group) < 0 {
			n++
		}
	}
	if n == 0 || admitted(f.Group) == 0 {
		return nil
	}
	return []string{text.Count(n, "gang") + " of other queues, of a higher priority or older, may take nodes before it."}
}

// takesNothingBack says why nothing is taken back from borrowers for a gang. Its queue would be above its own share with it. It is "" if
// that is not so, or if nothing is borrowed.
func (f *Facts) takesNothingBack(w *Wait) string {
	if f.Group == nil || !waits(f.Group) || w.Short == nil || f.Lacks(PartQueues) {
		return ""
	}
	want := admission.MinimumOf(f.Group)
	path := f.path(admission.QueueOf(f.Group))
	for _, queue := range path {
		share, used := shareOf(queue), amountsOf(queue.Status.Allocated)
		for _, name := range sorted(want) {
			deserved, isShared := share[name]
			if queue.Name == schedulingv1beta1.RootQueue || !isShared || !w.Short.of(name) || used[name]+want[name] <= deserved || !f.isBorrowed(name, path) {
				continue
			}
			return fmt.Sprintf("Other queues borrow %s, and nothing is taken back for it: the share of queue %s is %s, it uses %s, and the minimum asks for %s.",
				name, queue.Name, format(name, deserved), format(name, used[name]), format(name, want[name]))
		}
	}
	return ""
}

// isBorrowed says whether a queue beside a path uses more of a resource than its share.
func (f *Facts) isBorrowed(name corev1.ResourceName, path []*schedulingv1beta1.Queue) bool {
	for i := range f.Queues {
		queue := &f.Queues[i]
		share, isShared := shareOf(queue)[name]
		if isShared && !slices.Contains(path, queue) && amountsOf(queue.Status.Allocated)[name] > share {
			return true
		}
	}
	return false
}
