package gangs_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/scheduler/gangs"
)

// TestPodsAreTriedWhenEverythingHasBeenRead: or when it is clear that it will not be, or not for a long time.
func TestPodsAreTriedWhenEverythingHasBeenRead(t *testing.T) {
	for name, end := range map[string]func(*gangs.Tracker, *clocktesting.FakeClock){
		"read":         func(tr *gangs.Tracker, _ *clocktesting.FakeClock) { tr.Feed.Open() },
		"missing CRDs": func(_ *gangs.Tracker, clock *clocktesting.FakeClock) { clock.Step(gangs.ReadTimeout) },
		"the end of the program": func(tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			tr.Feed.Run(ctx, struct{ fwk.Handle }{}, []cache.InformerSynced{func() bool { return false }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
			tr := gangs.New(clock)
			tr.Feed.Started = true
			done := make(chan struct{})
			go func() {
				defer close(done)
				tr.Feed.AwaitRead(context.Background())
			}()
			isDone := func() bool {
				select {
				case <-done:
					return true
				default:
					return false
				}
			}
			assert.False(t, isDone())
			require.Eventually(t, func() bool {
				end(tr, clock)
				return isDone()
			}, 10*time.Second, time.Millisecond)
			tr.Feed.AwaitRead(context.Background()) // and not again
		})
	}
}

func TestACycleThatEndsWaitsNoLonger(*testing.T) {
	tr := gangs.New(clocktesting.NewFakeClock(time.Unix(1000, 0)))
	tr.Feed.Started = true
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	tr.Feed.AwaitRead(ctx)
}

func TestNoPodWaitsForATrackerThatReadsNothing(*testing.T) {
	gangs.New(clocktesting.NewFakeClock(time.Unix(1000, 0))).Feed.AwaitRead(context.Background())
}
