package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// ownerLabel on a node names the namespace of the test that the node is for.
const ownerLabel = "muster.sh/e2e"

// Story is one test on the shared cluster: a namespace, nodes that only its own pods go to, and verbs.
type Story struct {
	*clients.Expect
	*Cluster
	T         testing.TB
	Ctx       context.Context
	Namespace string

	nodes int
}

// New makes a namespace for a test. When the test has ended, all that runs in the namespace is deleted, without waiting.
func New(t testing.TB) *Story {
	t.Helper()
	require.NotNil(t, shared, "the package's TestMain does not call harness.Main")
	s := &Story{Expect: clients.NewExpect(t, shared.Log), Cluster: shared, T: t, Ctx: t.Context()}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: slug(t.Name()) + "-"}}
	created, err := s.Kube.CoreV1().Namespaces().Create(s.Ctx, namespace, metav1.CreateOptions{})
	require.NoError(t, err)
	s.Namespace = created.Name
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the record of namespace %s:\n%s", s.Namespace, s.describe())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := s.deleteAll(ctx); err != nil {
			t.Errorf("deleting what the test has made: %v", err)
		}
	})
	return s
}

// deleteAll deletes all that runs in the test's namespace, owners first. The namespace stays until the cluster goes. Its deletion would cost 80
// requests, and many more by programs that go on to create in it. A test may have removed the kinds themselves.
func (s *Story) deleteAll(ctx context.Context) error {
	jobs, core, apps := s.Kube.BatchV1(), s.Kube.CoreV1(), s.Kube.AppsV1()
	primehub := s.Muster.PrimehubV1alpha1()
	background := metav1.DeletePropagationBackground
	for _, deleteAll := range []func(context.Context, metav1.DeleteOptions, metav1.ListOptions) error{
		primehub.PhSchedules(s.Namespace).DeleteCollection, primehub.PhJobs(s.Namespace).DeleteCollection,
		s.Muster.BusV1alpha1().Commands(s.Namespace).DeleteCollection, s.Muster.BatchV1alpha1().Jobs(s.Namespace).DeleteCollection,
		apps.Deployments(s.Namespace).DeleteCollection, apps.ReplicaSets(s.Namespace).DeleteCollection,
		apps.StatefulSets(s.Namespace).DeleteCollection, apps.DaemonSets(s.Namespace).DeleteCollection,
		jobs.CronJobs(s.Namespace).DeleteCollection, jobs.Jobs(s.Namespace).DeleteCollection,
		core.Pods(s.Namespace).DeleteCollection, s.Muster.SchedulingV1beta1().PodGroups(s.Namespace).DeleteCollection,
	} {
		if err := deleteAll(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// slug makes the beginning of a namespace's name of a test's name.
func slug(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, strings.TrimPrefix(name, "Test"))
	if len(name) > 40 {
		name = name[:40]
	}
	return strings.Trim(name, "-")
}

// describedPods is how many pods of a failed test are listed.
const describedPods = 1000

// describe lists what the record has of the test's Jobs and of its first pods.
func (s *Story) describe() string {
	var text strings.Builder
	for _, name := range s.Log.JobNames() {
		if name.Namespace != s.Namespace {
			continue
		}
		for _, state := range s.Log.JobStates(name) {
			fmt.Fprintf(&text, "job %s: %s\n", name.Name, state)
		}
	}
	pods := s.Log.Pods(s.In())
	for _, pod := range pods[:min(len(pods), describedPods)] {
		fmt.Fprintln(&text, pod)
	}
	if left := len(pods) - describedPods; left > 0 {
		fmt.Fprintln(&text, "and", left, "more pods")
	}
	return text.String()
}

// AddNodes adds simulated nodes for pods of this test only. Resources are written as for mustertesting.Resources, and each node takes 110
// pods.
func (s *Story) AddNodes(count int, namesAndQuantities ...string) {
	s.T.Helper()
	room := append([]string{"pods", "110", "memory", "256Gi"}, namesAndQuantities...)
	for range count {
		name := fmt.Sprintf("%s-%d", s.Namespace, s.nodes)
		node := mustertesting.MakeNode(name).Label(ownerLabel, s.Namespace).Allocatable(room...).Obj()
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, localcluster.SimulatedNodeAnnotation, "true")
		_, err := s.Kube.CoreV1().Nodes().Create(s.Ctx, node, metav1.CreateOptions{})
		require.NoError(s.T, err)
		s.nodes++
	}
}

// Name is the full name of an object of the test.
func (s *Story) Name(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: name}
}

// CreateJob creates a Job in the test's namespace, its pods bound for the test's nodes.
func (s *Story) CreateJob(wrapper *mustertesting.JobWrapper) types.NamespacedName {
	s.T.Helper()
	job := s.home(wrapper.Obj())
	_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Create(s.Ctx, job, metav1.CreateOptions{})
	require.NoError(s.T, err)
	return s.Name(job.Name)
}

// home moves a Job into the test's namespace and onto its nodes.
func (s *Story) home(job *batchv1alpha1.Job) *batchv1alpha1.Job {
	job.Namespace = s.Namespace
	for i := range job.Spec.Tasks {
		s.settle(&job.Spec.Tasks[i].Template.Spec)
	}
	return job
}

// settle sends pods to the test's nodes, if it has any, unless they have chosen other nodes.
func (s *Story) settle(spec *corev1.PodSpec) {
	if s.nodes > 0 && len(spec.NodeSelector) == 0 {
		spec.NodeSelector = map[string]string{ownerLabel: s.Namespace}
	}
}

// CreateQueue creates a Queue and waits until it is open.
func (s *Story) CreateQueue(wrapper *mustertesting.QueueWrapper) {
	s.T.Helper()
	queue := wrapper.Obj()
	_, err := s.Muster.SchedulingV1beta1().Queues().Create(s.Ctx, queue, metav1.CreateOptions{})
	require.NoError(s.T, err)
	require.Eventually(s.T, func() bool {
		known, err := s.Muster.SchedulingV1beta1().Queues().Get(s.Ctx, queue.Name, metav1.GetOptions{})
		return err == nil && known.Status.State == schedulingv1beta1.QueueStateOpen
	}, mustertesting.Timeout, 50*time.Millisecond, "queue %s is open", queue.Name)
}

// Queue reads a Queue.
func (s *Story) Queue(name string) *schedulingv1beta1.Queue {
	s.T.Helper()
	queue, err := s.Muster.SchedulingV1beta1().Queues().Get(s.Ctx, name, metav1.GetOptions{})
	require.NoError(s.T, err)
	return queue
}

// CreatePriorityClass creates a PriorityClass of the test, whose pods do not preempt, and returns its name.
func (s *Story) CreatePriorityClass(name string, value int32) string {
	s.T.Helper()
	never := corev1.PreemptNever
	class := &schedulingv1.PriorityClass{
		ObjectMeta:       metav1.ObjectMeta{Name: s.Namespace + "-" + name},
		Value:            value,
		PreemptionPolicy: &never,
	}
	_, err := s.Kube.SchedulingV1().PriorityClasses().Create(s.Ctx, class, metav1.CreateOptions{})
	require.NoError(s.T, err)
	return class.Name
}

// CreateGroup creates a PodGroup in the test's namespace.
func (s *Story) CreateGroup(wrapper *mustertesting.PodGroupWrapper) types.NamespacedName {
	s.T.Helper()
	group := wrapper.Namespace(s.Namespace).Obj()
	_, err := s.Muster.SchedulingV1beta1().PodGroups(s.Namespace).Create(s.Ctx, group, metav1.CreateOptions{})
	require.NoError(s.T, err)
	return s.Name(group.Name)
}

// CreatePod creates a pod in the test's namespace, bound for the test's nodes.
func (s *Story) CreatePod(wrapper *mustertesting.PodWrapper) {
	s.T.Helper()
	pod := wrapper.Namespace(s.Namespace).Obj()
	s.settle(&pod.Spec)
	_, err := s.Kube.CoreV1().Pods(s.Namespace).Create(s.Ctx, pod, metav1.CreateOptions{})
	require.NoError(s.T, err)
}

// DeletePod deletes a pod as `kubectl delete pod` does, without waiting.
func (s *Story) DeletePod(name string) {
	s.T.Helper()
	require.NoError(s.T, s.Kube.CoreV1().Pods(s.Namespace).Delete(s.Ctx, name, metav1.DeleteOptions{}))
}

// nudgePause is how long kwok, which plays the pods, may take to notice that a pod is to end. On a busy machine it was seen to
// lose sight of a pod for good. After maxNudges the pod's end is written in its place.
const (
	nudgePause = 5 * time.Second
	maxNudges  = 3
)

// EndPod lets a running simulated pod end with an exit code, and returns when it has ended.
func (s *Story) EndPod(name string, code int) {
	s.T.Helper()
	pods := s.Kube.CoreV1().Pods(s.Namespace)
	ending, err := pods.Get(s.Ctx, name, metav1.GetOptions{})
	require.NoError(s.T, err)
	nudged, nudges := time.Time{}, 0
	err = wait.PollUntilContextTimeout(s.Ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if pod.UID != ending.UID || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			return true, nil
		}
		if time.Since(nudged) < nudgePause {
			return false, nil
		}
		nudged = time.Now()
		if nudges++; nudges > maxNudges {
			return false, ignoreOvertaken(s.endAsKubelet(ctx, pod, code))
		}
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:"0s",%q:"%d","nudged":%q}}}`,
			ending.UID, mustertesting.SimExitAfter, mustertesting.SimExitCode, code, nudged.Format(time.RFC3339Nano))
		_, err = pods.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return false, ignoreOvertaken(err)
	})
	require.NoError(s.T, err, "ending pod %s", name)
}

// endAsKubelet writes the end of a pod as a kubelet does.
func (s *Story) endAsKubelet(ctx context.Context, pod *corev1.Pod, code int) error {
	ended := pod.DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		ended.Status.Phase = corev1.PodFailed
	}
	for i := range ended.Status.ContainerStatuses {
		status := &ended.Status.ContainerStatuses[i]
		status.Ready = false
		status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), FinishedAt: metav1.Now()}}
	}
	_, err := s.Kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, ended, metav1.UpdateOptions{})
	return err
}

// ignoreOvertaken drops errors that say that the object has changed or gone meanwhile.
func ignoreOvertaken(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// In selects the test's own pods that fit all conditions.
func (s *Story) In(conditions ...func(watchlog.Pod) bool) func(watchlog.Pod) bool {
	return func(p watchlog.Pod) bool {
		for _, fits := range conditions {
			if !fits(p) {
				return false
			}
		}
		return p.Namespace == s.Namespace
	}
}

// Of selects the pods of a Job.
func Of(job string) func(watchlog.Pod) bool {
	return func(p watchlog.Pod) bool { return p.Job == job }
}

// OfTask selects the pods of a task.
func OfTask(task string) func(watchlog.Pod) bool {
	return func(p watchlog.Pod) bool { return p.Task == task }
}

// InGroup selects the pods of a PodGroup.
func InGroup(group string) func(watchlog.Pod) bool {
	return func(p watchlog.Pod) bool { return p.Group == group }
}

// Bound selects pods that were ever bound.
func Bound(p watchlog.Pod) bool { return !p.Bound.IsZero() }

// Unbound selects pods that exist and were never bound.
func Unbound(p watchlog.Pod) bool { return p.Bound.IsZero() && p.Live() }

// Running selects pods that run and are not being deleted.
func Running(p watchlog.Pod) bool { return !p.Running.IsZero() && p.Live() }

// Live selects pods that exist and have neither finished nor been asked to go.
func Live(p watchlog.Pod) bool { return p.Live() }
