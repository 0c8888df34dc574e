package worker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// newTestTurns makes Turns of two at once, and returns the keys that were enqueued since the last call.
func newTestTurns() (turns *Turns, enqueued func() []string) {
	var keys []string
	turns = NewTurns(2, TurnBounds{OtherNamespace: 250, SameNamespace: 1000}, func(key string) { keys = append(keys, key) })
	return turns, func() []string {
		defer func() { keys = nil }()
		return keys
	}
}

func TestATurnLastsWhileNoKeyWaits(t *testing.T) {
	turns, enqueued := newTestTurns()
	for range 100 {
		require.True(t, turns.Take("a/1", 100))
	}
	require.True(t, turns.Take("a/2", 100))
	assert.False(t, turns.Take("a/3", 100), "two have their turn")
	assert.True(t, turns.Waits("a/3"))
	assert.False(t, turns.Take("a/1", 100), "it has done enough for another key of its own namespace to go first")
	assert.Equal(t, []string{"a/3"}, enqueued())
	assert.False(t, turns.Waits("a/3"))
	assert.True(t, turns.Waits("a/1"))
	assert.True(t, turns.Take("a/3", 100))
	assert.True(t, turns.Take("a/2", 100))
}

func TestATurnEndsSoonForAnotherNamespace(t *testing.T) {
	turns, enqueued := newTestTurns()
	require.True(t, turns.Take("a/1", 100))
	require.True(t, turns.Take("a/2", 100))
	require.False(t, turns.Take("a/3", 100))
	require.False(t, turns.Take("b/1", 100))
	require.True(t, turns.Take("a/1", 100))
	require.True(t, turns.Take("a/1", 100))
	assert.False(t, turns.Take("a/1", 100))
	assert.Equal(t, []string{"a/3"}, enqueued(), "namespaces go one after the other")
	require.True(t, turns.Take("a/2", 200))
	assert.False(t, turns.Take("a/2", 100))
	assert.Equal(t, []string{"b/1"}, enqueued())
	turns.Leave("b/1")
	assert.Equal(t, []string{"a/1"}, enqueued(), "in the order in which they began to wait")
}

func TestATurnThatIsLeftGoesToTheNext(t *testing.T) {
	turns, enqueued := newTestTurns()
	require.True(t, turns.Take("a/1", 1))
	require.True(t, turns.Take("a/2", 1))
	for _, key := range []string{"a/3", "a/4", "a/3"} {
		require.False(t, turns.Take(key, 1))
	}
	turns.Leave("a/3") // it is gone, and waits no more
	turns.Leave("a/1")
	assert.Equal(t, []string{"a/4"}, enqueued())
	turns.Leave("a/4") // it has asked for nothing
	turns.Leave("a/2")
	turns.Leave("never seen")
	assert.Empty(t, enqueued())
	assert.True(t, turns.Take("a/5", 1))
	assert.True(t, turns.Take("a/6", 1))
	assert.False(t, turns.Take("a/7", 1))
}

// TestEveryKeyGetsItsTurn: no more than two keys have a turn, and none is free while keys wait. Once each gives its turn back, no key
// waits.
func TestEveryKeyGetsItsTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turns, enqueued := newTestTurns()
		var keys []string
		for _, namespace := range []string{"a", "b", "c"} {
			for i := range 3 {
				keys = append(keys, fmt.Sprint(namespace, "/", i))
			}
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			key := rapid.SampledFrom(keys).Draw(t, "key")
			if rapid.Bool().Draw(t, "leaves") {
				turns.Leave(key)
			} else {
				took := turns.Take(key, rapid.IntRange(1, 300).Draw(t, "n"))
				require.NotEqual(t, took, turns.Waits(key))
			}
			require.LessOrEqual(t, len(turns.done), 2)
			require.True(t, len(turns.done) == 2 || turns.line.Len() == 0, "a turn is free and a key waits")
			require.Len(t, turns.waits, turns.line.Len())
			for one := range turns.done {
				require.False(t, turns.waits[one])
			}
		}
		enqueued()
		waiting := turns.line.Len()
		for range keys {
			for one := range turns.done {
				turns.Leave(one)
				break
			}
		}
		require.Len(t, enqueued(), waiting)
		for range 2 {
			for one := range turns.done {
				turns.Leave(one)
			}
		}
		require.Empty(t, turns.done)
		require.Zero(t, turns.line.Len())
	})
}

// syncFunc is a Syncer that never fails.
type syncFunc func(key string)

func (f syncFunc) Sync(_ context.Context, key string) (time.Duration, error) {
	f(key)
	return 0, nil
}

// TestTurnsOfWorkersThatRun: keys of several namespaces do their work in turns, side by side. Some give up now and then, and all come to an
// end.
func TestTurnsOfWorkersThatRun(t *testing.T) {
	const keys = 60
	var (
		w       *Worker
		turns   *Turns
		left    = map[string]*int{} // a key is synced by one worker at a time
		at      atomic.Int32        // keys that are at work
		undone  atomic.Int32
		allDone = make(chan struct{})
	)
	w = New("test", syncFunc(func(key string) {
		switch n := left[key]; {
		case *n == 0:
		case *n%7 == 0:
			*n--
			turns.Leave(key) // as one that fails
			w.Enqueue(key)
		case turns.Take(key, 50):
			assert.LessOrEqual(t, at.Add(1), int32(2))
			*n--
			at.Add(-1)
			if *n > 0 {
				w.Enqueue(key)
				return
			}
			turns.Leave(key)
			if undone.Add(-1) == 0 {
				close(allDone)
			}
		}
	}))
	turns = NewTurns(2, TurnBounds{OtherNamespace: 250, SameNamespace: 1000}, w.Enqueue)
	undone.Store(keys)
	for i := range keys {
		n := 1 + i%40
		if n%7 == 0 {
			n++
		}
		left[fmt.Sprintf("n%d/%d", i%5, i)] = &n
	}
	for key := range left {
		w.Enqueue(key)
	}
	start(t, w, 8)
	select {
	case <-allDone:
	case <-time.After(mustertesting.Timeout):
		t.Fatalf("%d are not done", undone.Load())
	}
}
