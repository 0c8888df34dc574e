package podgroup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/scheduling"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// lonely is a pod without a PodGroup.
func lonely() *mustertesting.PodWrapper {
	return mustertesting.MakePod("p").UID("pod").SchedulerName("muster").Requests("cpu", "1500m")
}

func ownedBy(w *mustertesting.PodWrapper, kind, uid string) *corev1.Pod {
	pod := w.Obj()
	controller := true
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "o", UID: mustertesting.MakePod("x").UID(uid).Obj().UID, Controller: &controller}}
	return pod
}

func TestWhoNeedsAGroup(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *mustertesting.PodWrapper
		want bool
	}{
		"a lonely pod":            {lonely(), true},
		"of another scheduler":    {lonely().SchedulerName("default-scheduler"), false},
		"that has one":            {lonely().Group("g"), false},
		"that was given one":      {lonely().Group(adoptedName(lonely().Obj())), true},
		"that is important":       {lonely().Priority(scheduling.HighestUserDefinablePriority), true},
		"that is system-critical": {lonely().Priority(scheduling.SystemCriticalPriority), false},
		"that nodes need":         {lonely().Priority(scheduling.SystemCriticalPriority + 1000), false},
		"critical, and was given one before": {
			lonely().Priority(scheduling.SystemCriticalPriority).Group(adoptedName(lonely().Obj())), true,
		},
		"that has finished":          {lonely().Phase(corev1.PodSucceeded), false},
		"that is going":              {lonely().Terminating(time.Unix(1, 0)), false},
		"of a native pod group":      {lonely().NativeGroup("g"), false},
		"that a kubelet has made up": {lonely().Annotation(corev1.MirrorPodAnnotationKey, "x"), false},
	} {
		assert.Equal(t, test.want, needsGroup(test.pod.Obj(), func(name string) bool { return name == "muster" }), name)
	}
}

func TestAdoptedGroup(t *testing.T) {
	t.Run("for a bare pod", func(t *testing.T) {
		pod := lonely().PriorityClass("high").QueueName("q").Annotation("volcano.sh/cooldown-time", "10m").
			Label("volcano.sh/preemptable", "true").Label(schedulingv1beta1.UserLabel, "ann").Label("other", "x").Annotation("other", "x").Obj()
		group := adoptedGroup(pod, nil)
		assert.Equal(t, "podgroup-"+string(pod.UID), group.Name)
		assert.True(t, metav1.IsControlledBy(group, pod))
		assert.EqualValues(t, 1, group.Spec.MinMember)
		assert.Equal(t, "q", group.Spec.Queue)
		assert.Equal(t, "high", group.Spec.PriorityClassName)
		assert.Equal(t, "1500m", group.Spec.MinResources.Cpu().String())
		assert.Equal(t, map[string]string{"volcano.sh/cooldown-time": "10m"}, group.Annotations)
		assert.Equal(t, map[string]string{"volcano.sh/preemptable": "true", schedulingv1beta1.UserLabel: "ann"}, group.Labels)
	})
	t.Run("for the pods of a ReplicaSet", func(t *testing.T) {
		pod := ownedBy(lonely().Annotation("volcano.sh/preemptable", "false"), "ReplicaSet", "owner")
		group := adoptedGroup(pod, map[string]string{
			"scheduling.volcano.sh/group-min-member": "3", "volcano.sh/preemptable": "true", "volcano.sh/x": "y", "deployment.kubernetes.io/revision": "1",
		})
		assert.Equal(t, "podgroup-"+string(pod.OwnerReferences[0].UID), group.Name)
		assert.Equal(t, pod.OwnerReferences, group.OwnerReferences)
		assert.EqualValues(t, 3, group.Spec.MinMember)
		assert.Equal(t, "4500m", group.Spec.MinResources.Cpu().String())
		assert.Equal(t, map[string]string{"volcano.sh/preemptable": "false", "volcano.sh/x": "y"}, group.Annotations)
		assert.NotNil(t, scaledOwner(group))
	})
}

func TestMinMemberOf(t *testing.T) {
	for given, want := range map[string]int32{"": 1, "3": 3, "0": 0, "-1": 1, "many": 1, "99999999999": 1} {
		assert.Equal(t, want, minMemberOf(map[string]string{schedulingv1beta1.GroupMinMemberAnnotation: given}), given)
	}
}

func TestTopologyOf(t *testing.T) {
	assert.Nil(t, topologyOf(nil))
	soft := topologyOf(map[string]string{topologyModeAnnotation: "soft", topologyTierAnnotation: "2"})
	require.NotNil(t, soft)
	assert.Equal(t, schedulingv1beta1.SoftNetworkTopologyMode, soft.Mode)
	assert.Equal(t, 2, *soft.HighestTierAllowed)
	odd := topologyOf(map[string]string{topologyModeAnnotation: "odd", topologyTierAnnotation: "x"})
	require.NotNil(t, odd)
	assert.Equal(t, schedulingv1beta1.HardNetworkTopologyMode, odd.Mode)
	assert.Nil(t, odd.HighestTierAllowed)
}

func TestScaledOwner(t *testing.T) {
	assert.NotNil(t, scaledOwner(adoptedGroup(ownedBy(lonely(), "StatefulSet", "o"), nil)))
	assert.Nil(t, scaledOwner(adoptedGroup(ownedBy(lonely(), "DaemonSet", "o"), nil)))
	assert.Nil(t, scaledOwner(adoptedGroup(lonely().Obj(), nil)), "it goes with its pod")
	users := adoptedGroup(ownedBy(lonely(), "ReplicaSet", "o"), nil)
	users.Name = "made-by-a-user"
	assert.Nil(t, scaledOwner(users))
}
