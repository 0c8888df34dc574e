package announce

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

// paper is a sink that notes what is written to it, and how many wrote at the same time.
type paper struct {
	events.EventSink
	takes time.Duration
	fails []error // what becomes of the first tries

	mu      sync.Mutex
	written []string
	now     int
	most    int
}

func (p *paper) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	p.mu.Lock()
	p.now++
	p.most = max(p.most, p.now)
	p.mu.Unlock()
	time.Sleep(p.takes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now--
	if len(p.fails) > 0 {
		failure := p.fails[0]
		p.fails = p.fails[1:]
		return nil, failure
	}
	p.written = append(p.written, event.Name)
	return event, nil
}

func (p *paper) atOnce() int {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

func (p *paper) names() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.written...)
}

// record has events written as upstream's broadcaster does: each by a goroutine of its own, begun in their order.
func record(ctx context.Context, t *testing.T, s *sink, reason string, names ...string) {
	for _, name := range names {
		go func() {
			_, err := s.Create(ctx, &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, Reason: reason, EventTime: metav1.NowMicro()})
			assert.NoError(t, err)
		}()
		synctest.Wait()
	}
}

func TestAnEventGoesAtOnceWhenNothingIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := &paper{}, time.Now()
		record(t.Context(), t, newSink(p, NewTraffic()), scheduled, "a", "b", "c")
		assert.Equal(t, []string{"a", "b", "c"}, p.names())
		assert.Zero(t, time.Since(start))
	})
}

func TestEventsGiveWayToRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := NewTraffic()
		p := &paper{takes: time.Millisecond}
		s, start := newSink(p, traffic), time.Now()
		traffic.begin()
		traffic.begin()
		record(t.Context(), t, s, scheduled, "a", "b", "c", "d", "e")
		record(t.Context(), t, s, "FailedScheduling", "urgent")
		time.Sleep(patience / 2)
		require.Equal(t, []string{"urgent"}, p.names(), "what somebody may have to do is said at once")
		traffic.end()
		require.Equal(t, []string{"urgent"}, p.names(), "one request is still under way")

		p.most = 0
		traffic.end()
		time.Sleep(10 * time.Millisecond)
		assert.ElementsMatch(t, []string{"urgent", "a", "b", "c", "d", "e"}, p.names())
		assert.Equal(t, inPause, p.atOnce(), "the others have not become many at once")
		assert.Less(t, time.Since(start), patience)
		assert.Empty(t, s.held)
	})
}

func TestManyEventsGoAtOnceWhenAPauseLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic, p := NewTraffic(), &paper{takes: calmAfter / 2}
		s := newSink(p, traffic)
		var names []string
		for i := range 3 * inCalm {
			names = append(names, fmt.Sprint(i))
		}
		traffic.begin()
		record(t.Context(), t, s, scheduled, names...)
		traffic.end()
		time.Sleep(calmAfter - time.Millisecond)
		require.Equal(t, inPause, p.atOnce())
		traffic.begin() // a pause that was too short
		traffic.end()
		time.Sleep(calmAfter - time.Millisecond)
		require.Equal(t, inPause, p.atOnce())
		time.Sleep(2 * calmAfter)
		assert.Equal(t, inCalm, p.atOnce())
		assert.ElementsMatch(t, names, p.names())

		traffic.begin()
		record(t.Context(), t, s, scheduled, "a", "b", "c")
		time.Sleep(patience - time.Millisecond)
		assert.ElementsMatch(t, names, p.names(), "calm ends with the next request")
		traffic.end()
		time.Sleep(calmAfter)
		assert.Len(t, p.names(), len(names)+3)
	})
}

func TestSomeEventsGoThoughThereIsNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic, p := NewTraffic(), &paper{}
		traffic.begin()
		record(t.Context(), t, newSink(p, traffic), scheduled, "a", "b", "c", "d", "e")
		time.Sleep(patience + time.Millisecond)
		assert.Equal(t, []string{"a"}, p.names(), "the one that has waited longest")
		time.Sleep(patience)
		assert.Equal(t, []string{"a", "b"}, p.names())
		time.Sleep(3 * patience)
		assert.Equal(t, []string{"a", "b", "c", "d", "e"}, p.names())
	})
}

func TestNoEventWaitsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic, p := NewTraffic(), &paper{}
		traffic.begin()
		var names []string
		for i := range 1000 {
			names = append(names, fmt.Sprint(i))
		}
		record(t.Context(), t, newSink(p, traffic), scheduled, names...)
		time.Sleep(maxDelay - time.Millisecond)
		require.Less(t, len(p.names()), 500)
		time.Sleep(patience)
		assert.ElementsMatch(t, names, p.names())
	})
}

func TestASeriesGoesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic, p := NewTraffic(), &paper{}
		traffic.begin()
		event := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Reason: scheduled, Series: &eventsv1.EventSeries{Count: 2}}
		_, err := newSink(p, traffic).Create(t.Context(), event)
		require.NoError(t, err)
		assert.Equal(t, []string{"a"}, p.names())
	})
}

func TestNoMoreEventsAreHeldThanMemoryIsMeantFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic, p := NewTraffic(), &paper{}
		traffic.begin()
		s := newSink(p, traffic)
		names := []string{"whose turn it is"}
		for i := range maxHeld {
			names = append(names, fmt.Sprint(i))
		}
		record(t.Context(), t, s, scheduled, names...)
		require.Empty(t, p.names())
		record(t.Context(), t, s, scheduled, "one more")
		assert.Equal(t, []string{"one more"}, p.names())
		traffic.end()
		assert.Len(t, p.names(), maxHeld+2)
	})
}

func TestWhatIsHeldTakesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := NewTraffic()
		traffic.begin()
		s := newSink(&paper{}, traffic)
		before := runtime.NumGoroutine()
		for i := range maxHeld {
			record(t.Context(), t, s, scheduled, fmt.Sprint(i))
		}
		assert.Less(t, runtime.NumGoroutine(), before+maxHeld/10)
	})
}

func TestAnEventThatCouldNotBeWrittenIsTriedAgain(t *testing.T) {
	refusal := apierrors.NewForbidden(eventsv1.Resource("events"), "b", errors.New("the namespace is being deleted"))
	synctest.Test(t, func(t *testing.T) {
		p := &paper{fails: []error{errors.New("connection refused"), errors.New("connection refused")}}
		record(t.Context(), t, newSink(p, NewTraffic()), scheduled, "a")
		require.Empty(t, p.names())
		time.Sleep(30 * time.Second)
		assert.Equal(t, []string{"a"}, p.names())

		p = &paper{fails: []error{refusal}}
		record(t.Context(), t, newSink(p, NewTraffic()), scheduled, "b", "c")
		time.Sleep(30 * time.Second)
		assert.Equal(t, []string{"c"}, p.names(), "what is refused would be refused again")
	})
}

func TestEventsDoNotWaitForThoseThatAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic, p := NewTraffic(), &paper{}
		for range 2 * inCalm {
			p.fails = append(p.fails, errors.New("connection refused"))
		}
		var names []string
		for i := range 3 * inCalm {
			names = append(names, fmt.Sprint(i))
		}
		s := newSink(p, traffic)
		record(t.Context(), t, s, scheduled, names...)
		assert.Equal(t, names[2*inCalm:], p.names())
		time.Sleep(13 * time.Second)
		assert.ElementsMatch(t, names, p.names())
	})
}

func TestWhatIsHeldEndsWithTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		traffic, p := NewTraffic(), &paper{}
		traffic.begin()
		record(ctx, t, newSink(p, traffic), scheduled, "a", "b", "c", "d")
		cancel()
		time.Sleep(2 * maxDelay)
		assert.Empty(t, p.names())
	})
}
