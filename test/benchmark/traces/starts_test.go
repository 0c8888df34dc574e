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
	"github.com/muster-sched/muster/pkg/reservations"
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
	queues []string
	last   map[state.Key]time.Time
	moved  []string
	count  int
}

// betweenChoices is the pause between two choices of a start. A restart makes it less uncertain than that.
const betweenChoices = 5 * time.Second

// look notes the starts of the gangs that rank first in their queues. Only a gang before it could move one to a later time.
func (s *starts) look(of *simulation.Scheduler) {
	of.Tracker.Lock()
	defer of.Tracker.Unlock()
	for _, queue := range s.queues {
		for _, first := range of.Tracker.WaitList.Book.NodesAgainst(queue) {
			if first.Queue == queue {
				s.note(of, first)
			}
		}
	}
}

func (s *starts) note(of *simulation.Scheduler, first *reservations.Nodes[state.Key]) {
	if first.Start.IsZero() || isAnyBefore(of, first.Key, first.Queue) {
		return
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

// tooLate are the gangs that began much later than their first reservation said.
func (s *starts) tooLate(began time.Time, ran []Ran) (late []string) {
	for key, start := range s.last {
		var job int
		if _, err := fmt.Sscanf(key.Name, "job-%d", &job); err != nil {
			panic(err)
		}
		if really := began.Add(ran[job].Start); really.After(start.Add(2 * betweenChoices)) {
			late = append(late, fmt.Sprintf("%s: at %s in place of %s", key.Name, really, start))
		}
	}
	return late
}

// isAnyBefore says whether a gang of a queue waits that was submitted before, or has just begun. A start may have been chosen while it was placed. That
// start is chosen again within five seconds. Names are in the order of submission.
func isAnyBefore(of *simulation.Scheduler, key state.Key, queue string) bool {
	for other, g := range of.Tracker.Gangs {
		if other.Name < key.Name && g.PodGroup.Account == queue && (!g.Started() || time.Since(g.Began) < 2*betweenChoices) {
			return true
		}
	}
	return false
}

// TestNoGangThatIsLetPastDelaysAnother runs random jobs with true estimates. Each queue has nodes of its own, as a gang within
// its queue's share need not wait for others. The start of the first gang of each moves to a later time by betweenChoices at most. A
// restart of the scheduler changes nothing in that. All jobs start in the end.
func TestNoGangThatIsLetPastDelaysAnother(t *testing.T) {
	seen := 0
	mustertesting.HistoriesUntil(t, 60, func() bool { return seen > 0 }, func(rt *rapid.T) {
		cluster, s := Cluster{Nodes: 6, Each: 4}, &starts{queues: []string{"default"}, last: map[state.Key]time.Time{}}
		if n := rapid.IntRange(1, 3).Draw(rt, "queues"); n > 1 {
			cluster.Nodes, cluster.Quotas, s.queues = 4*n, map[string]int{}, nil
			for i := range n {
				s.queues = append(s.queues, fmt.Sprint("q", i))
				cluster.Quotas[s.queues[i]] = rapid.IntRange(6, 16).Draw(rt, "quota")
			}
		}
		var jobs []Job
		submit := time.Duration(0)
		for range rapid.IntRange(5, 15*len(s.queues)+10).Draw(rt, "jobs") {
			submit += time.Duration(rapid.IntRange(0, 20_000/len(s.queues)).Draw(rt, "gap")) * time.Millisecond
			job := Job{
				Submit: submit, Run: time.Duration(rapid.IntRange(1, 120).Draw(rt, "run")) * time.Second, Queue: rapid.SampledFrom(s.queues).Draw(rt, "queue"),
				Members: rapid.IntRange(1, 6).Draw(rt, "members"), Each: rapid.IntRange(1, 4).Draw(rt, "each"),
			}
			if quota := cluster.Quotas[job.Queue]; quota > 0 {
				job.Members = max(1, min(job.Members, quota/job.Each, 4))
			}
			jobs = append(jobs, job)
		}
		restartAt := time.Duration(rapid.IntRange(20, 300).Draw(rt, "restart")) * time.Second
		truth := Rule{Name: "truth", Estimate: func(j Job) time.Duration { return j.Run }}
		var late []string
		var err error
		synctest.Test(t, func(*testing.T) {
			began, restarted := time.Now(), false
			var ran []Ran
			ran, _, err = replayInBubble(cluster, jobs, truth, manner{look: func(of *simulation.Scheduler) bool {
				s.look(of)
				restart := !restarted && time.Since(began) >= restartAt
				restarted = restarted || restart
				return restart
			}})
			if err == nil {
				late = s.tooLate(began, ran)
			}
		})
		require.NoError(rt, err)
		assert.Empty(rt, late)
		seen += s.count
		assert.Empty(rt, s.moved)
	})
	assert.Positive(t, seen)
}
