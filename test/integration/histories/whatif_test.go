package histories_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/simulation"
)

// Flags of TestAStartReviewIsWhatThenHappens.
var (
	whatIfs = flag.Int("whatifs", 100, "how many StartReviews are asked and compared with what then happens. None waits before the first half")
	waiters = flag.Int("whatifs.waiters", 8, "how many gangs may wait before each in the second half")
	whatIf  = flag.Uint64("whatifs.seed", 0, "the only StartReview to ask")
)

// clusterOfRuns is a cluster whose gangs run for as long as they say.
type clusterOfRuns struct {
	t      *testing.T
	api    *simulation.API
	random *rand.Rand
	nodes  int
	each   int

	mu    sync.Mutex
	runs  map[string]time.Duration // of each gang
	pods  map[string]int
	began map[string]time.Time
	gone  map[string]bool
}

// bound has a gang end when it has run.
func (c *clusterOfRuns) bound(action clienttesting.Action) (bool, runtime.Object, error) {
	if !action.Matches("create", "pods/binding") && action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
	name := binding.Name[:strings.LastIndex(binding.Name, "-")]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began[name].IsZero() && !c.gone[name] {
		c.began[name] = time.Now()
		time.AfterFunc(c.runs[name], func() { c.end(name) })
	}
	return false, nil, nil
}

// withdraw takes a gang away that waits.
func (c *clusterOfRuns) withdraw(name string) {
	c.mu.Lock()
	c.gone[name] = true
	c.mu.Unlock()
	c.end(name)
}

func (c *clusterOfRuns) hasBegun(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.began[name].IsZero()
}

func (c *clusterOfRuns) end(name string) {
	for i := range c.pods[name] {
		require.NoError(c.t, c.api.Delete(simulation.Pods, namespace, fmt.Sprintf("%s-%d", name, i)))
	}
	require.NoError(c.t, c.api.Delete(simulation.PodGroups, namespace, name))
}

// draw makes a gang that its queue could hold.
func (c *clusterOfRuns) draw(name string) *schedulingv1beta1.PodGroup {
	each := 1 + c.random.IntN(c.each)
	members := 1 + c.random.IntN(c.nodes*(c.each/each))
	group := mustertesting.MakePodGroup(name).MinMember(int32(members)).Queue(fmt.Sprint("q", c.random.IntN(2))).Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	minimum := resources.List{corev1.ResourceCPU: int64(1000 * each * members)}.ToResourceList()
	group.Spec.MinResources = &minimum
	length := time.Duration(60+c.random.IntN(1200)) * time.Second
	metav1.SetMetaDataAnnotation(&group.ObjectMeta, schedulingv1beta1.RunningEstimateAnnotation, length.String())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[name], c.pods[name] = length, members
	return group
}

func (c *clusterOfRuns) submit(group *schedulingv1beta1.PodGroup) {
	group = group.DeepCopy()
	group.UID, group.CreationTimestamp = types.UID(group.Name), metav1.Now()
	require.NoError(c.t, c.api.Create(simulation.PodGroups, group, namespace))
	each := resources.Evenly(resources.FromResourceList(*group.Spec.MinResources), int(group.Spec.MinMember))
	for i := range int(group.Spec.MinMember) {
		pod := mustertesting.MakePod(fmt.Sprintf("%s-%d", group.Name, i)).SchedulerName("muster").Group(group.Name).
			Requests("cpu", fmt.Sprintf("%dm", each[corev1.ResourceCPU])).Obj()
		pod.UID, pod.CreationTimestamp, pod.Status.Phase = types.UID(pod.Name), metav1.Now(), corev1.PodPending
		require.NoError(c.t, c.api.Create(simulation.Pods, pod, namespace))
	}
}

// ask asks about a gang, and returns the answer.
func (c *clusterOfRuns) ask(group *schedulingv1beta1.PodGroup) musterv1alpha1.StartReviewStatus {
	resource := musterv1alpha1.SchemeGroupVersion.WithResource("startreviews")
	asked := group.DeepCopy()
	asked.TypeMeta = metav1.TypeMeta{APIVersion: schedulingv1beta1.SchemeGroupVersion.String(), Kind: "PodGroup"}
	asked.Namespace = ""
	raw, err := json.Marshal(asked)
	require.NoError(c.t, err)
	review := &musterv1alpha1.StartReview{
		ObjectMeta: metav1.ObjectMeta{Name: "asks", Namespace: namespace, UID: "asks", CreationTimestamp: metav1.Now()},
		Spec:       musterv1alpha1.StartReviewSpec{PodGroup: runtime.RawExtension{Raw: raw}},
	}
	require.NoError(c.t, c.api.Create(resource, review, namespace))
	for range 200 {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		obj, err := c.api.Get(resource, namespace, review.Name)
		require.NoError(c.t, err)
		if status := obj.(*musterv1alpha1.StartReview).Status; status.Answer != "" {
			return status
		}
	}
	require.Fail(c.t, "no answer")
	return musterv1alpha1.StartReviewStatus{}
}

// compare asks about a gang and creates it. It says how the answer differs from what happens, "" for not at all.
func compare(t *testing.T, seed uint64, before int) (answer musterv1alpha1.StartAnswer, differs string) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 43))
		c := &clusterOfRuns{
			t: t, api: simulation.New(), random: random, nodes: 2 + random.IntN(5), each: 1 + random.IntN(4),
			runs: map[string]time.Duration{}, pods: map[string]int{}, began: map[string]time.Time{},
			gone: map[string]bool{},
		}
		for i := range c.nodes {
			node := mustertesting.MakeNode(fmt.Sprint("node-", i)).Allocatable("cpu", fmt.Sprint(c.each), "memory", "1Ti", "pods", "100").Obj()
			node.UID = types.UID(node.Name)
			require.NoError(t, c.api.Create(simulation.Nodes, node, ""))
		}
		for i := range 2 {
			queue := mustertesting.MakeQueue(fmt.Sprint("q", i)).Obj()
			if random.IntN(2) == 0 {
				queue = mustertesting.MakeQueue(fmt.Sprint("q", i)).Capability("cpu", fmt.Sprint(1+random.IntN(c.nodes*c.each))).Obj()
			}
			queue.Spec.Reclaimable = new(false) // no plan expects evictions
			require.NoError(t, c.api.Create(simulation.Queues, queue, ""))
		}
		profile, err := simulation.ShippedProfile()
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		scheduler, err := simulation.Start(ctx, c.api, simulation.Options{Profile: *profile, Plan: true, Intercept: c.bound, WithoutMetrics: true})
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			scheduler.Run(ctx)
		}()
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		pass(time.Second)
		waiting := 0
		for i := range 1 + random.IntN(8) {
			name := fmt.Sprint("job-", i)
			c.submit(c.draw(name))
			pass(10 * time.Second)
			if !c.hasBegun(name) {
				if waiting++; waiting > before {
					c.withdraw(name)
					waiting--
				}
			}
		}
		pass(time.Duration(random.IntN(30_000)) * time.Millisecond)
		group := c.draw("asked")
		status := c.ask(group)
		answer = status.Answer
		asked := time.Now()
		c.submit(group)
		for left := 6 * time.Hour; left > 0 && !c.hasBegun(group.Name); left -= time.Minute {
			if status.Answer == musterv1alpha1.StartsNever {
				left = time.Minute
			}
			pass(time.Minute)
		}
		differs = c.differs(&status, asked)
		cancel()
		<-ended
		scheduler.Shutdown()
	})
	return answer, differs
}

// precision is by how much a start may be later than in a plan. Places are chosen each five seconds at most, and pods are bound some time later.
const precision = 10 * time.Second

func (c *clusterOfRuns) differs(status *musterv1alpha1.StartReviewStatus, asked time.Time) string {
	began, has := c.began["asked"]
	if !has {
		if status.Answer == musterv1alpha1.StartsNever {
			return ""
		}
		return fmt.Sprintf("it was answered %q, and never started", status.Message)
	}
	expected := asked
	switch status.Answer {
	case musterv1alpha1.StartsLater:
		expected = status.Plan.ExpectedStart.At.Time
	case musterv1alpha1.StartsNow:
	default:
		return fmt.Sprintf("it was answered %q, and started after %s", status.Message, began.Sub(asked))
	}
	if off := began.Sub(expected); off.Abs() > precision {
		return fmt.Sprintf("it was to start after %s, and started %s later", expected.Sub(asked), off)
	}
	return ""
}

// mostWrong is the part of the answers that may be wrong where others wait. kube-scheduler places pods on equal nodes at random.
const mostWrong = 0.1

// TestAStartReviewIsWhatThenHappens when nothing else changes: on clusters with quotas and true run times, on which gangs run. In the first half no
// other gang waits.
func TestAStartReviewIsWhatThenHappens(t *testing.T) {
	if *whatIf > 0 {
		_, differs := compare(t, *whatIf, *waiters)
		assert.Empty(t, differs)
		return
	}
	half := uint64(*whatIfs / 2)
	assert.Zero(t, countWrong(t, 0, half, 0))
	assert.LessOrEqual(t, float64(countWrong(t, half, uint64(*whatIfs), *waiters)), mostWrong*float64(half))
}

// countWrong counts the wrong answers.
func countWrong(t *testing.T, from, until uint64, waiters int) (wrong int) {
	answers := map[musterv1alpha1.StartAnswer]int{}
	for seed := from; seed < until; seed++ {
		answer, differs := compare(t, seed+1, waiters)
		answers[answer]++
		if differs != "" {
			wrong++
			t.Logf("%d: %s: %s", seed+1, answer, differs)
		}
	}
	t.Logf("up to %d gangs wait before each: %d of %d were wrong: %v", waiters, wrong, until-from, answers)
	return wrong
}
