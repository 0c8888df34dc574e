package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// adopted is a story of pods that Muster did not make: muster-controller gives them a PodGroup.
type adopted struct {
	*harness.Story
	queue string
}

// newAdopted makes a queue of a capability in CPUs, and one node.
func newAdopted(t *testing.T, capability, node string) *adopted {
	t.Helper()
	s := &adopted{Story: harness.New(t)}
	s.AddNodes(1, "cpu", node)
	s.queue = s.Namespace
	s.CreateQueue(mustertesting.MakeQueue(s.queue).Capability("cpu", capability))
	return s
}

// minimum is the annotation that makes a gang of an owner's pods.
func minimum(n int) map[string]string {
	return map[string]string{schedulingv1beta1.GroupMinMemberAnnotation: fmt.Sprint(n)}
}

// template is that of an owner's pods: each requests one CPU, in the queue.
func (s *adopted) template() corev1.PodTemplateSpec {
	pod := mustertesting.MakePod("x").SchedulerName("muster").QueueName(s.queue).Label("app", "x").Requests("cpu", "1").Obj()
	pod.Spec.NodeSelector = map[string]string{"muster.sh/e2e": s.Namespace}
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}
}

func (s *adopted) createDeployment(replicas int32, least int, change ...func(*appsv1.Deployment)) {
	s.T.Helper()
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d", Annotations: minimum(least)},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}, Template: s.template()},
	}
	for _, change := range change {
		change(deployment)
	}
	_, err := s.Kube.AppsV1().Deployments(s.Namespace).Create(s.Ctx, deployment, metav1.CreateOptions{})
	require.NoError(s.T, err)
}

func (s *adopted) patchDeployment(patch string) {
	s.T.Helper()
	_, err := s.Kube.AppsV1().Deployments(s.Namespace).Patch(s.Ctx, "d", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(s.T, err)
}

func (s *adopted) createJob(name string, pods int32) {
	s.T.Helper()
	template := s.template()
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := s.Kube.BatchV1().Jobs(s.Namespace).Create(s.Ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: minimum(int(pods))},
		Spec:       batchv1.JobSpec{Parallelism: &pods, Completions: &pods, Template: template},
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
}

// pods lists the pods of the story that are not being deleted.
func (s *adopted) pods() []corev1.Pod {
	s.T.Helper()
	list, err := s.Kube.CoreV1().Pods(s.Namespace).List(s.Ctx, metav1.ListOptions{})
	require.NoError(s.T, err)
	var live []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			live = append(live, pod)
		}
	}
	return live
}

func (s *adopted) count(is func(*corev1.Pod) bool) int { return countOf(s.pods(), is) }

func countOf(pods []corev1.Pod, is func(*corev1.Pod) bool) int {
	n := 0
	for i := range pods {
		if is(&pods[i]) {
			n++
		}
	}
	return n
}

func isRunning(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }
func isBound(pod *corev1.Pod) bool   { return pod.Spec.NodeName != "" }

// waitsFor says whether a pod waits for a reason.
func waitsFor(reason string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return c.Reason == reason
			}
		}
		return false
	}
}

// expect waits until so many pods run, and so many wait for a reason.
func (s *adopted) expect(running, waiting int, reason string) {
	s.T.Helper()
	s.Soon(fmt.Sprintf("%d pods run and %d wait for %s", running, waiting, reason), func() bool {
		pods := s.pods() // listed once: this is asked after each change in the cluster
		return len(pods) == running+waiting && countOf(pods, isRunning) == running && countOf(pods, isBound) == running &&
			countOf(pods, waitsFor(reason)) == waiting
	}, func() any { return s.conditions() })
}

// conditions are what the pods say.
func (s *adopted) conditions() []string {
	var said []string
	for _, pod := range s.pods() {
		said = append(said, fmt.Sprintln(pod.Name, pod.Status.Phase, pod.Annotations[schedulingv1beta1.GroupNameAnnotation], pod.Status.Conditions))
	}
	return said
}

func (s *adopted) groups() []schedulingv1beta1.PodGroup {
	s.T.Helper()
	list, err := s.Muster.SchedulingV1beta1().PodGroups(s.Namespace).List(s.Ctx, metav1.ListOptions{})
	require.NoError(s.T, err)
	return list.Items
}

// whateverTheController tells a story with the controller up, and with the controller down while the pods are made.
func whateverTheController(t *testing.T, pods int, begin func(t *testing.T) (s *adopted, makePods, then func())) {
	t.Helper()
	t.Run("the controller is up", func(t *testing.T) {
		_, makePods, then := begin(t)
		makePods()
		then()
	})
	t.Run("the controller is down and comes later", func(t *testing.T) {
		s, makePods, then := begin(t)
		require.NoError(t, s.Kill(localcluster.MusterController, syscall.SIGTERM))
		require.NoError(t, s.AwaitEnd(s.Ctx, localcluster.MusterController))
		makePods()
		s.expect(0, pods, "WaitingForController")
		require.NoError(t, s.Start(s.Ctx, localcluster.MusterController))
		then()
	})
}

// TestBarePodsWaitForTheQuotaOfTheirQueue: each has a PodGroup before it is placed.
func TestBarePodsWaitForTheQuotaOfTheirQueue(t *testing.T) {
	whateverTheController(t, 6, func(t *testing.T) (s *adopted, makePods, then func()) {
		s = newAdopted(t, "2", "8")
		return s, func() {
				for i := range 6 {
					s.CreatePod(mustertesting.MakePod(fmt.Sprint("p", i)).SchedulerName("muster").QueueName(s.queue).Requests("cpu", "1"))
				}
			}, func() {
				s.expect(2, 4, "WaitingForAdmission")
				_, err := s.Muster.SchedulingV1beta1().Queues().Patch(s.Ctx, s.queue, types.MergePatchType,
					[]byte(`{"spec":{"capability":{"cpu":"6"}}}`), metav1.PatchOptions{})
				require.NoError(t, err)
				s.expect(6, 0, "")
			}
	})
}

// TestAPodThatNamesAClosedQueueWaits until the queue opens.
func TestAPodThatNamesAClosedQueueWaits(t *testing.T) {
	whateverTheController(t, 1, func(t *testing.T) (s *adopted, makePods, then func()) {
		s = newAdopted(t, "8", "8")
		s.CommandQueue(s.queue, busv1alpha1.CloseQueueAction)
		s.Soon("the queue is closed", func() bool { return s.Queue(s.queue).Status.State == schedulingv1beta1.QueueStateClosed }, func() any { return s.Queue(s.queue).Status })
		return s, func() {
				s.CreatePod(mustertesting.MakePod("p").SchedulerName("muster").QueueName(s.queue).Requests("cpu", "1"))
			}, func() {
				s.expect(0, 1, "WaitingForAdmission")
				s.CommandQueue(s.queue, busv1alpha1.OpenQueueAction)
				s.expect(1, 0, "")
			}
	})
}

// TestTheMinimumOfOthersPodsStartsTogether: a Deployment and a batch/v1 Job of 12 pods where 8 fit.
func TestTheMinimumOfOthersPodsStartsTogether(t *testing.T) {
	for kind, makePods := range map[string]func(s *adopted){
		"Deployment":   func(s *adopted) { s.createDeployment(12, 12) },
		"batch/v1 Job": func(s *adopted) { s.createJob("j", 12) },
	} {
		t.Run(kind, func(t *testing.T) {
			whateverTheController(t, 12, func(t *testing.T) (s *adopted, _, then func()) {
				s = newAdopted(t, "12", "8")
				return s, func() { makePods(s) }, func() {
					s.expect(0, 12, "Unschedulable")
					s.AddNodes(1, "cpu", "4")
					s.expect(12, 0, "")
				}
			})
		})
	}
}

// TestPodsOfOneOwnerAreChargedToTheQueuesThatTheyName: the owner is of a kind that is not known, so that its pods may differ.
func TestPodsOfOneOwnerAreChargedToTheQueuesThatTheyName(t *testing.T) {
	t.Parallel()
	s := newAdopted(t, "1", "8")
	other := s.queue + "-other"
	s.CreateQueue(mustertesting.MakeQueue(other).Capability("cpu", "2"))
	owner, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Create(s.Ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	for i := range 6 {
		queue := []string{s.queue, other}[i%2]
		pod := mustertesting.MakePod(fmt.Sprint("p", i)).SchedulerName("muster").QueueName(queue).Requests("cpu", "1").Namespace(s.Namespace).Obj()
		pod.Spec.NodeSelector = map[string]string{"muster.sh/e2e": s.Namespace}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
		_, err := s.Kube.CoreV1().Pods(s.Namespace).Create(s.Ctx, pod, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	s.expect(3, 3, "WaitingForAdmission")
	running := map[string]int{}
	for _, pod := range s.pods() {
		if isRunning(&pod) {
			running[pod.Annotations[schedulingv1beta1.QueueNameAnnotation]]++
		}
	}
	assert.Equal(t, map[string]int{s.queue: 1, other: 2}, running)
}

// TestARollingUpdateOfAGangGoesThrough: a new pod beside the minimum is surplus, and one in place of an old one counts.
func TestARollingUpdateOfAGangGoesThrough(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		node               string
		surge, unavailable int
	}{"with a pod more": {"4", 1, 0}, "with a pod less": {"3", 0, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAdopted(t, "4", c.node)
			s.createDeployment(3, 3, func(d *appsv1.Deployment) {
				d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxSurge: ptr.To(intstr.FromInt(c.surge)), MaxUnavailable: ptr.To(intstr.FromInt(c.unavailable)),
				}}
			})
			s.expect(3, 0, "")
			s.patchDeployment(`{"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`)
			s.Soon("three new pods run, and no old one", func() bool {
				return len(s.pods()) == 3 && s.count(func(pod *corev1.Pod) bool { return pod.Labels["version"] == "2" && isRunning(pod) }) == 3
			}, func() any { return s.conditions() })
			require.Len(t, s.groups(), 1, "the Deployment is one gang")
			assert.EqualValues(t, 3, s.groups()[0].Spec.MinMember)
			s.patchDeployment(`{"spec":{"replicas":0}}`)
			s.Soon("its PodGroup goes when it is scaled to nothing", func() bool { return len(s.groups()) == 0 }, func() any { return s.groups() })
		})
	}
}

// TestADeploymentBelowItsMinimum: what runs goes on, and replacements wait.
func TestADeploymentBelowItsMinimum(t *testing.T) {
	t.Parallel()
	s := newAdopted(t, "8", "8")
	s.createDeployment(2, 3)
	s.expect(0, 2, "NotEnoughTasks")
	s.patchDeployment(`{"spec":{"replicas":3}}`)
	s.expect(3, 0, "")
	s.patchDeployment(`{"spec":{"replicas":2}}`)
	s.Soon("two go on", func() bool { return len(s.pods()) == 2 && s.count(isRunning) == 2 }, func() any { return s.conditions() })
	s.DeletePod(s.pods()[0].Name)
	s.expect(1, 1, "NotEnoughTasks")
	s.patchDeployment(`{"spec":{"replicas":3}}`)
	s.expect(3, 0, "")
}

// TestAReplacementOfAPodOfABatchJobStarts: it completes the minimum again.
func TestAReplacementOfAPodOfABatchJobStarts(t *testing.T) {
	t.Parallel()
	s := newAdopted(t, "3", "3")
	s.createJob("j", 3)
	s.expect(3, 0, "")
	lost := s.pods()[0].Name
	s.DeletePod(lost)
	s.expect(3, 0, "")
	for _, pod := range s.pods() {
		assert.NotEqual(t, lost, pod.Name)
	}
}

// TestASuspendedBatchJobGivesItsQuotaBack at once: its PodGroup goes with its pods.
func TestASuspendedBatchJobGivesItsQuotaBack(t *testing.T) {
	t.Parallel()
	s := newAdopted(t, "3", "8")
	s.createJob("first", 3)
	s.expect(3, 0, "")
	s.createJob("second", 3)
	s.expect(3, 3, "WaitingForAdmission")
	suspend := func(value bool) {
		_, err := s.Kube.BatchV1().Jobs(s.Namespace).Patch(s.Ctx, "first", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, value), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	suspend(true)
	s.expect(3, 0, "")
	s.Soon("its PodGroup has gone", func() bool { return len(s.groups()) == 1 }, func() any { return s.groups() })
	suspend(false)
	s.expect(3, 3, "WaitingForAdmission")
}
