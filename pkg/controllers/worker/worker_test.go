package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	testingclock "k8s.io/utils/clock/testing"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// recorder is a Syncer that tells which keys it was called with and answers what the test wants.
type recorder struct {
	calls  chan string
	answer func(call int, key string) (time.Duration, error)

	mu sync.Mutex
	n  int
}

func newRecorder(answer func(call int, key string) (time.Duration, error)) *recorder {
	return &recorder{calls: make(chan string, 100), answer: answer}
}

func (r *recorder) Sync(_ context.Context, key string) (time.Duration, error) {
	r.mu.Lock()
	r.n++
	call := r.n
	r.mu.Unlock()
	r.calls <- key
	return r.answer(call, key)
}

func (r *recorder) expect(t *testing.T, key string) {
	t.Helper()
	select {
	case got := <-r.calls:
		require.Equal(t, key, got)
	case <-time.After(mustertesting.Timeout):
		t.Fatalf("no sync of %q", key)
	}
}

func start(t *testing.T, w *Worker, workers int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, workers)
	}()
	stop = func() {
		cancel()
		select {
		case <-done:
		case <-time.After(mustertesting.Timeout):
			t.Error("the worker did not stop")
		}
	}
	t.Cleanup(stop)
	return stop
}

func nothing(int, string) (time.Duration, error) { return 0, nil }

func TestKeysThatWaitAreSyncedOnce(t *testing.T) {
	r := newRecorder(nothing)
	w := New("test", r)
	for range 5 {
		w.Enqueue("a")
	}
	w.Enqueue("b")
	stop := start(t, w, 1)
	r.expect(t, "a")
	r.expect(t, "b")
	stop()
	assert.Empty(t, r.calls)
}

// TestKeysThatNoObjectCanHaveAreDropped: a pod's annotation may say that its PodGroup is called "../other/name".
func TestKeysThatNoObjectCanHaveAreDropped(t *testing.T) {
	r := newRecorder(nothing)
	w := New("test", r)
	w.Enqueue("namespace/../other/name")
	w.EnqueueAfter("namespace/a/b", time.Nanosecond)
	w.Enqueue("namespace/name")
	w.EnqueueAfter("namespace/later", time.Nanosecond)
	stop := start(t, w, 1)
	r.expect(t, "namespace/name")
	r.expect(t, "namespace/later")
	stop()
	assert.Empty(t, r.calls)
}

// TestNamespacesTakeTurns: a key waits for at most one of each other namespace, however many keys they have.
func TestNamespacesTakeTurns(t *testing.T) {
	r := newRecorder(nothing)
	w := New("test", r)
	for _, key := range []string{"busy/1", "busy/2", "busy/3", "busy/4", "queue", "other/1", "other/2", "third/1"} {
		w.Enqueue(key)
	}
	start(t, w, 1)
	for _, key := range []string{"busy/1", "queue", "other/1", "third/1", "busy/2", "other/2", "busy/3", "busy/4"} {
		r.expect(t, key)
	}
}

// TestAKeyThatComesBackLetsOthersGo: work that is done in parts is shared out among namespaces.
func TestAKeyThatComesBackLetsOthersGo(t *testing.T) {
	var w *Worker
	r := newRecorder(func(_ int, key string) (time.Duration, error) {
		if key == "busy/1" {
			w.Enqueue(key)
		}
		return 0, nil
	})
	w = New("test", r)
	w.Enqueue("busy/1")
	w.Enqueue("busy/2")
	require.True(t, w.syncNext(t.Context()))
	w.Enqueue("other/1")
	for range 3 {
		require.True(t, w.syncNext(t.Context()))
	}
	for _, key := range []string{"busy/1", "busy/2", "other/1", "busy/1"} {
		r.expect(t, key)
	}
}

// TestFailuresBackOff: a key that fails each time is tried more and more seldom. The log has it as an error from the tenth time on. A start, or
// another writer that is faster, is no error.
func TestFailuresBackOff(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "queues"}, "q", errors.New("the object has been modified"))
	r := newRecorder(func(int, string) (time.Duration, error) { return 0, fmt.Errorf("writing: %w", conflict) })
	w := newWithClock("test", r, testingclock.NewFakeClock(time.Now()))
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	for range 12 {
		w.Enqueue("a")
		require.True(t, w.syncNext(klog.NewContext(t.Context(), logger)))
	}
	assert.Equal(t, 12, w.queue.NumRequeues("a"), "each time the pause is twice as long")
	assert.Zero(t, w.queue.Len())
	logged := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	var asErrors []string
	for line := range strings.SplitSeq(logged, "\n") {
		if _, failures, failed := strings.Cut(line, "failures="); failed && strings.HasPrefix(line, "ERROR") {
			asErrors = append(asErrors, strings.Fields(failures)[0])
		}
	}
	assert.Equal(t, []string{"10", "11", "12"}, asErrors, logged)
}

// TestAnErrorOfAUserIsNoErrorLine: it is retried as other errors are, and the object tells of it.
func TestAnErrorOfAUserIsNoErrorLine(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no PriorityClass with name typo was found"))
	r := newRecorder(func(int, string) (time.Duration, error) { return 0, fmt.Errorf("syncing: %w", &UsersError{refused}) })
	w := newWithClock("test", r, testingclock.NewFakeClock(time.Now()))
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
	for range 12 {
		w.Enqueue("a")
		require.True(t, w.syncNext(klog.NewContext(t.Context(), logger)))
	}
	assert.Equal(t, 12, w.queue.NumRequeues("a"))
	logged := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	assert.NotContains(t, logged, "ERROR")
	assert.Contains(t, logged, "no PriorityClass with name typo was found")
}

func TestAFailedSyncIsRetriedAndForgottenOnSuccess(t *testing.T) {
	r := newRecorder(func(call int, _ string) (time.Duration, error) {
		if call < 4 {
			return time.Hour, errors.New("not yet")
		}
		return 0, nil
	})
	w := New("test", r)
	w.Enqueue("a")
	start(t, w, 1)
	for range 4 {
		r.expect(t, "a")
	}
	assert.Eventually(t, func() bool { return w.queue.NumRequeues("a") == 0 }, mustertesting.Timeout, time.Millisecond)
}

func TestAfterAsksForAnotherSync(t *testing.T) {
	r := newRecorder(func(call int, _ string) (time.Duration, error) {
		if call == 1 {
			return time.Minute, nil
		}
		return 0, nil
	})
	c := testingclock.NewFakeClock(time.Now())
	w := newWithClock("test", r, c)
	w.Enqueue("a")
	start(t, w, 2)
	r.expect(t, "a")
	stepUntilCalled(t, c, r, time.Minute)
}

func TestEnqueueAfterWaits(t *testing.T) {
	r := newRecorder(nothing)
	c := testingclock.NewFakeClock(time.Now())
	w := newWithClock("test", r, c)
	w.EnqueueAfter("a", time.Hour)
	w.EnqueueAfter("a", time.Minute)
	start(t, w, 1)
	stepUntilCalled(t, c, r, time.Minute)
}

// stepUntilCalled moves the clock on by d as soon as the queue waits for it. It expects a sync by then and none before.
func stepUntilCalled(t *testing.T, c *testingclock.FakeClock, r *recorder, d time.Duration) {
	t.Helper()
	require.Empty(t, r.calls)
	deadline := time.Now().Add(10 * time.Second)
	c.Step(d - time.Second)
	require.Empty(t, r.calls)
	// The delaying queue takes requests over a channel: the clock may have to move after it has seen them.
	for time.Now().Before(deadline) {
		c.Step(time.Second)
		select {
		case got := <-r.calls:
			require.Equal(t, "a", got)
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatal("no sync after the time had passed")
}

func TestRunReturnsWhenSyncsUnderWayAreDone(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := newRecorder(func(int, string) (time.Duration, error) {
		close(entered)
		<-release
		return 0, nil
	})
	w := New("test", r)
	w.Enqueue("a")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, 3)
	}()
	<-entered
	cancel()
	select {
	case <-done:
		t.Fatal("Run returned while a sync was under way")
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	select {
	case <-done:
	case <-time.After(mustertesting.Timeout):
		t.Fatal("Run did not return")
	}
}

// TestKeysAreNotSyncedAfterTheStop: the keys left in the queue would only cost requests that fail.
func TestKeysAreNotSyncedAfterTheStop(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := newRecorder(func(call int, _ string) (time.Duration, error) {
		if call == 1 {
			close(entered)
			<-release
		}
		return 0, nil
	})
	w := New("test", r)
	for _, key := range []string{"a", "b", "c"} {
		w.Enqueue(key)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, 1)
	}()
	<-entered
	cancel()
	close(release)
	select {
	case <-done:
	case <-time.After(mustertesting.Timeout):
		t.Fatal("Run did not return")
	}
	r.expect(t, "a")
	assert.Empty(t, r.calls)
}
