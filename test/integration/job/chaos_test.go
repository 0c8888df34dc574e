package job_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// TestControllersThatDieAtRandomMoments: Jobs whose first two runs fail come to the same end as without disturbance. No run has any of its
// pods twice, however often the controller is replaced.
func TestControllersThatDieAtRandomMoments(t *testing.T) {
	const jobs, replicas, badRuns = 12, 4, 2
	s := newStage(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go s.autopilot(ctx, badRuns)
	for i := range jobs {
		s.apply(mustertesting.MakeJob(fmt.Sprintf("j%d", i)).MaxRetry(9).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).
			Task(mustertesting.MakeTask("a", replicas)))
	}
	ended := func() bool {
		for i := range jobs {
			if log.Job(s.name(fmt.Sprintf("j%d", i))).Phase != batchv1alpha1.Completed {
				return false
			}
		}
		return true
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		pause := time.NewTimer(time.Duration(random.IntN(400)) * time.Millisecond)
		<-pause.C
		whileDown(func() {})
	}
	s.Within(2*time.Minute, "all Jobs are completed", ended, func() any { return log.Pods(s.live) })

	for i := range jobs {
		name := fmt.Sprintf("j%d", i)
		status := s.get(name).Status
		assert.Equal(t, int32(badRuns), status.RetryCount, name)
		assert.Equal(t, int32(badRuns), status.Version, name)
		assert.Equal(t, int32(replicas), status.Succeeded, name)
		assert.Empty(t, watchlog.StatusViolations(log.JobStates(s.name(name))), name)
		for version := range badRuns + 1 {
			for index := range replicas {
				found := log.Pods(func(p watchlog.Pod) bool {
					return p.Namespace == s.namespace && p.Name == fmt.Sprintf("%s-a-%d", name, index) && p.Version == fmt.Sprint(version)
				})
				assert.LessOrEqual(t, len(found), 1, "pod %d of run %d of %s", index, version, name)
				if version == badRuns {
					assert.NotEmpty(t, found, "pod %d of the last run of %s", index, name)
				}
			}
		}
	}
}

// autopilot plays podgroup controller, scheduler and kubelet until the context ends: gangs are admitted, pods run, and deleted pods go. The
// first pod of a run below badRuns fails, and all pods of later runs succeed.
func (s *stage) autopilot(ctx context.Context, badRuns int) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		groups, err := muster.SchedulingV1beta1().PodGroups(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return
		}
		for i := range groups.Items {
			if group := &groups.Items[i]; group.Status.Phase == "" {
				group.Status.Phase = schedulingv1beta1.PodGroupInqueue
				_, _ = muster.SchedulingV1beta1().PodGroups(s.namespace).UpdateStatus(ctx, group, metav1.UpdateOptions{})
			}
		}
		pods, err := kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return
		}
		for i := range pods.Items {
			s.steer(ctx, &pods.Items[i], badRuns)
		}
	}, 50*time.Millisecond)
}

// steer takes one pod one step further. A failed request is tried again with the next look.
func (s *stage) steer(ctx context.Context, pod *corev1.Pod, badRuns int) {
	isBad := pod.Annotations[batchv1alpha1.JobVersionKey] < fmt.Sprint(badRuns)
	status := pod.Status.DeepCopy()
	switch {
	case pod.DeletionTimestamp != nil:
		s.forceDelete(ctx, pod)
		return
	case pod.Spec.NodeName == "":
		_ = kube.CoreV1().Pods(s.namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: nowhere}}, metav1.CreateOptions{})
		return
	case pod.Status.Phase == corev1.PodPending:
		status.Phase = corev1.PodRunning
	case pod.Status.Phase != corev1.PodRunning || isBad && pod.Annotations[batchv1alpha1.TaskIndexKey] != "0":
		return
	case isBad:
		status.Phase = corev1.PodFailed
	default:
		status.Phase = corev1.PodSucceeded
	}
	pod.Status = *status
	_, _ = kube.CoreV1().Pods(s.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
}
