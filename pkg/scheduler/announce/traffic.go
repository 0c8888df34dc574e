package announce

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// calmAfter is how long a pause lasts before it is calm: longer than a pause between the pods that are under way together.
const calmAfter = 100 * time.Millisecond

// Traffic knows whether requests are under way. It is safe for concurrent use.
type Traffic struct {
	mu       sync.Mutex
	underWay int
	pause    chan struct{} // closed while nothing is under way
	calm     chan struct{} // closed while nothing has been under way for a while
	toCalm   *time.Timer   // nil before the first request
}

// NewTraffic makes a Traffic of no clients.
func NewTraffic() *Traffic {
	t := &Traffic{pause: make(chan struct{}), calm: make(chan struct{})}
	close(t.pause)
	close(t.calm)
	return t
}

// Count returns a configuration whose clients' requests belong to the traffic, from when they are sent to when they are answered.
// It is not for clients that watch.
func (t *Traffic) Count(config *rest.Config) *rest.Config {
	counted := rest.CopyConfig(config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counter{next, t} })
	return counted
}

// Pause is closed when nothing is under way.
func (t *Traffic) Pause() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pause
}

// Calm is closed when nothing has been under way for a while.
func (t *Traffic) Calm() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calm
}

func (t *Traffic) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.underWay++; t.underWay > 1 {
		return
	}
	t.pause = make(chan struct{})
	if isClosed(t.calm) {
		t.calm = make(chan struct{})
	}
	if t.toCalm != nil {
		t.toCalm.Stop()
	}
}

func (t *Traffic) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.underWay--; t.underWay > 0 {
		return
	}
	close(t.pause)
	pause := t.pause
	t.toCalm = time.AfterFunc(calmAfter, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.pause == pause && isClosed(pause) { // a timer that had ended when it was stopped is of an earlier pause
			close(t.calm)
		}
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// counter is a transport whose requests are counted.
type counter struct {
	next    http.RoundTripper
	traffic *Traffic
}

// RoundTrip sends a request.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.traffic.begin()
	defer c.traffic.end()
	return c.next.RoundTrip(r)
}

// WrappedRoundTripper is the transport below.
func (c *counter) WrappedRoundTripper() http.RoundTripper { return c.next }
