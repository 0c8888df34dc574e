// Package announce has those events of the scheduler for which nothing waits give way to the requests for which something does.
//
// For each pod the scheduler makes two requests of the same cost: the binding, and the event that tells of it. While many pods come
// at once they compete for an API server that is busy already, and each event makes a pod start later.
package announce

import (
	"context"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
)

// scheduled is the reason of the event that tells that a pod has been bound. All others say what somebody may have to do.
const scheduled = "Scheduled"

// Bounds of what is held back. Events go in the order in which they were recorded, with the time at which they were.
const (
	inPause  = 2                      // how many go at the same time once there is a pause
	inCalm   = 32                     // and once it lasts, so that what was held back is told as quickly as if it had not been
	patience = 200 * time.Millisecond // so that people see progress, the first of those that wait go after that without a pause
	maxDelay = 30 * time.Second       // no event waits longer, however long there is no pause
	maxHeld  = 5000                   // some 20 MiB; while so many wait, others go at once
)

// NewBroadcaster returns a broadcaster of events like upstream's that writes with the client, and holds events back while there is
// traffic. The client's own requests must not belong to it.
func NewBroadcaster(client kubernetes.Interface, traffic *Traffic) events.EventBroadcaster {
	return events.NewBroadcaster(newSink(&events.EventSinkImpl{Interface: client.EventsV1()}, traffic))
}

// sink holds events back while there is traffic. Upstream's broadcaster calls it from a goroutine for each event.
type sink struct {
	events.EventSink
	traffic *Traffic
	held    chan struct{} // one for each event that is held back
	next    chan struct{} // one for each of them that waits for calm
	first   chan struct{} // one for each of those that goes in a pause
}

func newSink(s events.EventSink, traffic *Traffic) *sink {
	return &sink{
		EventSink: s, traffic: traffic,
		held: make(chan struct{}, maxHeld), next: make(chan struct{}, inCalm), first: make(chan struct{}, inPause),
	}
}

// Create writes an event; one that may be held back when it is its turn and there is a pause, or calm. When the context ends, what
// was held back is not written any more.
func (s *sink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	if event.Reason != scheduled || event.Series != nil { // a series is written under upstream's lock
		return s.EventSink.Create(ctx, event)
	}
	select {
	case s.held <- struct{}{}:
		defer func() { <-s.held }()
	default:
		return s.EventSink.Create(ctx, event)
	}
	tooLate := time.After(maxDelay)
	select {
	case s.next <- struct{}{}: // whoever has waited longest
		defer func() { <-s.next }()
	case <-tooLate:
		return s.EventSink.Create(ctx, event)
	case <-ctx.Done():
		return event, nil
	}
	select {
	case s.first <- struct{}{}:
		defer func() { <-s.first }()
	case <-s.traffic.Calm():
		return s.EventSink.Create(ctx, event)
	case <-tooLate:
		return s.EventSink.Create(ctx, event)
	case <-ctx.Done():
		return event, nil
	}
	select {
	case <-s.traffic.Pause():
	case <-time.After(patience):
	case <-tooLate:
	case <-ctx.Done():
		return event, nil
	}
	return s.EventSink.Create(ctx, event)
}
