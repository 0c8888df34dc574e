package explain

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/admission"
	"github.com/muster-sched/muster/pkg/text"
)

// Outlook is when what waits in a queue is expected to start, with what waits in the queues below it.
type Outlook struct {
	// NextStart is the first expected start, and LastStart the last one. Both are nil if none is known.
	NextStart *metav1.Time `json:"nextStart,omitempty"`
	LastStart *metav1.Time `json:"lastStart,omitempty"`
	// WithoutStart is how many wait whose start is not known.
	WithoutStart int `json:"withoutStart,omitempty"`
	// waiting is how many wait, as far as the reader may see it.
	waiting int
}

// Outlooks has the outlook of each queue in which something waits.
func Outlooks(f *Facts) map[string]*Outlook {
	groups := f.Groups
	if f.Lacks(PartGroups) {
		groups = f.Own
	}
	above := map[string][]string{} // a queue and its ancestors
	found := map[string]*Outlook{}
	for i := range groups {
		group := &groups[i]
		if !waits(group) {
			continue
		}
		queue := admission.QueueOf(group)
		if _, known := above[queue]; !known {
			above[queue] = f.namesAbove(queue)
		}
		var start *metav1.Time
		if plan := planOf(group); plan != nil && plan.ExpectedStart != nil {
			start = &plan.ExpectedStart.At
		}
		for _, name := range above[queue] {
			if found[name] == nil {
				found[name] = &Outlook{}
			}
			found[name].add(start)
		}
	}
	return found
}

func (f *Facts) namesAbove(queue string) []string {
	var names []string
	for _, q := range f.path(queue) {
		names = append(names, q.Name)
	}
	return names
}

// add adds something that waits, and starts at a time; nil if that is not known.
func (o *Outlook) add(start *metav1.Time) {
	if o.waiting++; start == nil {
		o.WithoutStart++
		return
	}
	if o.NextStart == nil || start.Before(o.NextStart) {
		o.NextStart = start
	}
	if o.LastStart == nil || o.LastStart.Before(start) {
		o.LastStart = start
	}
}

// Cell is the outlook in a table: when all that waits is expected to have started.
func (o *Outlook) Cell(now time.Time) string {
	switch {
	case o == nil || o.waiting == 0:
		return "-"
	case o.LastStart == nil:
		return "unknown"
	case o.WithoutStart > 0:
		return fmt.Sprintf("%s, %d unknown", in(o.LastStart, now), o.WithoutStart)
	}
	return in(o.LastStart, now)
}

// Coming has a line about all that waits in a queue. Each of the next ten starts has a line, too.
func Coming(f *Facts, queue string) []string {
	o := Outlooks(f)[queue]
	if o == nil {
		return []string{"Queue " + queue + ": nothing waits."}
	}
	line := fmt.Sprintf("Queue %s: %d wait.", queue, o.waiting)
	if o.LastStart != nil {
		line += fmt.Sprintf(" The last start that is known is expected %s, about %s.", in(o.LastStart, f.Now), text.Moment(o.LastStart.Time, f.Now))
	}
	if o.WithoutStart > 0 {
		line += fmt.Sprintf(" No start is known of %s.", text.Count(o.WithoutStart, "PodGroup"))
	}
	lines := []string{line}
	for _, next := range first(10, f.nextHours(queue)) {
		lines = append(lines, "  "+next)
	}
	return lines
}

// in says in how long a time is.
func in(at *metav1.Time, now time.Time) string { return "in " + strings.TrimSpace(short(at.Sub(now))) }
