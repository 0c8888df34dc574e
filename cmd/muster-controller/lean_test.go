package main

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestLeanPodsKeepWhatIsRead: a pod's requests, owner and state stay the same; the configuration of its containers goes.
func TestLeanPodsKeepWhatIsRead(t *testing.T) {
	pod := mustertesting.MakePod("p").Group("g").Requests("cpu", "1", "memory", "1Gi").Obj()
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	pod.Spec.NodeName, pod.Spec.Priority = "n", new(int32)
	pod.Spec.Overhead = mustertesting.Resources("cpu", "250m")
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{{Name: "sidecar", RestartPolicy: &always,
		Resources: corev1.ResourceRequirements{Requests: mustertesting.Resources("cpu", "2")}}}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "B"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access"}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 3, Ready: true}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	before := pod.DeepCopy()

	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodInitialized})
	pod.Status.ContainerStatuses[0].ImageID = "an-image"
	kept, err := new(leaner).lean(pod)
	require.NoError(t, err)
	assert.Same(t, pod, kept)
	assert.Equal(t, resources.PodRequests(before), resources.PodRequests(pod))
	assert.Equal(t, before.Annotations, pod.Annotations)
	assert.Equal(t, before.Spec.NodeName, pod.Spec.NodeName)
	assert.Equal(t, before.Spec.Priority, pod.Spec.Priority)
	assert.Equal(t, before.Spec.SchedulerName, pod.Spec.SchedulerName)
	assert.Equal(t, before.Status, pod.Status)
	assert.Empty(t, pod.ManagedFields)
	assert.Empty(t, pod.Spec.Volumes)
	assert.Empty(t, pod.Spec.Containers[0].Env)
}

// TestLeanObjectsShareWhatTheyHaveInCommon: two pods with the same labels have one set of strings.
func TestLeanObjectsShareWhatTheyHaveInCommon(t *testing.T) {
	label := func(pod *corev1.Pod) (key, value *byte) {
		for k, v := range pod.Labels {
			key, value = unsafe.StringData(k), unsafe.StringData(v)
		}
		return key, value
	}
	lean, pods := new(leaner).lean, make([]*corev1.Pod, 2)
	for i := range pods {
		pods[i] = mustertesting.MakePod("p").Obj()
		pods[i].Labels = map[string]string{strings.Clone("volcano.sh/job-name"): strings.Clone("pi")}
		_, err := lean(pods[i])
		require.NoError(t, err)
	}
	assert.Equal(t, map[string]string{"volcano.sh/job-name": "pi"}, pods[0].Labels)
	k0, v0 := label(pods[0])
	k1, v1 := label(pods[1])
	assert.Same(t, k0, k1)
	assert.Same(t, v0, v1)
}

// TestContainersThatAskForTheSameShareIt: two pods with the same requests have one list; different requests stay different.
func TestContainersThatAskForTheSameShareIt(t *testing.T) {
	lean, lists := new(leaner).lean, map[string]corev1.ResourceList{}
	for name, cpu := range map[string]string{"a": "100m", "b": "100m", "c": "200m", "d": "0.1"} {
		pod := mustertesting.MakePod(name).Requests("cpu", cpu, "memory", "1Gi").Obj()
		before := resources.PodRequests(pod)
		_, err := lean(pod)
		require.NoError(t, err)
		lists[name] = pod.Spec.Containers[0].Resources.Requests
		assert.Equal(t, before, resources.PodRequests(pod), name)
	}
	isOne := func(a, b corev1.ResourceList) bool {
		return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	}
	assert.True(t, isOne(lists["a"], lists["b"]))
	assert.False(t, isOne(lists["a"], lists["c"]))
}

// TestSharedAmountsAreBounded: amounts that no two pods have in common do not stay for ever.
func TestSharedAmountsAreBounded(t *testing.T) {
	var s sharedAmounts
	for i := range 3 * mostShared {
		own := mustertesting.Resources("cpu", strconv.Itoa(i+1))
		assert.Equal(t, own, s.shared(own))
	}
	assert.LessOrEqual(t, len(s.byText), mostShared)
}

// TestLeanJobsThatHaveEndedHaveNoTemplates: pods can be made of every Job that may still need some.
func TestLeanJobsThatHaveEndedHaveNoTemplates(t *testing.T) {
	for p, ended := range map[batchv1alpha1.JobPhase]bool{
		"": false, batchv1alpha1.Pending: false, batchv1alpha1.Running: false, batchv1alpha1.Restarting: false,
		batchv1alpha1.Aborting: false, batchv1alpha1.Aborted: false, batchv1alpha1.Completing: false, batchv1alpha1.Terminating: false,
		batchv1alpha1.Completed: true, batchv1alpha1.Failed: true, batchv1alpha1.Terminated: true,
	} {
		job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("t", 2).Requests("cpu", "1")).Obj()
		job.Status.State.Phase = p
		before := job.DeepCopy()
		_, err := new(leaner).lean(job)
		require.NoError(t, err)
		if ended {
			assert.Empty(t, job.Spec.Tasks[0].Template, p)
			before.Spec.Tasks[0].Template = corev1.PodTemplateSpec{}
		}
		assert.Equal(t, before, job, p)
	}
}

// TestLeanPhJobsThatHaveEnded: a PhJob's owner, its result and its time to live stay. The rest goes when it has ended.
func TestLeanPhJobsThatHaveEnded(t *testing.T) {
	for phase, ended := range map[primehubv1alpha1.PhJobPhase]bool{
		"": false, primehubv1alpha1.PhJobPending: false, primehubv1alpha1.PhJobPreparing: false, primehubv1alpha1.PhJobRunning: false,
		primehubv1alpha1.PhJobSucceeded: true, primehubv1alpha1.PhJobFailed: true, primehubv1alpha1.PhJobCancelled: true,
	} {
		job := &primehubv1alpha1.PhJob{
			ObjectMeta: metav1.ObjectMeta{Name: "j", Annotations: map[string]string{"a": "b"}, Labels: map[string]string{primehubv1alpha1.ScheduledByLabel: "s"}},
			Spec:       primehubv1alpha1.PhJobSpec{Command: "echo", DisplayName: "d", UserID: "u", Image: "i", TTLSecondsAfterFinished: new(int32)},
			Status:     primehubv1alpha1.PhJobStatus{Phase: phase, Reason: "r", Message: "m", FinishTime: new(metav1.Time), Requeued: 3},
		}
		want := job.DeepCopy()
		_, err := new(leaner).lean(job)
		require.NoError(t, err)
		if ended {
			want.Annotations, want.Spec.Command, want.Spec.DisplayName, want.Status.Message = nil, "", "", ""
		}
		assert.Equal(t, want, job, phase)
	}
}
