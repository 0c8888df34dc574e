package overtaking_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

const (
	reservedFor = "is being reserved for it"
	behind      = "room is reserved for a gang that has waited longer"
	// quotaBehind is the text of gangs that would have quota.
	quotaBehind = "quota is reserved for a gang that has waited longer"

	hopeless = "it would not fit either if everything of its priority and below had ended"
	beyond   = "it would not fit into an empty cluster either"
)

// passBig starts pods before the gang "big", one by one as the pods on the first node end. It stops when freed room is reserved for the
// gang. It returns how many have started before it. In the end the first node is empty, and no other pod waits.
func (w *world) passBig(create func(name string)) (passed int) {
	w.t.Helper()
	isAside := func() bool { return len(w.pods("big", says(reservedFor))) > 0 }
	for i := 0; !isAside(); i++ {
		name := fmt.Sprintf("passing-%d", i)
		create(name)
		w.remove(w.pods("", func(p *corev1.Pod) bool { return p.Spec.NodeName == w.node(0) })...)
		w.eventually(name+" starts, or room is set aside for big", func() bool { return len(w.pods(name, isBound)) > 0 || isAside() })
		passed += len(w.pods(name, isBound))
	}
	w.remove(w.pods("passing", func(p *corev1.Pod) bool { return !isBound(p) || p.Spec.NodeName == w.node(0) })...)
	return passed
}

// fill binds a pod to each node.
func (w *world) fill(nodes int) {
	w.t.Helper()
	for i := range nodes {
		w.create(w.pod(fmt.Sprintf("first-%d", i), "", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: w.node(i)}
		}))
	}
	w.expectBound(nodes, "first")
}

func TestABigGangStartsHoweverManySmallGangsCome(t *testing.T) {
	w := newWorld(t, 3)
	w.fill(3)
	w.gang("big", 3)
	w.expect(3, "big", "waiting", says("room for 0 of the 3 members that start together"))
	passed := w.passBig(func(name string) { w.gang(name, 1) })
	require.Equal(t, maxOvertakes, passed)
	// The rest of the nodes come free one after the other, and no pod takes them.
	for i := range 3 {
		w.gang(fmt.Sprintf("late-%d", i), 1)
	}
	w.expect(3, "late", "standing back", says(behind))
	w.expectUnbound("big")
	for _, name := range w.pods("", isBound) {
		require.Empty(t, w.pods("late", isBound))
		w.remove(name)
	}
	w.expectBound(3, "big")
	require.Empty(t, w.pods("late", isBound))
	// Pods that have waited behind it are woken when it has started and ended.
	w.remove("big-0", "big-1", "big-2")
	w.expectBound(3, "late")
}

func TestOrdinaryPodsStandBackAndAreWokenWhenTheGangHasGone(t *testing.T) {
	w := newWorld(t, 2)
	w.fill(2)
	w.gang("big", 2)
	w.expect(2, "big", "waiting", says("room for 0 of the 2 members that start together"))
	require.Equal(t, maxOvertakes, w.passBig(func(name string) { w.create(w.pod(name, "")) }))
	two := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	}
	w.create(w.pod("ordinary", "", two))
	w.expect(1, "ordinary", "standing back", says(behind))
	w.expectUnbound("ordinary")
	// A node that is too small for the gang's pods wakes it.
	w.addNodeOf(2, "2")
	w.expectBound(1, "ordinary")
	// The end of the gang does so too.
	w.create(w.pod("another", ""))
	w.expect(1, "another", "standing back", says(behind))
	require.NoError(t, muster.SchedulingV1beta1().PodGroups(w.namespace).Delete(w.ctx, "big", metav1.DeleteOptions{}))
	w.expectBound(1, "another")
}

// urgent makes a class of a higher priority, for pods that do not preempt.
func (w *world) urgent() func(*corev1.Pod) {
	w.t.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Value: 1000, PreemptionPolicy: new(corev1.PreemptNever)}
	_, err := kube.SchedulingV1().PriorityClasses().Create(w.ctx, class, metav1.CreateOptions{})
	require.NoError(w.t, err)
	of := func(p *corev1.Pod) { p.Spec.PriorityClassName = w.namespace }
	// The API server reads the classes from a cache.
	w.eventually("pods of the class are admitted", func() bool {
		_, err := kube.CoreV1().Pods(w.namespace).Create(w.ctx, w.pod("dry-run", "", of), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil
	})
	return of
}

func TestNothingIsSetAsideForAGangThatIsInNeedOfWhatMoreImportantPodsHave(t *testing.T) {
	w := newWorld(t, 2)
	w.create(w.pod("urgent", "", w.urgent()))
	w.expectBound(1, "urgent")
	w.create(w.pod("first", ""))
	w.expectBound(1, "first")
	w.gang("big", 2)
	w.expect(2, "big", "waiting", says("room for 0 of the 2 members that start together"))
	for i := range 2 * maxOvertakes {
		name := fmt.Sprintf("small-%d", i)
		w.create(w.pod(name, ""))
		w.remove(w.pods("", func(p *corev1.Pod) bool { return isBound(p) && p.Name != "urgent" })[0])
		w.expectBound(1, name)
	}
	w.expect(2, "big", "said to be hopeless", says(hopeless))
	w.remove(w.pods("", isBound)...)
	w.expectBound(2, "big")
}

func TestHigherPrioritiesAndDaemonSetsPass(t *testing.T) {
	w := newWorld(t, 2)
	urgent := w.urgent()
	w.fill(2)
	w.gang("big", 2)
	w.expect(2, "big", "waiting", says("room for 0 of the 2 members that start together"))
	w.passBig(func(name string) { w.create(w.pod(name, "")) })
	w.create(w.pod("ordinary", "", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	}))
	w.expect(1, "ordinary", "standing back", says(behind))
	daemons := mustertesting.MakePod("x").Namespace(w.namespace).Requests("cpu", "500m").SchedulerName("default-scheduler").Label("app", "daemon").Obj()
	daemons.Spec.RestartPolicy = corev1.RestartPolicyAlways
	_, err := kube.AppsV1().DaemonSets(w.namespace).Create(w.ctx, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "daemon", Namespace: w.namespace},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "daemon"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "daemon"}}, Spec: daemons.Spec},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.expectBound(2, "daemon")
	w.create(w.pod("urgent", "", urgent))
	w.expectBound(1, "urgent")
	// The gang starts nonetheless, when they leave room for it.
	w.remove("urgent")
	w.remove(w.pods("", func(p *corev1.Pod) bool { return isBound(p) && p.Labels["app"] == "" })...)
	w.expectBound(2, "big")
}

func TestNothingIsSetAsideForAGangThatCanNeverFit(t *testing.T) {
	w := newWorld(t, 2)
	w.fill(2)
	w.gang("huge", 3)
	w.expect(3, "huge", "waiting, and said to be too large", func(p *corev1.Pod) bool {
		return says("room for 0 of the 3 members that start together")(p) && says(beyond)(p)
	})
	for i := range 2 * maxOvertakes {
		name := fmt.Sprintf("small-%d", i)
		w.gang(name, 1)
		w.remove(w.pods("", isBound)[0])
		w.expectBound(1, name)
	}
	// A gang behind it has its turn.
	w.gang("big", 2)
	w.expect(2, "big", "waiting", says("room for 0 of the 2 members that start together"))
	require.Equal(t, maxOvertakes, w.passBig(func(name string) { w.gang(name, 1) }))
	w.remove(w.pods("", isBound)...)
	w.expectBound(2, "big")
	// When the cluster has grown the first has room.
	w.addNode(2)
	w.addNode(3)
	w.addNode(4)
	w.expectBound(3, "huge")
}

// queue creates a queue of so many CPUs, for as long as the test runs.
func (w *world) queue(name, cpu string, change ...func(*mustertesting.QueueWrapper)) {
	w.t.Helper()
	queue := mustertesting.MakeQueue(name).Capability("cpu", cpu)
	for _, change := range change {
		change(queue)
	}
	_, err := muster.SchedulingV1beta1().Queues().Create(w.ctx, queue.Obj(), metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		w.clear() // a queue is not deleted under what is in it
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			return muster.SchedulingV1beta1().Queues().Delete(ctx, name, metav1.DeleteOptions{}) == nil, nil
		})
		require.NoError(w.t, err, "deleting queue %s", name)
	})
}

// gangIn creates a gang of n pods of 3 CPUs in a queue.
func (w *world) gangIn(queue, name string, n int) {
	w.t.Helper()
	group := mustertesting.MakePodGroup(name).Namespace(w.namespace).MinMember(int32(n)).Queue(queue).Obj()
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, group, metav1.CreateOptions{})
	require.NoError(w.t, err)
	for i := range n {
		w.create(w.pod(fmt.Sprintf("%s-%d", name, i), name))
	}
}

// inQueue has a pod without a gang use the quota of a queue.
func inQueue(queue string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{schedulingv1beta1.QueueNameAnnotation: queue} }
}

// TestABigGangGetsItsQuotaHoweverManySmallGangsCome has room for all: only quota is scarce, 9 CPUs of the queue "org". The queues "team"
// and "lead" below it, and a pod without a gang, use it.
func TestABigGangGetsItsQuotaHoweverManySmallGangsCome(t *testing.T) {
	w := newWorld(t, 8)
	org, team, lead, other := w.namespace+"-org", w.namespace+"-team", w.namespace+"-lead", w.namespace+"-other"
	w.queue(org, "9")
	w.queue(team, "9", func(q *mustertesting.QueueWrapper) { q.Parent(org) })
	w.queue(lead, "9", func(q *mustertesting.QueueWrapper) { q.Parent(org) })
	w.queue(other, "9")
	for i := range 3 {
		w.gangIn(team, fmt.Sprintf("first-%d", i), 1)
	}
	w.expectBound(3, "first")
	w.gangIn(lead, "huge", 4)
	w.expect(4, "huge", "said to be hopeless", says("no quota is reserved for it: it asks for more than the whole capability"))
	w.gangIn(lead, "big", 3)
	w.expect(3, "big", "waiting", says("wait for quota"))
	// They end one after the other, and others take their places, until enough have passed.
	running := "first-0-0"
	for i := range maxOvertakes {
		name := fmt.Sprintf("passing-%d", i)
		w.gangIn(team, name, 1)
		w.remove(running)
		w.expectBound(1, name)
		running = name + "-0"
	}
	w.expect(3, "big", "having quota set aside", says(reservedFor))
	w.gangIn(team, "late", 1)
	w.create(w.pod("single", "", inQueue(lead)))
	w.remove(running)
	w.expect(1, "late", "standing back", says(quotaBehind))
	w.expect(1, "single", "standing back", says(quotaBehind))
	w.expectUnbound("late")
	// Gangs that need none of that quota are not affected.
	w.gangIn(other, "beside", 2)
	w.expectBound(2, "beside")
	w.create(w.pod("plain", ""))
	w.expectBound(1, "plain")
	// The rest ends, and the gang starts.
	require.Empty(t, w.pods("big", isBound))
	w.remove("first-1-0", "first-2-0")
	w.expectBound(3, "big")
	require.Empty(t, w.pods("late", isBound))
	require.Empty(t, w.pods("single", isBound))
	// When it has ended, the gangs that left it the room start.
	w.remove("big-0", "big-1", "big-2")
	w.expectBound(1, "late")
	w.expectBound(1, "single")
}
