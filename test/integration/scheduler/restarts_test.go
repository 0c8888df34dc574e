package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// restarts kills the scheduler and starts it again.
type restarts struct {
	turn sync.Mutex // one restart at a time

	mu    sync.Mutex
	since time.Time // when the scheduler that runs was started; zero while none runs
	count int
}

// runsSince says since when a scheduler runs without interruption; the zero time if none runs.
func (r *restarts) runsSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

func (r *restarts) set(since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = since
	if since.IsZero() {
		r.count++
	}
}

// restart kills the scheduler as a crash does, and returns when another one is ready.
func (r *restarts) restart(ctx context.Context) error { return r.restartAfter(ctx, func() {}) }

// restartAfter is restart. Something happens while no scheduler runs.
func (r *restarts) restartAfter(ctx context.Context, meanwhile func()) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.set(time.Time{})
	if err := cluster.Kill(localcluster.MusterScheduler, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the scheduler: %w", err)
	}
	if err := cluster.AwaitEnd(ctx, localcluster.MusterScheduler); err != nil {
		return fmt.Errorf("waiting for the scheduler's end: %w", err)
	}
	meanwhile()
	if err := cluster.Start(ctx, localcluster.MusterScheduler); err != nil {
		return fmt.Errorf("starting the scheduler: %w", err)
	}
	r.set(time.Now())
	return nil
}

// restartAtRandom restarts the scheduler some times at random moments, and closes the channel that it returns after the last time.
func (r *restarts) restartAtRandom(ctx context.Context, t *testing.T, random *rand.Rand) <-chan struct{} {
	over, times := make(chan struct{}), 2+random.IntN(4)
	go func() {
		defer close(over)
		for range times {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(random.IntN(2500)) * time.Millisecond):
			}
			if err := r.restart(ctx); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	return over
}

// TestRandomLoadsSurviveRestarts: the loads of TestRandomLoadsComeToRest come to rest, too. The scheduler is killed at random moments while pods
// are evicted. The scheduler charges then what is bound, and so does a fresh one, which evicts nothing.
func TestRandomLoadsSurviveRestarts(t *testing.T) {
	r := &restarts{}
	r.set(time.Now())
	const together = 2
	for i, seeds := range batches(historySeeds(t, 6), together) {
		t.Run(fmt.Sprint("b", i), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			t.Cleanup(cancel) // after the last load
			over := r.restartAtRandom(ctx, t, rand.New(rand.NewPCG(seeds[0], 1)))
			for j, seed := range seeds {
				t.Run(fmt.Sprint("load", j), func(t *testing.T) {
					loads := newRandomLoads(t, seed, r)
					loads.slow = true
					loads.draw()
					loads.awaitRest(over)
					loads.checkRest()
					before := loads.state
					require.NoError(t, r.restart(ctx))
					loads.awaitRest(over)
					loads.checkRest()
					assert.Equal(t, before, loads.state, "a restart at rest changes nothing")
					if told := loads.evictedInVain(); len(told) > 0 {
						t.Log("a scheduler that is killed forgets which room it has made for a gang:", told)
					}
				})
			}
		})
	}
	t.Logf("the scheduler was restarted %d times", r.count)
	w := newQuietWorld(t, 1)
	w.startGang("after", 1, 1)
}

// batches are parts of a list with a number of elements each.
func batches(seeds []uint64, size int) (parts [][]uint64) {
	for len(seeds) > size {
		parts, seeds = append(parts, seeds[:size]), seeds[size:]
	}
	return append(parts, seeds)
}

// checkLedger checks that the scheduler charges what is bound, no more and no less, and assumes nothing. On a busy machine a pod may be bound
// after the loads seemed to be at rest.
func (r *randomLoads) checkLedger() {
	r.t.Helper()
	assert.EventuallyWithT(r.t, func(c *assert.CollectT) {
		page, err := cluster.Get(r.ctx, localcluster.MusterScheduler, "/metrics")
		require.NoError(c, err)
		pods, err := kube.CoreV1().Pods(r.namespace).List(r.ctx, metav1.ListOptions{})
		require.NoError(c, err)
		used := r.usedBy(pods.Items)
		for queue := range r.capability {
			assert.Equal(c, used[queue], gauge(c, page, "muster_queue_used", r.namespace+"-"+queue), "charged to %s", queue)
			assert.Zero(c, gauge(c, page, "muster_queue_assumed", r.namespace+"-"+queue), "assumed in %s", queue)
		}
	}, soon, 100*time.Millisecond)
}

// gauge reads how many CPUs a metric has for a queue, 0 if there are none.
func gauge(t require.TestingT, page []byte, metric, queue string) int64 {
	for line := range strings.Lines(string(page)) {
		value, found := strings.CutPrefix(line, fmt.Sprintf(`%s{queue="%s",resource="cpu"} `, metric, queue))
		if !found {
			continue
		}
		cpus, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		require.NoError(t, err)
		return int64(cpus)
	}
	return 0
}
