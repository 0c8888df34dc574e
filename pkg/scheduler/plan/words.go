package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/text"
	"github.com/muster-sched/muster/pkg/timeline"
)

// mostNames is how many names a plan has.
const mostNames = 5

// reasons say why no start is known.
var reasons = map[timeline.Reason]string{
	timeline.TooLarge: text.NoStart + ": it asks for more than its nodes or its queue ever have",
	timeline.NoEnd:    text.NoStart + ": what runs in its place has no known run time",
	timeline.TooMuch:  text.NoStart + ": it has too many different pods to plan it, or gangs before it have",
	timeline.Behind:   text.NoStart + ": a gang before it has no known run time",
}

// planOf is what the API says of a start.
func (s *Snapshot) planOf(i int, start *timeline.Start, past *ranges) *schedulingv1beta1.PodGroupPlan {
	w, now := &s.Waiting[i], s.Cluster.Now
	plan := &schedulingv1beta1.PodGroupPlan{Position: w.position, ComputedAt: metav1.NewTime(now.Truncate(time.Second))}
	if start.Why != timeline.Known {
		plan.Message = reasons[start.Why]
		return plan
	}
	low, high := past.spread(w.Queue, start.At.Sub(now))
	plan.ExpectedStart = &schedulingv1beta1.ExpectedStart{At: inSeconds(start.At), Earliest: inSeconds(now.Add(low)), Latest: inSeconds(now.Add(high))}
	plan.WaitsFor, plan.WaitsForOthers = s.waitsFor(w, start)
	plan.Message = messageOf(plan)
	return plan
}

// inSeconds is a time as the API keeps it, or a part of a second later. No gang is expected too early.
func inSeconds(t time.Time) metav1.Time {
	if whole := t.Truncate(time.Second); !whole.Equal(t) {
		t = whole.Add(time.Second)
	}
	return metav1.NewTime(t)
}

// waitsFor names what a gang waits for in its own namespace, what ends last before all, and counts the rest.
func (s *Snapshot) waitsFor(w *Waiting, start *timeline.Start) (names []string, others int32) {
	var owners []Owner
	lastFirst := slices.SortedStableFunc(slices.Values(start.Runs), func(a, b int) int { return s.Cluster.Runs[b].End.Compare(s.Cluster.Runs[a].End) })
	for _, run := range lastFirst {
		owners = append(owners, s.Runs[run])
	}
	for _, gang := range start.Gangs {
		owners = append(owners, s.Waiting[gang].owner())
	}
	return mention(w.Key.Namespace, owners)
}

// mention names the first owners of a namespace, sorted, and counts the others.
func mention(namespace string, owners []Owner) (names []string, others int32) {
	seen := map[Owner]bool{}
	for _, owner := range owners {
		switch {
		case seen[owner]:
		case owner.Namespace == namespace && len(names) < mostNames:
			names = append(names, owner.Name)
		default:
			others++
		}
		seen[owner] = true
	}
	slices.Sort(names)
	return names, others
}

// owner is how others name a gang.
func (w *Waiting) owner() Owner {
	if len(w.members) > 0 {
		return ownerOf(w.members[0].Pod, w.Key, true)
	}
	return Owner{w.Key.Namespace, w.Key.Name}
}

// messageOf is a plan with a start in a sentence.
func messageOf(plan *schedulingv1beta1.PodGroupPlan) string {
	var awaited []string
	awaited = append(awaited, plan.WaitsFor...)
	if n := int(plan.WaitsForOthers); n > 0 {
		awaited = append(awaited, text.Count(n, "other"))
	}
	when := text.StartsAbout + text.Moment(plan.ExpectedStart.At.Time, plan.ComputedAt.Time)
	if len(awaited) == 0 {
		return when
	}
	end := "ends"
	if len(awaited) > 1 || plan.WaitsForOthers > 1 {
		end = "end"
	}
	list := strings.Join(awaited, ", ")
	if len(awaited) > 1 {
		list = strings.Join(awaited[:len(awaited)-1], ", ") + " and " + awaited[len(awaited)-1]
	}
	return fmt.Sprintf("%s, when %s %s", when, list, end)
}
