package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/simulation"
)

// TestLiarsDoNotStarveAGang replays the eight nodes. The jobs of the stream say that they run for ten seconds, and run for a minute. They are let past the
// gang at first. Once its start has passed for as long as it may be bypassed, it gets all room that comes free.
func TestLiarsDoNotStarveAGang(t *testing.T) {
	jobs, gang := EightNodes(), 8
	for i := range jobs[gang+1:] {
		jobs[gang+1+i].Run = time.Minute
	}
	lies := Rule{
		Name:      "lies",
		Estimate:  func(j Job) time.Duration { return min(j.Run, 10*time.Second) },
		Arguments: func(args *config.CoschedulingArgs) { args.MaxOvertakeTime.Duration = time.Minute },
	}
	ran, err := Replay(t, workloads[0].cluster, jobs, lies)
	require.NoError(t, err)
	assert.LessOrEqual(t, ran[gang].Start, 330*time.Second, "a minute after its start, and the longest of the others runs for another one")
}

// starts are what the reservations of gangs said of their starts.
type starts struct {
	last  map[state.Key]time.Time
	moved []string
	count int
}

// betweenChoices is the pause between two choices of a start. A restart makes it less uncertain than that.
const betweenChoices = 5 * time.Second

// look notes the start of the gang that ranks first of all that wait. Only a gang before it could move it to a later time.
func (s *starts) look(of *simulation.Scheduler) {
	of.Tracker.Lock()
	defer of.Tracker.Unlock()
	book := of.Tracker.WaitList.Book
	for _, first := range book.NodesAgainst("default") {
		if first.Start.IsZero() || isAnyBefore(of, first.Key) {
			continue
		}
		s.count++
		last, known := s.last[first.Key]
		switch {
		case !known || first.Start.Before(last):
			s.last[first.Key] = first.Start
		case first.Start.After(last.Add(betweenChoices)):
			s.moved = append(s.moved, fmt.Sprintf("%s: from %s to %s at %s", first.Key.Name, last, first.Start, time.Now()))
		}
	}
}

// isAnyBefore says whether a gang waits that was submitted before, or has just begun. A start may have been chosen while it was placed. That
// start is chosen again within five seconds. Names are in the order of submission.
func isAnyBefore(of *simulation.Scheduler, key state.Key) bool {
	for other, g := range of.Tracker.Gangs {
		if other.Name < key.Name && (!g.Started() || time.Since(g.Began) < 2*betweenChoices) {
			return true
		}
	}
	return false
}

// TestNoGangThatIsLetPastDelaysAnother runs random jobs with true estimates, of one queue: another that is within its share need not wait. The start of
// the first gang moves to a later time by betweenChoices at most. A restart of the scheduler changes nothing in that. All jobs start in the end.
func TestNoGangThatIsLetPastDelaysAnother(t *testing.T) {
	seen := 0
	mustertesting.HistoriesUntil(t, 100, func() bool { return seen > 0 }, func(rt *rapid.T) {
		var jobs []Job
		submit := time.Duration(0)
		for range rapid.IntRange(5, 25).Draw(rt, "jobs") {
			submit += time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "gap")) * time.Millisecond
			jobs = append(jobs, Job{
				Submit: submit, Run: time.Duration(rapid.IntRange(1, 120).Draw(rt, "run")) * time.Second,
				Members: rapid.IntRange(1, 6).Draw(rt, "members"), Each: rapid.IntRange(1, 4).Draw(rt, "each"),
			})
		}
		restartAt := time.Duration(rapid.IntRange(20, 300).Draw(rt, "restart")) * time.Second
		truth := Rule{Name: "truth", Estimate: func(j Job) time.Duration { return j.Run }}
		s := &starts{last: map[state.Key]time.Time{}}
		synctest.Test(t, func(*testing.T) {
			began, restarted := time.Now(), false
			_, _, err := replayInBubble(Cluster{Nodes: 6, Each: 4}, jobs, truth, manner{look: func(of *simulation.Scheduler) bool {
				s.look(of)
				restart := !restarted && time.Since(began) >= restartAt
				restarted = restarted || restart
				return restart
			}})
			assert.NoError(rt, err)
		})
		seen += s.count
		assert.Empty(rt, s.moved)
	})
	assert.Positive(t, seen)
}
