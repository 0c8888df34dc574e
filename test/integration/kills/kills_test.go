// Package kills_test kills muster-scheduler with SIGKILL again and again while gangs come and go on a real API server.
package kills_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/integration/harness"
)

var (
	gangs   = flag.Int("gangs", 150, "how many gangs come and go")
	lasting = flag.Duration("lasting", 0, "for how long gangs come at least, however many that are")
	seed    = flag.Uint64("seed", 0, "seed of the history; 0 for a new one")
)

const (
	// nodes of ten CPUs each; members ask for one.
	nodes, cpus = 8, 10
	// inFlight is how many gangs exist at a time: more than fit, so that they wait for each other.
	inFlight = 24
	// largest is the most members of a gang.
	largest = 20
	// prompt is how long after its first binding a gang must have its minimum, if no kill was near.
	prompt = 10 * time.Second
	// lingering is how long a gang with its minimum waits for the rest before it does its work. Surplus goes after the minimums of other
	// gangs. Gangs that held all room while they wait for it would block each other.
	lingering = 5 * time.Second
	// timeout is how long nothing may be finished before the test gives up.
	timeout = 3 * time.Minute
)

// world is the cluster, and what comes and goes in it.
type world struct {
	t       *testing.T
	ctx     context.Context
	cluster *localcluster.Cluster
	kube    kubernetes.Interface
	muster  versioned.Interface
	log     *watchlog.Log
	random  *rand.Rand

	mu    sync.Mutex
	kills []time.Time
}

// gangOf is a gang that exists.
type gangOf struct {
	name          string
	size, minimum int
	started       time.Time // when it was first seen to have its minimum
}

// TestSchedulerIsKilledAgainAndAgain: whenever the scheduler dies, all gangs are bound in the end, and none is left bound below its
// minimum. Gangs that no kill interrupted were bound at once.
func TestSchedulerIsKilledAgainAndAgain(t *testing.T) {
	w := newWorld(t, nodes, cpus)
	stop := w.killAgainAndAgain()
	w.runGangs()
	left := w.createWhatCannotAllFit()
	stop()
	w.expectNothingPartialAtRest(left)
	w.judge()
}

// newWorld starts a cluster with nodes that have a number of CPUs.
func newWorld(t *testing.T, nodes, cpus int) *world {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("to repeat the history, as far as chance allows: -seed %d", *seed)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute+*lasting)
	t.Cleanup(cancel)
	dir, err := os.MkdirTemp("", "muster-kills-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// A long patience for partial gangs: no controller here would create the evicted pods of such a gang anew.
	options := harness.SchedulerAlone("partialGangTimeout: 14m")
	options.Dir = filepath.Join(dir, "cluster")
	cluster, err := localcluster.Up(ctx, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cluster.Down(context.Background()) })
	w := &world{t: t, ctx: ctx, cluster: cluster, random: rand.New(rand.NewPCG(*seed, 1))}
	restConfig, err := cluster.RESTConfig()
	require.NoError(t, err)
	restConfig.QPS, restConfig.Burst = 2000, 4000
	w.kube, w.muster = kubernetes.NewForConfigOrDie(restConfig), versioned.NewForConfigOrDie(restConfig)
	w.log, err = watchlog.Start(ctx, w.kube, w.muster)
	require.NoError(t, err)
	for i := range nodes {
		node := mustertesting.MakeNode(fmt.Sprintf("node-%d", i)).Allocatable("cpu", fmt.Sprint(cpus), "memory", "64Gi", "pods", "110").Obj()
		_, err := w.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	return w
}

// killAgainAndAgain kills the scheduler at random moments and starts it again, until it is told to stop. Then a scheduler runs.
func (w *world) killAgainAndAgain() (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	moments := rand.New(rand.NewPCG(*seed, 2))
	go func() {
		for {
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-time.After(time.Duration(200+moments.IntN(4000)) * time.Millisecond):
			}
			if err := w.kill(); err != nil {
				done <- err
				return
			}
		}
	}()
	return func() {
		cancel()
		require.NoError(w.t, <-done)
		w.t.Logf("the scheduler was killed %d times", len(w.kills))
		require.NotEmpty(w.t, w.kills)
	}
}

func (w *world) kill() error {
	if err := w.cluster.Kill(localcluster.MusterScheduler, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the scheduler: %w", err)
	}
	if err := w.cluster.AwaitEnd(w.ctx, localcluster.MusterScheduler); err != nil {
		return fmt.Errorf("waiting for the scheduler's end: %w", err)
	}
	w.mu.Lock()
	w.kills = append(w.kills, time.Now())
	w.mu.Unlock()
	if err := w.cluster.Start(w.ctx, localcluster.MusterScheduler); err != nil {
		return fmt.Errorf("starting the scheduler: %w", err)
	}
	return nil
}

// runGangs creates gangs as earlier ones finish, and finishes gangs that have done their work, until all are done.
func (w *world) runGangs() {
	began := time.Now()
	live := map[string]*gangOf{}
	created, finished, whole := 0, 0, 0
	more := func() bool { return created < *gangs || time.Since(began) < *lasting }
	for more() || len(live) > 0 {
		for more() && len(live) < inFlight {
			g := w.newGang(fmt.Sprintf("gang-%d", created))
			live[g.name] = &g
			created++
		}
		var done []*gangOf
		err := wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
			done = w.done(live)
			return len(done) > 0, nil
		})
		require.NoError(w.t, err, "no gang has done its work for %s; %d of %d have; these are left: %s", timeout, finished, created, w.describe(live))
		bound := w.bound()
		for _, g := range done {
			if bound[g.name] == g.size {
				whole++
			}
			w.finish(*g)
			delete(live, g.name)
			finished++
		}
	}
	w.t.Logf("%d gangs have come and gone in %s, %d of them whole", finished, time.Since(began).Round(time.Second), whole)
}

// newGang creates a gang whose PodGroup comes before, between or after its pods.
func (w *world) newGang(name string) gangOf {
	size := 1 + w.random.IntN(largest)
	g := gangOf{name: name, size: size, minimum: size}
	if w.random.IntN(3) == 0 {
		g.minimum = w.random.IntN(size + 1)
	}
	w.create(g, w.random.IntN(size+1))
	return g
}

func (w *world) create(g gangOf, groupAt int) {
	for i := range g.size + 1 {
		if i == groupAt {
			group := mustertesting.MakePodGroup(g.name).MinMember(int32(g.minimum)).Obj()
			_, err := w.muster.SchedulingV1beta1().PodGroups(group.Namespace).Create(w.ctx, group, metav1.CreateOptions{})
			require.NoError(w.t, err)
		}
		if i == g.size {
			return
		}
		pod := mustertesting.MakePod(fmt.Sprintf("%s-%d", g.name, i)).Group(g.name).Requests("cpu", "1").SchedulerName(corev1.DefaultSchedulerName).Obj()
		_, err := w.kube.CoreV1().Pods(pod.Namespace).Create(w.ctx, pod, metav1.CreateOptions{})
		require.NoError(w.t, err)
	}
}

// bound counts the bound pods of each gang.
func (w *world) bound() map[string]int {
	bound := map[string]int{}
	for _, pod := range w.log.Pods(func(p watchlog.Pod) bool { return p.Node != "" && p.Gone.IsZero() }) {
		bound[pod.Group]++
	}
	return bound
}

// done are the gangs of which every member is bound, or the minimum has been for a while.
func (w *world) done(live map[string]*gangOf) []*gangOf {
	bound := w.bound()
	var done []*gangOf
	for _, g := range live {
		if g.started.IsZero() && bound[g.name] >= max(1, g.minimum) {
			g.started = time.Now()
		}
		if bound[g.name] == g.size || !g.started.IsZero() && time.Since(g.started) > lingering {
			done = append(done, g)
		}
	}
	return done
}

// describe says how many members of each gang are bound, of how many that must be, and in all.
func (w *world) describe(live map[string]*gangOf) string {
	bound := w.bound()
	var all []string
	for _, g := range live {
		all = append(all, fmt.Sprintf("%s: %d of %d, %d in all", g.name, bound[g.name], g.minimum, g.size))
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// finish removes a gang, as if it had done its work. The PodGroup stays, so that the log can tell its minimum.
func (w *world) finish(g gangOf) {
	for i := range g.size {
		require.NoError(w.t, w.kube.CoreV1().Pods(metav1.NamespaceDefault).Delete(w.ctx, fmt.Sprintf("%s-%d", g.name, i), *metav1.NewDeleteOptions(0)))
	}
}

// createWhatCannotAllFit creates more gangs than the cluster holds, so that some are left waiting.
func (w *world) createWhatCannotAllFit() map[string]gangOf {
	left := map[string]gangOf{}
	for i := range 12 {
		g := gangOf{name: fmt.Sprintf("last-%d", i), size: 15, minimum: 12 + w.random.IntN(4)}
		w.create(g, 0)
		left[g.name] = g
	}
	return left
}

// expectNothingPartialAtRest waits until as many gangs are bound as there is room for, and checks that the rest has nothing.
func (w *world) expectNothingPartialAtRest(left map[string]gangOf) {
	require.NoError(w.t, wait.PollUntilContextTimeout(w.ctx, 200*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		bound, free, fewest := w.bound(), nodes*cpus, largest
		for name, g := range left {
			free -= bound[name]
			if bound[name] < g.minimum {
				fewest = min(fewest, g.minimum)
			}
			if bound[name] > 0 && bound[name] < g.minimum {
				return false, nil
			}
		}
		return free < fewest, nil
	}), "the gangs that fit are bound, the others wait whole")
	// A while later it is still so.
	until := time.Now().Add(2 * time.Second)
	for time.Now().Before(until) {
		bound := w.bound()
		for name, g := range left {
			require.True(w.t, bound[name] == 0 || bound[name] >= g.minimum, "%s has %d members bound of its minimum %d", name, bound[name], g.minimum)
		}
	}
}

// judge goes through all that has happened.
func (w *world) judge() {
	var cut, untouched []watchlog.Incarnation
	for _, incarnation := range w.log.Incarnations() {
		if w.killedWithin(incarnation) {
			cut = append(cut, incarnation)
		} else {
			untouched = append(untouched, incarnation)
		}
	}
	w.t.Logf("a kill fell between the first binding of a gang and that of its minimum %d times, %d times not", len(cut), len(untouched))
	require.Empty(w.t, watchlog.GangViolations(untouched, prompt), "gangs that no kill cut through")
	require.Empty(w.t, watchlog.GangViolations(cut, timeout), "gangs that a kill may have cut through")
}

// lag is the largest distance between the kill and the observed time of a binding that it interrupted.
const lag = time.Second

// killedWithin says whether the scheduler was killed between a gang's first binding and that of its minimum.
func (w *world) killedWithin(i watchlog.Incarnation) bool {
	spread, reached := i.Spread()
	for _, at := range w.kills {
		if at.After(i.FirstBind.Add(-lag)) && (!reached || at.Before(i.FirstBind.Add(spread+lag))) {
			return true
		}
	}
	return false
}
