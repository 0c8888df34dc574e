package usage

import (
	"fmt"
	"sync"
	"testing"

	"github.com/muster-sched/muster/pkg/admission"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestTheSelfCheckFindsWhatIsBookedWrongly(t *testing.T) {
	cpu := resources.List{corev1.ResourceCPU: 1000}
	for name, test := range map[string]struct {
		spoil                func(w *world)
		pods, groups, queues []string
	}{
		"nothing":                       {func(*world) {}, []string{}, []string{}, []string{}},
		"a charge is missing":           {func(w *world) { w.ledger.Release("a") }, []string{"a"}, []string{}, []string{}},
		"another queue is charged":      {func(w *world) { w.ledger.Charge("a", "other", resources.PodRequests(bound("a").Obj())) }, []string{"a"}, []string{}, []string{}},
		"another amount is charged":     {func(w *world) { w.ledger.Charge("a", "q", cpu) }, []string{"a"}, []string{}, []string{}},
		"one that waits is charged":     {func(w *world) { w.ledger.Charge("waits", "q", cpu) }, []string{"waits"}, []string{}, []string{}},
		"a pod that is gone is charged": {func(w *world) { w.ledger.Charge("gone", "q", cpu) }, []string{"gone"}, []string{}, []string{}},
		"a pod that is gone has a seat": {func(w *world) { _ = w.pods.GetIndexer().Delete(bound("b").Obj()) }, []string{"b"}, []string{}, []string{}},
		"too much is taken":             {func(w *world) { w.taken["default/g"].Add(cpu) }, []string{}, []string{"default/g"}, []string{}},
		"nothing is taken":              {func(w *world) { delete(w.taken, "default/g") }, []string{}, []string{"default/g"}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putGroup(group().Obj())
			w.putPod(bound("a").Obj())
			w.putPod(bound("b").Phase(corev1.PodSucceeded).Obj())
			w.putPod(bound("waits").Node("").Obj())
			w.deliverAll()
			test.spoil(w)
			pods, groups := w.differing()
			names := []string{}
			for uid := range pods {
				names = append(names, string(uid))
			}
			assert.Equal(t, test.pods, names)
			assert.Equal(t, test.groups, groups)
			assert.Equal(t, test.queues, w.ledger.Differing())
		})
	}
}

// TestHugeMembersLeaveNothingBehind: the members of a gang are bound by hand, ask for more than can be counted, and go.
func TestHugeMembersLeaveNothingBehind(t *testing.T) {
	w := newWorld(t)
	w.onQueue(mustertesting.MakeQueue("q").Capability("cpu", "10").Obj())
	g := group().Obj()
	w.putGroup(g)
	w.Hold(g, admission.MinimumOf(g), nil)
	w.putPod(bound("a").Obj())
	w.deliverAll()
	huge := []*corev1.Pod{}
	for n, quantity := range []string{"8Ei", "10000000000000000", "10E"} {
		huge = append(huge, bound(fmt.Sprint("huge-", n)).Requests("cpu", quantity).Obj())
	}
	for _, pod := range huge {
		w.putPod(pod)
	}
	w.deliverAll()
	require.Negative(t, w.freeCPU("q"))
	for _, pod := range huge {
		w.removePod(pod)
	}
	w.deliverAll()
	assert.EqualValues(t, 8000, w.freeCPU("q"), "the minimum of 2 is held")
	assert.EqualValues(t, 1000, w.usedCPU("q"))
}

// TestAMinimumThatNoClusterHasHoldsNothing: an admitted PodGroup is changed, and must not close its queue.
func TestAMinimumThatNoClusterHasHoldsNothing(t *testing.T) {
	w := newWorld(t)
	w.onQueue(mustertesting.MakeQueue("q").Capability("cpu", "10").Obj())
	g := group().Obj()
	w.Hold(g, admission.MinimumOf(g), nil)
	require.EqualValues(t, 8000, w.freeCPU("q"))
	for _, quantity := range []string{"1e999", "8Ei", "10000000000000000", "-10E"} {
		changed := group().MinResources("cpu", quantity).Obj()
		w.Hold(changed, admission.MinimumOf(changed), nil)
		assert.EqualValues(t, 10000, w.freeCPU("q"), quantity)
	}
}

// TestConcurrentCallers has events of pods and of PodGroups, holds and questions come side by side. At the end the books agree with the
// stores.
func TestConcurrentCallers(t *testing.T) {
	const callers, rounds = 6, 200
	w := newWorld(t)
	w.Watch(func(string, bool) {})
	for _, name := range []string{"g", "h"} {
		w.putGroup(mustertesting.MakePodGroup(name).UID("1").Queue("q").Obj())
	}
	w.deliverAll()
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() { usePods(w, caller, rounds) })
	}
	group.Go(func() { moveGroups(w, rounds) })
	group.Go(func() {
		for range rounds {
			w.usedCPU("q")
			w.freeCPU("r")
			w.Members("default", "g")
			w.differing()
		}
	})
	group.Wait()
	w.requireExact(t)
	assert.Len(t, w.seats, 2*callers, "each caller leaves a pod of each group")
	for queue := range map[string]bool{"q": true, "r": true} {
		used, all := w.ledger.Totals(queue)
		assert.True(t, used.Equal(all), "no hold is left in %s", queue)
	}
}

// usePods has pods of one caller come, change and go, one of each group, and leaves them bound.
func usePods(w *world, caller, rounds int) {
	store := w.pods.GetIndexer()
	for n := range rounds {
		for _, name := range []string{"g", "h"} {
			pod := bound(fmt.Sprint(name, caller)).Group(name).Phase(corev1.PodRunning)
			first := pod.Requests("cpu", []string{"1", "8Ei", "3"}[n%3]).Obj()
			_ = store.Add(first)
			w.onPod(first)
			second := pod.Requests("cpu", []string{"10000000000000000", "2"}[n%2]).Obj()
			_ = store.Update(second)
			w.onPodUpdate(first, second)
			if n < rounds-1 {
				_ = store.Delete(second)
				w.onPodDelete(second)
			}
		}
	}
}

// moveGroups moves the groups between two queues, and holds and releases their minimum.
func moveGroups(w *world, rounds int) {
	for n := range rounds {
		for _, name := range []string{"g", "h"} {
			obj, _, _ := w.podGroups.GetIndexer().GetByKey("default/" + name)
			last := obj.(*schedulingv1beta1.PodGroup)
			next := mustertesting.MakePodGroup(name).UID("1").Queue([]string{"r", "q"}[n%2]).Obj()
			_ = w.podGroups.GetIndexer().Update(next)
			w.onGroupUpdate(last, next)
			w.Hold(next, resources.List{corev1.ResourceCPU: int64(n)}, nil)
			w.ReleaseHold("default", name, "1")
		}
		w.onQueue(mustertesting.MakeQueue("q").Capability("cpu", fmt.Sprint(n)).Obj())
	}
}
