package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

const (
	// gangs is how many gangs the test has.
	gangs = 100
	// gangNodes of 8 CPUs hold a small part of them at a time: they ask for 7 times as much.
	gangNodes = 24
	// gangsTimeout is how long all gangs may take to finish.
	gangsTimeout = 4 * time.Minute
	// seedVariable is the environment variable that repeats a run.
	seedVariable = "MUSTER_E2E_SEED"
)

// TestRandomGangs is not parallel: it has the cluster for itself. The record of the watches shows that each incarnation of each
// gang was bound whole or not at all.
func TestRandomGangs(t *testing.T) {
	s := harness.New(t)
	s.AddNodes(gangNodes, "cpu", "8")
	random := seeded(t)
	all := &randomGangs{story: s, random: random}
	for i := range gangs {
		all.add(fmt.Sprintf("gang-%03d", i))
	}
	s.Within(gangsTimeout, "all gangs have finished", all.finished, all.unfinished)

	incarnations := s.WholeGangs(s.Namespace, window)
	for _, job := range all.jobs {
		assert.Empty(t, watchlog.StatusViolations(s.Log.JobStates(s.Name(job))), "states of %s", job)
	}
	report(t, incarnations)
}

// seeded is a source of random numbers whose seed is printed and can be given.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv(seedVariable); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err, seedVariable)
	}
	t.Logf("to repeat the same gangs: %s=%d", seedVariable, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// report prints what happened, so that a run that passes says something too.
func report(t *testing.T, incarnations []watchlog.Incarnation) {
	t.Helper()
	started, pods := 0, 0
	var slowest time.Duration
	for _, incarnation := range incarnations {
		if spread, bound := incarnation.Spread(); bound {
			started++
			slowest = max(slowest, spread)
		}
		pods += len(incarnation.Pods)
	}
	t.Logf("%d incarnations, %d of them started, %d pods; the slowest minimum took %s from its first bind to its last",
		len(incarnations), started, pods, slowest.Round(time.Millisecond))
}

// randomGangs makes random gangs and knows when they have finished.
type randomGangs struct {
	story  *harness.Story
	random *rand.Rand
	jobs   []string
	bare   []bareGang
}

// bareGang is a PodGroup with pods that have no controller.
type bareGang struct {
	name string
	pods int
}

// between is a random number from low to high, both included.
func (c *randomGangs) between(low, high int) int { return low + c.random.IntN(high-low+1) }

// chance is true in so many of a hundred cases.
func (c *randomGangs) chance(percent int) bool { return c.random.IntN(100) < percent }

func (c *randomGangs) add(name string) {
	switch {
	case c.chance(15):
		c.addBare(name)
	case c.chance(25):
		c.addFailing(name)
	default:
		c.addJob(name)
	}
}

// addJob adds a Job of one to three tasks whose pods succeed after 1 to 4 seconds. Some are elastic, some have
// minimums per task.
func (c *randomGangs) addJob(name string) {
	job := mustertesting.MakeJob(name)
	total := 0
	for i := range c.between(1, 3) {
		task := c.task(fmt.Sprintf("task-%d", i), c.between(1, 4), 0)
		total += int(task.Obj().Replicas)
		if c.chance(20) {
			task.MinAvailable(int32(c.between(0, int(task.Obj().Replicas))))
		}
		job.Task(task)
	}
	if c.chance(40) {
		job.MinAvailable(int32(c.between(1, total)))
	}
	c.jobs = append(c.jobs, name)
	c.story.CreateJob(job)
}

// addFailing adds a Job some of whose pods fail, which restarts it until it has run out of retries.
func (c *randomGangs) addFailing(name string) {
	event := busv1alpha1.PodFailedEvent
	if c.chance(50) {
		event = busv1alpha1.AnyEvent
	}
	job := mustertesting.MakeJob(name).MaxRetry(int32(c.between(1, 3))).
		Policy(event, busv1alpha1.RestartJobAction).
		Task(c.task("steady", c.between(1, 5), 0)).
		Task(c.task("flaky", c.between(1, 2), c.between(1, 200)))
	c.jobs = append(c.jobs, name)
	c.story.CreateJob(job)
}

// addBare adds a PodGroup and its pods, some of them more than its minimum.
func (c *randomGangs) addBare(name string) {
	gang := bareGang{name: name, pods: c.between(2, 6)}
	minimum := gang.pods
	if c.chance(30) {
		minimum = c.between(1, gang.pods)
	}
	c.bare = append(c.bare, gang)
	c.story.CreateGroup(mustertesting.MakePodGroup(name).MinMember(int32(minimum)))
	for i := range gang.pods {
		c.story.CreatePod(mustertesting.MakePod(fmt.Sprintf("%s-%d", name, i)).Group(name).SchedulerName("muster").
			Requests("cpu", strconv.Itoa(c.between(1, 4))).ExitAfter(c.lifetime(), 0))
	}
}

func (c *randomGangs) task(name string, replicas, exitCode int) *mustertesting.TaskWrapper {
	return mustertesting.MakeTask(name, int32(replicas)).
		Requests("cpu", strconv.Itoa(c.between(1, 4))).ExitAfter(c.lifetime(), exitCode)
}

func (c *randomGangs) lifetime() time.Duration {
	return time.Duration(c.between(1000, 4000)) * time.Millisecond
}

func (c *randomGangs) finished() bool { return len(c.pendingNames()) == 0 }

func (c *randomGangs) unfinished() any { return c.pendingNames() }

// pendingNames lists the gangs that have not finished, with what they do.
func (c *randomGangs) pendingNames() []string {
	var names []string
	for _, job := range c.jobs {
		switch phase := c.story.Log.Job(c.story.Name(job)).Phase; phase {
		case batchv1alpha1.Completed, batchv1alpha1.Failed:
		default:
			names = append(names, fmt.Sprintf("%s (%s)", job, phase))
		}
	}
	finished := map[string]int{}
	for _, pod := range c.story.Log.Pods(c.story.In(func(p watchlog.Pod) bool { return !p.Finished.IsZero() })) {
		finished[pod.Group]++
	}
	for _, gang := range c.bare {
		if finished[gang.name] < gang.pods {
			names = append(names, fmt.Sprintf("%s (%d of %d pods have finished)", gang.name, finished[gang.name], gang.pods))
		}
	}
	return names
}
