package capacity

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/scheduler/eviction"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// newPlugin is the plugin beside a queue "q" of 4 CPUs below "parent" of 6.
func newPlugin(t *testing.T) (*Capacity, *gangs.Tracker) {
	t.Helper()
	tracker := gangs.New(clocktesting.NewFakeClock(time.Unix(1000, 0)))
	require.NoError(t, tracker.Configure("muster", config.CoschedulingArgs{Admission: config.AdmissionRequired}))
	tracker.Quota.EnforceQuota()
	tracker.Feed.Open()
	tracker.SetQueue(mustertesting.MakeQueue("parent").Capability("cpu", "6").Obj())
	tracker.SetQueue(mustertesting.MakeQueue("q").Parent("parent").Capability("cpu", "4").Obj())
	return &Capacity{tracker: tracker}, tracker
}

// inQueue is a pod that names a queue itself.
func inQueue(name, queue, cpu string) *corev1.Pod {
	return mustertesting.MakePod(name).UID(name).SchedulerName("muster").QueueName(queue).Requests("cpu", cpu).Obj()
}

// nativeCycle is the cycle of a pod whose native pod group upstream tries.
func nativeCycle() *framework.CycleState {
	cycle := framework.NewCycleState()
	cycle.SetPodGroupSchedulingCycle(framework.NewCycleState())
	return cycle
}

// passes says whether PreFilter lets a pod pass.
func passes(t *testing.T, c *Capacity, pod *corev1.Pod) bool {
	t.Helper()
	_, status := c.PreFilter(t.Context(), framework.NewCycleState(), pod, nil)
	if !status.IsSkip() {
		assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), "no victim helps")
	}
	return status.IsSkip()
}

// isCharged says whether a pod is charged.
func isCharged(tracker *gangs.Tracker, uid types.UID) bool {
	_, _, charged := tracker.Quota.Ledger.Charged(uid)
	return charged
}

func TestASinglePodWaitsForTheQuotaOfItsQueueAndOfItsAncestors(t *testing.T) {
	c, tracker := newPlugin(t)
	reserve := func(pod *corev1.Pod) {
		require.True(t, c.Reserve(t.Context(), framework.NewCycleState(), pod, "n").IsSuccess())
	}
	reserve(inQueue("first", "q", "3"))
	assert.True(t, passes(t, c, inQueue("small", "q", "1")))
	large := inQueue("large", "q", "2")
	assert.False(t, passes(t, c, large))
	assert.True(t, report.NewReports(tracker).WaitsForQuota(large), "it is activated when quota comes free")
	assert.True(t, passes(t, c, inQueue("beside", "parent", "3")))
	assert.False(t, passes(t, c, inQueue("too-much", "parent", "4")), "a child uses the quota of its parent")
	assert.True(t, passes(t, c, inQueue("free", "", "99")), "a pod that names no queue")

	_, status := c.PreFilter(t.Context(), framework.NewCycleState(), large, nil)
	assert.Contains(t, status.Message(), `waiting for quota: queue "q" has 1 cpu free`)
	c.Unreserve(t.Context(), framework.NewCycleState(), inQueue("first", "q", "3"), "n")
	assert.True(t, passes(t, c, large))
	reserve(large)
	assert.False(t, report.NewReports(tracker).WaitsForQuota(large))
}

func TestSurplusWaitsForQuotaAndTheMinimumDoesNot(t *testing.T) {
	c, tracker := newPlugin(t)
	tracker.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	member := func(name string) *mustertesting.PodWrapper {
		return mustertesting.MakePod(name).UID(name).Group("g").SchedulerName("muster").Requests("cpu", "3")
	}
	tracker.SetPod(member("g-0").Obj())
	tracker.SetPod(member("g-1").Obj())
	require.True(t, c.Reserve(t.Context(), framework.NewCycleState(), inQueue("used", "q", "3"), "n").IsSuccess())
	assert.True(t, passes(t, c, member("g-0").Obj()), "the gang is checked as a whole")
	tracker.SetPod(member("g-0").Node("n").Obj())
	assert.False(t, passes(t, c, member("g-1").Obj()))
}

// TestAMemberThatBecomesSurplusInItsCycleNeedsQuota: its gang is checked as a whole, until the minimum is lowered to what has room.
func TestAMemberThatBecomesSurplusInItsCycleNeedsQuota(t *testing.T) {
	for used, fits := range map[string]bool{"1": true, "3": false} {
		c, tracker := newPlugin(t)
		setMinimum := func(minMember int32) {
			tracker.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(minMember).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
		}
		member := func(name string) *mustertesting.PodWrapper {
			return mustertesting.MakePod(name).UID(name).Group("g").SchedulerName("muster").Requests("cpu", "1")
		}
		setMinimum(2)
		tracker.SetPod(member("g-0").Node("n").Obj())
		pod := member("g-1").Obj()
		tracker.SetPod(pod)
		require.True(t, c.Reserve(t.Context(), framework.NewCycleState(), inQueue("used", "q", used), "n").IsSuccess())
		cycle := framework.NewCycleState()
		_, status := c.PreFilter(t.Context(), cycle, pod, nil)
		require.True(t, status.IsSkip())
		setMinimum(1)
		status = c.Reserve(t.Context(), cycle, pod, "n")
		assert.Equal(t, fits, status.IsSuccess(), status)
		assert.Equal(t, fits, isCharged(tracker, pod.UID))
		assert.Equal(t, !fits, report.NewReports(tracker).WaitsForQuota(pod), "it is activated when quota comes free")
	}
}

// TestAPodThatAsksForMoreThanCanBeCountedIsRejected, with or without a queue: NodeResourcesFit counts some of these as less than nothing.
func TestAPodThatAsksForMoreThanCanBeCountedIsRejected(t *testing.T) {
	c, tracker := newPlugin(t)
	for _, queue := range []string{"q", ""} {
		for _, quantity := range []string{"10000000000000000", "10E", "1e2000000000"} {
			pod := inQueue("huge", queue, quantity)
			_, status := c.PreFilter(t.Context(), framework.NewCycleState(), pod, nil)
			assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
			assert.Equal(t, "the pod asks for 4611686018427387904m or more of cpu, which no cluster has", status.Message())
			assert.False(t, report.NewReports(tracker).WaitsForQuota(pod), "no quota helps it")
		}
	}
	tracker.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	member := mustertesting.MakePod("m").UID("m").Group("g").SchedulerName("muster").Requests("cpu", "10E").Obj()
	tracker.SetPod(member)
	assert.True(t, passes(t, c, member), "the gang is checked as a whole")
}

// TestABoundPodThatAsksForTooMuchIsChargedExactly: its node was set by hand. It fills the queue for as long as it is there.
func TestABoundPodThatAsksForTooMuchIsChargedExactly(t *testing.T) {
	c, tracker := newPlugin(t)
	running := inQueue("running", "q", "3")
	running.Spec.NodeName = "n"
	tracker.SetPod(running)
	for range 3 {
		pods := []*corev1.Pod{inQueue("a", "q", "8Ei"), inQueue("b", "q", "10000000000000000"), inQueue("c", "q", "10E")}
		for _, pod := range pods {
			pod.Spec.NodeName = "n"
			tracker.SetPod(pod)
			require.False(t, passes(t, c, inQueue("small", "q", "1")))
		}
		for _, pod := range pods {
			tracker.DeletePod(pod)
		}
	}
	assert.True(t, passes(t, c, inQueue("small", "q", "1")), "1 is free")
	assert.False(t, passes(t, c, inQueue("large", "q", "2")), "1 is free")
}

// TestTheCycleOfAPodThatLacksQuotaEnds: the plugins behind have not seen it in PreFilter. The cycles of other pods go on.
func TestTheCycleOfAPodThatLacksQuotaEnds(t *testing.T) {
	c, _ := newPlugin(t)
	cycle := framework.NewCycleState()
	pod := inQueue("large", "q", "5")
	_, status := c.PreFilter(t.Context(), cycle, pod, nil)
	require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	result, status := c.PostFilter(t.Context(), cycle.Clone(), pod, nil)
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	require.NotNil(t, result)
	assert.Equal(t, fwk.ModeOverride, result.Mode(), "a nomination ends")
	assert.Empty(t, result.NominatedNodeName)

	cycle = framework.NewCycleState()
	_, status = c.PreFilter(t.Context(), cycle, inQueue("small", "q", "1"), nil)
	require.True(t, status.IsSkip())
	result, status = c.PostFilter(t.Context(), cycle, pod, nil)
	assert.Nil(t, result)
	assert.Equal(t, fwk.Unschedulable, status.Code())
}

func TestReserveChargesAndUnreserveTakesTheChargeBack(t *testing.T) {
	for name, test := range map[string]struct {
		cycle   func() *framework.CycleState
		charged bool
		assumed bool
	}{
		"a scheduling cycle": {framework.NewCycleState, true, false},
		"a dry run": {func() *framework.CycleState {
			cycle := framework.NewCycleState()
			placement.MarkDryRun(cycle)
			return cycle
		}, false, false},
		"a native pod group is tried": {nativeCycle, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, tracker := newPlugin(t)
			pod := inQueue("p", "q", "3")
			require.True(t, c.Reserve(t.Context(), test.cycle(), pod, "n").IsSuccess())
			assert.Equal(t, test.charged, isCharged(tracker, "p"))
			assert.Equal(t, !test.charged && !test.assumed, passes(t, c, inQueue("other", "q", "2")), "the next pod sees what is taken")
			c.Unreserve(t.Context(), test.cycle(), pod, "n")
			assert.False(t, isCharged(tracker, "p"))
			assert.True(t, passes(t, c, inQueue("other", "q", "4")))
		})
	}
}

// TestADryRunChangesNoCharge: it may try a pod that another cycle has charged, or assumed.
func TestADryRunChangesNoCharge(t *testing.T) {
	c, tracker := newPlugin(t)
	dryRun := framework.NewCycleState()
	placement.MarkDryRun(dryRun)
	require.True(t, c.Reserve(t.Context(), framework.NewCycleState(), inQueue("p", "q", "3"), "n").IsSuccess())
	c.Unreserve(t.Context(), dryRun, inQueue("p", "q", "3"), "n")
	assert.True(t, isCharged(tracker, "p"))
}

// TestThePodsOfANativePodGroupSeeEachOther: upstream tries them all before it reserves for one, and does not ask again.
func TestThePodsOfANativePodGroupSeeEachOther(t *testing.T) {
	c, tracker := newPlugin(t)
	pods := []*corev1.Pod{inQueue("a", "q", "2"), inQueue("b", "q", "2"), inQueue("c", "q", "2")}
	for _, pod := range pods[:2] {
		assert.True(t, passes(t, c, pod))
		require.True(t, c.Reserve(t.Context(), nativeCycle(), pod, "n").IsSuccess())
	}
	assert.False(t, passes(t, c, pods[2]))
	// The API says meanwhile that the first is bound: its charge stays when the trial is taken back.
	bound := pods[0].DeepCopy()
	bound.Spec.NodeName = "n"
	tracker.SetPod(bound)
	for _, pod := range pods[:2] {
		c.Unreserve(t.Context(), nativeCycle(), pod, "n")
	}
	assert.True(t, isCharged(tracker, "a"))
	assert.True(t, passes(t, c, pods[1]))
	assert.False(t, passes(t, c, inQueue("d", "q", "3")))
	// A pod that names no queue assumes nothing, not even in the account without a name.
	changes := tracker.Quota.Ledger.Changes()
	require.True(t, c.Reserve(t.Context(), nativeCycle(), inQueue("free", "", "9"), "n").IsSuccess())
	assert.True(t, passes(t, c, pods[1]))
	assert.Equal(t, changes, tracker.Quota.Ledger.Changes())
}

// TestAChargeOfABoundPodStays: a binding may have been carried out although its answer said that it failed.
func TestAChargeOfABoundPodStays(t *testing.T) {
	c, tracker := newPlugin(t)
	pod := inQueue("p", "q", "3")
	require.True(t, c.Reserve(t.Context(), framework.NewCycleState(), pod, "n").IsSuccess())
	bound := pod.DeepCopy()
	bound.Spec.NodeName = "n"
	tracker.SetPod(bound)
	c.Unreserve(t.Context(), framework.NewCycleState(), pod, "n")
	assert.True(t, isCharged(tracker, "p"))
}

// TestQuotaDependsOnNoNode: pods that are similar are so with the plugin, and no event of the cluster concerns it.
func TestQuotaDependsOnNoNode(t *testing.T) {
	c, _ := newPlugin(t)
	fragments, status := c.SignPod(t.Context(), inQueue("p", "q", "1"))
	assert.Empty(t, fragments)
	assert.True(t, status.IsSuccess())
	events, err := c.EventsToRegister(t.Context())
	require.NoError(t, err)
	assert.Empty(t, events)
	assert.Nil(t, c.PreFilterExtensions())
}

// TestAProcessWhosePodsAllLackQuotaLeads: Coscheduling, which comes next, does not see them.
func TestAProcessWhosePodsAllLackQuotaLeads(t *testing.T) {
	c, tracker := newPlugin(t)
	require.False(t, tracker.Leadership.Leads())
	assert.False(t, passes(t, c, inQueue("large", "q", "5")))
	assert.True(t, tracker.Leadership.Leads())
}

// writer notes the bindings that are handed to the queue of API calls.
type writer struct {
	fwk.APICacher
	bindings []*corev1.Binding
}

func (w *writer) BindPod(binding *corev1.Binding) (<-chan error, error) {
	w.bindings = append(w.bindings, binding)
	return nil, nil
}

func (w *writer) WaitOnFinish(context.Context, <-chan error) error { return nil }

// binds is the scheduler's handle, as Bind uses it.
type binds struct {
	fwk.Handle
	client kubernetes.Interface
	writer fwk.APICacher
}

func (b *binds) ClientSet() kubernetes.Interface { return b.client }
func (b *binds) APICacher() fwk.APICacher        { return b.writer }

// TestTheBindingSaysWhatAPodIsChargedTo with and without the queue of API calls. The binding of a pod without an account says so.
func TestTheBindingSaysWhatAPodIsChargedTo(t *testing.T) {
	for _, queued := range []bool{false, true} {
		c, tracker := newPlugin(t)
		member := mustertesting.MakePod("member").UID("member").Group("g").SchedulerName("muster").Requests("cpu", "1").Obj()
		single, free := inQueue("single", "parent", "1"), inQueue("free", "", "1")
		client, calls := fake.NewClientset(member, single, free), &writer{}
		handle := &binds{client: client}
		if queued {
			handle.writer = calls
		}
		c.handle = handle
		tracker.SetPodGroup(mustertesting.MakePodGroup("g").UID("the-uid").Queue("q").MinMember(0).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
		tracker.SetPod(member)
		bind := func(pod *corev1.Pod) *fwk.Status {
			cycle := framework.NewCycleState()
			require.True(t, c.Reserve(t.Context(), cycle, pod, "n").IsSuccess())
			return c.Bind(t.Context(), cycle, pod, "n")
		}
		require.NoError(t, bind(single).AsError())
		require.NoError(t, bind(member).AsError())
		require.NoError(t, bind(free).AsError())

		bindings := calls.bindings
		for _, action := range client.Actions() {
			require.Equal(t, "binding", action.GetSubresource())
			bindings = append(bindings, action.(clienttesting.CreateAction).GetObject().(*corev1.Binding))
		}
		require.Len(t, bindings, 3)
		assert.Equal(t, map[string]string{"muster.sh/charged-to": "parent"}, bindings[0].Annotations)
		assert.Equal(t, map[string]string{"muster.sh/charged-to": "q", "muster.sh/bound-for": "the-uid"}, bindings[1].Annotations)
		assert.Equal(t, map[string]string{"muster.sh/charged-to": ""}, bindings[2].Annotations)
		assert.Equal(t, corev1.ObjectReference{Kind: "Node", Name: "n"}, bindings[1].Target)
		assert.Equal(t, member.UID, bindings[1].UID)
	}
}

// TestTheBindingClearsAForgedPath: the annotation says where the topology has put a pod, and this pod asks for none.
func TestTheBindingClearsAForgedPath(t *testing.T) {
	c, _ := newPlugin(t)
	calls := &writer{}
	c.handle = &binds{writer: calls}
	forged := inQueue("forged", "q", "1")
	forged.Annotations[schedulingv1beta1.TopologyPathAnnotation] = "rack-1/row-1"
	for _, pod := range []*corev1.Pod{forged, inQueue("plain", "q", "1")} {
		cycle := framework.NewCycleState()
		require.True(t, c.Reserve(t.Context(), cycle, pod, "n").IsSuccess())
		require.NoError(t, c.Bind(t.Context(), cycle, pod, "n").AsError())
	}
	require.Len(t, calls.bindings, 2)
	assert.Equal(t, map[string]string{"muster.sh/charged-to": "q", schedulingv1beta1.TopologyPathAnnotation: ""}, calls.bindings[0].Annotations)
	assert.Equal(t, map[string]string{"muster.sh/charged-to": "q"}, calls.bindings[1].Annotations)
}

// TestNoPodIsTriedBeforeTheQueuesAreRead: the capability of a queue that is not known yet has room for everything.
func TestNoPodIsTriedBeforeTheQueuesAreRead(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	tracker := gangs.New(clock)
	require.NoError(t, tracker.Configure("muster", config.CoschedulingArgs{}))
	tracker.Quota.EnforceQuota()
	tracker.Feed.Started = true
	c := &Capacity{tracker: tracker}
	passed := make(chan bool)
	go func() {
		_, status := c.PreFilter(context.Background(), framework.NewCycleState(), inQueue("large", "q", "5"), nil)
		passed <- status.IsSkip()
	}()
	require.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond, "it waits")
	tracker.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "4").Obj())
	tracker.Feed.Open()
	assert.False(t, <-passed)
}

// TestAPodWaitsForTheVictimsOfItsSeat: it says so, its nomination stays, and nothing more is evicted for it.
func TestAPodWaitsForTheVictimsOfItsSeat(t *testing.T) {
	c, tracker := newPlugin(t)
	tracker.Victims.EvictPods()
	c.victims = eviction.New(tracker.Victims, nil, nil)
	victim, mine := inQueue("victim", "q", "4"), inQueue("mine", "q", "1")
	victim.Spec.NodeName = "n"
	mine.Spec.Priority = new(int32(10))
	tracker.SetPod(victim)
	search, _ := tracker.Victims.SearchFor(mine)
	require.NotNil(t, search)
	info, err := framework.NewPodInfo(victim)
	require.NoError(t, err)
	_, ok := tracker.Victims.CommitSeat(search, &placement.Seat{
		Victims: []*placement.Victim{{Victim: preemption.NewPodVictim(info, nil, nil), Kind: gang.SinglePod, Rule: quota.ByPriority}},
		Places:  map[types.UID]string{mine.UID: "n"},
	})
	require.True(t, ok)

	cycle := framework.NewCycleState()
	_, status := c.PreFilter(t.Context(), cycle, mine, nil)
	assert.Equal(t, "waiting until 1 pod has gone that was evicted for the pod", status.Message())
	result, status := c.PostFilter(t.Context(), cycle, mine, nil)
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	assert.Nil(t, result, "the nomination stays")
	tracker.DeletePod(victim)
	assert.True(t, passes(t, c, mine))
}
