// Package overtaking_test runs muster-scheduler with a small bound on overtaking, against a real API server with bare Node objects. Room is
// reserved for one gang at a time in a whole cluster. So each test has the cluster for itself.
package overtaking_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/integration/harness"
)

const (
	// soon bounds what takes milliseconds, on a machine that does much else too. A gang that the Store forgets is found after half a minute
	// by itself; harness.CheckScheduler fails then.
	soon = time.Minute
	// quiet is how long the tests watch for something that must not happen.
	quiet = time.Second
	// maxOvertakes is what the scheduler is configured with.
	maxOvertakes = 4
)

var (
	kube   kubernetes.Interface
	muster versioned.Interface
)

func TestMain(m *testing.M) {
	options := harness.SchedulerAlone(fmt.Sprintf("maxOvertakes: %d", maxOvertakes))
	harness.Main(m, options, func(ctx context.Context, env *harness.Env) (func() error, error) {
		kube, muster = env.Kube, env.Muster
		return func() error { return harness.CheckScheduler(ctx, env.Cluster) }, nil
	})
}

// world is the cluster as one test has it: a namespace, and the nodes that it made.
type world struct {
	t         *testing.T
	ctx       context.Context
	namespace string
}

// newWorld makes a namespace and the given number of nodes of 4 CPUs. Each holds one pod of this package.
func newWorld(t *testing.T, nodes int) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, namespace: harness.Namespace(ctx, t, kube)}
	t.Cleanup(w.clear)
	for i := range nodes {
		w.addNode(i)
	}
	return w
}

func (w *world) addNode(i int) {
	w.t.Helper()
	w.addNodeOf(i, "4")
}

func (w *world) addNodeOf(i int, cpu string) {
	w.t.Helper()
	node := mustertesting.MakeNode(w.node(i)).Label(corev1.LabelHostname, w.node(i)).Allocatable("cpu", cpu, "memory", "16Gi", "pods", "110").Obj()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err := kube.CoreV1().Nodes().Create(w.ctx, node, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func (w *world) node(i int) string { return fmt.Sprintf("%s-%d", w.namespace, i) }

// clear leaves the next test an empty cluster.
func (w *world) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	now, all := int64(0), metav1.ListOptions{}
	gone := metav1.DeleteOptions{GracePeriodSeconds: &now}
	require.NoError(w.t, kube.AppsV1().DaemonSets(w.namespace).DeleteCollection(ctx, gone, all))
	require.NoError(w.t, muster.SchedulingV1beta1().PodGroups(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	require.NoError(w.t, kube.CoreV1().Nodes().DeleteCollection(ctx, gone, all))
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if err := kube.CoreV1().Pods(w.namespace).DeleteCollection(ctx, gone, all); err != nil {
			return false, err
		}
		pods, err := kube.CoreV1().Pods(w.namespace).List(ctx, all)
		return err == nil && len(pods.Items) == 0, err
	})
	require.NoError(w.t, err)
}

// pod is a pod of 3 CPUs, so that a node holds one, of a gang ("" for none).
func (w *world) pod(name, gang string, change ...func(*corev1.Pod)) *corev1.Pod {
	made := mustertesting.MakePod(name).Namespace(w.namespace).Requests("cpu", "3").SchedulerName("default-scheduler")
	if gang != "" {
		made = made.Group(gang)
	}
	pod := made.Obj()
	pod.Spec.TerminationGracePeriodSeconds = new(int64)
	for _, change := range change {
		change(pod)
	}
	return pod
}

func (w *world) create(pods ...*corev1.Pod) {
	w.t.Helper()
	for _, pod := range pods {
		_, err := kube.CoreV1().Pods(w.namespace).Create(w.ctx, pod, metav1.CreateOptions{})
		require.NoError(w.t, err)
	}
}

// gang creates a gang of n pods that start together.
func (w *world) gang(name string, n int, change ...func(*corev1.Pod)) {
	w.t.Helper()
	group := mustertesting.MakePodGroup(name).Namespace(w.namespace).MinMember(int32(n)).Obj()
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, group, metav1.CreateOptions{})
	require.NoError(w.t, err)
	for i := range n {
		w.create(w.pod(fmt.Sprintf("%s-%d", name, i), name, change...))
	}
}

// pods lists the pods whose names begin with a prefix and that satisfy the predicate.
func (w *world) pods(prefix string, which func(*corev1.Pod) bool) []string {
	pods, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	var names []string
	for i := range pods.Items {
		if pod := &pods.Items[i]; strings.HasPrefix(pod.Name, prefix) && which(pod) {
			names = append(names, pod.Name)
		}
	}
	return names
}

func isBound(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }

// says is for pods that are reported to wait with a text.
func says(text string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, text) {
				return true
			}
		}
		return false
	}
}

func (w *world) expect(n int, prefix, what string, which func(*corev1.Pod) bool) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d pods of %s: %s", n, prefix, what), func() bool { return len(w.pods(prefix, which)) == n })
}

func (w *world) expectBound(n int, prefix string) {
	w.t.Helper()
	w.expect(n, prefix, "bound", isBound)
}

// expectUnbound checks that no pod of the name is bound, also a while later.
func (w *world) expectUnbound(prefix string) {
	w.t.Helper()
	_ = wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, quiet, true, func(context.Context) (bool, error) {
		require.Empty(w.t, w.pods(prefix, isBound))
		return false, nil
	})
}

func (w *world) eventually(what string, met func() bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, soon, true, func(context.Context) (bool, error) { return met(), nil })
	require.NoError(w.t, err, what)
}

func (w *world) remove(names ...string) {
	w.t.Helper()
	harness.RemovePods(w.ctx, w.t, kube, w.namespace, names...)
}
