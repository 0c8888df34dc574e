package gangs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestSearchesTakeAFifthOfTheTimeAtMost: three hundred pods of other owners come at once. Each may have victims searched for it, and each search
// takes 28 ms. All are searched for in the end.
func TestSearchesTakeAFifthOfTheTimeAtMost(t *testing.T) {
	const took = 28 * time.Millisecond
	tr, clock := newTestTracker(t)
	tr.Victims.EvictPods()
	tr.SetQueue(mustertesting.MakeQueue("q").Obj())
	begun, spent, searched := clock.Now(), time.Duration(0), sets.New[types.UID]()
	try := func(pod *corev1.Pod) {
		search, _ := tr.Victims.SearchFor(pod)
		if search == nil {
			clock.Step(time.Millisecond) // a cycle without a search
			return
		}
		tr.Victims.Rules(&search.Claimant, resources.List{corev1.ResourceCPU: 4000}, nil)
		clock.Step(took)
		tr.Victims.Searched(took, false)
		_, ok := tr.Victims.CommitSeat(search, nil)
		require.False(t, ok)
		searched.Insert(pod.UID)
		spent += took
		assert.LessOrEqual(t, spent, evict.SearchBurst+took+clock.Since(begun)/evict.SearchPart)
	}
	for i := range 300 {
		pod := singleNamed(fmt.Sprint("p", i), "q").Priority(int32(i)).Obj() // none is like another
		tr.SetPod(pod)
		try(pod)
	}
	assert.Less(t, searched.Len(), 60, "the others wait")
	assert.Equal(t, 1, tr.Quota.Ledger.SharesComputed(), "nothing has changed meanwhile")
	ticks := 0
	for ; searched.Len() < 300 && ticks < 300; ticks++ {
		actions, _ := dispatch.NewDispatcher(tr).Tick()
		assert.Empty(t, actions.Activate)
		tried := dispatch.NewDispatcher(tr).NextActions(state.ReadyKey).Activate
		assert.LessOrEqual(t, len(tried), evict.AskedAtOnce)
		for _, pod := range tried {
			try(pod)
		}
		clock.Step(time.Second)
	}
	assert.Equal(t, 300, searched.Len())
	assert.LessOrEqual(t, tr.Quota.Ledger.SharesComputed(), 1+2*ticks, "once with the demand of such a pod, and once without, in each tick")
}

func TestShortSearchesAreNotBounded(t *testing.T) {
	var b evict.SearchBudget
	now := time.Unix(1000, 0)
	for range 1000 {
		assert.Zero(t, b.RestIn(now))
		b.Spend(time.Millisecond, now)
		now = now.Add(10 * time.Millisecond)
	}
	b.Spend(9*time.Second, now)
	assert.InDelta(t, float64(5*(9*time.Second-evict.SearchBurst)), float64(b.RestIn(now)), float64(100*time.Millisecond))
	assert.Zero(t, b.RestIn(now.Add(time.Minute)))
}
