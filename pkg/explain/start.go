package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-sched/muster/pkg/admission"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/text"
)

const (
	// headingStart is the question of when something starts.
	headingStart = "When does it start?"
	// headingNext is the question of what starts next in a queue.
	headingNext = "What starts next, and when?"
)

// starts says when a PodGroup that waits is expected to start, as the scheduler has found.
func (f *Facts) starts(w *Wait) []string {
	if w.Plan = planOf(f.Group); w.Plan == nil {
		return nil
	}
	start, found := w.Plan.ExpectedStart, " (found "+f.ago(w.Plan.ComputedAt.Time)+")."
	if start == nil {
		return []string{capital(w.Plan.Message) + found}
	}
	return []string{
		"It is " + w.Plan.Message + found,
		fmt.Sprintf("That is in %s. Four of five such gangs start %s.", strings.TrimSpace(short(max(0, start.At.Sub(f.Now)))),
			text.Between(start.Earliest.Time, start.Latest.Time, f.Now)),
	}
}

// planOf is the plan of a PodGroup that waits, nil if there is none.
func planOf(group *schedulingv1beta1.PodGroup) *schedulingv1beta1.PodGroupPlan {
	if group == nil || !waits(group) {
		return nil
	}
	return group.Status.Plan
}

// nextHours lists what is expected to start in a queue, as far as the reader may see it. The first is first.
func (f *Facts) nextHours(queue string) []string {
	type expected struct {
		at   time.Time
		line string
	}
	var starts []expected
	groups := f.Groups
	if f.Lacks(PartGroups) {
		groups = f.Own
	}
	for i := range groups {
		group := &groups[i]
		plan := planOf(group)
		if admission.QueueOf(group) != queue || plan == nil || plan.ExpectedStart == nil {
			continue
		}
		start := plan.ExpectedStart
		starts = append(starts, expected{start.At.Time, fmt.Sprintf("%s (%s): %s", text.Moment(start.At.Time, f.Now),
			text.Between(start.Earliest.Time, start.Latest.Time, f.Now), titleOf(group))})
	}
	slices.SortStableFunc(starts, func(a, b expected) int { return a.at.Compare(b.at) })
	lines := make([]string, 0, len(starts))
	for _, start := range starts {
		lines = append(lines, start.line)
	}
	return lines
}

// capital has a sentence begin with a capital letter.
func capital(sentence string) string {
	if sentence == "" {
		return sentence
	}
	return strings.ToUpper(sentence[:1]) + sentence[1:]
}
