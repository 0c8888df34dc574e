package makers_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// phase is an event that all makers see at once: something happens to a program that they share. These are the columns of the table that
// run one after the other, when all other cells have ended.
type phase struct {
	t     *testing.T
	name  string
	cells []*cell
}

// newPhase makes a cell for each maker. They run in parallel in each step.
func newPhase(t *testing.T, name string, fits func(maker) bool) *phase {
	t.Helper()
	p := &phase{t: t, name: name}
	for _, m := range makersOfPods {
		if fits(m) {
			p.cells = append(p.cells, newCell(t, name, m))
		}
	}
	return p
}

// step runs something in each cell, and returns when all have ended.
func (p *phase) step(name string, happens func(c *cell)) {
	p.t.Helper()
	p.t.Run(name, func(t *testing.T) {
		for _, c := range p.cells {
			t.Run(c.maker.name, func(t *testing.T) {
				t.Parallel()
				if c.Failed() {
					return // in an earlier step, which has said so
				}
				c.T = t
				happens(c)
			})
		}
	})
}

// stop ends a program as a crash does.
func stop(t *testing.T, component string) {
	t.Helper()
	require.NoError(t, env.Cluster.Kill(component, syscall.SIGKILL))
	require.NoError(t, env.Cluster.AwaitEnd(t.Context(), component))
}

func start(t *testing.T, component string) {
	t.Helper()
	require.NoError(t, env.Cluster.Start(t.Context(), component))
}

func anyMaker(maker) bool { return true }

// makeWithoutController has all makers make their pods while the controller does nothing. No gang is partial then, and no queue too full:
// all wait. When it works again, what fits runs.
func makeWithoutController(t *testing.T, name string, stopped, goesOn func()) {
	p := newPhase(t, name, anyMaker)
	p.step("before", func(c *cell) {
		c.addQueue(c.name, c.maker.pods()-1)
		all.ask(func() { c.record.capability[c.name] = 0 })
	})
	stopped()
	p.step("without", func(c *cell) {
		c.start("a")
		c.probeScheduler()
		c.settleUnseen()
		c.probeScheduler()
		c.settleUnseen()
	})
	for _, c := range p.cells {
		all.ask(func() { c.record.capability[c.name] = int64(c.maker.pods() - 1) })
	}
	goesOn()
	p.step("with", func(c *cell) {
		n := c.maker.pods()
		c.rest(c.maker.fits(n-1), c.maker.quotaFor(n-1))
		c.resize(c.name, n)
		c.runs()
		c.end()
	})
}

// settleUnseen waits until no pod of the cell is bound and all say that they wait for their PodGroup.
func (c *cell) settleUnseen() {
	c.Helper()
	unrest := ""
	c.awaitRest(&unrest, func() bool {
		unrest = ""
		for _, i := range c.instances {
			if n := len(i.pods(anyPod)); n != i.live {
				unrest = "not all pods are there"
			}
			for _, pod := range i.pods(anyPod) {
				if reason, message := i.says(pod); isBound(pod) || reason == "" {
					unrest = "pod " + pod.Name + " does not wait for its PodGroup: " + reason + message
				}
			}
		}
		return unrest == ""
	})
}

// TestProgramsAreDown has the shared programs stopped, slow or started again while all makers have pods.
func TestProgramsAreDown(t *testing.T) {
	const controller, scheduler = localcluster.MusterController, localcluster.MusterScheduler
	t.Run("controller-down", func(t *testing.T) {
		makeWithoutController(t, "controller-down", func() { stop(t, controller) }, func() { start(t, controller) })
	})
	t.Run("controller-slow", func(t *testing.T) {
		makeWithoutController(t, "controller-slow",
			func() { require.NoError(t, env.Cluster.Kill(controller, syscall.SIGSTOP)) },
			func() { require.NoError(t, env.Cluster.Kill(controller, syscall.SIGCONT)) })
	})
	t.Run("restarted", func(t *testing.T) {
		p := newPhase(t, "restarted", anyMaker)
		p.step("before", fullWithFiller)
		stop(t, controller)
		start(t, controller)
		p.step("controller", stillFull)
		stop(t, scheduler)
		start(t, scheduler)
		p.step("scheduler", stillFull)
		p.step("room", roomForFiller)
	})
	t.Run("restarted-without-groups", func(t *testing.T) {
		p := newPhase(t, "restarted-without-groups", func(m maker) bool { return m.group != nil })
		p.step("before", func(c *cell) {
			fullWithFiller(c)
			c.deleteGroups()
			c.rest(c.maker.pods(), quota)
		})
		stop(t, scheduler)
		start(t, scheduler)
		p.step("scheduler", stillFull)
		stop(t, controller)
		start(t, controller)
		p.step("controller", stillFull)
		p.step("room", roomForFiller)
	})
	t.Run("restarted-after-the-end", func(t *testing.T) {
		p := newPhase(t, "restarted-after-the-end", func(m maker) bool { return m.finite })
		p.step("before", finishAll)
		stop(t, controller)
		start(t, controller)
		p.step("again", func(c *cell) {
			c.start("b")
			c.runs()
			c.end()
		})
	})
}

// fullWithFiller has a maker's pods run in a queue that has no room for one more, which waits.
func fullWithFiller(c *cell) {
	n := c.maker.pods()
	c.addQueue(c.name, n)
	c.start("a")
	c.runs()
	c.fill("filler", 1)
	c.rest(n, quota)
}

func stillFull(c *cell) {
	n := c.maker.pods()
	c.rest(n, quota)
	c.queueSays(c.name, int64(n))
}

func roomForFiller(c *cell) {
	c.resize(c.name, c.maker.pods()+1)
	c.runs()
	c.end()
}

// finishAll has all pods of a maker end. Their objects are removed, and only PodGroups are left.
func finishAll(c *cell) {
	n := c.maker.pods()
	c.addQueue(c.name, n)
	i := c.start("a")
	c.runs()
	members := i.ordered()
	i.live = 0
	for _, pod := range members {
		c.finish(pod)
	}
	c.queueSays(c.name, 0)
	for _, pod := range members {
		c.remove(pod)
	}
}
