package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/text"
)

// shownOccurrences is how many lines "What happened?" has: the latest.
const shownOccurrences = 15

// evictions are the reasons of events that name the evictor of a pod.
var evictions = []string{"Reclaimed", "Preempted", "AboveCapability", "BelowMinimum", "Evicted", "TaintManagerEviction"}

// happened lists the phases that an object has entered and the events, the earliest first.
func (f *Facts) happened() []Occurrence {
	var all []Occurrence
	switch {
	case f.Job != nil:
		all = append(all, Occurrence{At: f.Job.CreationTimestamp, Event: "the Job was created"})
		for i := range f.Job.Status.Conditions {
			if c := &f.Job.Status.Conditions[i]; c.LastTransitionTime != nil {
				all = append(all, Occurrence{At: *c.LastTransitionTime, Event: "the Job became " + string(c.Status), Message: c.Message})
			}
		}
	case f.PhJob != nil:
		all = append(all, happenedToPhJob(f.PhJob)...)
	case f.Group != nil:
		all = append(all, Occurrence{At: f.Group.CreationTimestamp, Event: "the PodGroup was created"})
	}
	for i := range f.Events {
		event := &f.Events[i]
		all = append(all, Occurrence{
			At: metav1.NewTime(TimeOf(event)), About: []string{event.InvolvedObject.Kind + " " + event.InvolvedObject.Name},
			Event: event.Reason, Message: event.Message,
		})
	}
	slices.SortStableFunc(all, func(a, b Occurrence) int { return a.At.Compare(b.At.Time) })
	return joinedAlike(all)
}

// joinedAlike makes one occurrence of several that say the same at about the same time.
func joinedAlike(all []Occurrence) []Occurrence {
	var joined []Occurrence
	for _, next := range all {
		same := slices.IndexFunc(joined, func(o Occurrence) bool {
			return len(o.About) > 0 && o.Event == next.Event && bare(o.Message) == bare(next.Message) && next.At.Sub(o.At.Time) < time.Minute
		})
		switch {
		case same < 0:
			joined = append(joined, next)
		case len(next.About) > 0 && !slices.Contains(joined[same].About, next.About[0]):
			joined[same].About = append(joined[same].About, next.About...)
		}
	}
	return joined
}

// written writes the latest occurrences. A message that the page has already given is not repeated.
func (f *Facts) written(page *Page) []string {
	all := page.Happened
	var lines []string
	if left := len(all) - shownOccurrences; left > 0 {
		lines = append(lines, fmt.Sprintf("(%d earlier)", left))
		all = all[left:]
	}
	for i := range all {
		o := &all[i]
		what := o.Event
		if len(o.About) > 0 {
			what = othersAlike(o.About) + ": " + what
		}
		if page.hasSaid(bare(o.Message)) {
			what += ", as said above"
		} else {
			page.said = append(page.said, bare(o.Message))
			what = joined(what, o.Message)
		}
		lines = append(lines, fmt.Sprintf("%s  %-8s %s", o.At.UTC().Format("2006-01-02 15:04:05Z"), f.ago(o.At.Time), what))
	}
	return lines
}

// othersAlike names one of several objects, and says how many there are.
func othersAlike(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return names[0] + " and " + text.Count(len(names)-1, "other")
}

// evicted names the evictors of pods, a line for each reason.
func (f *Facts) evicted(page *Page) []string {
	groups := map[string]*Occurrence{}
	note := func(pod, why string, at metav1.Time) {
		if groups[why] == nil {
			groups[why] = &Occurrence{Message: why}
		}
		g := groups[why]
		if !slices.Contains(g.About, pod) {
			g.About = append(g.About, pod)
		}
		if at.After(g.At.Time) {
			g.At = at
		}
	}
	for i := range f.Events {
		if event := &f.Events[i]; event.InvolvedObject.Kind == "Pod" && slices.Contains(evictions, event.Reason) {
			note(event.InvolvedObject.Name, event.Message, metav1.NewTime(TimeOf(event)))
		}
	}
	for i := range f.Members {
		for _, c := range f.Members[i].Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
				note(f.Members[i].Name, c.Message, c.LastTransitionTime)
			}
		}
	}
	whys := make([]*Occurrence, 0, len(groups))
	for _, why := range groups {
		whys = append(whys, why)
	}
	slices.SortFunc(whys, func(a, b *Occurrence) int { return cmp.Or(b.At.Compare(a.At.Time), cmp.Compare(a.Message, b.Message)) })
	var lines []string
	for _, why := range whys {
		slices.Sort(why.About)
		names := why.About[0]
		if n := len(why.About) - 1; n > 0 {
			names = fmt.Sprintf("%s and %s", names, text.Count(n, "other pod"))
		}
		page.said = append(page.said, bare(why.Message))
		lines = append(lines, fmt.Sprintf("%s, %s: %s", names, f.ago(why.At.Time), inOneLine(why.Message)))
	}
	return lines
}

// TimeOf is when an event happened last.
func TimeOf(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	}
	return event.CreationTimestamp.Time
}

// happenedToPhJob lists what its own status tells.
func happenedToPhJob(job *primehubv1alpha1.PhJob) []Occurrence {
	all := []Occurrence{{At: job.CreationTimestamp, Event: "the PhJob was created"}}
	if at := job.Status.StartTime; at != nil {
		all = append(all, Occurrence{At: *at, Event: "its pod began to run"})
	}
	if at := job.Status.FinishTime; at != nil {
		all = append(all, Occurrence{At: *at, Event: "the PhJob became " + string(job.Status.Phase)})
	}
	return all
}
