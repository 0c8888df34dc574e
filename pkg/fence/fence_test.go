package fence

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	us, them = "us", "them"
	deadline = 10 * time.Second
	lease    = 15 * time.Second
)

// world is a fence with clocks that the test sets. Its API server keeps a lease and counts other requests.
type world struct {
	t      *testing.T
	fence  *Fence
	lock   resourcelock.Interface
	lease  *leaseStore
	now    moment
	client *http.Client
	url    string
	came   []string // method and path of each request that came whole
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, fence: New(deadline), now: moment{wall: time.Unix(1000, 0)}, lease: &leaseStore{}}
	w.fence.now = func() moment { return w.now }
	w.lock = w.fence.Lock(w.lease)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			w.came = append(w.came, r.Method+" "+r.URL.Path)
		}
	}))
	t.Cleanup(server.Close)
	w.client, w.url = &http.Client{Transport: w.fence.Wrap(http.DefaultTransport)}, server.URL
	return w
}

// pass lets time pass by both clocks.
func (w *world) pass(d time.Duration) {
	w.now.wall, w.now.running = w.now.wall.Add(d), w.now.running+d
}

func (w *world) write() error {
	return w.send(http.MethodPost, "/api/v1/pods", strings.NewReader("{}"))
}

func (w *world) send(method, path string, body io.Reader) error {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, body)
	require.NoError(w.t, err)
	response, err := w.client.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	return err
}

func record(holder string) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: int(lease / time.Second)}
}

func (w *world) renew() error { return w.lock.Update(w.t.Context(), record(us)) }

// leaseStore is a lock without an API server.
type leaseStore struct {
	record resourcelock.LeaderElectionRecord
	err    error
	before func() // called by each write
	events []string
}

func (l *leaseStore) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &l.record, nil, l.err
}

func (l *leaseStore) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

func (l *leaseStore) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.before != nil {
		l.before()
	}
	if l.err == nil {
		l.record = r
	}
	return l.err
}

func (l *leaseStore) RecordEvent(text string) { l.events = append(l.events, text) }
func (*leaseStore) Identity() string          { return us }
func (*leaseStore) Describe() string          { return "lease" }

func TestNothingIsWrittenBeforeTheLeaseIsHeld(t *testing.T) {
	w := newWorld(t)
	require.ErrorIs(t, w.write(), errNeverLed)
	w.lease.record = record(them)
	_, _, err := w.lock.Get(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, w.write(), errNeverLed, "a standby that sees another lead has lost nothing")
	require.NoError(t, w.renew())
	require.NoError(t, w.write())
	assert.Equal(t, []string{"POST /api/v1/pods"}, w.came)
}

func TestNothingIsWrittenWhenTheLastRenewalIsTooOld(t *testing.T) {
	for name, test := range map[string]struct {
		pass   func(w *world)
		passes bool
	}{
		"soon after":                          {func(w *world) { w.pass(deadline - time.Millisecond) }, true},
		"at the deadline":                     {func(w *world) { w.pass(deadline) }, false},
		"a process that was stopped":          {func(w *world) { w.pass(40 * time.Second) }, false},
		"a machine that was suspended":        {func(w *world) { w.now.wall = w.now.wall.Add(40 * time.Second) }, false},
		"a clock that was set back meanwhile": {func(w *world) { w.pass(40 * time.Second); w.now.wall = w.now.wall.Add(-time.Hour) }, false},
		"a clock that was set back only":      {func(w *world) { w.now.wall = w.now.wall.Add(-time.Hour) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			require.NoError(t, w.renew())
			test.pass(w)
			err := w.write()
			if test.passes {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "so another replica may lead")
			assert.Empty(t, w.came)
			require.NoError(t, w.renew(), "no other replica led meanwhile")
			require.NoError(t, w.write())
		})
	}
}

// Another replica counts from when it sees the renewal, so the age counts from before the request.
func TestTheAgeCountsFromBeforeTheRenewalWasSent(t *testing.T) {
	w := newWorld(t)
	w.lease.before = func() { w.pass(deadline) }
	require.NoError(t, w.renew())
	require.Error(t, w.write())
}

func TestAShortLeaseIsNoLongerThanItsSeconds(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: us, LeaseDurationSeconds: 3}))
	w.pass(3 * time.Second)
	require.Error(t, w.write())
}

func TestAFailedRenewalRenewsNothing(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.renew())
	w.pass(deadline / 2)
	w.lease.err = errors.New("no answer")
	require.Error(t, w.renew())
	require.NoError(t, w.write())
	w.pass(deadline / 2)
	require.Error(t, w.write())
}

// A lease that was lost does not come back. This process may have planned with what the next leader has changed.
func TestALostLeaseIsLostForGood(t *testing.T) {
	for name, lose := range map[string]func(w *world) error{
		"another holds it": func(w *world) error {
			w.lease.record = record(them)
			_, _, err := w.lock.Get(w.t.Context())
			return err
		},
		"another held it and gave it back": func(w *world) error { w.lease.record = record(""); _, _, err := w.lock.Get(w.t.Context()); return err },
		"it is given back":                 func(w *world) error { return w.lock.Update(w.t.Context(), record("")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			require.NoError(t, w.renew())
			require.NoError(t, lose(w))
			require.ErrorIs(t, w.write(), errLost)
			require.ErrorIs(t, w.renew(), errLost)
			require.ErrorIs(t, w.write(), errLost)
			w.lock.RecordEvent("stopped leading")
			assert.Empty(t, w.lease.events)
		})
	}
	t.Run("it was deleted", func(t *testing.T) {
		w := newWorld(t)
		require.NoError(t, w.renew())
		require.ErrorIs(t, w.lock.Create(t.Context(), record(us)), errLost)
	})
}

func TestReadsAndElectionsAlwaysPass(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.send(http.MethodGet, "/api/v1/pods", nil))
	require.NoError(t, w.send(http.MethodHead, "/api/v1/pods", nil))
	require.NoError(t, w.send(http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", strings.NewReader("{}")))
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		require.ErrorIs(t, w.send(method, "/api/v1/pods", nil), errNeverLed, method)
	}
	assert.Len(t, w.came, 3)
}

// slowBody is a request that waits for its turn on a connection: its body is read late.
type slowBody struct {
	io.Reader
	wait func()
}

func (s slowBody) Read(p []byte) (int, error) {
	s.wait()
	return s.Reader.Read(p)
}

// A process is stopped between the check of a request and the moment in which its body is sent.
func TestABodyIsCheckedWhenItIsSent(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.renew())
	stopped := slowBody{strings.NewReader("{}"), func() { w.pass(40 * time.Second) }}
	require.ErrorContains(t, w.send(http.MethodPost, "/api/v1/pods", io.MultiReader(strings.NewReader("{"), stopped)), "so another replica may lead")
	assert.Empty(t, w.came)
}

// A connection that breaks has the body sent anew.
func TestABodyThatIsSentAnewIsChecked(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.renew())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, strings.NewReader("{}"))
	require.NoError(t, err)
	guarded := (&fencedTransport{fence: w.fence}).guarded(request)
	again, err := guarded.GetBody()
	require.NoError(t, err)
	w.pass(deadline)
	_, err = io.ReadAll(again)
	require.Error(t, err)
}
