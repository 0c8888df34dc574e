package podgroup

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/utils/ptr"

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

// homeFor is the home of a pod whose controller has these annotations.
func homeFor(pod *corev1.Pod, annotations map[string]string) home {
	if owner := sharingOwner(pod); owner != nil {
		return sharedHome(pod.OwnerReferences, owner, &ownerFacts{annotations: annotations})
	}
	return ownHome(pod)
}

func TestWhoNeedsAGroup(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *mustertesting.PodWrapper
		want bool
	}{
		"a lonely pod":            {lonely(), true},
		"of another scheduler":    {lonely().SchedulerName("default-scheduler"), false},
		"that has one":            {lonely().Group("g"), false},
		"that was given one":      {lonely().Group(ownHome(lonely().Obj()).name), true},
		"that is important":       {lonely().Priority(scheduling.HighestUserDefinablePriority), true},
		"that is system-critical": {lonely().Priority(scheduling.SystemCriticalPriority), false},
		"that nodes need":         {lonely().Priority(scheduling.SystemCriticalPriority + 1000), false},
		"critical, and was given one before": {
			lonely().Priority(scheduling.SystemCriticalPriority).Group(ownHome(lonely().Obj()).name), true,
		},
		"that has finished":          {lonely().Phase(corev1.PodSucceeded), false},
		"that is going":              {lonely().Terminating(time.Unix(1, 0)), false},
		"of a native pod group":      {lonely().NativeGroup("g"), false},
		"of scheduler-plugins":       {lonely().Label("scheduling.x-k8s.io/pod-group", "g"), false},
		"that a kubelet has made up": {lonely().Annotation(corev1.MirrorPodAnnotationKey, "x"), false},
	} {
		assert.Equal(t, test.want, needsGroup(test.pod.Obj(), func(name string) bool { return name == "muster" }), name)
	}
}

func TestAdoptedGroup(t *testing.T) {
	t.Run("for a bare pod", func(t *testing.T) {
		pod := lonely().PriorityClass("high").QueueName("q").Annotation("volcano.sh/cooldown-time", "10m").
			Label("volcano.sh/preemptable", "true").Label(schedulingv1beta1.UserLabel, "ann").Label("other", "x").Annotation("other", "x").Obj()
		group := adoptedGroup(pod, homeFor(pod, nil))
		assert.Equal(t, "podgroup-"+string(pod.UID), group.Name)
		assert.True(t, metav1.IsControlledBy(group, pod))
		assert.EqualValues(t, 1, group.Spec.MinMember)
		assert.Equal(t, "q", group.Spec.Queue)
		assert.Equal(t, "high", group.Spec.PriorityClassName)
		assert.Equal(t, "1500m", group.Spec.MinResources.Cpu().String())
		assert.Equal(t, map[string]string{"volcano.sh/cooldown-time": "10m"}, group.Annotations)
		assert.Nil(t, group.Spec.NetworkTopology)
		assert.Equal(t, map[string]string{"volcano.sh/preemptable": "true", schedulingv1beta1.UserLabel: "ann"}, group.Labels)
	})
	t.Run("with a topology", func(t *testing.T) {
		pod := lonely().Annotation("volcano.sh/network-topology-mode", "Soft").Annotation("volcano.sh/network-topology-highest-tier", "2").
			Annotation("muster.sh/narrow-topology", "1@10m").Obj()
		group := adoptedGroup(pod, homeFor(pod, nil))
		want := &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.SoftNetworkTopologyMode, HighestTierAllowed: ptr.To(2)}
		assert.Equal(t, want, group.Spec.NetworkTopology)
		assert.Equal(t, map[string]string{"muster.sh/narrow-topology": "1@10m"}, group.Annotations)
	})
	t.Run("with an estimate", func(t *testing.T) {
		const key = "muster.sh/running-estimate"
		pod := lonely().Annotation(key, "1h").Obj()
		assert.Equal(t, map[string]string{key: "1h"}, adoptedGroup(pod, homeFor(pod, nil)).Annotations)
		pod = ownedBy(lonely(), "ReplicaSet", "owner")
		assert.Equal(t, map[string]string{key: "2h"}, adoptedGroup(pod, homeFor(pod, map[string]string{key: "2h"})).Annotations)
	})
	t.Run("for the pods of a ReplicaSet", func(t *testing.T) {
		pod := ownedBy(lonely().Annotation("volcano.sh/preemptable", "false"), "ReplicaSet", "owner")
		group := adoptedGroup(pod, homeFor(pod, map[string]string{
			"scheduling.volcano.sh/group-min-member": "3", "volcano.sh/preemptable": "true", "volcano.sh/x": "y", "deployment.kubernetes.io/revision": "1",
		}))
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

func TestScaledOwner(t *testing.T) {
	groupOf := func(pod *corev1.Pod) *schedulingv1beta1.PodGroup { return adoptedGroup(pod, homeFor(pod, nil)) }
	assert.NotNil(t, scaledOwner(groupOf(ownedBy(lonely(), "StatefulSet", "o"))))
	assert.Nil(t, scaledOwner(groupOf(ownedBy(lonely(), "DaemonSet", "o"))))
	assert.Nil(t, scaledOwner(groupOf(lonely().Obj())), "it goes with its pod")
	users := groupOf(ownedBy(lonely(), "ReplicaSet", "o"))
	users.Name = "made-by-a-user"
	assert.Nil(t, scaledOwner(users))
	ofQueue := groupOf(ownedBy(lonely(), "StatefulSet", "o"))
	ofQueue.Name = sharedHome(nil, &ofQueue.OwnerReferences[0], nil).ofAccount("q").name
	assert.NotNil(t, scaledOwner(ofQueue), "that of one of the owner's queues")
	deployment := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "d", Controller: ptr.To(true)}
	pod := ownedBy(lonely(), "ReplicaSet", "o")
	facts := &ownerFacts{annotations: map[string]string{schedulingv1beta1.GroupMinMemberAnnotation: "3"}, controller: &deployment}
	assert.Equal(t, &deployment, scaledOwner(adoptedGroup(pod, sharedHome(pod.OwnerReferences, &pod.OwnerReferences[0], facts))))
}

// TestWhoSharesAPodGroup: only pods that are made of one template, judged by the kind and the API group of their owner.
func TestWhoSharesAPodGroup(t *testing.T) {
	for kind, shares := range map[string]bool{
		"apps/v1 ReplicaSet": true, "apps/v1 StatefulSet": true, "apps/v1 DaemonSet": true, "v1 ReplicationController": true, "batch/v1 Job": true,
		"batch.example.com/v1 Job": false, "sparkoperator.k8s.io/v1beta2 SparkApplication": false, "ray.io/v1 RayCluster": false, "apps.example.com/v1 StatefulSet": false,
	} {
		pod := ownedBy(lonely(), "", "owner")
		pod.OwnerReferences[0].APIVersion, pod.OwnerReferences[0].Kind, _ = strings.Cut(kind, " ")
		assert.Equal(t, shares, sharingOwner(pod) != nil, kind)
		want := "podgroup-pod"
		if shares {
			want = "podgroup-owner"
		}
		assert.Equal(t, want, homeFor(pod, nil).name, kind)
	}
}

func TestHowManyPodsAJobWants(t *testing.T) {
	complete := []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	for name, test := range map[string]struct {
		job  batchv1.Job
		want *int32
	}{
		"as many as run in parallel": {batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](4)}}, ptr.To[int32](4)},
		"one by default":             {batchv1.Job{}, ptr.To[int32](1)},
		"suspended":                  {batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr.To(true), Parallelism: ptr.To[int32](4)}}, ptr.To[int32](0)},
		"scaled to nothing":          {batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](0)}}, ptr.To[int32](0)},
		"finished":                   {batchv1.Job{Status: batchv1.JobStatus{Conditions: complete}}, nil},
	} {
		assert.Equal(t, test.want, wantedPods(&test.job), name)
	}
}
