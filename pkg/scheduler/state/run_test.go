package state

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestPodsAreTriedWhenEverythingHasBeenRead: or when it is clear that it will not be, or not for a long time.
func TestPodsAreTriedWhenEverythingHasBeenRead(t *testing.T) {
	for name, end := range map[string]func(*Store, *clocktesting.FakeClock){
		"read":         func(s *Store, _ *clocktesting.FakeClock) { s.Open() },
		"missing CRDs": func(_ *Store, clock *clocktesting.FakeClock) { clock.Step(readWithin) },
		"the end of the program": func(s *Store, _ *clocktesting.FakeClock) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			s.run(ctx, []cache.InformerSynced{func() bool { return false }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
			s := New(clock)
			s.handle = struct{ fwk.Handle }{}
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.AwaitRead(klog.Background())
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
				end(s, clock)
				return isDone()
			}, 10*time.Second, time.Millisecond)
		})
	}
}

func TestNobodyWaitsForAStoreThatReadsNothing(*testing.T) {
	New(clocktesting.NewFakeClock(time.Unix(1000, 0))).AwaitRead(klog.Background())
}
