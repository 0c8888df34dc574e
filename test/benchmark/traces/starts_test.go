package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
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

// starts are what the reservations of gangs said of their starts. Another gang may move a start to a later time only if the reservation does not hold against
// it.
type starts struct {
	jobs    []Job
	cluster Cluster
	queues  []string
	last    map[state.Key]standing
	started sets.Set[state.Key]
	moved   []string
	judged  map[bool]int // by standing.wide
}

// standing is a reservation at one time.
type standing struct {
	start time.Time
	// wide: it holds against all queues.
	wide bool
	// owed: with the gang, its queue is within its share. So no queue may take the room by its own share.
	owed bool
}

func newStarts(cluster Cluster, jobs []Job) *starts {
	queues := sets.New[string]()
	for _, job := range jobs {
		queues.Insert(queueOf(job))
	}
	return &starts{jobs: jobs, cluster: cluster, queues: sets.List(queues), last: map[state.Key]standing{}, started: sets.New[state.Key](), judged: map[bool]int{}}
}

// jobOf is the job of a gang.
func (s *starts) jobOf(key state.Key) Job {
	i, err := strconv.Atoi(strings.TrimPrefix(key.Name, "job-"))
	if err != nil {
		panic(err)
	}
	return s.jobs[i]
}

// look compares each reservation with that of a second before. Gangs with one before them are left out: that may move it.
func (s *starts) look(of *simulation.Scheduler) {
	of.Tracker.Lock()
	defer of.Tracker.Unlock()
	used, others := map[string]int{}, sets.New[string]() // queues of which gangs have started since
	started := sets.New[state.Key]()
	for key, g := range of.Tracker.Gangs {
		if !g.Started() {
			continue
		}
		started.Insert(key)
		queue := queueOf(s.jobOf(key))
		used[queue] += s.jobOf(key).Size()
		if !s.started.Has(key) {
			others.Insert(queue)
		}
	}
	now := map[state.Key]standing{}
	book := of.Tracker.WaitList.Book
	for _, queue := range append([]string{""}, s.queues...) {
		for _, n := range book.NodesAgainst(queue) {
			if n.Start.IsZero() || isAnyBefore(of, n.Key) {
				continue
			}
			job, is := s.jobOf(n.Key), now[n.Key]
			now[n.Key] = standing{
				start: n.Start, wide: is.wide || queue == "",
				owed: (used[queueOf(job)]+job.Size())*len(s.queues) <= s.cluster.Capacity(),
			}
		}
	}
	for key, was := range s.last {
		if _, known := now[key]; !known && was.wide && was.owed { // it comes again after a restart
			now[key] = was
		}
	}
	for key, is := range now {
		was, known := s.last[key]
		if !known || !was.wide || !is.wide || !was.owed || !is.owed {
			others := others.Clone().Delete(queueOf(s.jobOf(key)))
			if !known || others.Len() > 0 {
				continue
			}
		}
		s.judged[is.wide]++
		if is.start.After(was.start) {
			s.moved = append(s.moved, fmt.Sprintf("%s: from %s to %s at %s, %+v, %+v", key.Name, was.start, is.start, time.Now(), was, is))
		}
	}
	s.last, s.started = now, started
}

// isAnyBefore says whether a gang waits that was submitted before. Names are in the order of submission.
func isAnyBefore(of *simulation.Scheduler, key state.Key) bool {
	for other, g := range of.Tracker.Gangs {
		if other.Name < key.Name && !g.Started() {
			return true
		}
	}
	return false
}

// TestNoGangThatIsLetPastDelaysAnother runs random jobs of up to three queues with true estimates. The start of a reservation moves to a later time only by
// gangs against which it does not hold, though the scheduler is restarted. All jobs start in the end. -rapid.checks=10000 runs more of them.
func TestNoGangThatIsLetPastDelaysAnother(t *testing.T) {
	judged := map[bool]int{}
	mustertesting.Histories(t, 100, func(rt *rapid.T) {
		var jobs []Job
		submit, queues := time.Duration(0), rapid.IntRange(1, 3).Draw(rt, "queues")
		for range rapid.IntRange(5, 25).Draw(rt, "jobs") {
			submit += time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "gap")) * time.Millisecond
			jobs = append(jobs, Job{
				Submit: submit, Run: time.Duration(rapid.IntRange(1, 120).Draw(rt, "run")) * time.Second,
				Members: rapid.IntRange(1, 6).Draw(rt, "members"), Each: rapid.IntRange(1, 4).Draw(rt, "each"),
				Queue: fmt.Sprint("queue-", rapid.IntRange(1, queues).Draw(rt, "queue")),
			})
		}
		restartAt := time.Duration(rapid.IntRange(20, 300).Draw(rt, "restart")) * time.Second
		truth := Rule{Name: "truth", Estimate: func(j Job) time.Duration { return j.Run }}
		cluster := Cluster{Nodes: 6, Each: 4}
		s := newStarts(cluster, jobs)
		synctest.Test(t, func(*testing.T) {
			began, restarted := time.Now(), false
			_, err := replayInBubble(cluster, jobs, truth, func(of *simulation.Scheduler) bool {
				s.look(of)
				restart := !restarted && time.Since(began) >= restartAt
				restarted = restarted || restart
				return restart
			})
			assert.NoError(rt, err)
		})
		judged[true] += s.judged[true]
		judged[false] += s.judged[false]
		assert.Empty(rt, s.moved)
	})
	assert.Positive(t, judged[true])
	assert.Positive(t, judged[false])
	t.Log("reservations that were judged, by whether they hold against all queues:", judged)
}
