package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// class makes sure of a priority class of a value and has a pod be of it.
func (w *world) class(value int32) func(*corev1.Pod) {
	w.t.Helper()
	return w.classOf(fmt.Sprintf("preemption-%d", value), value, corev1.PreemptLowerPriority)
}

// politeClass is a class of pods that have no other evicted.
func (w *world) politeClass(value int32) func(*corev1.Pod) {
	w.t.Helper()
	return w.classOf(fmt.Sprintf("polite-%d", value), value, corev1.PreemptNever)
}

func (w *world) classOf(name string, value int32, policy corev1.PreemptionPolicy) func(*corev1.Pod) {
	w.t.Helper()
	_, err := kube.SchedulingV1().PriorityClasses().Create(w.ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: &policy,
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(w.t, err)
	}
	of := func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
	w.awaitClass(of)
	return of
}

// awaitClass waits until the API server admits pods of a class: it reads the classes from a cache.
func (w *world) awaitClass(of func(*corev1.Pod)) {
	w.t.Helper()
	w.eventually("pods of the class are admitted", func() bool {
		_, err := kube.CoreV1().Pods(w.namespace).Create(w.ctx, w.pod("dry-run", "", of), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil
	})
}

func systemCritical(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }

func cpu(amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(amount)
	}
}

// pinTo has a pod go to one node only, as the pods of a DaemonSet do.
func (w *world) pinTo(node int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeSelector[corev1.LabelHostname] = fmt.Sprintf("%s-%d", w.namespace, node)
	}
}

// startGang creates a gang and waits until all of it is bound.
func (w *world) startGang(name string, minMember int32, n int, change ...func(*corev1.Pod)) {
	w.t.Helper()
	w.createGroup(name, minMember, "")
	w.createGang(name, n, change...)
	w.expectBound(name+"-", n)
}

// expectStays checks that so many pods whose names begin with a prefix are bound, also a while later.
func (w *world) expectStays(prefix string, n int) {
	w.t.Helper()
	w.expectBound(prefix, n)
	changed := func() bool { bound := w.bound(prefix); return bound >= 0 && bound != n } // below 0 nothing was read
	require.Never(w.t, changed, quiet, quiet/10, "%d pods of %s stay bound", n, prefix)
}

// expectUnplaced checks that a pod is tried, and is found no place and no victims for.
func (w *world) expectUnplaced(name string) {
	w.t.Helper()
	w.eventually(name+" is reported unschedulable", func() bool {
		return w.reported(name, []string{"preemption: "})
	})
	require.Never(w.t, func() bool { return w.bound(name) > 0 }, quiet, quiet/10, "%s is not bound", name)
}

func TestPreemptionPrefersOrdinaryPodsToGangs(t *testing.T) {
	w := newWorld(t, 9)
	low := w.class(10)
	for _, gang := range []string{"a", "b", "c", "d"} {
		w.startGang(gang, 2, 2, low)
	}
	w.create(w.pod("ordinary", "", low))
	w.expectBound("ordinary", 1)
	w.create(w.pod("urgent", "", w.class(100)))
	w.expectBound("urgent", 1)
	w.expectBound("ordinary", 0)
	for _, gang := range []string{"a-", "b-", "c-", "d-"} {
		w.expectStays(gang, 2)
	}
}

func TestPreemptionTakesAGangWhole(t *testing.T) {
	w := newWorld(t, 3)
	grace := int64(600)
	w.startGang("g", 3, 3, w.class(10), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &grace })
	w.create(w.pod("urgent", "", w.class(100)))
	w.eventually("all members of the gang are evicted as victims of preemption", func() bool { return w.disrupted("g") == 3 })
	for i := range 3 {
		w.remove(fmt.Sprintf("g-%d", i))
	}
	w.expectBound("urgent", 1)
}

// disrupted counts the pods of a prefix that are being deleted for preemption, and not to repair their gang.
func (w *world) disrupted(prefix string) int {
	pods, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	n := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, condition := range pod.Status.Conditions {
			if strings.HasPrefix(pod.Name, prefix) && pod.DeletionTimestamp != nil && condition.Type == corev1.DisruptionTarget &&
				condition.Status == corev1.ConditionTrue && condition.Reason == corev1.PodReasonPreemptionByScheduler &&
				strings.Contains(condition.Message, "preempting to accommodate a higher priority pod") {
				n++
			}
		}
	}
	return n
}

func TestPreemptionTakesSurplusBeforeOrdinaryPodsAndGangs(t *testing.T) {
	w := newWorld(t, 7)
	low := w.class(10)
	w.startGang("exact", 2, 2, low)
	w.startGang("elastic", 2, 4, low)
	w.create(w.pod("ordinary", "", low))
	w.expectBound("ordinary", 1)
	w.create(w.pod("urgent-0", "", w.class(100)))
	w.expectBound("urgent", 1)
	w.expectStays("elastic", 3)
	w.create(w.pod("urgent-1", "", w.class(100)))
	w.expectBound("urgent", 2)
	w.expectStays("elastic", 2)
	w.create(w.pod("urgent-2", "", w.class(100)))
	w.expectBound("urgent", 3)
	w.expectStays("ordinary", 0)
	w.expectStays("elastic", 2)
	w.expectStays("exact", 2)
	w.create(w.pod("urgent-3", "", w.class(100)))
	w.expectBound("urgent", 4)
	w.eventually("one of the gangs is gone whole", func() bool { return w.bound("e") == 2 && w.bound("elastic")%2 == 0 })
}

func TestPreemptionSparesAGangWithAMemberOfMoreImportance(t *testing.T) {
	w := newWorld(t, 2)
	w.createGroup("g", 2, "")
	w.create(w.pod("g-0", "g", w.class(1000), w.pinTo(0)), w.pod("g-1", "g", w.class(10), w.pinTo(1)))
	w.expectBound("g", 2)
	w.create(w.pod("urgent", "", w.class(100)))
	w.expectUnplaced("urgent")
	w.expectStays("g", 2)
}

// TestAPodGroupHasNoClassThatItsPodsLack: a ResourceQuota limits the classes of pods, and not of PodGroups. So a class that only the PodGroup
// names does not protect its pods, and evicts no others.
func TestAPodGroupHasNoClassThatItsPodsLack(t *testing.T) {
	w := newWorld(t, 1)
	w.class(1000)
	group := func(name string) {
		t.Helper()
		group := mustertesting.MakePodGroup(name).Namespace(w.namespace).MinMember(1).PriorityClass("preemption-1000").Obj()
		_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, group, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	group("g")
	w.createGang("g", 1, w.class(10))
	w.expectBound("g", 1)
	w.create(w.pod("urgent", "", w.class(100)))
	w.expectBound("urgent", 1)
	w.expectBound("g", 0)
	group("forged")
	w.createGang("forged", 1, w.class(10))
	w.expectHeld("forged-", "cpu")
	w.expectStays("urgent", 1)
}

func TestPreemptionPrefersGangsThatNoDisruptionBudgetGuards(t *testing.T) {
	w := newWorld(t, 4)
	low := w.class(10)
	guarded := func(p *corev1.Pod) { p.Labels = map[string]string{"guarded": "yes"} }
	all := intstr.FromString("100%")
	_, err := kube.PolicyV1().PodDisruptionBudgets(w.namespace).Create(w.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "yes"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.createGroup("guarded", 2, "")
	// Only the member that is not on the node in question is guarded in itself.
	w.create(w.pod("guarded-0", "guarded", low, guarded), w.pod("guarded-1", "guarded", low))
	w.expectBound("guarded", 2)
	w.startGang("free", 2, 2, w.class(50))
	w.create(w.pod("urgent", "", w.class(100)))
	w.expectBound("urgent", 1)
	w.expectStays("guarded", 2)
	w.expectStays("free", 0)
}

func TestSystemCriticalPodsBreakIn(t *testing.T) {
	w := newWorld(t, 2)
	w.createGroup("g", 2, "")
	w.create(w.pod("g-0", "g", systemCritical, w.pinTo(0)), w.pod("g-1", "g", w.class(10), w.pinTo(1)))
	w.expectBound("g", 2)
	w.create(w.pod("urgent", "", w.class(100)))
	w.expectUnplaced("urgent")
	w.expectStays("g", 2)
	w.create(w.pod("agent", "", systemCritical, w.pinTo(1)))
	w.expectBound("agent", 1)
	w.expectBound("g-0", 1)
	w.expectBound("g-1", 0)
}

func TestPodsThatMustNotPreemptDoNot(t *testing.T) {
	w := newWorld(t, 1)
	w.startGang("g", 1, 1, w.class(10))
	w.create(w.pod("polite", "", w.politeClass(100)))
	w.expectUnplaced("polite")
	w.expectStays("g", 1)
}

func TestPreemptionOfManyNeverLeavesAGangBelowItsMinimum(t *testing.T) {
	const nodes = 12
	w := newWorld(t, nodes)
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	minimums := map[string]int{}
	for i := range 8 {
		name := fmt.Sprintf("gang%d", i)
		minimums[name] = 2 + random.IntN(3)
		size := minimums[name] + random.IntN(3)
		w.createGroup(name, int32(minimums[name]), "")
		for m := range size {
			w.create(w.pod(fmt.Sprintf("%s-%d", name, m), name, w.class(int32(10*random.IntN(3))), cpu("1")))
		}
	}
	w.atRest()
	for i := range 60 {
		w.create(w.pod(fmt.Sprintf("urgent-%d", i), "", w.class(int32(5+10*random.IntN(4))), cpu([]string{"1", "2", "3"}[random.IntN(3)])))
		if i%15 == 14 {
			w.atRest()
			for name, minimum := range minimums {
				if n := w.bound(name + "-"); n > 0 {
					require.GreaterOrEqual(t, n, minimum, "the members of %s that are bound", name)
				}
			}
		}
	}
}

// atRest waits until every pod is bound, reported to wait, or gated, and stays so.
func (w *world) atRest() {
	w.t.Helper()
	var last string
	calm := 0
	w.eventually("nothing moves any more", func() bool {
		pods, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
		require.NoError(w.t, err)
		var now strings.Builder
		for i := range pods.Items {
			fmt.Fprintln(&now, pods.Items[i].Name, pods.Items[i].Spec.NodeName, pods.Items[i].Status.NominatedNodeName)
			if pods.Items[i].DeletionTimestamp != nil || pods.Items[i].Spec.NodeName == "" && pods.Items[i].Status.NominatedNodeName != "" {
				now.WriteString("on the move")
				calm = 0
			}
		}
		if now.String() != last {
			last, calm = now.String(), 0
			return false
		}
		calm++
		return calm > 30
	})
}

// The victim takes its time, as nothing ends it here; meanwhile the pod goes for whose sake it was evicted.
func TestEvictionsForAPodThatIsNeverBoundCountAsWasted(t *testing.T) {
	w := newQuietWorld(t, 1)
	high := w.class(100)
	grace := int64(30)
	w.create(w.pod("victim", "", w.class(10), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &grace }))
	w.expectBound("victim", 1)
	before := w.wastedEvictions()
	w.create(w.pod("urgent", "", high))
	w.eventually("the victim is being evicted", func() bool {
		pod, err := kube.CoreV1().Pods(w.namespace).Get(w.ctx, "victim", metav1.GetOptions{})
		return err == nil && pod.DeletionTimestamp != nil
	})
	require.Equal(t, before, w.wastedEvictions(), "it may still come")
	w.remove("urgent")
	w.eventually("the eviction counts", func() bool { return w.wastedEvictions() == before+1 })
	w.remove("victim")
}

func (w *world) wastedEvictions() int {
	w.t.Helper()
	page, err := cluster.Get(w.ctx, localcluster.MusterScheduler, "/metrics")
	require.NoError(w.t, err)
	_, count, _ := strings.Cut(string(page), "\nmuster_wasted_evictions_total ")
	count, _, _ = strings.Cut(count, "\n")
	n, err := strconv.Atoi(count)
	require.NoError(w.t, err)
	return n
}
