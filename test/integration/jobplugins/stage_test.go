package jobplugins_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// pollEvery is how often a poll looks.
const pollEvery = 10 * time.Millisecond

// stage is where one test plays. It has a namespace of its own, and the parts of the podgroup controller, the scheduler and
// the kubelet.
type stage struct {
	*clients.Expect
	t         testing.TB
	namespace string
}

func newStage(t testing.TB) *stage {
	t.Helper()
	ns, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "plugins-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	s := &stage{Expect: clients.NewExpect(t, log), t: t, namespace: ns.Name}
	s.poll("the service account of the namespace", func(ctx context.Context) bool {
		_, err := kube.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	queue, err := muster.SchedulingV1beta1().Queues().Create(t.Context(),
		&schedulingv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	queue.Status.State = schedulingv1beta1.QueueStateOpen
	_, err = muster.SchedulingV1beta1().Queues().UpdateStatus(t.Context(), queue, metav1.UpdateOptions{})
	require.NoError(t, err)
	return s
}

// poll waits until something is so.
func (s *stage) poll(what string, so func(ctx context.Context) bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), pollEvery, mustertesting.Timeout, true,
		func(ctx context.Context) (bool, error) { return so(ctx), nil })
	require.NoError(s.t, err, what)
}

func (s *stage) name(job string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: job}
}

// apply creates a Job in the test's namespace and queue.
func (s *stage) apply(builder *mustertesting.JobWrapper) *batchv1alpha1.Job {
	s.t.Helper()
	return s.applyObject(builder.Obj())
}

func (s *stage) applyObject(job *batchv1alpha1.Job) *batchv1alpha1.Job {
	s.t.Helper()
	job.Namespace, job.Spec.Queue, job.Spec.PriorityClassName = s.namespace, s.namespace, ""
	created, err := muster.BatchV1alpha1().Jobs(s.namespace).Create(s.t.Context(), job, metav1.CreateOptions{})
	require.NoError(s.t, err)
	return created
}

func (s *stage) get(name string) *batchv1alpha1.Job {
	s.t.Helper()
	job, err := muster.BatchV1alpha1().Jobs(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return job
}

// edit changes a Job as a user does.
func (s *stage) edit(name string, change func(*batchv1alpha1.Job)) {
	s.t.Helper()
	s.poll("changing the Job", func(ctx context.Context) bool {
		job := s.get(name)
		change(job)
		_, err := muster.BatchV1alpha1().Jobs(s.namespace).Update(ctx, job, metav1.UpdateOptions{})
		require.True(s.t, err == nil || apierrors.IsConflict(err), "%v", err)
		return err == nil
	})
}

// admit lets the Job's PodGroup into its queue, as the podgroup controller does.
func (s *stage) admit(job *batchv1alpha1.Job) {
	s.t.Helper()
	s.poll("admitting the PodGroup", func(ctx context.Context) bool {
		groups := muster.SchedulingV1beta1().PodGroups(s.namespace)
		group, err := groups.Get(ctx, fmt.Sprintf("%s-%s", job.Name, job.UID), metav1.GetOptions{})
		if err != nil {
			return false
		}
		group.Status.Phase = schedulingv1beta1.PodGroupInqueue
		_, err = groups.UpdateStatus(ctx, group, metav1.UpdateOptions{})
		return err == nil
	})
}

// pod waits for a pod that is neither bound nor going, and returns it.
func (s *stage) pod(name string) *corev1.Pod {
	s.t.Helper()
	var pod *corev1.Pod
	s.poll("the pod "+name, func(ctx context.Context) bool {
		var err error
		pod, err = kube.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.DeletionTimestamp == nil && pod.Spec.NodeName == ""
	})
	return pod
}

// run binds pods and starts their containers, as scheduler and kubelet do.
func (s *stage) run(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.pod(name)
		require.NoError(s.t, kube.CoreV1().Pods(s.namespace).Bind(s.t.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "nowhere"}}, metav1.CreateOptions{}))
		s.setPhase(name, corev1.PodRunning, 0)
	}
}

// end ends a pod with an exit code.
func (s *stage) end(name string, exitCode int32) {
	s.t.Helper()
	phase := corev1.PodSucceeded
	if exitCode != 0 {
		phase = corev1.PodFailed
	}
	s.setPhase(name, phase, exitCode)
}

func (s *stage) setPhase(name string, phase corev1.PodPhase, exitCode int32) {
	s.t.Helper()
	pods := kube.CoreV1().Pods(s.namespace)
	require.NoError(s.t, clients.Change(s.t.Context(), name, pods.Get, pods.UpdateStatus, func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name}}
		if phase != corev1.PodRunning {
			pod.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{ExitCode: exitCode}
		}
	}))
}

// reap lets that many pods go that are being deleted, as a kubelet does once their containers have ended.
func (s *stage) reap(count int) {
	s.t.Helper()
	s.poll(fmt.Sprintf("%d pods that are being deleted", count), func(ctx context.Context) bool {
		pods, err := kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		require.NoError(s.t, err)
		for i := range pods.Items {
			options := metav1.NewDeleteOptions(0)
			options.Preconditions = metav1.NewUIDPreconditions(string(pods.Items[i].UID))
			if pods.Items[i].DeletionTimestamp != nil && kube.CoreV1().Pods(s.namespace).Delete(ctx, pods.Items[i].Name, *options) == nil {
				count--
			}
		}
		return count <= 0
	})
}

// owned are the objects that a Job's plugins have made, nil where there is none.
type owned struct {
	service *corev1.Service
	hosts   *corev1.ConfigMap
	secret  *corev1.Secret
	policy  *networkingv1.NetworkPolicy
}

// owned reads the objects of plugins svc and ssh.
func (s *stage) owned(job string) owned {
	s.t.Helper()
	var o owned
	var err error
	if o.service, err = kube.CoreV1().Services(s.namespace).Get(s.t.Context(), job, metav1.GetOptions{}); err != nil {
		o.service = nil
	}
	if o.hosts, err = kube.CoreV1().ConfigMaps(s.namespace).Get(s.t.Context(), job+"-svc", metav1.GetOptions{}); err != nil {
		o.hosts = nil
	}
	if o.secret, err = kube.CoreV1().Secrets(s.namespace).Get(s.t.Context(), job+"-ssh", metav1.GetOptions{}); err != nil {
		o.secret = nil
	}
	if o.policy, err = kube.NetworkingV1().NetworkPolicies(s.namespace).Get(s.t.Context(), job, metav1.GetOptions{}); err != nil {
		o.policy = nil
	}
	return o
}

func (o owned) isWhole() bool {
	return o.service != nil && o.hosts != nil && o.secret != nil && o.policy != nil
}

func (o owned) isEmpty() bool { return o == owned{} }

// awaitOwned waits for all objects of svc and ssh.
func (s *stage) awaitOwned(job string) owned {
	s.t.Helper()
	s.poll("the objects of the plugins", func(context.Context) bool { return s.owned(job).isWhole() })
	return s.owned(job)
}
