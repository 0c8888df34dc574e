package scheduler_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// The tests below (T1, T2 and so on) are named after the failures that users of other schedulers report most.

// T1: a gang that lacks room wakes when a node comes, and when a pod goes. Nothing else happens in the cluster meanwhile. A metric says that an
// event wakes it, and no later look at all gangs. So does TestAGangWakesAtOnce, in virtual time.
func TestT1_AGangWakesWhenANodeComesAndWhenAPodGoes(t *testing.T) {
	const rounds = 5
	w := newQuietWorld(t, 0)
	node := 0
	addNode := func(round string) {
		w.addNode(node, func(n *corev1.Node) { n.Labels["round"] = round })
		node++
	}
	for i := range rounds {
		// Each gang waits for an event of its own.
		name := fmt.Sprintf("by-node-%d", i)
		addNode(name)
		w.wakes(name, 2, func() { addNode(name) })

		name = fmt.Sprintf("by-pod-%d", i)
		addNode(name)
		w.create(w.pod("alone-"+name, "", inRound(name)))
		w.expectBound("alone-"+name, 1)
		w.wakes(name, 1, func() { w.remove("alone-" + name) })
	}
	require.Equal(t, "0", w.metric("muster_lost_wakeup_recovered_total"))
}

func inRound(round string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector["round"] = round }
}

// wakes creates a gang that lacks one place, and has an event give it that.
func (w *world) wakes(name string, size int, event func()) {
	w.t.Helper()
	w.createGroup(name, int32(size), "")
	w.createGang(name, size, inRound(name))
	waits := "no room for the one pod that the gang needs to start"
	if size > 1 {
		waits = fmt.Sprintf("room for %d of the %d members that start together", size-1, size)
	}
	w.eventually(name+" is reported to wait", func() bool { return w.reported(name, []string{waits}) })
	require.Zero(w.t, w.bound(name))
	event()
	w.expectBound(name, size)
}

// T2: of two gangs that fit alone and not together, one is bound whole and the other holds nothing, repeatedly.
func TestT2_OfTwoGangsThatEachFitAloneOneStartsAndTheOtherHoldsNothing(t *testing.T) {
	w := newWorld(t, 4)
	for round := range 3 {
		names := []string{fmt.Sprintf("round%d-a", round), fmt.Sprintf("round%d-b", round)}
		// Their pods come in turns, so that each gang is complete at about the same time.
		for _, name := range names {
			w.createGroup(name, 3, "")
		}
		for i := range 3 {
			for _, name := range names {
				w.create(w.pod(fmt.Sprintf("%s-%d", name, i), name))
			}
		}
		first, second := w.oneOf(names, 3)
		w.expectHeld(second, "room for 1 of the 3 members that start together")
		w.removeGang(first, 3)
		w.expectBound(second, 3)
		w.removeGang(second, 3)
	}
}

// oneOf waits until one of two gangs is bound whole and returns it first.
func (w *world) oneOf(names []string, size int) (bound, other string) {
	w.t.Helper()
	w.eventually("one of the gangs is bound", func() bool { return w.bound(names[0]) == size || w.bound(names[1]) == size })
	if w.bound(names[0]) == size {
		return names[0], names[1]
	}
	return names[1], names[0]
}

func (w *world) removeGang(name string, size int) {
	w.t.Helper()
	for i := range size {
		w.remove(fmt.Sprintf("%s-%d", name, i))
	}
}

// T4: a pod that is created anew under its name is another member. The place of its predecessor does not count for its gang. Each pod is
// created as soon as the one before it is deleted. So the scheduler sees both events in sequence.
func TestT4_PodsThatAreCreatedAnewUnderTheirNamesAreOtherMembers(t *testing.T) {
	w := newWorld(t, 3)
	w.replaceGang(func(replace func()) { replace() })
}

// T4 again: the scheduler stands still meanwhile, so that it hears of all at once.
func TestT4_PodsThatAreCreatedAnewUnseenAreOtherMembers(t *testing.T) {
	w := newQuietWorld(t, 3)
	w.replaceGang(func(replace func()) {
		require.NoError(t, cluster.Kill(localcluster.MusterScheduler, syscall.SIGSTOP))
		defer func() { require.NoError(t, cluster.Kill(localcluster.MusterScheduler, syscall.SIGCONT)) }()
		replace()
	})
}

// replaceGang replaces the pods of a gang in a world of three nodes when other pods have taken their places. It checks that the new ones
// start together when there is room for all of them.
func (w *world) replaceGang(meanwhile func(replace func())) {
	w.t.Helper()
	const size = 3
	w.createQueue("9")
	w.createGroup("g", size, w.namespace)
	w.createGang("g", size)
	w.expectBound("g", size)
	old := w.uids("g")
	meanwhile(func() {
		// For a moment the nodes hold both. So a new member never has a place while old ones do.
		for i := range size {
			w.create(w.pod(fmt.Sprintf("other-%d", i), "", func(p *corev1.Pod) { p.Spec.NodeName = fmt.Sprintf("%s-%d", w.namespace, i) }))
		}
		for i := range size {
			w.replace("g", i)
		}
	})
	w.expectHeld("g", "room for 0 of the 3 members that start together")
	w.remove("other-0")
	w.remove("other-1")
	w.expectHeld("g", "members that start together") // two places are not enough, and no reason to decide again
	w.remove("other-2")
	w.expectBound("g", size)
	for pod, uid := range w.uids("g") {
		require.NotEqual(w.t, old[pod], uid, pod)
	}
}

// T4, the other way round: pods are created anew again and again while their gang is decided, placed and bound. They leave neither room nor
// quota behind, and the last ones are bound.
func TestT4_PodsThatAreReplacedWhileTheirGangStartsLeaveNothingBehind(t *testing.T) {
	const size = 3
	w := newWorld(t, size)
	w.createQueue("9")
	w.createGroup("g", size, w.namespace)
	w.createGang("g", size)
	for range 20 {
		for i := range size {
			w.replace("g", i)
		}
	}
	w.expectBound("g", size)
	w.expectStays("g", size)
	w.removeGang("g", size)
	w.createGroup("next", size, w.namespace)
	w.createGang("next", size)
	w.expectBound("next", size)
	label := fmt.Sprintf(`{queue=%q,resource="cpu"}`, w.namespace)
	w.eventually("the queue is charged for these alone", func() bool {
		return w.metric("muster_queue_used"+label) == "9" && w.metric("muster_queue_assumed"+label) == "0"
	})
}

// createQueue creates a queue named like the namespace, of so many CPUs.
func (w *world) createQueue(cpus string) {
	w.t.Helper()
	queue := mustertesting.MakeQueue(w.namespace).Capability("cpu", cpus).Obj()
	_, err := muster.SchedulingV1beta1().Queues().Create(w.ctx, queue, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// replace deletes a member and creates it anew at once.
func (w *world) replace(gang string, i int) {
	w.t.Helper()
	name := fmt.Sprintf("%s-%d", gang, i)
	w.remove(name)
	w.create(w.pod(name, gang))
}

// T5: a gang that cannot be placed does not stand in the way of smaller ones behind it.
func TestT5_AGangThatDoesNotFitLetsSmallerOnesPass(t *testing.T) {
	w := newWorld(t, 2)
	w.createGroup("head", 5, "")
	w.createGang("head", 5)
	w.expectHeld("head", "room for 2 of the 5 members that start together")
	w.createGroup("small", 2, "")
	w.createGang("small", 2)
	w.expectBound("small", 2)
	require.Zero(t, w.bound("head"))
	for i := range 5 {
		w.addNode(2 + i)
	}
	w.expectBound("head", 5)
}

// T7: an evicted pod does not evict back. A gang that gave way to a more important pod, and comes again, waits. The class of its PodGroup,
// its surplus and a third pod of a priority between matter. All comes to rest with the most important ones.
func TestT7_NoAEvictsBEvictsA(t *testing.T) {
	w := newWorld(t, 3)
	low, middle, high := w.class(10), w.class(50), w.class(100)
	group := mustertesting.MakePodGroup("g").Namespace(w.namespace).MinMember(2).PriorityClass("preemption-50").Obj()
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, group, metav1.CreateOptions{})
	require.NoError(t, err)
	w.createGang("g", 3, low)
	w.expectBound("g-", 3)
	w.create(w.pod("a-0", "", high), w.pod("a-1", "", high))
	w.expectBound("a-", 2)
	w.expectBound("g-", 0)

	// The gang comes again, as its controller creates it. With it comes one that is more important than it, not than the others.
	settled := w.uids("a-")
	w.create(w.pod("again-0", "g", low), w.pod("again-1", "g", low), w.pod("again-2", "g", low), w.pod("between", "", middle))
	w.expectBound("between", 1)
	w.expectHeld("again", "of the 2 members that start together")
	require.Equal(t, settled, w.uids("a-"), "no pod was evicted and created again")
	w.expectStays("between", 1)
	require.Zero(t, w.disrupted("a-")+w.disrupted("between"))

	// With room again the gang is there, with its surplus. It evicts no pod of its own importance or more.
	for i := range 3 {
		w.addNode(3 + i)
	}
	w.expectBound("again-", 3)
	w.create(w.pod("again-3", "g", low))
	w.expectUnplaced("again-3")
	require.Equal(t, settled, w.uids("a-"))
	w.expectStays("again-", 3)
}

// uids are the UIDs of the bound pods of a prefix, by name.
func (w *world) uids(prefix string) map[string]types.UID {
	w.t.Helper()
	pods, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	found := map[string]types.UID{}
	for i := range pods.Items {
		if pod := &pods.Items[i]; strings.HasPrefix(pod.Name, prefix) && pod.Spec.NodeName != "" {
			found[pod.Name] = pod.UID
		}
	}
	return found
}

// T8: no pod is evicted unless all members for which it is done get a place by it. None is evicted for members of an incomplete gang, or
// for a pod that fits nowhere even then.
func TestT8_NoEvictionWithoutAPlaceForAll(t *testing.T) {
	w := newWorld(t, 2)
	inDefault := aloneIn(schedulingv1beta1.DefaultQueue) // as the gangs: surplus evicts nothing outside all queues
	w.create(w.pod("low-0", "", w.class(10), inDefault), w.pod("low-1", "", w.class(10), inDefault))
	w.expectBound("low-", 2)
	settled := w.uids("low-")
	w.createGroup("g", 3, "")
	w.createGang("g", 3, w.class(100))
	w.expectHeld("g", "room for 0 of the 3 members that start together")
	w.create(w.pod("large", "", w.class(100), cpu("5")))
	w.expectUnplaced("large")
	w.expectStays("low-", 2)
	require.Equal(t, settled, w.uids("low-"))
	require.Zero(t, w.disrupted("low-"))

	// A surplus member has its place to itself: it takes that of one, and goes there. It would leave its place to a waiting minimum.
	w.removeGang("g", 3)
	w.createGroup("s", 1, "")
	w.addNode(2)
	w.create(w.pod("s-0", "s", w.class(100)))
	w.expectBound("s-", 1)
	w.create(w.pod("s-1", "s", w.class(100)))
	w.expectBound("s-", 2)
	w.expectStays("low-", 1)
}

// T13: members that have succeeded count: the replacement of a failed one starts though the other members are done.
func TestT13_MembersThatHaveSucceededCount(t *testing.T) {
	w := newWorld(t, 2)
	w.createGroup("g", 2, "")
	w.createGang("g", 2)
	w.expectBound("g", 2)
	w.endPod("g-0", corev1.PodSucceeded)
	w.endPod("g-1", corev1.PodFailed)
	w.remove("g-1")
	// As the podgroup controller reports it.
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Patch(w.ctx, "g", types.MergePatchType,
		[]byte(`{"status":{"phase":"Running","succeeded":1}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	w.create(w.pod("again", "g"))
	w.expectBound("again", 1)
}

// endPod ends a bound pod, as its kubelet does.
func (w *world) endPod(name string, phase corev1.PodPhase) {
	w.t.Helper()
	_, err := kube.CoreV1().Pods(w.namespace).Patch(w.ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase), metav1.PatchOptions{}, "status")
	require.NoError(w.t, err)
}

// T22: a minimum of 0 makes a gang of which every member starts by itself. The PodGroup may come after the members, or be admitted late.
func TestT22_AMinimumOfZeroHoldsNoPodBack(t *testing.T) {
	w := newWorld(t, 2)
	w.createGroup("g", 0, "")
	w.createGang("g", 3)
	w.expectBound("g", 2)
	w.addNode(2)
	w.expectBound("g", 3)
	w.create(w.pod("late-0", "late", small), w.pod("late-1", "late", small))
	w.createGroup("late", 0, "")
	w.expectBound("late", 2)
}

// small leaves room beside a pod of 3 CPUs.
func small(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("100m")
}
