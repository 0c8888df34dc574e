package histories_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/simulation"
)

// starts is a scheduler that says when gangs start, in a bubble.
type starts struct {
	t   *testing.T
	api *simulation.API

	mu     sync.Mutex
	writes map[string]int // of plans, by PodGroup
}

// runStarts runs a story on nodes of one CPU each.
func runStarts(t *testing.T, nodes int, story func(*starts)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &starts{t: t, api: simulation.New(), writes: map[string]int{}}
		for i := range nodes {
			s.addNode(fmt.Sprint("node-", i))
		}
		profile, err := simulation.ShippedProfile()
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		scheduler, err := simulation.Start(ctx, s.api, simulation.Options{Profile: *profile, Plan: true, Intercept: s.count})
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			scheduler.Run(ctx)
		}()
		s.pass(time.Second)
		story(s)
		cancel()
		<-ended
		scheduler.Shutdown()
	})
}

// count counts the writes of plans.
func (s *starts) count(action clienttesting.Action) (bool, runtime.Object, error) {
	if patch, ok := action.(clienttesting.PatchAction); ok && action.GetResource() == simulation.PodGroups {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writes[patch.GetName()]++
	}
	return false, nil, nil
}

// addNode creates a node of one CPU.
func (s *starts) addNode(name string) {
	s.t.Helper()
	node := mustertesting.MakeNode(name).Allocatable("cpu", "1", "memory", "1Ti", "pods", "10").Obj()
	node.UID = types.UID(node.Name)
	require.NoError(s.t, s.api.Create(simulation.Nodes, node, ""))
}

// pass has virtual time pass.
func (s *starts) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// submit creates a gang of one-CPU pods, admitted. An empty estimate says nothing of its run time.
func (s *starts) submit(name string, members int, estimate string) {
	s.t.Helper()
	group := mustertesting.MakePodGroup(name).MinMember(int32(members)).Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	group.UID, group.CreationTimestamp = types.UID(name), metav1.Now()
	if estimate != "" {
		metav1.SetMetaDataAnnotation(&group.ObjectMeta, schedulingv1beta1.RunningEstimateAnnotation, estimate)
	}
	require.NoError(s.t, s.api.Create(simulation.PodGroups, group, namespace))
	s.submitPods(name, members)
}

// submitPods creates the pods of a gang.
func (s *starts) submitPods(name string, members int) {
	s.t.Helper()
	for i := range members {
		pod := mustertesting.MakePod(fmt.Sprintf("%s-%d", name, i)).SchedulerName("muster").Group(name).Requests("cpu", "1").Obj()
		pod.UID, pod.CreationTimestamp, pod.Status.Phase = types.UID(pod.Name), metav1.Now(), corev1.PodPending
		require.NoError(s.t, s.api.Create(simulation.Pods, pod, namespace))
	}
}

// change changes a PodGroup.
func (s *starts) change(name string, how func(*schedulingv1beta1.PodGroup)) {
	s.t.Helper()
	obj, err := s.api.Get(simulation.PodGroups, namespace, name)
	require.NoError(s.t, err)
	group := obj.(*schedulingv1beta1.PodGroup).DeepCopy()
	how(group)
	require.NoError(s.t, s.api.Update(simulation.PodGroups, group, namespace))
}

// end removes a gang.
func (s *starts) end(name string, members int) {
	s.t.Helper()
	for i := range members {
		require.NoError(s.t, s.api.Delete(simulation.Pods, namespace, fmt.Sprintf("%s-%d", name, i)))
	}
	require.NoError(s.t, s.api.Delete(simulation.PodGroups, namespace, name))
}

// plan is what a PodGroup says of its start.
func (s *starts) plan(name string) *schedulingv1beta1.PodGroupPlan {
	s.t.Helper()
	obj, err := s.api.Get(simulation.PodGroups, namespace, name)
	require.NoError(s.t, err)
	return obj.(*schedulingv1beta1.PodGroup).Status.Plan
}

func (s *starts) isBound(pod string) bool {
	s.t.Helper()
	obj, err := s.api.Get(simulation.Pods, namespace, pod)
	require.NoError(s.t, err)
	return obj.(*corev1.Pod).Spec.NodeName != ""
}

// TestTheStartOfAGangIsKnownWhenItIsSubmitted: eight nodes are full with Jobs that end after 25, 50, ... 200 seconds. A gang needs all of them.
func TestTheStartOfAGangIsKnownWhenItIsSubmitted(t *testing.T) {
	runStarts(t, 8, func(s *starts) {
		began := time.Now()
		for i := range 8 {
			s.submit(fmt.Sprint("job-", i), 1, (time.Duration(i+1) * 25 * time.Second).String())
		}
		s.pass(time.Second)
		s.submit("wide", 8, "1m")
		s.pass(10 * time.Second)

		plan := s.plan("wide")
		require.NotNil(t, plan)
		require.NotNil(t, plan.ExpectedStart, plan.Message)
		first := plan.ExpectedStart.At.Sub(began)
		assert.InDelta(t, 200, first.Seconds(), 4)
		assert.True(t, plan.ExpectedStart.Earliest.Before(&plan.ExpectedStart.At) && plan.ExpectedStart.At.Before(&plan.ExpectedStart.Latest))
		assert.EqualValues(t, 1, plan.Position)
		assert.Equal(t, []string{"job-3", "job-4", "job-5", "job-6", "job-7"}, plan.WaitsFor, "those that end last")
		assert.EqualValues(t, 3, plan.WaitsForOthers)

		s.submit("behind", 1, "10s")
		s.pass(10 * time.Second)
		behind := s.plan("behind")
		require.NotNil(t, behind)
		require.NotNil(t, behind.ExpectedStart, behind.Message)
		assert.Less(t, behind.ExpectedStart.At.Sub(began), 60*time.Second, "it starts in a hole")

		for i := range 8 {
			s.pass(time.Until(began.Add(time.Duration(i+1) * 25 * time.Second)))
			s.end(fmt.Sprint("job-", i), 1)
			if i == 1 {
				s.pass(10 * time.Second)
				s.end("behind", 1)
			}
		}
		s.pass(5 * time.Second)
		for i := range 8 {
			assert.True(t, s.isBound(fmt.Sprintf("wide-%d", i)))
		}
		assert.Nil(t, s.plan("wide"), "it has started")
		assert.LessOrEqual(t, s.writes["wide"], 4, "it has hardly moved: once, and once taken back")
		for i := range 8 {
			assert.Zero(t, s.writes[fmt.Sprint("job-", i)], "what starts at once costs no write")
		}
	})
}

// TestNoStartIsKnown says why, in the words of users.
func TestNoStartIsKnown(t *testing.T) {
	runStarts(t, 2, func(s *starts) {
		s.submit("runs", 2, "")
		s.pass(time.Second)
		s.submit("waits", 1, "1m")
		s.submit("large", 3, "1m")
		s.pass(10 * time.Second)
		for name, message := range map[string]string{
			"waits": "no start is known: what runs in its place has no known run time",
			"large": "no start is known: it asks for more than its nodes or its queue ever have",
		} {
			plan := s.plan(name)
			require.NotNil(t, plan, name)
			assert.Nil(t, plan.ExpectedStart)
			assert.Equal(t, message, plan.Message)
		}
		s.pass(10 * time.Minute)
		assert.LessOrEqual(t, s.writes["waits"], 1, "nothing has changed")
		s.end("runs", 2)
		s.pass(10 * time.Second)
		assert.True(t, s.isBound("waits-0"))
		assert.Nil(t, s.plan("waits"))
	})
}

// TestAGangThatWaitsNoMoreHasNoPlan: an expected start is taken back when a gang waits for its owner or an administrator. It comes again.
func TestAGangThatWaitsNoMoreHasNoPlan(t *testing.T) {
	runStarts(t, 2, func(s *starts) {
		for _, name := range []string{"gone", "closed"} {
			require.NoError(t, s.api.Create(simulation.Queues, mustertesting.MakeQueue(name).Obj(), ""))
		}
		s.submit("runs", 2, "1h")
		s.pass(time.Second)
		names := []string{"suspended", "bare", "queueless", "pending"}
		for _, name := range names {
			s.submit(name, 1, "1m")
		}
		s.change("suspended", func(group *schedulingv1beta1.PodGroup) {
			group.Spec.MinResources = &corev1.ResourceList{"cpu": resource.MustParse("1")}
		})
		s.change("queueless", func(group *schedulingv1beta1.PodGroup) { group.Spec.Queue = "gone" })
		s.change("pending", func(group *schedulingv1beta1.PodGroup) {
			group.Spec.Queue, group.Status.Phase = "closed", schedulingv1beta1.PodGroupPending
		})
		s.pass(2 * time.Minute)
		for _, name := range names {
			require.NotNil(t, s.plan(name), name)
		}

		for _, name := range names[:2] { // as if their owners were suspended
			require.NoError(t, s.api.Delete(simulation.Pods, namespace, name+"-0"))
		}
		require.NoError(t, s.api.Delete(simulation.Queues, "", "gone"))
		closed := mustertesting.MakeQueue("closed").Obj()
		closed.Labels = map[string]string{schedulingv1beta1.TakesNoJobsLabel: schedulingv1beta1.TakesNoJobsClosed}
		require.NoError(t, s.api.Update(simulation.Queues, closed, ""))
		s.pass(20 * time.Second)
		for _, name := range names {
			assert.Nil(t, s.plan(name), name)
		}

		s.submitPods("suspended", 1)
		s.pass(2 * time.Minute)
		assert.NotNil(t, s.plan("suspended"), "it is resumed")
	})
}

// estimate has a user say how long a gang runs.
func (s *starts) estimate(name, length string) {
	s.t.Helper()
	s.change(name, func(group *schedulingv1beta1.PodGroup) {
		metav1.SetMetaDataAnnotation(&group.ObjectMeta, schedulingv1beta1.RunningEstimateAnnotation, length)
	})
}

// TestAChangedEstimateWakesWhatDependsOnIt: a gang that may pass a reservation now starts. So does one when a reservation moves to a later time.
func TestAChangedEstimateWakesWhatDependsOnIt(t *testing.T) {
	runStarts(t, 3, func(s *starts) {
		s.submit("runs", 1, "10m")
		s.pass(time.Second)
		s.submit("wide", 3, "1m")
		s.pass(10 * time.Second)
		s.submit("unknown", 1, "")
		s.submit("long", 1, "20m")
		s.pass(10 * time.Second)
		require.False(t, s.isBound("unknown-0") || s.isBound("long-0"), "the reservation needs its room")

		s.estimate("unknown", "1m")
		s.pass(5 * time.Second)
		assert.True(t, s.isBound("unknown-0"))
		first := s.plan("wide").ExpectedStart.At

		s.pass(time.Minute)
		s.estimate("runs", "1h")
		s.pass(15 * time.Second)
		assert.True(t, s.isBound("long-0"))
		assert.InDelta(t, (50 * time.Minute).Minutes(), s.plan("wide").ExpectedStart.At.Sub(first.Time).Minutes(), 1)
		assert.NotNil(t, s.plan("wide"))
	})
}
