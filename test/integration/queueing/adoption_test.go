package queueing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/scheduling"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// groups lists the PodGroups of the test's namespace.
func (s *fixture) groups() []schedulingv1beta1.PodGroup {
	s.Helper()
	list, err := muster.SchedulingV1beta1().PodGroups(s.namespace).List(s.ctx, metav1.ListOptions{})
	require.NoError(s, err)
	return list.Items
}

// pods lists the pods that name a PodGroup.
func (s *fixture) pods(group string) []corev1.Pod {
	s.Helper()
	list, err := kube.CoreV1().Pods(s.namespace).List(s.ctx, metav1.ListOptions{})
	require.NoError(s, err)
	var members []corev1.Pod
	for _, pod := range list.Items {
		if pod.Annotations[schedulingv1beta1.GroupNameAnnotation] == group {
			members = append(members, pod)
		}
	}
	return members
}

func (s *fixture) createReplicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	s.Helper()
	labels := map[string]string{"app": name}
	pod := mustertesting.MakePod("x").SchedulerName("muster").Requests("cpu", "1").Obj().Spec
	pod.RestartPolicy = corev1.RestartPolicyAlways
	set, err := kube.AppsV1().ReplicaSets(s.namespace).Create(s.ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{schedulingv1beta1.GroupMinMemberAnnotation: "2"}},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}, metav1.CreateOptions{})
	require.NoError(s, err)
	return set
}

func (s *fixture) scale(name string, replicas int) {
	s.Helper()
	_, err := kube.AppsV1().ReplicaSets(s.namespace).Patch(s.ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
	require.NoError(s, err)
}

func TestABarePodGetsAPodGroup(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	pod, err := kube.CoreV1().Pods(s.namespace).Create(s.ctx,
		mustertesting.MakePod("p").Namespace(s.namespace).SchedulerName("muster").Obj(), metav1.CreateOptions{})
	require.NoError(t, err)
	name := "podgroup-" + string(pod.UID)
	s.eventually("the pod has its PodGroup", func() bool { return len(s.pods(name)) == 1 })
	s.phase(name, schedulingv1beta1.PodGroupInqueue)
	assert.Equal(t, "default", s.group(name).Spec.Queue)
	s.bind("p")
	s.phase(name, schedulingv1beta1.PodGroupRunning)

	s.deleteGroup(name)
	s.eventually("a PodGroup that was deleted by mistake is made anew", func() bool { return len(s.groups()) == 1 })
	s.deletePods("p")
	s.eventually("the PodGroup goes with its pod", func() bool { return len(s.groups()) == 0 })
}

func TestPodsOfOtherSchedulersAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	_, err := kube.CoreV1().Pods(s.namespace).Create(s.ctx, mustertesting.MakePod("p").Namespace(s.namespace).Obj(), metav1.CreateOptions{})
	require.NoError(t, err)
	s.never("it gets a PodGroup", func() bool { return len(s.groups()) > 0 })
}

func TestSystemCriticalPodsAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for name, class := range map[string]string{"critical": scheduling.SystemClusterCritical, "ordinary": ""} {
		_, err := kube.CoreV1().Pods(s.namespace).Create(s.ctx,
			mustertesting.MakePod(name).Namespace(s.namespace).SchedulerName("muster").PriorityClass(class).Obj(), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	s.eventually("the ordinary pod has its PodGroup", func() bool { return len(s.groups()) == 1 && len(s.pods("")) == 1 })
	s.never("the critical one gets one too", func() bool { return len(s.groups()) > 1 || len(s.pods("")) != 1 })
	assert.Equal(t, "critical", s.pods("")[0].Name)
}

// TestACriticalPodThatWasGivenAPodGroupKeepsIt: releases before this one gave one to every pod.
func TestACriticalPodThatWasGivenAPodGroupKeepsIt(t *testing.T) {
	s := newFixture(t)
	pod, err := kube.CoreV1().Pods(s.namespace).Create(s.ctx,
		mustertesting.MakePod("p").Namespace(s.namespace).SchedulerName("muster").PriorityClass(scheduling.SystemNodeCritical).Obj(), metav1.CreateOptions{})
	require.NoError(t, err)
	name := "podgroup-" + string(pod.UID)
	whileDown(func() {
		_, err := kube.CoreV1().Pods(s.namespace).Patch(s.ctx, "p", types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, schedulingv1beta1.GroupNameAnnotation, name), metav1.PatchOptions{})
		require.NoError(t, err)
	})
	s.eventually("there is the PodGroup that it names", func() bool { return len(s.groups()) == 1 })
	s.phase(name, schedulingv1beta1.PodGroupInqueue)
	s.bind("p")
	s.phase(name, schedulingv1beta1.PodGroupRunning)
}

func TestAReplicaSetHasOnePodGroup(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	set := s.createReplicaSet("web", 3)
	name := "podgroup-" + string(set.UID)
	s.eventually("all pods belong to it", func() bool { return len(s.pods(name)) == 3 })
	assert.Len(t, s.groups(), 1)
	assert.EqualValues(t, 2, s.group(name).Spec.MinMember)
	s.scale("web", 0)
	s.eventually("it goes when there are no pods any more", func() bool { return len(s.groups()) == 0 })
	s.scale("web", 2)
	s.eventually("and comes back", func() bool { return len(s.groups()) == 1 && len(s.pods(name)) == 2 })
	s.phase(name, schedulingv1beta1.PodGroupInqueue)
}
