package watchlog

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Event is a core/v1 event as its watch delivered it last.
type Event struct {
	// Time of the first arrival.
	Time time.Time
	// Kind, Namespace and Name of the object that it is about.
	Kind, Namespace, Name string
	// Type, Reason and Message of the event.
	Type, Reason, Message string
	// Count is how often it happened.
	Count int32
	// LastTimestamp is the field that clients sort by; zero if it is missing.
	LastTimestamp time.Time
}

// RecordEvent takes in a state of an event.
func (l *Log) RecordEvent(event *corev1.Event) {
	l.record(func(now time.Time) {
		known := l.events[event.UID]
		if known == nil {
			known = &Event{Time: now}
			l.events[event.UID] = known
			l.eventSeen = append(l.eventSeen, event.UID)
		}
		about := event.InvolvedObject
		*known = Event{
			Time: known.Time, Kind: about.Kind, Namespace: about.Namespace, Name: about.Name,
			Type: event.Type, Reason: event.Reason, Message: event.Message,
			Count: event.Count, LastTimestamp: event.LastTimestamp.Time,
		}
	})
}

// Events returns the events about an object, in the order in which they were first seen.
func (l *Log) Events(kind, namespace, name string) []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []Event
	for _, uid := range l.eventSeen {
		if e := *l.events[uid]; e.Kind == kind && e.Namespace == namespace && e.Name == name {
			found = append(found, e)
		}
	}
	return found
}
