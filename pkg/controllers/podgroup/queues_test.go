package podgroup

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

const (
	openState    = schedulingv1beta1.QueueStateOpen
	closedState  = schedulingv1beta1.QueueStateClosed
	closingState = schedulingv1beta1.QueueStateClosing
)

// TestMaxRunningJobs: so many PodGroups of a queue and its children are admitted and unfinished at a time.
func TestMaxRunningJobs(t *testing.T) {
	s := newStage(t)
	team := mustertesting.MakeQueue("team").Parent("root").State(openState).Obj()
	team.Spec.Muster = &schedulingv1beta1.QueueExtension{MaxRunningJobs: ptr.To[int32](2)}
	s.cache(team)
	s.cache(mustertesting.MakeQueue("leaf").Parent("team").State(openState).Obj())
	s.cache(mustertesting.MakeQueue("other").Parent("root").State(openState).Obj())
	group := func(name, queue string, phase schedulingv1beta1.PodGroupPhase) *schedulingv1beta1.PodGroup {
		obj := mustertesting.MakePodGroup(name).UID(name).Queue(queue).MinMember(1).Phase(phase).Obj()
		s.cache(obj)
		s.admission.takeOver(obj)
		return obj
	}
	runs := group("runs", "leaf", schedulingv1beta1.PodGroupRunning)
	group("done", "team", schedulingv1beta1.PodGroupCompleted)
	a, b := group("a", "leaf", ""), group("b", "leaf", "")
	elsewhere := group("c", "other", "")
	round := func() {
		_, err := s.admission.Sync(t.Context(), allCandidates)
		require.NoError(t, err)
	}
	round()
	assert.True(t, s.isIn(a))
	assert.False(t, s.isIn(b))
	assert.Equal(t, `running jobs of queue "team": 2, its maxRunningJobs is 2 (found at 1970-01-01T02:46:40Z)`, s.admission.decision("default/b", "b").Message)
	assert.True(t, s.isIn(elsewhere))
	runs.Status.Phase = schedulingv1beta1.PodGroupCompleted
	s.cache(runs)
	round()
	assert.True(t, s.isIn(b))
}

// TestAChangeOfAQueueStartsARound: a group waits for the queue, and no other event tells that it may be admitted.
func TestAChangeOfAQueueStartsARound(t *testing.T) {
	queue := func(generation int64, cpu string, state schedulingv1beta1.QueueState) *schedulingv1beta1.Queue {
		obj := mustertesting.MakeQueue("q").Capability("cpu", cpu).State(state).Obj()
		obj.Generation = generation
		return obj
	}
	for name, c := range map[string]struct{ before, after *schedulingv1beta1.Queue }{
		"it comes":                 {nil, queue(1, "4", openState)},
		"it opens":                 {queue(1, "4", closedState), queue(1, "4", openState)},
		"its capability is raised": {queue(1, "1", openState), queue(2, "4", openState)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			if c.before != nil {
				s.cache(c.before)
			}
			group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(1).MinResources("cpu", "3").Obj()
			s.cache(group)
			require.True(t, s.admission.takeOver(group))
			_, err := s.admission.Sync(t.Context(), allCandidates)
			require.NoError(t, err)
			require.False(t, s.isIn(group))

			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.admission.loop.Run(ctx, 1)
			}()
			s.cache(c.after)
			if c.before == nil {
				s.queueHandler().OnAdd(c.after, false)
			} else {
				s.queueHandler().OnUpdate(c.before, c.after)
			}
			assert.Eventually(t, func() bool { return s.isIn(group) }, mustertesting.Timeout, 5*time.Millisecond)
			cancel()
			<-done
		})
	}
}

// TestTheEndOfAWaitingPodGroupStartsARound: the first PodGroup of a FIFO queue does not fit, and the next one waits for it.
func TestTheEndOfAWaitingPodGroupStartsARound(t *testing.T) {
	s := newStage(t)
	s.cache(mustertesting.MakeQueue("q").Capability("cpu", "4").Dequeue(schedulingv1beta1.DequeueStrategyFIFO).State(openState).Obj())
	first := mustertesting.MakePodGroup("0").UID("0").Queue("q").MinMember(1).MinResources("cpu", "2").Obj()
	large := mustertesting.MakePodGroup("a").UID("a").Queue("q").MinMember(1).MinResources("cpu", "4").Obj()
	small := mustertesting.MakePodGroup("b").UID("b").Queue("q").MinMember(1).MinResources("cpu", "1").Obj()
	for _, group := range []*schedulingv1beta1.PodGroup{first, large, small} {
		s.cache(group)
		require.True(t, s.admission.takeOver(group))
	}
	_, err := s.admission.Sync(t.Context(), allCandidates)
	require.NoError(t, err)
	require.False(t, s.isIn(small))

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.admission.loop.Run(ctx, 1)
	}()
	s.admission.lose(large.Namespace + "/" + large.Name)
	assert.Eventually(t, func() bool { return s.isIn(small) }, mustertesting.Timeout, 5*time.Millisecond)
	cancel()
	<-done
}

// TestANewQueueBlocksNothing: the queue controller is about to open it, and until then there is nothing to warn of. If it takes long, people
// are told.
func TestANewQueueBlocksNothing(t *testing.T) {
	s := newStage(t)
	queue := mustertesting.MakeQueue("q").State("").Obj()
	queue.CreationTimestamp.Time = s.time.Now()
	s.cache(queue)
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(1).Obj()
	s.serve(group)
	s.cache(group)
	s.admission.observe(group)
	round := func() time.Duration {
		after, err := s.admission.Sync(t.Context(), allCandidates)
		require.NoError(t, err)
		_, err = s.Sync(t.Context(), "default/g")
		require.NoError(t, err)
		return after
	}

	again := round()
	assert.Equal(t, 10*time.Second, again, "no other event starts a round")
	assert.Empty(t, s.told())
	assert.Empty(t, s.group("g").Status)
	s.time.Step(again)
	round()
	assert.Equal(t, []string{`Warning Unschedulable queue "q" is not open yet`}, s.told())
	assert.Equal(t, schedulingv1beta1.PodGroupPending, s.group("g").Status.Phase)

	queue = queue.DeepCopy()
	queue.Status.State = openState
	s.cache(queue)
	round()
	assert.Equal(t, inqueue, s.group("g").Status.Phase)
}
