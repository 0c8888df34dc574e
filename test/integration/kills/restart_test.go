package kills_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

var boundPods = flag.Int("bound-pods", 2000, "how many pods are bound when the scheduler is killed, in gangs of twenty")

// backWithin is how long a scheduler may take from its end until its successor binds a gang. Volcano took 8 m 17 s beside 140,000 pods;
// here it would be 2 m 30 s.
func backWithin() time.Duration { return 10*time.Second + time.Duration(*boundPods)*time.Millisecond }

// T21: a scheduler that starts beside very many bound pods knows them before it decides. A gang that fits is bound soon. A gang that fits
// only without these pods is not, and none of the pods is disturbed. With as many pods as in the report on Volcano, most of the time goes
// into their creation:
//
//	go test ./test/integration/kills -run T21 -count 1 -v -timeout 2h -args -bound-pods 140000 -lasting 90m
func TestT21_RestartBesideVeryManyPods(t *testing.T) {
	const ofGang, onNode = 20, 100
	gangs := *boundPods / ofGang
	full := gangs * ofGang / onNode
	w := newWorld(t, full+1, onNode)
	began := time.Now()
	w.bindGangs(gangs, ofGang, onNode)
	t.Logf("%d pods were bound in %s", gangs*ofGang, time.Since(began).Round(time.Second))
	require.NoError(t, w.log.Wait(w.ctx, func() bool { return len(w.bound()) == gangs }))

	w.create(gangOf{name: "too-large", size: onNode + 1, minimum: onNode + 1}, 0)
	killed := time.Now()
	ctx, cancel := context.WithTimeout(w.ctx, backWithin())
	defer cancel()
	require.NoError(t, w.kill())
	up := time.Now()
	w.create(gangOf{name: "fits", size: onNode / 2, minimum: onNode / 2}, 0)
	require.NoError(t, w.log.Wait(ctx, func() bool { return w.bound()["fits"] == onNode/2 }), "a gang that fits is bound")
	t.Logf("the scheduler was ready %s after it had been killed, and a gang of %d was bound %s after that",
		up.Sub(killed).Round(time.Millisecond), onNode/2, time.Since(up).Round(time.Millisecond))

	require.Zero(t, w.bound()["too-large"])
	disturbed := w.log.Pods(func(p watchlog.Pod) bool { return p.Scheduler == elsewhere && !p.Live() })
	require.Empty(t, disturbed)
}

// elsewhere is the scheduler that has bound the pods: no other binds them again.
const elsewhere = "elsewhere"

// bindGangs creates gangs whose pods have been bound.
func (w *world) bindGangs(gangs, ofGang, onNode int) {
	w.t.Helper()
	const workers = 16
	next, failed := make(chan int), make(chan error, workers)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range next {
				if err := w.bindGang(i, ofGang, onNode); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		})
	}
	for i := range gangs {
		next <- i
	}
	close(next)
	group.Wait()
	close(failed)
	require.NoError(w.t, <-failed)
}

func (w *world) bindGang(i, size, onNode int) error {
	name := fmt.Sprintf("bound-%d", i)
	podGroup := mustertesting.MakePodGroup(name).MinMember(int32(size)).Obj()
	if _, err := w.muster.SchedulingV1beta1().PodGroups(podGroup.Namespace).Create(w.ctx, podGroup, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a PodGroup: %w", err)
	}
	for j := range size {
		pod := mustertesting.MakePod(fmt.Sprintf("%s-%d", name, j)).Group(name).Requests("cpu", "1").SchedulerName(elsewhere).
			Node(fmt.Sprintf("node-%d", (i*size+j)/onNode)).Obj()
		if _, err := w.kube.CoreV1().Pods(pod.Namespace).Create(w.ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a bound pod: %w", err)
		}
	}
	return nil
}
