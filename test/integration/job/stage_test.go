package job_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// stage is where one test plays. It has a namespace and a queue, and plays the podgroup controller, the scheduler and the
// kubelet.
type stage struct {
	*clients.Expect
	t         *testing.T
	namespace string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	ns, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "job-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	s := &stage{Expect: clients.NewExpect(t, log), t: t, namespace: ns.Name}
	s.poll("the service account of the namespace", func(ctx context.Context) (bool, error) {
		_, err := kube.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	s.queue(schedulingv1beta1.QueueStateOpen)
	return s
}

func (s *stage) poll(what string, done wait.ConditionWithContextFunc) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), pollEvery, mustertesting.Timeout, true, done)
	require.NoError(s.t, err, what)
}

// queue makes the queue of the test, or changes its state.
func (s *stage) queue(state schedulingv1beta1.QueueState) {
	s.t.Helper()
	queues := muster.SchedulingV1beta1().Queues()
	queue, err := queues.Create(s.t.Context(), &schedulingv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		queue, err = queues.Get(s.t.Context(), s.namespace, metav1.GetOptions{})
	}
	require.NoError(s.t, err)
	queue.Status.State = state
	_, err = queues.UpdateStatus(s.t.Context(), queue, metav1.UpdateOptions{})
	require.NoError(s.t, err)
}

// apply creates a Job in the test's namespace and queue.
func (s *stage) apply(builder *mustertesting.JobWrapper) *batchv1alpha1.Job {
	s.t.Helper()
	return s.applyObject(builder.Obj())
}

func (s *stage) applyObject(job *batchv1alpha1.Job) *batchv1alpha1.Job {
	s.t.Helper()
	job.Namespace = s.namespace
	if job.Spec.Queue == "" {
		job.Spec.Queue = s.namespace
	}
	created, err := muster.BatchV1alpha1().Jobs(s.namespace).Create(s.t.Context(), job, metav1.CreateOptions{})
	require.NoError(s.t, err)
	return created
}

// edit changes a Job as a user does.
func (s *stage) edit(name string, change func(*batchv1alpha1.Job)) {
	s.t.Helper()
	s.poll("changing the Job", func(ctx context.Context) (bool, error) {
		job, err := muster.BatchV1alpha1().Jobs(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		change(job)
		_, err = muster.BatchV1alpha1().Jobs(s.namespace).Update(ctx, job, metav1.UpdateOptions{})
		return err == nil, ignoreConflict(err)
	})
}

func (s *stage) get(name string) *batchv1alpha1.Job {
	s.t.Helper()
	job, err := muster.BatchV1alpha1().Jobs(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return job
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (s *stage) name(job string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: job}
}

// group waits for the Job's PodGroup.
func (s *stage) group(job *batchv1alpha1.Job) *schedulingv1beta1.PodGroup {
	s.t.Helper()
	var group *schedulingv1beta1.PodGroup
	s.poll("the PodGroup", func(ctx context.Context) (bool, error) {
		var err error
		group, err = muster.SchedulingV1beta1().PodGroups(s.namespace).Get(ctx, fmt.Sprintf("%s-%s", job.Name, job.UID), metav1.GetOptions{})
		return err == nil, nil
	})
	return group
}

// admit lets the Job's PodGroup into its queue, as the podgroup controller does.
func (s *stage) admit(job *batchv1alpha1.Job) {
	s.t.Helper()
	s.poll("admitting the PodGroup", func(ctx context.Context) (bool, error) {
		group := s.group(job)
		group.Status.Phase = schedulingv1beta1.PodGroupInqueue
		_, err := muster.SchedulingV1beta1().PodGroups(s.namespace).UpdateStatus(ctx, group, metav1.UpdateOptions{})
		return err == nil, ignoreConflict(err)
	})
}

// run binds pods and starts their containers, as scheduler and kubelet do.
func (s *stage) run(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.awaitPod(name)
		err := kube.CoreV1().Pods(s.namespace).Bind(s.t.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: nowhere}}, metav1.CreateOptions{})
		require.NoError(s.t, err)
		s.setPhase(name, corev1.PodRunning, 0)
	}
}

// awaitPod waits until a pod of that name is there to be bound, and returns it.
func (s *stage) awaitPod(name string) *corev1.Pod {
	s.t.Helper()
	var pod *corev1.Pod
	s.poll("the pod "+name, func(ctx context.Context) (bool, error) {
		var err error
		pod, err = kube.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil, nil
	})
	return pod
}

// succeed ends pods well.
func (s *stage) succeed(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.setPhase(name, corev1.PodSucceeded, 0)
	}
}

// fail ends a pod with an exit code.
func (s *stage) fail(name string, exitCode int32) {
	s.t.Helper()
	s.setPhase(name, corev1.PodFailed, exitCode)
}

func (s *stage) setPhase(name string, phase corev1.PodPhase, exitCode int32) {
	s.t.Helper()
	status := corev1.ContainerStatus{Name: "main"}
	if phase == corev1.PodFailed || phase == corev1.PodSucceeded {
		status.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: exitCode}
	} else {
		status.State.Running, status.Ready = &corev1.ContainerStateRunning{StartedAt: metav1.Now()}, true
	}
	ready := corev1.ConditionFalse
	if status.Ready {
		ready = corev1.ConditionTrue
	}
	pods := kube.CoreV1().Pods(s.namespace)
	require.NoError(s.t, clients.Change(s.t.Context(), name, pods.Get, pods.UpdateStatus, func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	}))
}

// reap removes the pods that are being deleted, as a kubelet does once their containers have ended. It waits for that many.
func (s *stage) reap(count int) {
	s.t.Helper()
	reaped := 0
	s.poll(fmt.Sprintf("%d pods that are being deleted", count), func(ctx context.Context) (bool, error) {
		pods, err := kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range pods.Items {
			// A pod without a node, or one that has finished, goes by itself: it has no grace. It may be seen as it does.
			goes := pods.Items[i].DeletionTimestamp != nil && ptr.Deref(pods.Items[i].DeletionGracePeriodSeconds, 0) > 0
			if goes && s.forceDelete(ctx, &pods.Items[i]) {
				reaped++
			}
		}
		return reaped >= count, nil
	})
	require.Equal(s.t, count, reaped, "pods that were deleted")
}

func (s *stage) forceDelete(ctx context.Context, pod *corev1.Pod) bool {
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	return kube.CoreV1().Pods(s.namespace).Delete(ctx, pod.Name, *options) == nil
}

// evict deletes a pod as another client does.
func (s *stage) evict(name string) {
	s.t.Helper()
	require.NoError(s.t, kube.CoreV1().Pods(s.namespace).Delete(s.t.Context(), name, metav1.DeleteOptions{}))
}

// pod returns a pod as it is now.
func (s *stage) pod(name string) *corev1.Pod {
	s.t.Helper()
	pod, err := kube.CoreV1().Pods(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return pod
}

// created returns how many pods of that name there have been.
func (s *stage) created(name string) int {
	return len(log.Pods(func(p watchlog.Pod) bool { return p.Namespace == s.namespace && p.Name == name }))
}

// live tells which pods of the test exist and are not going.
func (s *stage) live(p watchlog.Pod) bool {
	return p.Namespace == s.namespace && p.Gone.IsZero() && p.Deleting.IsZero()
}

// pollEvery is how often a poll looks.
const pollEvery = 20 * time.Millisecond
