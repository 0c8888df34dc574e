package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/muster-sched/muster/pkg/text"
)

// shownOccurrences is how many lines "What happened?" has: the latest.
const shownOccurrences = 15

// longestText is how many characters of a message are shown.
const longestText = 600

// occurrence is an event in the life of an object.
type occurrence struct {
	at   time.Time
	what string
}

// evictions are the reasons of events that name the evictor of a pod.
var evictions = []string{"Reclaimed", "Preempted", "AboveCapability", "BelowMinimum", "Evicted", "TaintManagerEviction"}

// happened lists the phases that a Job has entered and the events, the earliest first.
func (f *Facts) happened() []string {
	var all []occurrence
	switch {
	case f.Job != nil:
		all = append(all, occurrence{f.Job.CreationTimestamp.Time, "the Job was created"})
		for i := range f.Job.Status.Conditions {
			c := &f.Job.Status.Conditions[i]
			if c.LastTransitionTime != nil {
				all = append(all, occurrence{c.LastTransitionTime.Time, joined("the Job became "+string(c.Status), c.Message)})
			}
		}
	case f.PhJob != nil:
		all = append(all, happenedToPhJob(f.PhJob)...)
	case f.Group != nil:
		all = append(all, occurrence{f.Group.CreationTimestamp.Time, "the PodGroup was created"})
	}
	for i := range f.Events {
		event := &f.Events[i]
		about := event.InvolvedObject.Kind + " " + event.InvolvedObject.Name
		all = append(all, occurrence{timeOf(event), joined(about+": "+event.Reason, event.Message)})
	}
	return f.written(all)
}

// written orders occurrences and writes the latest.
func (f *Facts) written(all []occurrence) []string {
	slices.SortStableFunc(all, func(a, b occurrence) int { return cmp.Or(a.at.Compare(b.at)) })
	var lines []string
	if left := len(all) - shownOccurrences; left > 0 {
		lines = append(lines, fmt.Sprintf("(%d earlier)", left))
		all = all[left:]
	}
	for _, h := range all {
		lines = append(lines, fmt.Sprintf("%s  %-8s %s", h.at.UTC().Format("2006-01-02 15:04:05Z"), f.ago(h.at), h.what))
	}
	return lines
}

// evicted names the evictors of pods, a line for each reason.
func (f *Facts) evicted() []string {
	type group struct {
		pods []string
		last time.Time
	}
	groups := map[string]*group{}
	note := func(pod, why string, at time.Time) {
		if groups[why] == nil {
			groups[why] = &group{}
		}
		g := groups[why]
		if !slices.Contains(g.pods, pod) {
			g.pods = append(g.pods, pod)
		}
		if at.After(g.last) {
			g.last = at
		}
	}
	for i := range f.Events {
		if event := &f.Events[i]; event.InvolvedObject.Kind == "Pod" && slices.Contains(evictions, event.Reason) {
			note(event.InvolvedObject.Name, event.Message, timeOf(event))
		}
	}
	for i := range f.Members {
		for _, c := range f.Members[i].Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
				note(f.Members[i].Name, c.Message, c.LastTransitionTime.Time)
			}
		}
	}
	whys := make([]string, 0, len(groups))
	for why := range groups {
		whys = append(whys, why)
	}
	slices.SortFunc(whys, func(a, b string) int { return groups[b].last.Compare(groups[a].last) })
	var lines []string
	for _, why := range whys {
		g := groups[why]
		slices.Sort(g.pods)
		names := g.pods[0]
		if len(g.pods) > 1 {
			names = fmt.Sprintf("%s and %s", g.pods[0], count(len(g.pods)-1, "other pod"))
		}
		lines = append(lines, fmt.Sprintf("%s, %s: %s", names, f.ago(g.last), inOneLine(why)))
	}
	return lines
}

// timeOf is when an event happened last.
func timeOf(event *corev1.Event) time.Time {
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

// joined puts a message behind what it is about.
func joined(what, message string) string {
	if message = inOneLine(message); message == "" {
		return what
	}
	return what + ": " + message
}

// inOneLine is a message in one line, cut where it is very long.
func inOneLine(message string) string {
	return text.Cut(strings.Join(strings.Fields(message), " "), longestText)
}

// short writes a duration as kubectl does.
func short(d time.Duration) string { return duration.HumanDuration(max(0, d)) }
