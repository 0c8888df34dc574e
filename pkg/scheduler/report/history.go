package report

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// How long an explanation must have stood before it is written. Gangs that start promptly cost no writes.
const (
	grace = time.Second
	// transientGrace is for the reasons that every gang has for a moment. It is counted from the last member that came.
	transientGrace = 3 * time.Second
)

const (
	// textPause is how long a report of a waiting gang stands at least before another text takes its place.
	textPause = 5 * time.Second
	// textPausePerMember bounds the writes for changed texts to ten a second.
	textPausePerMember = 100 * time.Millisecond
	// eventPause is the least time between two events of a gang for the same reason. Amounts change with every pod that goes, and the
	// members' conditions say what they are.
	eventPause = 5 * time.Minute
)

// rewordPause is the least time between two texts for one reason. It grows with the number of waiting pods. So many gangs together cost a
// busy cluster no more writes than a few.
func (r *Reporter) rewordPause() time.Duration {
	return max(textPause, time.Duration(r.waiting)*textPausePerMember)
}

// history is what has been reported of a gang.
type history struct {
	members    int // that wait
	current    Explanation
	since      time.Time // since when it stands
	written    Explanation
	writtenAt  time.Time
	event      Explanation // what the last event says
	eventAt    time.Time
	eventOf    types.UID // the PodGroup that it is about
	eventIsDue bool      // the event is not made yet
	complete   int       // the version of the gang in which all members carried it
}

// observe takes note of an explanation, and returns for how long it must not be written yet.
func (h *history) observe(w Waiting, now time.Time, rewordPause time.Duration) time.Duration {
	if w.Explanation != h.current {
		h.current, h.since = w.Explanation, now
	}
	return min(h.dueAt(w, rewordPause).Sub(now), textPause) // by then the reason may be another
}

// dueAt is when the current explanation may be written.
func (h *history) dueAt(w Waiting, rewordPause time.Duration) time.Time {
	switch {
	case w.Explanation == h.written:
		return h.since // members that came later get it at once
	case isTransient(w.Explanation) && w.Joined.After(h.since):
		return w.Joined.Add(transientGrace)
	case isTransient(w.Explanation):
		return h.since.Add(transientGrace)
	}
	due := h.since.Add(grace)
	if reworded := h.writtenAt.Add(rewordPause); w.Reason == h.written.Reason && reworded.After(due) {
		return reworded
	}
	return due
}

// begin notes that the explanation is being written.
func (h *history) begin(w Waiting, now time.Time) {
	if w.Explanation != h.written {
		h.written, h.writtenAt = w.Explanation, now
	}
	if w.Reason != h.event.Reason || w.PodGroup.UID != h.eventOf || w.Message != h.event.Message && now.Sub(h.eventAt) >= eventPause {
		h.event, h.eventAt, h.eventOf, h.eventIsDue = w.Explanation, now, w.PodGroup.UID, true
	}
}

// isTransient says whether every gang has this explanation for a moment. Its pods, its PodGroup and its admission come one after the other.
func isTransient(e Explanation) bool {
	return e.Reason != ReasonUnschedulable && e.Reason != ReasonWaitingForQuota
}
