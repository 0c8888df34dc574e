package timeline_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/timeline"
)

// TestAQuestionChangesNothing: others are planned as without it. Its answer is the plan of the same gang, if it waits there.
func TestAQuestionChangesNothing(t *testing.T) {
	mustertesting.Histories(t, 2000, func(t *rapid.T) {
		c := drawCluster(t)
		asked := clone(c)
		var old []int // of each gang of asked, the index in c; -1 for a question
		for i := range c.Gangs {
			old = append(old, i)
		}
		for range rapid.IntRange(1, 3).Draw(t, "questions") {
			question := c.Gangs[rapid.IntRange(0, len(c.Gangs)-1).Draw(t, "like")]
			question.Asks, question.Reserved = true, nil
			at := rapid.IntRange(0, len(asked.Gangs)).Draw(t, "at")
			asked.Gangs, old = slices.Insert(asked.Gangs, at, question), slices.Insert(old, at, -1)
		}
		without, with := timeline.Plan(c), timeline.Plan(asked)
		for i, start := range with {
			if old[i] < 0 {
				expectAnswer(t, asked, i, start)
				continue
			}
			for j, gang := range start.Gangs {
				start.Gangs[j] = old[gang]
			}
			if diff := cmp.Diff(without[old[i]], start); diff != "" {
				t.Fatalf("gang %d has another plan beside questions: %s", old[i], diff)
			}
		}
	})
}

// expectAnswer expects that a question has the plan of a gang that waits in its place.
func expectAnswer(t *rapid.T, asked *timeline.Cluster, i int, answer timeline.Start) {
	created := clone(asked)
	created.Gangs[i].Asks = false
	answer.Delays = nil
	if diff := cmp.Diff(timeline.Plan(created)[i], answer); diff != "" {
		t.Fatalf("question %d is answered with another plan than the gang gets: %s", i, diff)
	}
}
