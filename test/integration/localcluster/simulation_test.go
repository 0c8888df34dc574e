package localcluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestSimulatedPods runs real pods through the stages and looks at how they end.
func TestSimulatedPods(t *testing.T) {
	cluster := up(t, localcluster.Options{
		Nodes:         2,
		NodeResources: map[string]string{"example.com/gpu": "4"},
		Scheduler:     localcluster.KubeScheduler,
		Without:       []string{localcluster.MusterController},
	})
	client := clientOf(t, cluster)

	tests := map[string]struct {
		pod  corev1.Pod
		want func(t *testing.T, client kubernetes.Interface, name string)
	}{
		"runs for ever when it says nothing": {
			pod:  pod(nil),
			want: runsFor(2 * time.Second),
		},
		"runs for ever when the command is not understood": {
			pod:  pod(nil, "sh", "-c", "python train.py; exit 1"),
			want: runsFor(2 * time.Second),
		},
		"runs for ever when it sleeps for ever": {
			pod:  pod(nil, "sleep", "infinity"),
			want: runsFor(2 * time.Second),
		},
		"succeeds by annotation": {
			pod:  pod(map[string]string{"muster.sh/sim-exit-after": "1s"}),
			want: endsAs(corev1.PodSucceeded, 0, "Completed", time.Second),
		},
		"fails by annotation with its exit code": {
			pod:  pod(map[string]string{"muster.sh/sim-exit-after": "1500ms", "muster.sh/sim-exit-code": "3"}),
			want: endsAs(corev1.PodFailed, 3, "Error", 1500*time.Millisecond),
		},
		"fails by an annotation that comes later": {
			pod:  pod(nil),
			want: failsWhenAnnotated,
		},
		"says what is wrong with an annotation": {
			pod:  pod(map[string]string{"muster.sh/sim-exit-after": "soon"}),
			want: endsAs(corev1.PodFailed, 128, "Error", 0),
		},
		"fails by a shell command": {
			pod:  pod(nil, "sh", "-c", "echo training; sleep 2; exit 3"),
			want: endsAs(corev1.PodFailed, 3, "Error", 2*time.Second),
		},
		"succeeds by a plain command": {
			pod:  pod(nil, "sleep", "1"),
			want: endsAs(corev1.PodSucceeded, 0, "Completed", time.Second),
		},
		"fails by and": {
			pod:  pod(nil, "/bin/bash", "-c", "sleep 1 && false && sleep 100"),
			want: endsAs(corev1.PodFailed, 1, "Error", time.Second),
		},
		"goes on after a semicolon": {
			pod:  pod(nil, "sh", "-ec", "false; sleep 1.5\nexit 0"),
			want: endsAs(corev1.PodSucceeded, 0, "Completed", 1500*time.Millisecond),
		},
		"hangs by annotation": {
			pod:  pod(map[string]string{"muster.sh/sim-hang": "true"}),
			want: staysPendingFor(2 * time.Second),
		},
		"completes its init containers": {
			pod:  withInit(pod(nil, "sleep", "1"), "sh", "-c", "sleep 5"),
			want: endsAs(corev1.PodSucceeded, 0, "Completed", time.Second),
		},
		"fails with its init container": {
			pod:  withInit(pod(nil, "sleep", "1"), "sh", "-c", "exit 7"),
			want: initFails(7),
		},
		"starts again on failure": {
			pod:  withRestartPolicy(pod(nil, "false"), corev1.RestartPolicyOnFailure),
			want: startsAgain,
		},
		"succeeds with restart policy OnFailure": {
			pod:  withRestartPolicy(pod(nil, "true"), corev1.RestartPolicyOnFailure),
			want: endsAs(corev1.PodSucceeded, 0, "Completed", 0),
		},
		"starts again always": {
			pod:  withRestartPolicy(pod(nil, "true"), corev1.RestartPolicyAlways),
			want: startsAgain,
		},
		"shows itself terminating when deleted": {
			pod:  pod(nil),
			want: lingersWhenDeleted,
		},
		"is not taken for an earlier one of its name": {
			pod:  pod(nil),
			want: outlivesItsName(cluster),
		},
	}
	// All pods live at the same time, whatever number of tests may run at once.
	created := map[string]string{} // test -> pod
	for name, test := range tests {
		pod, err := client.CoreV1().Pods("default").Create(t.Context(), &test.pod, metav1.CreateOptions{})
		require.NoError(t, err)
		created[name] = pod.Name
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want(t, client, created[name])
		})
	}
}

func pod(annotations map[string]string, command ...string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "sim-", Annotations: annotations},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{
				{Name: "main", Image: "example.com/main", Command: command},
				{Name: "second", Image: "example.com/second"},
			},
		},
	}
}

func withInit(pod corev1.Pod, command ...string) corev1.Pod {
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "first", Image: "example.com/first"},
		{Name: "init", Image: "example.com/init", Command: command},
	}
	return pod
}

func withRestartPolicy(pod corev1.Pod, policy corev1.RestartPolicy) corev1.Pod {
	pod.Spec.RestartPolicy = policy
	return pod
}

// awaitPod waits until the pod is as wanted.
func awaitPod(t *testing.T, client kubernetes.Interface, name string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var last *corev1.Pod
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, mustertesting.Timeout, true, func(ctx context.Context) (bool, error) {
		var err error
		last, err = client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && wanted(last), err
	})
	require.NoError(t, err, "the pod's status: %+v", last.Status)
	return last
}

// holds checks that the pod stays as wanted.
func holds(t *testing.T, client kubernetes.Interface, name string, duration time.Duration, wanted func(*corev1.Pod) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, duration, true, func(ctx context.Context) (bool, error) {
		pod, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && !wanted(pod), err
	})
	assert.True(t, wait.Interrupted(err), "it changed: %v", err)
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Status.Phase == phase }
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func runsFor(duration time.Duration) func(*testing.T, kubernetes.Interface, string) {
	return func(t *testing.T, client kubernetes.Interface, name string) {
		running := awaitPod(t, client, name, inPhase(corev1.PodRunning))
		assert.True(t, isReady(running))
		assert.NotEmpty(t, running.Status.PodIP)
		assert.NotNil(t, running.Status.StartTime)
		require.Len(t, running.Status.ContainerStatuses, 2)
		for _, status := range running.Status.ContainerStatuses {
			assert.NotNil(t, status.State.Running)
			assert.True(t, status.Ready)
		}
		holds(t, client, name, duration, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning && isReady(pod) })
	}
}

func endsAs(phase corev1.PodPhase, code int32, reason string, after time.Duration) func(*testing.T, kubernetes.Interface, string) {
	return func(t *testing.T, client kubernetes.Interface, name string) {
		ended := awaitPod(t, client, name, inPhase(phase))
		require.Len(t, ended.Status.ContainerStatuses, 2)
		terminated := ended.Status.ContainerStatuses[0].State.Terminated
		require.NotNil(t, terminated)
		assert.Equal(t, code, terminated.ExitCode)
		assert.Equal(t, reason, terminated.Reason)
		// Times in a status are whole seconds.
		ran := terminated.FinishedAt.Sub(terminated.StartedAt.Time)
		assert.InDelta(t, after.Seconds(), ran.Seconds(), 2.5)
		assert.Equal(t, "Completed", ended.Status.ContainerStatuses[1].State.Terminated.Reason)
		assert.False(t, isReady(ended))
		if code == 128 {
			assert.Contains(t, terminated.Message, `"soon" is no duration`)
		}
	}
}

func staysPendingFor(duration time.Duration) func(*testing.T, kubernetes.Interface, string) {
	return func(t *testing.T, client kubernetes.Interface, name string) {
		awaitPod(t, client, name, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
		holds(t, client, name, duration, inPhase(corev1.PodPending))
	}
}

func failsWhenAnnotated(t *testing.T, client kubernetes.Interface, name string) {
	awaitPod(t, client, name, inPhase(corev1.PodRunning))
	patch := []byte(`{"metadata":{"annotations":{"muster.sh/sim-exit-after":"0s","muster.sh/sim-exit-code":"9"}}}`)
	_, err := client.CoreV1().Pods("default").Patch(t.Context(), name, "application/merge-patch+json", patch, metav1.PatchOptions{})
	require.NoError(t, err)
	failed := awaitPod(t, client, name, inPhase(corev1.PodFailed))
	assert.Equal(t, int32(9), failed.Status.ContainerStatuses[0].State.Terminated.ExitCode)
}

func initFails(code int32) func(*testing.T, kubernetes.Interface, string) {
	return func(t *testing.T, client kubernetes.Interface, name string) {
		failed := awaitPod(t, client, name, inPhase(corev1.PodFailed))
		require.Len(t, failed.Status.InitContainerStatuses, 2)
		assert.Equal(t, int32(0), failed.Status.InitContainerStatuses[0].State.Terminated.ExitCode)
		assert.Equal(t, code, failed.Status.InitContainerStatuses[1].State.Terminated.ExitCode)
		assert.Nil(t, failed.Status.ContainerStatuses[0].State.Running)
	}
}

func startsAgain(t *testing.T, client kubernetes.Interface, name string) {
	again := awaitPod(t, client, name, func(pod *corev1.Pod) bool {
		statuses := pod.Status.ContainerStatuses
		return len(statuses) == 2 && statuses[0].RestartCount >= 1
	})
	assert.Equal(t, corev1.PodRunning, again.Status.Phase)
	assert.NotNil(t, again.Status.ContainerStatuses[0].LastTerminationState.Terminated)
}

// outlivesItsName deletes a pod without a termination request, as kwok does: by its name alone.
func outlivesItsName(cluster *localcluster.Cluster) func(*testing.T, kubernetes.Interface, string) {
	return func(t *testing.T, client kubernetes.Interface, name string) {
		config, err := cluster.RESTConfig()
		require.NoError(t, err)
		config.Impersonate = rest.ImpersonationConfig{UserName: "kwok", Groups: []string{user.SystemPrivilegedGroup}}
		kubelet, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		uid := awaitPod(t, client, name, inPhase(corev1.PodRunning)).UID
		remove := func(ctx context.Context, dryRun ...string) error {
			now := int64(0)
			return kubelet.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now, DryRun: dryRun})
		}
		// The API server heeds a policy only a moment after it has got it.
		err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
			return remove(ctx, metav1.DryRunAll) != nil, nil
		})
		require.NoError(t, err, "the simulated kubelet may delete the pod")
		require.ErrorContains(t, remove(t.Context()), "has not been told to go")
		assert.Equal(t, uid, awaitPod(t, client, name, inPhase(corev1.PodRunning)).UID)
		// A client with the right deletes it, and then it goes.
		lingersWhenDeleted(t, client, name)
	}
}

func lingersWhenDeleted(t *testing.T, client kubernetes.Interface, name string) {
	running := awaitPod(t, client, name, inPhase(corev1.PodRunning))
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	watcher, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + name, ResourceVersion: running.ResourceVersion,
	})
	require.NoError(t, err)
	defer watcher.Stop()
	require.NoError(t, client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}))
	deleted := time.Now()
	var sawTerminating, gone bool
	for event := range watcher.ResultChan() { // which shows a state that is over before a look would come
		pod, ok := event.Object.(*corev1.Pod)
		require.True(t, ok, "%v", event.Object)
		if gone = event.Type == watch.Deleted; gone {
			break
		}
		sawTerminating = sawTerminating || pod.DeletionTimestamp != nil
	}
	require.True(t, gone)
	assert.True(t, sawTerminating)
	assert.Greater(t, time.Since(deleted), 500*time.Millisecond)
}
