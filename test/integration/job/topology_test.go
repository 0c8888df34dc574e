package job_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// TestTheTopologyOfAJob: its PodGroup gets it once, and its partitions always. A change to the PodGroup by another client stays.
func TestTheTopologyOfAJob(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	wanted := mustertesting.MakeJob("j").Annotation(schedulingv1beta1.NarrowTopologyAnnotation, "rack@10m").
		NetworkTopology(batchv1alpha1.NetworkTopologySpec{HighestTierName: "block"}).
		Task(mustertesting.MakeTask("ps", 1)).Task(mustertesting.MakeTask("a", 4).Partitions(2, 2)).Obj()
	wanted.Spec.Tasks[1].PartitionPolicy.MinPartitions = 1
	wanted.Spec.Tasks[1].PartitionPolicy.NetworkTopology = &batchv1alpha1.NetworkTopologySpec{Mode: schedulingv1beta1.SoftNetworkTopologyMode, HighestTierAllowed: ptr.To(1)}
	job := s.applyObject(wanted)
	partitions := func() []schedulingv1beta1.SubGroupPolicySpec {
		return []schedulingv1beta1.SubGroupPolicySpec{{
			Name: "a", SubGroupSize: ptr.To[int32](2), MinSubGroups: ptr.To[int32](1), MatchLabelKeys: []string{"volcano.sh/partition-id"},
			LabelSelector:   &metav1.LabelSelector{MatchLabels: map[string]string{"volcano.sh/task-spec": "a"}},
			NetworkTopology: &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.SoftNetworkTopologyMode, HighestTierAllowed: ptr.To(1)},
		}}
	}
	group := s.group(job)
	assert.Equal(t, &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.HardNetworkTopologyMode, HighestTierName: "block"}, group.Spec.NetworkTopology)
	assert.Equal(t, partitions(), group.Spec.SubGroupPolicy)
	assert.Equal(t, map[string]int32{"ps": 1, "a": 2}, group.Spec.MinTaskMember)
	assert.Equal(t, int32(3), group.Spec.MinMember)
	assert.Equal(t, "rack@10m", group.Annotations[schedulingv1beta1.NarrowTopologyAnnotation])

	groups := muster.SchedulingV1beta1().PodGroups(group.Namespace)
	require.NoError(t, clients.Change(t.Context(), group.Name, groups.Get, groups.Update, func(group *schedulingv1beta1.PodGroup) {
		group.Spec.NetworkTopology = &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.SoftNetworkTopologyMode}
	}))
	s.edit("j", func(job *batchv1alpha1.Job) {
		job.Spec.Tasks[1].Replicas, job.Spec.Tasks[1].PartitionPolicy.TotalPartitions = 6, 3
		job.Spec.Tasks[1].PartitionPolicy.MinPartitions, job.Spec.Tasks[1].MinAvailable = 2, nil
		job.Spec.MinAvailable = 5
	})
	s.Soon("the minimum of the PodGroup follows", func() bool { return s.group(job).Spec.MinMember == 5 }, func() any { return s.group(job).Spec })
	group = s.group(job)
	assert.Equal(t, schedulingv1beta1.SoftNetworkTopologyMode, group.Spec.NetworkTopology.Mode)
	grown := partitions()
	grown[0].MinSubGroups = ptr.To[int32](2)
	assert.Equal(t, grown, group.Spec.SubGroupPolicy)
	s.admit(job)
	for name, id := range map[string]string{"j-a-1": "0", "j-a-2": "1", "j-a-5": "2"} {
		assert.Equal(t, id, s.awaitPod(name).Labels["volcano.sh/partition-id"], name)
		assert.Equal(t, "1", s.awaitPod(name).Annotations[schedulingv1beta1.TaskOrderAnnotation], "the task is the second, and the first in the alphabet")
	}
}
