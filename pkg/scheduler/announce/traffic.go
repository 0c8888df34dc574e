package announce

import (
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// Traffic knows whether requests are under way. It is safe for concurrent use.
type Traffic struct {
	mu       sync.Mutex
	underWay int
	pause    chan struct{} // closed while nothing is under way
}

// NewTraffic makes a Traffic of no clients.
func NewTraffic() *Traffic {
	t := &Traffic{pause: make(chan struct{})}
	close(t.pause)
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

func (t *Traffic) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.underWay++; t.underWay == 1 {
		t.pause = make(chan struct{})
	}
}

func (t *Traffic) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.underWay--; t.underWay == 0 {
		close(t.pause)
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
