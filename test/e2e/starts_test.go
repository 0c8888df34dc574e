package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/text"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestEightNodesAGangAndAStreamOfSmallJobs is the story of design/time.md, with seconds for tens of them. Eight Jobs of one node end one after the
// other. A gang waits for all eight nodes, and small Jobs come in a stream. The gang says when it starts. Small Jobs run in the holes before it. They
// do not hold it up: many that came after it start after it.
func TestEightNodesAGangAndAStreamOfSmallJobs(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	const nodes, smalls, step, spare = 8, 40, 3 * time.Second, 10 * time.Second
	s.AddNodes(nodes, "cpu", "1")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace)) // the first that waits of each queue has a reservation
	job := func(name string, pods int32, runs time.Duration) *mustertesting.JobWrapper {
		return mustertesting.MakeJob(name).Queue(s.Namespace).MinAvailable(pods).RunningEstimate(runs + spare).
			Task(mustertesting.MakeTask("main", pods).Requests("cpu", "1").ExitAfter(runs, 0))
	}
	for i := range nodes {
		s.CreateJob(job(fmt.Sprint("long-", i), 1, time.Duration(i+1)*step))
	}
	s.Pods(nodes, "the nodes are full", s.In(harness.Bound))
	wide := s.CreateJob(job("wide", nodes, time.Second))
	s.Pods(nodes, "the gang waits", s.In(harness.Of("wide"), harness.Unbound))
	for i := range smalls {
		s.CreateJob(job(fmt.Sprint("small-", i), 1, 4*time.Second))
	}

	s.Soon("the gang says when it starts", func() bool { return !firstExpected(s, "wide").ExpectedStart.IsZero() }, func() any { return s.Log.Job(wide) })
	if now := s.Log.Job(wide); len(s.Log.Pods(s.In(harness.Of("wide"), harness.Bound))) == 0 {
		assert.Contains(t, now.Message, text.StartsAbout)
	}
	s.Pods(nodes, "the gang starts", s.In(harness.Of("wide"), harness.Bound))
	s.WholeGangs(s.Namespace, window)

	first := s.Log.Pods(s.In(harness.Of("wide")))[0].Bound
	isSmall := func(p watchlog.Pod) bool { return strings.HasPrefix(p.Job, "small-") }
	before := s.Log.Pods(s.In(isSmall, harness.Bound, func(p watchlog.Pod) bool { return p.Bound.Before(first) }))
	assert.NotEmpty(t, before, "small Jobs run in the holes")
	assert.Less(t, len(before), smalls, "they do not hold the gang up")
	said := firstExpected(s, "wide")
	assert.Less(t, said.Time, first, "it says so while it waits")
	t.Logf("%d of %d small Jobs started before the gang; it was expected %s after it came, and started %s after that",
		len(before), smalls, said.ExpectedStart.Sub(s.Log.JobStates(wide)[0].Time).Round(time.Second), first.Sub(said.ExpectedStart).Round(time.Second))
	s.Soon("the gang has no expected start any more", func() bool { return s.Log.Job(wide).ExpectedStart.IsZero() }, func() any { return s.Log.Job(wide) })
}

// firstExpected is the first state of a Job with an expected start; zero for none.
func firstExpected(s *harness.Story, name string) watchlog.JobState {
	for _, state := range s.Log.JobStates(s.Name(name)) {
		if !state.ExpectedStart.IsZero() {
			return state
		}
	}
	return watchlog.JobState{}
}
