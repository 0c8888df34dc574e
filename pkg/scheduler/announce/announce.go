// Package announce has those events of the scheduler for which nothing waits give way to the requests for which something does.
//
// For each pod the scheduler makes two requests of the same cost: the binding, and the event that tells of it. While many pods come
// at once they compete for an API server that is busy already, and each event makes a pod start later.
package announce

import (
	"context"
	"errors"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// scheduled is the reason of the event that tells that a pod has been bound. All others say what somebody may have to do.
const scheduled = "Scheduled"

// Bounds of what is held back. Events go in the order in which they were recorded, with the time at which they were.
const (
	inPause  = 2                      // how many go at the same time once there is a pause
	inCalm   = 32                     // and once it lasts, so that what was held back is told as quickly as if it had not been
	patience = 100 * time.Millisecond // so that people see progress, the one that has waited longest goes after that without a pause
	maxDelay = 30 * time.Second       // after that it goes, however long there is no pause, as many at a time as in calm
	maxHeld  = 5000                   // 4 MB, since an event takes less than a kB; while so many wait, others go at once
)

// tries are those of an event that the API server cannot be told of, as many and as far apart as upstream's.
var tries = wait.Backoff{Duration: 10 * time.Second, Jitter: 0.25, Steps: 12}

// NewBroadcaster returns a broadcaster of events like upstream's that writes with the client, and holds events back while there is
// traffic. The client's own requests must not belong to it.
func NewBroadcaster(client kubernetes.Interface, traffic *Traffic) events.EventBroadcaster {
	return events.NewBroadcaster(newSink(&events.EventSinkImpl{Interface: client.EventsV1()}, traffic))
}

// sink holds events back while there is traffic. Upstream's broadcaster calls it from a goroutine for each event; what is held back
// is taken off it, because the stack of such a goroutine is many times as large as the event.
type sink struct {
	events.EventSink
	traffic *Traffic
	begin   sync.Once
	held    chan *eventsv1.Event
	few     chan struct{} // one for each of those that are being written as in a pause
	many    chan struct{} // one for each of the others that are being written
}

func newSink(s events.EventSink, traffic *Traffic) *sink {
	return &sink{
		EventSink: s, traffic: traffic,
		held: make(chan *eventsv1.Event, maxHeld), few: make(chan struct{}, inPause), many: make(chan struct{}, inCalm-inPause),
	}
}

// Create writes an event, or takes one that may be held back, to write it when it is its turn and there is a pause, or calm. When
// the context ends, what was held back is not written any more.
func (s *sink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	if event.Reason != scheduled || event.Series != nil { // a series is written under upstream's lock
		return s.EventSink.Create(ctx, event)
	}
	s.begin.Do(func() { go s.tell(ctx) })
	select {
	case s.held <- event:
		return event, nil
	default:
		return s.EventSink.Create(ctx, event)
	}
}

// tell writes what is held back, each event when it is its turn, until the context ends.
func (s *sink) tell(ctx context.Context) {
	for {
		select {
		case event := <-s.held:
			slots := s.turn(ctx, event)
			if slots == nil {
				return
			}
			go s.write(ctx, event, func() { <-slots })
		case <-ctx.Done():
			return
		}
	}
}

// turn waits until the event that has waited longest may be written, and returns where it has taken a slot; nil if the context has
// ended.
func (s *sink) turn(ctx context.Context, event *eventsv1.Event) (slots chan struct{}) {
	tooLate := time.After(time.Until(event.EventTime.Add(maxDelay)))
	select {
	case s.few <- struct{}{}:
		select {
		case <-s.traffic.Pause():
		case <-time.After(patience):
		case <-tooLate:
		case <-ctx.Done():
		}
		return s.few
	case <-s.traffic.Calm():
	case <-tooLate:
	case <-ctx.Done():
	}
	select {
	case s.many <- struct{}{}:
		return s.many
	case <-ctx.Done():
		return nil
	}
}

// write writes an event, and tries again as long as the API server cannot be told of it. It lets the next be written once it has
// tried. What the API server refuses is lost, as with upstream.
func (s *sink) write(ctx context.Context, event *eventsv1.Event, letNext func()) {
	letNext = sync.OnceFunc(letNext)
	defer letNext()
	_ = wait.ExponentialBackoffWithContext(ctx, tries, func(ctx context.Context) (bool, error) {
		_, err := s.EventSink.Create(ctx, event)
		letNext()
		if err == nil || apierrors.IsAlreadyExists(err) {
			return true, nil
		}
		final := isFinal(err)
		klog.FromContext(ctx).Error(err, "An event could not be written", "event", klog.KObj(event), "regarding", event.Regarding, "final", final)
		return final, nil
	}) // the last error has been logged
}

// isFinal says whether another try would fail in the same way.
func isFinal(err error) bool {
	var refused apierrors.APIStatus
	var request *rest.RequestConstructionError
	return errors.As(err, &refused) || errors.As(err, &request)
}
