package gangs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestOtherNodeGroupsWakeWhatTheyKeptFromNodes: a gang that was rejected for its groups, and a pod without a gang that was tried with them.
func TestOtherNodeGroupsWakeWhatTheyKeptFromNodes(t *testing.T) {
	queue := mustertesting.MakeQueue("q").Parent("parent").NodeGroups("a").Obj()
	for name, c := range map[string]struct {
		change func(*gangs.Tracker)
		wakes  bool
	}{
		"other groups": {func(tr *gangs.Tracker) {
			tr.SetQueue(mustertesting.MakeQueue("q").Parent("parent").NodeGroups("b").Obj())
		}, true},
		"no groups":              {func(tr *gangs.Tracker) { tr.SetQueue(mustertesting.MakeQueue("q").Parent("parent").Obj()) }, true},
		"the queue is gone":      {func(tr *gangs.Tracker) { tr.DeleteQueue(queue) }, true},
		"another parent":         {func(tr *gangs.Tracker) { tr.SetQueue(mustertesting.MakeQueue("q").NodeGroups("a").Obj()) }, true},
		"groups of the parent":   {func(tr *gangs.Tracker) { tr.SetQueue(mustertesting.MakeQueue("parent").NodeGroups("b").Obj()) }, true},
		"the same queue again":   {func(tr *gangs.Tracker) { tr.SetQueue(queue.DeepCopy()) }, false},
		"its status":             {func(tr *gangs.Tracker) { tr.SetQueue(withRunning(queue)) }, false},
		"a queue without groups": {func(tr *gangs.Tracker) { tr.SetQueue(mustertesting.MakeQueue("parent").Obj()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetQueue(mustertesting.MakeQueue("parent").Obj())
			tr.SetQueue(queue)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
			scout, single := memberNamed("m").Obj(), singleNamed("single", "q").Obj()
			tr.SetPod(scout)
			s := tr.Decisions.Snapshot(scout)
			require.NotNil(t, s)
			_, ok := tr.Decisions.Commit(s, no(s, "other groups", scout, quota.NodeGroupPlugin))
			require.True(t, ok)
			require.Len(t, tr.Quota.NodeGroupsOf(single, true), 1)
			toLookAt(tr)

			c.change(tr)
			assert.Equal(t, c.wakes, tr.Gangs[theGang].Refusal.Woken)
			keys := toLookAt(tr)
			if !c.wakes {
				assert.NotContains(t, keys, state.NodeGroupsKey)
				return
			}
			require.Contains(t, keys, state.NodeGroupsKey)
			assert.Equal(t, []string{"single"}, namesOf(dispatch.NewDispatcher(tr).NextActions(state.NodeGroupsKey).Activate))
		})
	}
}

func withRunning(queue *schedulingv1beta1.Queue) *schedulingv1beta1.Queue {
	queue = queue.DeepCopy()
	queue.Status.Running = 1
	return queue
}

// TestABoundOrDeletedPodIsNotTriedForItsNodeGroups, and costs no memory.
func TestABoundOrDeletedPodIsNotTriedForItsNodeGroups(t *testing.T) {
	for name, end := range map[string]func(*gangs.Tracker, *corev1.Pod){
		"bound":   func(tr *gangs.Tracker, pod *corev1.Pod) { tr.SetPod(on(pod, "n")) },
		"deleted": func(tr *gangs.Tracker, pod *corev1.Pod) { tr.DeletePod(pod) },
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetQueue(mustertesting.MakeQueue("q").NodeGroups("a").Obj())
			pod := singleNamed("single", "q").Obj()
			tr.Quota.NodeGroupsOf(pod, true)
			end(tr, pod)
			assert.Empty(t, tr.Quota.Grouped)
		})
	}
}
