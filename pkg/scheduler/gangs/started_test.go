package gangs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// spark is the PodGroup of a driver whose queue keeps an amount for the driver and its executors. It has none for "".
func spark(cpu string) *schedulingv1beta1.PodGroup {
	group := groupIn(schedulingv1beta1.PodGroupRunning, 1)
	if cpu != "" {
		group.Status.Reserved = mustertesting.Resources("cpu", cpu)
	}
	return group
}

// TestQuotaIsKeptForFurtherMembersOfAStartedGang has a queue of 4 cpu in which a driver of 1 cpu runs. Its executors use what is kept. Pods
// that need no admission leave it alone.
func TestQuotaIsKeptForFurtherMembersOfAStartedGang(t *testing.T) {
	tr := openTracker(t)
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "4").Obj())
	tr.SetPodGroup(spark("3"))
	setPods(tr, on(memberNamed("driver").Obj(), "n"), memberNamed("executor-1").Obj(), memberNamed("executor-2").Obj(), memberNamed("executor-3").Obj())
	refused := func(pod *corev1.Pod) bool { return tr.Quota.QuotaShortage(pod) != nil }
	start := func(name string) { setPods(tr, on(memberNamed(name).Obj(), "n")) }
	single := singleNamed("single", "q").Obj()

	assert.False(t, refused(single), "1 cpu of 4 is used, and 2 are kept")
	setPods(tr, on(singleNamed("other", "q").Obj(), "n"))
	require.True(t, refused(single))
	assert.Contains(t, tr.Quota.QuotaShortage(single).Error(), "quota is reserved for further members of a gang that has started")
	assert.True(t, tr.Quota.EvictionsCannotHelp(single, tr.Quota.QuotaShortage(single)), "nothing is evicted for it")
	assert.False(t, refused(singleNamed("high", "q").Priority(10).Obj()), "a higher priority goes first")
	assert.False(t, refused(memberNamed("executor-1").Obj()), "its own members use it")

	start("executor-1")
	assert.True(t, refused(single))
	start("executor-2")
	assert.True(t, refused(single), "all is used")
	assert.True(t, refused(memberNamed("executor-3").Obj()))

	tr.DeletePod(on(memberNamed("executor-2").Obj(), "n"))
	assert.True(t, refused(single), "it is kept for a replacement")
	assert.False(t, refused(memberNamed("executor-3").Obj()))
	tr.SetPodGroup(spark(""))
	assert.False(t, refused(single), "nothing is kept any more")

	tr.SetPodGroup(spark("3"))
	require.True(t, refused(single))
	tr.DeletePodGroup(spark("3"))
	assert.False(t, refused(single), "the PodGroup is gone")
}

// TestTheEndOfWhatIsKeptWakesPods: they waited for it.
func TestTheEndOfWhatIsKeptWakesPods(t *testing.T) {
	for name, end := range map[string]func(tr *gangs.Tracker){
		"it is released": func(tr *gangs.Tracker) { tr.SetPodGroup(spark("")) },
		"it is deleted":  func(tr *gangs.Tracker) { tr.DeletePodGroup(spark("4")) },
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "4").Obj())
			tr.SetPodGroup(spark("4"))
			single := singleNamed("single", "q").Obj()
			setPods(tr, on(memberNamed("driver").Obj(), "n"), single)
			require.NotNil(t, tr.Quota.QuotaShortage(single))
			d := dispatch.NewDispatcher(tr)
			require.Equal(t, []string{"single"}, namesOf(d.NextActions(state.QuotaKey).Activate), "it waits for quota")
			require.NotNil(t, tr.Quota.QuotaShortage(single))
			for tr.Dirty.Len() > 0 {
				key, _ := tr.Dirty.Get()
				tr.Dirty.Done(key)
			}
			end(tr)
			keys := []state.Key{}
			for tr.Dirty.Len() > 0 {
				key, _ := tr.Dirty.Get()
				keys = append(keys, key)
				tr.Dirty.Done(key)
			}
			assert.Contains(t, keys, state.QuotaKey)
		})
	}
}

// TestTheClassOfAPodGroupWithoutPodsKeepsNoQuota: anybody may write a class on a PodGroup. It counts as far as pods have it.
func TestTheClassOfAPodGroupWithoutPodsKeepsNoQuota(t *testing.T) {
	tr := openTracker(t)
	tr.Classes = simClasses()
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "4").Obj())
	group := spark("4")
	group.Spec.MinMember, group.Spec.PriorityClassName = 0, "high"
	tr.SetPodGroup(group)
	assert.Nil(t, tr.Quota.QuotaShortage(singleNamed("more important", "q").Priority(10).Obj()))
	assert.NotNil(t, tr.Quota.QuotaShortage(singleNamed("single", "q").Obj()))
}
