package eviction

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// lowered is a scheduler with a queue whose pods use 1 CPU each.
type lowered struct {
	*lowering
	t       *testing.T
	tracker *gangs.Tracker
	store   cache.Indexer
	budgets cache.Store
	now     time.Time
}

// withInformers is a scheduler's handle.
type withInformers struct {
	fwk.Handle // only the method below is used
	factory    informers.SharedInformerFactory
}

func (w *withInformers) SharedInformerFactory() informers.SharedInformerFactory { return w.factory }

func newLowered(t *testing.T) *lowered {
	now := time.Now()
	handle := &withInformers{factory: informers.NewSharedInformerFactory(kubefake.NewClientset(), 0)}
	l := &lowered{t: t, tracker: gangs.New(clocktesting.NewFakeClock(now)), now: now,
		store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), budgets: handle.factory.Policy().V1().PodDisruptionBudgets().Informer().GetStore()}
	l.lowering = &lowering{search: New(l.tracker.Victims, handle, nil), pods: corelisters.NewPodLister(l.store)}
	l.tracker.Quota.EnforceQuota()
	l.tracker.Victims.EvictPods()
	l.tracker.Leadership.Lead()
	return l
}

func (l *lowered) queue(cpu string, change ...func(*schedulingv1beta1.Queue)) {
	queue := mustertesting.MakeQueue("q").Capability("cpu", cpu).Obj()
	for _, c := range change {
		c(queue)
	}
	l.tracker.SetQueue(queue)
}

func (l *lowered) group(name string, minimum, pods int, change ...func(*corev1.Pod)) {
	l.tracker.SetPodGroup(mustertesting.MakePodGroup(name).UID(name).Queue("q").MinMember(int32(minimum)).Phase(schedulingv1beta1.PodGroupRunning).Obj())
	for i := range pods {
		l.pod(mustertesting.MakePod(fmt.Sprint(name, i)).Group(name), change...)
	}
}

func (l *lowered) pod(made *mustertesting.PodWrapper, change ...func(*corev1.Pod)) {
	pod := made.Node("n").Requests("cpu", "1").Obj()
	pod.UID, pod.CreationTimestamp.Time = types.UID(pod.Name), l.now
	for _, c := range change {
		c(pod)
	}
	require.NoError(l.t, l.store.Add(pod))
	l.tracker.SetPod(pod)
}

func (l *lowered) evicted(after time.Duration) []string {
	_, pods := l.next(l.now.Add(after))
	names := []string{}
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

func single(name string) *mustertesting.PodWrapper { return mustertesting.MakePod(name).QueueName("q") }

func TestPodsAboveALoweredCapability(t *testing.T) {
	keepByHand := func(pod *corev1.Pod) { pod.Annotations[batchv1alpha1.PodPreemptableKey] = "false" }
	keep := func(pod *corev1.Pod) {
		keepByHand(pod)
		pod.Annotations[schedulingv1beta1.ChargedToAnnotation] = "q"
	}
	long := func(q *schedulingv1beta1.Queue) {
		q.Spec.Muster = &schedulingv1beta1.QueueExtension{MinRuntime: &metav1.Duration{Duration: time.Hour}}
	}
	for name, c := range map[string]struct {
		runs   func(l *lowered)
		cpu    string
		change func(*schedulingv1beta1.Queue)
		want   []string
	}{
		"nothing is above":                     {func(l *lowered) { l.group("g", 2, 2) }, "2", nil, []string{}},
		"a gang goes whole":                    {func(l *lowered) { l.group("g", 2, 2) }, "1", nil, []string{"g0", "g1"}},
		"its surplus goes first":               {func(l *lowered) { l.group("g", 2, 4) }, "3", nil, []string{"g3"}},
		"surplus goes before single pods":      {func(l *lowered) { l.group("g", 2, 3); l.pod(single("s")) }, "3", nil, []string{"g2"}},
		"single pods go before gangs":          {func(l *lowered) { l.group("g", 1, 1); l.pod(single("s")) }, "1", nil, []string{"s"}},
		"the lowest priority goes first":       {func(l *lowered) { l.pod(single("a").Priority(2)); l.pod(single("b").Priority(1)) }, "1", nil, []string{"b"}},
		"a pod that says so stays":             {func(l *lowered) { l.pod(single("a"), keep); l.pod(single("b")) }, "0", nil, []string{"b"}},
		"one that was bound by hand goes":      {func(l *lowered) { l.pod(single("a"), keepByHand); l.pod(single("b").Priority(1)) }, "1", nil, []string{"a"}},
		"a gang with such a pod stays":         {func(l *lowered) { l.group("g", 2, 2, keepFirst) }, "0", nil, []string{}},
		"nothing goes before its time":         {func(l *lowered) { l.group("g", 2, 2) }, "0", long, []string{}},
		"a queue that is not reclaimable":      {func(l *lowered) { l.group("g", 2, 2) }, "0", notReclaimable, []string{}},
		"a pod that goes counts as gone":       {func(l *lowered) { l.pod(single("a"), going); l.pod(single("b")) }, "1", nil, []string{}},
		"no more than ten at once":             {func(l *lowered) { l.group("g", 1, 21) }, "1", nil, names("g", 9, 8, 7, 6, 5, 4, 3, 20, 2, 19)},
		"but a large gang whole":               {func(l *lowered) { l.group("g", 12, 12) }, "1", nil, names("g", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)},
		"what a budget protects stays":         {func(l *lowered) { l.protect(0); l.pod(single("a"), labelled); l.pod(single("b")) }, "1", nil, []string{"b"}},
		"a gang that a budget protects, too":   {func(l *lowered) { l.protect(1); l.group("g", 2, 2, labelled) }, "0", nil, []string{}},
		"as many go as a budget allows":        {func(l *lowered) { l.protect(1); l.group("g", 1, 4, labelled) }, "1", nil, []string{"g3"}},
		"a gang whose surplus must stay stays": {func(l *lowered) { l.protect(0); l.group("g", 1, 2, labelSecond) }, "0", nil, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLowered(t)
			l.queue("1000")
			c.runs(l)
			require.Empty(t, l.evicted(0))
			if c.change == nil {
				c.change = func(*schedulingv1beta1.Queue) {}
			}
			l.queue(c.cpu, c.change)
			require.Empty(t, l.evicted(0))
			require.Empty(t, l.evicted(lowerAfter-1), "the capability may be mistyped")
			slices.Sort(c.want)
			assert.Equal(t, c.want, l.evicted(lowerAfter))
		})
	}
}

// TestASiblingDoesNotPayForPodsThatWereBoundByHand: they say that they must stay, and push the parent over its capability.
func TestASiblingDoesNotPayForPodsThatWereBoundByHand(t *testing.T) {
	l := newLowered(t)
	l.tracker.Quota.Ledger.SetTotal(resources.List{corev1.ResourceCPU: 20000})
	l.tracker.SetQueue(mustertesting.MakeQueue("org").Capability("cpu", "8").Obj())
	l.tracker.SetQueue(mustertesting.MakeQueue("other").Parent("org").Obj())
	l.tracker.SetQueue(mustertesting.MakeQueue("q").Parent("org").Obj())
	l.group("g", 4, 4)
	for i := range 5 {
		l.pod(mustertesting.MakePod(fmt.Sprint("by-hand", i)).QueueName("other").Priority(1000).Annotation(batchv1alpha1.PodPreemptableKey, "false"))
	}
	require.Empty(t, l.evicted(0))
	assert.Len(t, l.evicted(lowerAfter), 1)
	assert.Contains(t, l.evicted(lowerAfter)[0], "by-hand")
}

// TestPodsThatALabelChargesHaveNothingEvicted: any user may write the label of a group of PrimeHub on pods that other schedulers bind.
func TestPodsThatALabelChargesHaveNothingEvicted(t *testing.T) {
	l := newLowered(t)
	ofTeam := func(q *schedulingv1beta1.Queue) {
		q.Labels = map[string]string{primehubv1alpha1.GroupNameLabel: "team"}
	}
	l.queue("4", ofTeam)
	l.group("g", 2, 2)
	labelled := func(name string) *mustertesting.PodWrapper {
		return mustertesting.MakePod(name).Label(primehubv1alpha1.PodGroupLabel, "escaped-team").Annotation(batchv1alpha1.PodPreemptableKey, "false")
	}
	for i := range 4 {
		l.pod(labelled(fmt.Sprint("labelled", i)))
	}
	require.NotEmpty(t, l.tracker.Victims.Overused(nil), "the group's quota counts them")
	require.Empty(t, l.evicted(0))
	assert.Empty(t, l.evicted(lowerAfter))

	l.pod(single("single"))
	l.queue("2", ofTeam)
	require.Empty(t, l.evicted(0))
	assert.Equal(t, []string{"single"}, l.evicted(lowerAfter), "without them, 3 of 2 cpu are used")
}

// TestACapabilityThatIsRaisedInTime: the time begins anew when it is lowered again.
func TestACapabilityThatIsRaisedInTime(t *testing.T) {
	l := newLowered(t)
	l.queue("1")
	l.group("g", 2, 2)
	require.Empty(t, l.evicted(0))
	l.queue("2")
	require.Empty(t, l.evicted(lowerAfter))
	l.queue("1")
	require.Empty(t, l.evicted(lowerAfter+1))
	require.NotEmpty(t, l.evicted(2*lowerAfter+1))
}

// TestEvictedOnceIsGone: pods that were chosen count as gone in the next round.
func TestEvictedOnceIsGone(t *testing.T) {
	l := newLowered(t)
	l.queue("1")
	l.group("g", 1, 2)
	require.Empty(t, l.evicted(0))
	overuse, pods := l.next(l.now.Add(lowerAfter))
	require.Len(t, pods, 1)
	require.EqualError(t, overuse, `queue "q" uses 2 cpu, and its capability is 1`)
	l.tracker.Victims.EvictFor(overuse, pods)
	assert.Empty(t, l.evicted(lowerAfter+lowerPeriod))
}

// TestASearchKnowsWhenItsAnswerMayDiffer: the first pod that must stay has run long enough then.
func TestASearchKnowsWhenItsAnswerMayDiffer(t *testing.T) {
	l := newLowered(t)
	l.queue("1000", func(q *schedulingv1beta1.Queue) {
		q.Spec.Muster = &schedulingv1beta1.QueueExtension{MinRuntime: &metav1.Duration{Duration: time.Hour}}
	})
	longest := func(pod *corev1.Pod) {
		pod.Annotations[batchv1alpha1.CooldownTimeKey], pod.Annotations[schedulingv1beta1.ChargedToAnnotation] = "3h", "q"
		pod.Status.StartTime = ptr.To(metav1.NewTime(l.now.Add(-time.Hour)))
	}
	l.pod(single("a"), longest)
	againOf := func() time.Time {
		pods, err := l.pods.List(labels.Everything())
		require.NoError(t, err)
		c, _ := l.census(pods)
		assert.Empty(t, l.search.candidates(c, anyVictim{}, l.now))
		return c.again
	}
	assert.Equal(t, l.now.Add(2*time.Hour), againOf())
	l.pod(single("b"))
	l.group("g", 2, 2)
	l.pod(single("never").Annotation(batchv1alpha1.PodPreemptableKey, "false").Annotation(schedulingv1beta1.ChargedToAnnotation, "q"))
	assert.Equal(t, l.now.Add(time.Hour), againOf())
}

// TestAStandbyLowersNothing: only the leader evicts.
func TestAStandbyLowersNothing(t *testing.T) {
	l := newLowered(t)
	l.tracker = gangs.New(clocktesting.NewFakeClock(l.now))
	l.search.victims = l.tracker.Victims
	l.tracker.Quota.EnforceQuota()
	l.tracker.Victims.EvictPods()
	l.queue("1")
	l.group("g", 2, 2)
	require.Empty(t, l.evicted(0))
	assert.Empty(t, l.evicted(lowerAfter))
	l.tracker.Leadership.Lead()
	require.Empty(t, l.evicted(lowerAfter))
	assert.NotEmpty(t, l.evicted(2*lowerAfter))
}

func names(prefix string, numbers ...int) (names []string) {
	for _, n := range numbers {
		names = append(names, fmt.Sprint(prefix, n))
	}
	return names
}

func notReclaimable(q *schedulingv1beta1.Queue) { q.Spec.Reclaimable = ptr.To(false) }

func going(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.Now()) }

func keepFirst(pod *corev1.Pod) {
	pod.Annotations[schedulingv1beta1.ChargedToAnnotation] = "q"
	if pod.Name == "g0" {
		pod.Annotations[batchv1alpha1.PodPreemptableKey] = "false"
	}
}

func labelled(pod *corev1.Pod) { pod.Labels = map[string]string{"protected": "yes"} }

func labelSecond(pod *corev1.Pod) {
	if pod.Name == "g1" {
		labelled(pod)
	}
}

// protect makes a disruption budget that lets some labelled pods go.
func (l *lowered) protect(allowed int32) {
	require.NoError(l.t, l.budgets.Add(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: metav1.SetAsLabelSelector(map[string]string{"protected": "yes"})},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}))
}
