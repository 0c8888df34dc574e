package makers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// event is something that happens to the pods of a maker: a column of the table.
type event struct {
	name string
	// without says why there is no cell for a maker; "" if there is one.
	without func(m maker) string
	// happens is the cell. It ends with all pods running.
	happens func(c *cell)
}

var events = []event{
	{"room", everyone, func(c *cell) {
		c.addQueue(c.name, c.maker.pods())
		c.start("a")
		c.runs()
	}},
	{"full", everyone, func(c *cell) {
		n := c.maker.pods()
		c.addQueue(c.name, n-1)
		c.start("a")
		c.rest(c.maker.fits(n-1), c.maker.quotaFor(n-1))
		c.resize(c.name, n)
		c.runs()
	}},
	{"two", withoutHeld, startTwo},
	{"two-held", held, startTwo},
	{"closed", everyone, closedFirst},
	{"closed-later", everyone, func(c *cell) {
		c.addQueue(c.name, c.maker.pods())
		c.start("a")
		c.runs()
		c.order(c.name, busv1alpha1.CloseQueueAction, 0)
		c.runs()
	}},
	{"missing", everyone, func(c *cell) {
		c.start("a")
		c.rest(0, missing)
		c.addQueue(c.name, c.maker.pods())
		c.runs()
	}},
	{"changed", everyone, func(c *cell) {
		n := c.maker.pods()
		c.addQueue(c.name, n)
		c.start("a")
		c.runs()
		c.fill("filler", 1)
		c.resize(c.name, n-1)
		c.rest(n, quota)
		c.resize(c.name, n+1)
		c.runs()
	}},
	{"deleted", everyone, func(c *cell) {
		n := c.maker.pods()
		c.addQueue(c.name, n)
		c.start("a")
		c.runs()
		c.queueSays(c.name, int64(n))
		err := env.Muster.SchedulingV1beta1().Queues().Delete(c.ctx, c.name, metav1.DeleteOptions{})
		require.ErrorContains(c, err, "cannot be deleted")
		c.runs()
		c.end()
		c.addQueue(c.name, n)
		c.start("b")
		c.runs()
	}},
	{"group-after", writersOfEarlyPods, func(c *cell) {
		c.addQueue(c.name, c.maker.pods())
		i := c.newInstance("a", c.maker)
		i.startPods()
		c.rest(0, noGroup)
		i.writeGroup()
		c.runs()
		c.stays()
	}},
	{"group-deleted", everyone, func(c *cell) {
		n := c.maker.pods()
		c.addQueue(c.name, n)
		c.start("a")
		c.runs()
		c.deleteGroups()
		c.fill("filler", 1)
		c.rest(n, quota)
		c.queueSays(c.name, int64(n))
		c.stays()
		c.resize(c.name, n+1)
		c.runs()
	}},
	{"group-anew", writers, func(c *cell) {
		n := c.maker.pods()
		c.addQueue(c.name, n)
		i := c.start("a")
		c.runs()
		c.deleteGroups()
		i.writeGroup()
		c.fill("filler", 1)
		c.rest(n, quota)
		c.stays()
		c.queueSays(c.name, int64(n))
		c.resize(c.name, n+1)
		c.runs()
	}},
	{"group-anew-below", writers, func(c *cell) {
		n := c.maker.pods()
		c.addQueue(c.name, n)
		i := c.start("a")
		c.runs()
		lost := i.ordered()[n-2]
		c.deleteGroups()
		c.remove(lost)
		i.writeGroup()
		c.stays()
		i.replace(lost)
		c.runs()
	}},
	{"group-anew-early", writers, func(c *cell) {
		n := c.maker.pods()
		c.addQueue(c.name, n-1)
		i := c.start("a")
		c.rest(0, neverFits)
		c.deleteGroups()
		i.writeGroup()
		c.rest(0, neverFits)
		c.resize(c.name, n)
		c.runs()
	}},
	{"minimum-raised", writers, func(c *cell) {
		n := c.maker.pods()
		c.addQueue(c.name, n)
		i := c.start("a")
		c.runs()
		i.setMinimum(int32(n+1), 0)
		c.fill("filler", 1)
		c.rest(n, quota)
		c.stays()
		i.setMinimum(int32(n), 0)
		c.resize(c.name, n+1)
		c.runs()
	}},
	{"minimum-lowered", writersOfMinimums, func(c *cell) {
		n := c.maker.pods()
		c.addQueue(c.name, n-1)
		i := c.start("a")
		c.rest(0, neverFits)
		i.setMinimum(int32(n-1), n-1)
		i.together = n - 1
		c.rest(n-1, quota)
		c.resize(c.name, n)
		c.runs()
	}},
	{"finished", finite, func(c *cell) { finishAndCollect(c) }},
	{"suspended", suspendable, suspend},
	{"rolled", func(m maker) string {
		if m.rollout == nil {
			return "it replaces no pods"
		}
		return ""
	}, roll},
	{"mixed", func(m maker) string {
		if !m.mixes {
			return "its pods are alike"
		}
		return ""
	}, mix},
}

// makersOfPods are the rows of the table.
var makersOfPods = slices.Concat(adopted, operators)

func everyone(maker) string { return "" }

func writers(m maker) string {
	if m.group == nil {
		return "Muster makes its PodGroups and keeps them"
	}
	return ""
}

func writersOfEarlyPods(m maker) string {
	if m.group != nil && m.group.first {
		return "it makes no pod before its PodGroup is admitted"
	}
	return writers(m)
}

func writersOfMinimums(m maker) string {
	if m.group != nil && m.group.minMember == 1 {
		return "its minimum is 1"
	}
	return writers(m)
}

// held says why a maker has no pods whose room is asked for before they exist.
func held(m maker) string {
	if m.group == nil || m.group.units <= int(m.group.minMember) {
		return "its minResources are those of its minMember"
	}
	return ""
}

func withoutHeld(m maker) string {
	if held(m) == "" {
		return "its minResources are more than those of its minMember, which is an event of its own"
	}
	return ""
}

func suspendable(m maker) string {
	if !m.batchJob {
		return "it cannot be suspended"
	}
	return ""
}

func finite(m maker) string {
	if !m.finite {
		return "its pods do not end by themselves"
	}
	return ""
}

// TestMakersOfPods is the table: each maker with each event that makes sense.
func TestMakersOfPods(t *testing.T) {
	for _, e := range events {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			for _, m := range makersOfPods {
				if e.without(m) != "" {
					continue
				}
				t.Run(m.name, func(t *testing.T) {
					t.Parallel()
					c := newCell(t, e.name, m)
					e.happens(c)
					c.end()
				})
			}
		})
	}
}

// ordered are the live pods of an instance, in the order in which they were made. Those of controllers are last.
func (i *instance) ordered() []*corev1.Pod {
	var found []*corev1.Pod
	all.ask(func() { found = i.pods(anyPod) })
	place := func(pod *corev1.Pod) int {
		k := slices.IndexFunc(i.created, func(made *corev1.Pod) bool { return made.Name == pod.Name })
		if k < 0 {
			return len(i.created)
		}
		return k
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return found
}

// replace makes a pod again that was lost, under another name, unless its controller does so.
func (i *instance) replace(lost *corev1.Pod) {
	i.c.Helper()
	k := slices.IndexFunc(i.created, func(made *corev1.Pod) bool { return made.Name == lost.Name })
	if k < 0 {
		return
	}
	again := i.created[k].DeepCopy()
	again.Name += "-again"
	require.NoError(i.c, i.create(i.c.ctx, again))
}

// startTwo has two instances in a queue that lacks one unit for both.
func startTwo(c *cell) {
	n := c.maker.pods()
	c.addQueue(c.name, 2*n-1)
	c.start("a")
	c.start("b")
	c.rest(n+c.maker.fits(n-1), quota)
	c.resize(c.name, 2*n)
	c.runs()
}

// closedFirst has pods come while their queue is closed. The API server refuses a PodGroup then, so its writer has none until the queue opens.
func closedFirst(c *cell) {
	n := c.maker.pods()
	c.addQueue(c.name, n)
	c.order(c.name, busv1alpha1.CloseQueueAction, 0)
	i := c.newInstance("a", c.maker)
	if c.maker.group != nil {
		c.awaitRefusal(i)
	}
	i.startPods()
	if c.maker.group == nil {
		c.rest(0, closed)
	} else {
		c.rest(0, noGroup)
	}
	c.order(c.name, busv1alpha1.OpenQueueAction, n)
	i.writeGroup()
	c.runs()
}

// finishAndCollect has a member end and its object removed, and another one lost. The lost one is made again and runs. When all have ended
// and are gone, the queue has room for a second instance.
func finishAndCollect(c *cell) {
	n := c.maker.pods()
	c.addQueue(c.name, n)
	i := c.start("a")
	c.runs()
	members := i.ordered()
	last, lost := members[n-1], members[n-2]
	i.live--
	c.finish(last)
	c.queueSays(c.name, int64(n-1))
	c.remove(last)
	c.remove(lost)
	i.replace(lost)
	i.together = min(i.together, n-1)
	c.rest(n-1, "")
	i.live = 0
	for _, pod := range i.ordered() {
		c.finish(pod)
	}
	c.queueSays(c.name, 0)
	if c.maker.group != nil {
		c.await("the PodGroup is Completed", func() bool {
			group := c.record.groups[i.groupName()]
			return group != nil && group.Status.Phase == schedulingv1beta1.PodGroupCompleted
		})
	}
	var finished []*corev1.Pod
	all.ask(func() {
		for _, pod := range c.record.pods {
			finished = append(finished, pod)
		}
	})
	for _, pod := range finished {
		c.remove(pod)
	}
	c.start("b")
	c.runs()
}

// suspend has a Job suspended: it takes no quota until it is resumed.
func suspend(c *cell) {
	n := c.maker.pods()
	c.addQueue(c.name, n)
	i := c.start("a")
	c.runs()
	jobs, err := env.Kube.BatchV1().Jobs(c.name).List(c.ctx, metav1.ListOptions{})
	require.NoError(c, err)
	set := func(suspended bool) {
		patch := fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, suspended)
		_, err := env.Kube.BatchV1().Jobs(c.name).Patch(c.ctx, jobs.Items[0].Name, types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(c, err)
	}
	for _, pod := range i.ordered() {
		all.ask(func() { c.record.mayGo[pod.UID] = true })
	}
	set(true)
	i.live = 0
	c.await("the Job's pods are gone", func() bool { return len(c.record.pods) == 0 })
	c.fill("filler", n)
	c.rest(n, "")
	set(false)
	i.live = n
	c.rest(n, quota)
	c.resize(c.name, 2*n)
	c.runs()
}
