package gangs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// TestOnlyAGangThatNeverReachedItsMinimumIsEvicted shows that a gang that was bound as a whole is not evicted when it loses a member. That
// holds also while its PodGroup's status does not say that it was bound. Under load the status is written later.
func TestOnlyAGangThatNeverReachedItsMinimumIsEvicted(t *testing.T) {
	for name, c := range map[string]struct {
		bound   int // of three
		evicted []string
	}{
		"whole, and then it lost one": {bound: 3, evicted: nil},
		"never whole":                 {bound: 2, evicted: []string{"m0", "m1"}},
	} {
		t.Run(name, func(t *testing.T) {
			tr, clock := newTestTracker(t)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 3))
			for i, member := range []string{"m0", "m1", "m2"} {
				pod := memberNamed(member).Obj()
				if i < c.bound {
					pod = on(pod, "node")
				}
				tr.SetPod(pod)
			}
			tr.DeletePod(memberNamed("m2").Obj())
			assert.Empty(t, toEvict(tr), "there is time to complete it")
			clock.Step(time.Hour)
			assert.Empty(t, toEvict(tr))
			clock.Step(time.Second)
			assert.Equal(t, c.evicted, toEvict(tr))
		})
	}
}

func TestAPartialGangIsNotEvictedWhileItIsCompleted(t *testing.T) {
	tr, clock := newTestTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	missing := memberNamed("missing").Obj()
	setPods(tr, memberNamed("bound").Node("node").Obj(), missing)
	clock.Step(2 * time.Hour)
	require.Empty(t, tr.Gate(missing))
	begin(t, tr, missing, nil)
	assert.Empty(t, toEvict(tr), "a member is on its way")
	result, _ := permit(tr, missing)
	require.Equal(t, gangs.Allow, result)
	assert.Empty(t, toEvict(tr), "its binding takes long")
	tr.SetPod(on(missing, "node"))
	assert.Empty(t, toEvict(tr))
}

func TestAWaitingMemberKeepsNoNomination(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	pod := memberNamed("m").Obj()
	pod.Status.NominatedNodeName = "node"
	tr.SetPod(pod)
	assert.Equal(t, []string{"m"}, toDenominate(tr), "its gang is not complete: others may have the room")
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = ""
	tr.SetPod(pod)
	assert.Empty(t, toDenominate(tr))
}

func TestSurplusOfARunningGangKeepsItsNomination(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
	pod := memberNamed("m").Obj()
	pod.Status.NominatedNodeName = "node"
	tr.SetPod(pod)
	assert.Empty(t, toDenominate(tr))
}

// repairs runs a repairer against an API that has some pods. The informer may show other pods.
func repairs(t *testing.T, api, informer []*corev1.Pod) (*evict.Repairer, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset()
	clients.CheckPreconditions(&client.Fake, client.Tracker())
	for _, pod := range api {
		require.NoError(t, client.Tracker().Add(pod))
	}
	// As the API server does: a patch that names a UID is about one object, not about a name.
	client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var pod corev1.Pod
		patch := action.(clienttesting.PatchAction)
		require.NoError(t, json.Unmarshal(patch.GetPatch(), &pod))
		live, err := client.Tracker().Get(action.GetResource(), patch.GetNamespace(), patch.GetName())
		if err == nil && pod.UID != "" && live.(*corev1.Pod).UID != pod.UID {
			return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), patch.GetName(), nil)
		}
		return false, nil, nil
	})
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, pod := range informer {
		require.NoError(t, indexer.Add(pod))
	}
	r := &evict.Repairer{
		IsDue: func(evict.Repair) bool { return true }, Client: client, Pods: corelisters.NewPodLister(indexer), Queue: evict.NewRepairQueue(),
		Events: events.NewFakeRecorder(10), Evicted: func(*corev1.Pod, string) {}, Workers: 1, // so that repairs are carried out one after the other
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r, client
}

func writes(client *fake.Clientset) (verbs []string) {
	for _, action := range client.Actions() {
		verbs = append(verbs, action.GetVerb())
	}
	return verbs
}

func isGone(client *fake.Clientset, name string) bool {
	_, err := client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), metav1.NamespaceDefault, name)
	return apierrors.IsNotFound(err)
}

func evictionOf(pod *corev1.Pod) evict.Repair {
	return evict.Repair{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Kind: evict.StartOver, Message: evict.StartsOverMessage}
}

func dropOf(pod *corev1.Pod) evict.Repair {
	return evict.Repair{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Kind: evict.DropNomination}
}

func TestAPodIsMarkedAndDeletedByItsEviction(t *testing.T) {
	pod := memberNamed("m").Node("n").Obj()
	r, client := repairs(t, []*corev1.Pod{pod}, []*corev1.Pod{pod})
	r.Queue.Add(evictionOf(pod))
	require.Eventually(t, func() bool { return isGone(client, "m") }, mustertesting.Timeout, time.Millisecond)
	require.Equal(t, []string{"patch", "delete"}, writes(client))
	marked := client.Actions()[0].(clienttesting.PatchAction)
	require.Equal(t, "status", marked.GetSubresource())
	var patched corev1.Pod
	require.NoError(t, json.Unmarshal(marked.GetPatch(), &patched))
	conditions := patched.Status.Conditions
	require.Len(t, conditions, 1)
	assert.Equal(t, corev1.DisruptionTarget, conditions[0].Type)
	assert.Equal(t, corev1.ConditionTrue, conditions[0].Status)
	assert.Equal(t, "PreemptionByScheduler", conditions[0].Reason)
}

// TestAPodOfALoweredQueueIsMarkedAfterItsEviction: the API server replaces an earlier mark. A mark that fails has no pod evicted twice.
func TestAPodOfALoweredQueueIsMarkedAfterItsEviction(t *testing.T) {
	for name, fails := range map[string]bool{"the mark is written": false, "the mark fails": true} {
		t.Run(name, func(t *testing.T) {
			pod := memberNamed("m").Node("n").Obj()
			r, client := repairs(t, []*corev1.Pod{pod}, []*corev1.Pod{pod})
			client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return fails, nil, apierrors.NewInternalError(errors.New("the API server is overloaded"))
			})
			job := evictionOf(pod)
			job.Kind, job.Message = evict.LowerUsage, "evicted because the queue uses too much"
			require.NoError(t, r.Do(t.Context(), job))
			require.Equal(t, []string{"create", "patch"}, writes(client))
			assert.Equal(t, "eviction", client.Actions()[0].GetSubresource())
			var patched corev1.Pod
			require.NoError(t, json.Unmarshal(client.Actions()[1].(clienttesting.PatchAction).GetPatch(), &patched))
			require.Len(t, patched.Status.Conditions, 1)
			assert.Equal(t, "PreemptionByScheduler", patched.Status.Conditions[0].Reason)
			assert.Equal(t, job.Message, patched.Status.Conditions[0].Message)
		})
	}
}

// TestAnEvictionIsNotHeldUpByAnOldVersionOfThePod: an update of it would be a conflict, and the pod would stay.
func TestAnEvictionIsNotHeldUpByAnOldVersionOfThePod(t *testing.T) {
	pod := memberNamed("m").Node("n").Obj()
	changed := pod.DeepCopy()
	pod.ResourceVersion, changed.ResourceVersion = "1", "2"
	changed.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	r, client := repairs(t, []*corev1.Pod{changed}, []*corev1.Pod{pod})
	client.PrependReactor("update", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), "m", errors.New("the version is old"))
	})
	client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		live, err := client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), metav1.NamespaceDefault, "m")
		require.NoError(t, err)
		assert.Len(t, live.(*corev1.Pod).Status.Conditions, 2, "it keeps what has changed")
		return false, nil, nil
	})
	r.Queue.Add(evictionOf(pod))
	require.Eventually(t, func() bool { return isGone(client, "m") }, mustertesting.Timeout, time.Millisecond)
}

// TestRoomOfOthersIsGivenBackInTime: a pod has its own grace period. It is at most ten minutes where the pod uses what is not its queue's.
// So it is if its owner has deleted it.
func TestRoomOfOthersIsGivenBackInTime(t *testing.T) {
	for name, c := range map[string]struct {
		kind          evict.RepairKind
		reason        string
		own           int64
		deleted, want *int64
		stays         bool
	}{
		"borrowed, a short grace period":  {kind: evict.MakeRoom, reason: gangmetrics.Reclaimed, own: 60},
		"borrowed, a long one":            {kind: evict.MakeRoom, reason: gangmetrics.Reclaimed, own: 1 << 40, want: ptr.To[int64](600)},
		"above a capability, a long one":  {kind: evict.LowerUsage, reason: gangmetrics.AboveCapability, own: 1 << 40, want: ptr.To[int64](600)},
		"for a higher priority":           {kind: evict.MakeRoom, reason: gangmetrics.Preempted, own: 1 << 40},
		"borrowed, and deleted for long":  {kind: evict.MakeRoom, reason: gangmetrics.Reclaimed, own: 60, deleted: ptr.To[int64](1 << 40), want: ptr.To[int64](600)},
		"borrowed, and it goes soon":      {kind: evict.MakeRoom, reason: gangmetrics.Reclaimed, own: 60, deleted: ptr.To[int64](60), stays: true},
		"deleted for long, by a priority": {kind: evict.MakeRoom, reason: gangmetrics.Preempted, own: 60, deleted: ptr.To[int64](1 << 40), stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := memberNamed("m").Node("n").Obj()
			pod.Spec.TerminationGracePeriodSeconds = &c.own
			if c.deleted != nil {
				pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Finalizers = &metav1.Time{Time: time.Now()}, c.deleted, []string{"example.com/kept"}
			}
			r, client := repairs(t, []*corev1.Pod{pod}, []*corev1.Pod{pod})
			job := evictionOf(pod)
			job.Kind, job.Reason = c.kind, c.reason
			require.NoError(t, r.Do(t.Context(), job))
			var made []*metav1.DeleteOptions
			for _, action := range client.Actions() {
				switch action := action.(type) {
				case clienttesting.DeleteActionImpl:
					made = append(made, &action.DeleteOptions)
				case clienttesting.CreateActionImpl:
					made = append(made, action.Object.(*policyv1.Eviction).DeleteOptions)
				}
			}
			if c.stays {
				require.Empty(t, made)
				return
			}
			require.Len(t, made, 1)
			assert.Equal(t, c.want, made[0].GracePeriodSeconds)
			assert.Equal(t, pod.UID, *made[0].Preconditions.UID)
		})
	}
}

// TestEachEvictionHasAnEvent: it says why, whatever the pod was evicted for.
func TestEachEvictionHasAnEvent(t *testing.T) {
	for kind, reason := range map[evict.RepairKind]string{evict.StartOver: gangmetrics.BelowMinimum, evict.MakeRoom: gangmetrics.Reclaimed, evict.LowerUsage: gangmetrics.AboveCapability} {
		t.Run(string(kind), func(t *testing.T) {
			pod := memberNamed("m").Node("n").Obj()
			r, _ := repairs(t, []*corev1.Pod{pod}, []*corev1.Pod{pod})
			job := evictionOf(pod)
			job.Kind, job.Reason, job.Message = kind, reason, "why"
			r.Queue.Add(job)
			select {
			case event := <-r.Events.(*events.FakeRecorder).Events:
				assert.Equal(t, "Normal "+reason+" why", event)
			case <-time.After(mustertesting.Timeout):
				t.Fatal("there is no event")
			}
		})
	}
}

func TestARepairThatFailsIsTriedAgain(t *testing.T) {
	overloaded := apierrors.NewInternalError(errors.New("the API server is overloaded"))
	conflict := apierrors.NewConflict(corev1.Resource("pods"), "m", errors.New("the pod has changed again and again"))
	for name, tc := range map[string]struct {
		verb string
		err  error
	}{
		"the mark fails": {"patch", overloaded},
		// Without a next try the gang would wait for the pod for a minute.
		"the kubelet writes the status at the same time": {"patch", conflict},
		"the deletion fails":                             {"delete", overloaded},
	} {
		t.Run(name, func(t *testing.T) {
			pod := memberNamed("m").Node("n").Obj()
			r, client := repairs(t, []*corev1.Pod{pod}, []*corev1.Pod{pod})
			failures := 3
			client.PrependReactor(tc.verb, "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				if failures--; failures >= 0 {
					return true, nil, tc.err
				}
				return false, nil, nil
			})
			r.Queue.Add(evictionOf(pod))
			require.Eventually(t, func() bool { return isGone(client, "m") }, mustertesting.Timeout, time.Millisecond)
			require.Eventually(t, func() bool { return r.Queue.NumRequeues(evictionOf(pod)) == 0 }, mustertesting.Timeout, time.Millisecond, "it is forgotten")
		})
	}
}

// TestARepairThatIsTriedAgainMustStillBeDue: while the API server refused the eviction the gang was completed.
func TestARepairThatIsTriedAgainMustStillBeDue(t *testing.T) {
	pod, missing := memberNamed("m").Node("n").Obj(), memberNamed("missing").Obj()
	for name, tc := range map[string]struct {
		happens func(*testing.T, *gangs.Tracker)
		due     bool
	}{
		"nothing":              {func(*testing.T, *gangs.Tracker) {}, true},
		"it is being placed":   {func(t *testing.T, tr *gangs.Tracker) { begin(t, tr, missing, nil) }, false},
		"it was completed":     {func(_ *testing.T, tr *gangs.Tracker) { tr.SetPod(on(missing, "n")) }, false},
		"the minimum is lower": {func(_ *testing.T, tr *gangs.Tracker) { tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1)) }, false},
		"the pod is gone":      {func(_ *testing.T, tr *gangs.Tracker) { tr.DeletePod(pod) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr, clock := newTestTracker(t)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			setPods(tr, pod, missing)
			clock.Step(2 * time.Hour)
			require.Equal(t, []string{"m"}, toEvict(tr))
			require.True(t, dispatch.NewDispatcher(tr).IsDue(evictionOf(pod)))
			tc.happens(t, tr)
			assert.Equal(t, tc.due, dispatch.NewDispatcher(tr).IsDue(evictionOf(pod)))

			r, client := repairs(t, []*corev1.Pod{pod}, []*corev1.Pod{pod})
			r.IsDue = dispatch.NewDispatcher(tr).IsDue
			require.NoError(t, r.Do(context.Background(), evictionOf(pod)))
			assert.Equal(t, tc.due, isGone(client, "m"))
		})
	}
}

func TestANominationIsDroppedWhileItIsOfNoUse(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	pod := memberNamed("m").Obj()
	pod.Status.NominatedNodeName = "n"
	tr.SetPod(pod)
	job := dropOf(pod)
	assert.True(t, dispatch.NewDispatcher(tr).IsDue(job))
	begin(t, tr, pod, nil)
	assert.False(t, dispatch.NewDispatcher(tr).IsDue(job), "the member is on its way")
}

// TestAPodThatWasReplacedIsNotEvicted: pods of Jobs have the names of their predecessors.
func TestAPodThatWasReplacedIsNotEvicted(t *testing.T) {
	old := memberNamed("m").Node("n").Obj()
	replaced := memberNamed("m").UID("another").Node("n").Obj()
	marker := memberNamed("marker").Node("n").Obj() // evicted when the repair before is done
	for name, seen := range map[string]*corev1.Pod{"the informer shows the new one": replaced, "it still shows the old one": old} {
		t.Run(name, func(t *testing.T) {
			r, client := repairs(t, []*corev1.Pod{replaced, marker}, []*corev1.Pod{seen, marker})
			r.Queue.Add(evictionOf(old))
			r.Queue.Add(evictionOf(marker))
			require.Eventually(t, func() bool { return isGone(client, "marker") }, mustertesting.Timeout, time.Millisecond)
			live, err := client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), metav1.NamespaceDefault, "m")
			require.NoError(t, err)
			assert.Equal(t, replaced, live)
			assert.Zero(t, r.Queue.NumRequeues(evictionOf(old)), "it is not tried again")
		})
	}
}

// The informer shows the old pod until the API server has marked it. Between marking and deletion it may be replaced.
func TestTheDeletionOfAnEvictionIsForOnePod(t *testing.T) {
	pod := memberNamed("m").Node("n").Obj()
	r, client := repairs(t, []*corev1.Pod{pod}, []*corev1.Pod{pod})
	r.Queue.Add(evictionOf(pod))
	require.Eventually(t, func() bool { return isGone(client, "m") }, mustertesting.Timeout, time.Millisecond)
	deletion := client.Actions()[1].(clienttesting.DeleteActionImpl)
	require.NotNil(t, deletion.DeleteOptions.Preconditions)
	assert.Equal(t, pod.UID, *deletion.DeleteOptions.Preconditions.UID)
}

func TestPodsThatAreGoneOrBeingDeletedNeedNoRepair(t *testing.T) {
	gone := memberNamed("gone").Node("n").Obj()
	goes := deleting(memberNamed("goes").Node("n").Obj())
	marker := memberNamed("marker").Node("n").Obj()
	r, client := repairs(t, []*corev1.Pod{marker}, []*corev1.Pod{goes, marker})
	for _, pod := range []*corev1.Pod{gone, goes, marker} {
		r.Queue.Add(evictionOf(pod))
	}
	require.Eventually(t, func() bool { return isGone(client, "marker") }, mustertesting.Timeout, time.Millisecond)
	assert.Equal(t, []string{"patch", "delete"}, writes(client), "of the marker")
}

func TestANominationIsDroppedUnlessThePodIsBound(t *testing.T) {
	nominated := func(name, node string) *corev1.Pod {
		pod := memberNamed(name).Node(node).Obj()
		pod.Status.NominatedNodeName = "n"
		return pod
	}
	waits, bound := nominated("waits", ""), nominated("bound", "n")
	all := []*corev1.Pod{waits, bound}
	r, client := repairs(t, all, all)
	nomination := func(name string) string {
		live, err := client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), metav1.NamespaceDefault, name)
		require.NoError(t, err)
		return live.(*corev1.Pod).Status.NominatedNodeName
	}
	r.Queue.Add(dropOf(bound))
	r.Queue.Add(dropOf(waits))
	require.Eventually(t, func() bool { return nomination("waits") == "" }, mustertesting.Timeout, time.Millisecond)
	assert.Equal(t, "n", nomination("bound"))
}

// TestAMinimumThatWasRaisedIsNotRepaired: a gang ran whole, and its minimum was raised above what its queue has. The rest waits as any gang's
// minimum: no quota is kept for it, and it does not go first.
func TestAMinimumThatWasRaisedIsNotRepaired(t *testing.T) {
	for name, restarted := range map[string]bool{"while the scheduler runs": false, "and the scheduler restarts": true} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "8").Obj())
			raised := groupIn(schedulingv1beta1.PodGroupUnknown, 20)
			raised.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{Type: schedulingv1beta1.PodGroupScheduled, Status: corev1.ConditionTrue}}
			if !restarted {
				tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupRunning, 2))
			}
			setPods(tr, memberNamed("m0").Node("n").Obj(), memberNamed("m1").Node("n").Obj())
			for i := range 18 {
				tr.SetPod(memberNamed(fmt.Sprint("new", i)).Obj())
			}
			tr.SetPodGroup(raised)

			assert.Nil(t, tr.Quota.QuotaShortage(singleNamed("other", "q").Requests("cpu", "6").Obj()), "six of eight are free")
			waiting := memberNamed("new0").Obj()
			require.Empty(t, tr.Gate(waiting))
			assert.Equal(t, gangs.RankNormal, tr.Order.OrderKey(waiting, tr.Clock.Now()).Rank)
			assert.Empty(t, toEvict(tr))
		})
	}
}

// TestRepairTakesNoQuotaThatIsNotThere: a gang that looks like one that a crash has left asks for more than its queue has.
func TestRepairTakesNoQuotaThatIsNotThere(t *testing.T) {
	for name, c := range map[string]struct {
		bound func(*corev1.Pod, string) *corev1.Pod
		free  string
	}{
		"bound by hand":      {onByHand, "7"},
		"bound for this one": {on, "7"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "8").Obj())
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 10))
			tr.SetPod(c.bound(memberNamed("bound").Obj(), "n"))
			for i := range 9 {
				tr.SetPod(memberNamed(fmt.Sprint("m", i)).Requests("cpu", "7").Obj())
			}
			assert.Nil(t, tr.Quota.QuotaShortage(singleNamed("other", "q").Requests("cpu", c.free).Obj()))
		})
	}
}

// TestAGangThatGoesFirstDoesSoForATime: a gang without a queue is not evicted in the end, so it goes first only until the timeout.
func TestAGangThatGoesFirstDoesSoForATime(t *testing.T) {
	tr, clock := newTestTracker(t)
	group := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
	group.Spec.Queue = ""
	tr.SetPodGroup(group)
	waiting := memberNamed("waiting").Obj()
	setPods(tr, memberNamed("bound").Node("n").Obj(), waiting)
	rank := func() int {
		require.Empty(t, tr.Gate(waiting))
		return tr.Order.OrderKey(waiting, clock.Now()).Rank
	}
	assert.Equal(t, gangs.RankPartial, rank())
	clock.Step(time.Hour + time.Second)
	dispatch.NewDispatcher(tr).Tick()
	assert.Equal(t, gangs.RankNormal, rank())
}

// TestAGangThatACrashLeftInPartStartsOver: muster-controller calls such a gang Unknown, since some of its members run.
func TestAGangThatACrashLeftInPartStartsOver(t *testing.T) {
	for _, phase := range []schedulingv1beta1.PodGroupPhase{schedulingv1beta1.PodGroupInqueue, schedulingv1beta1.PodGroupUnknown} {
		t.Run(string(phase), func(t *testing.T) {
			tr, clock := newTestTracker(t)
			tr.SetPodGroup(groupIn(phase, 4))
			setPods(tr, memberNamed("m0").Node("n").Obj(), memberNamed("m1").Node("n").Obj(), memberNamed("m2").Obj(), memberNamed("m3").Obj())
			clock.Step(time.Hour + time.Second)
			assert.Equal(t, []string{"m0", "m1"}, toEvict(tr))
		})
	}
}

// TestAReplacementGoesFirstForATime: a gang that lost a member is completed before others start. The replacement must ask for no more than the
// lost member. Others may start when the time is over.
func TestAReplacementGoesFirstForATime(t *testing.T) {
	for name, c := range map[string]struct {
		requests string
		first    bool
	}{
		"as large": {"1", true},
		"larger":   {"2", false},
	} {
		t.Run(name, func(t *testing.T) {
			tr, clock := newTestTracker(t)
			tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "8").Obj())
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupRunning, 3))
			setPods(tr, memberNamed("m0").Node("n").Obj(), memberNamed("m1").Node("n").Obj(), memberNamed("m2").Node("n").Obj())
			tr.SetPod(deleting(memberNamed("m2").Node("n").Obj()))
			tr.DeletePod(deleting(memberNamed("m2").Node("n").Obj()))
			replacement := memberNamed("new").Requests("cpu", c.requests).Obj()
			tr.SetPod(replacement)
			single := singleNamed("single", "q").Requests("cpu", "6").Obj()
			goesFirst := func() bool {
				require.Empty(t, tr.Gate(replacement))
				assert.Equal(t, tr.Gangs[theGang].UnderRepair, tr.Quota.QuotaShortage(single) != nil, "its quota is kept")
				return tr.Order.OrderKey(replacement, clock.Now()).Rank == gangs.RankPartial
			}
			assert.Equal(t, c.first, goesFirst())

			clock.Step(time.Hour + time.Second)
			_, repairs := dispatch.NewDispatcher(tr).Tick()
			assert.Empty(t, repairs, "it ran whole once")
			assert.False(t, goesFirst())
		})
	}
}

// TestAMemberOfAnEarlierIncarnationKeepsNoNomination: it never starts, though its gang runs.
func TestAMemberOfAnEarlierIncarnationKeepsNoNomination(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupRunning, 1))
	earlier := memberNamed("earlier").Obj()
	earlier.Status.NominatedNodeName = "node"
	setPods(tr, on(memberNamed("runs").Version(1).Obj(), "node"), earlier)
	require.Equal(t, gang.Running, phaseOf(tr, theGang))
	assert.Equal(t, []string{"earlier"}, toDenominate(tr))
	assert.True(t, dispatch.NewDispatcher(tr).IsDue(dropOf(earlier)))
}
