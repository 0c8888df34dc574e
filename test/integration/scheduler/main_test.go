// Package scheduler_test runs muster-scheduler as a process against a real API server with bare Node objects. No controller admits
// PodGroups or creates pods: the tests do that by what they write.
package scheduler_test

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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/integration/harness"
)

const (
	// soon bounds what takes milliseconds, on a machine that does much else too. A gang that the Store forgets is found after half a minute
	// by itself; harness.CheckScheduler fails then.
	soon = time.Minute
	// quiet is how long the tests watch for something that must not happen.
	quiet = time.Second
	// pool is the label that keeps each test to nodes of its own.
	pool = "test-pool"
)

var (
	cluster    *localcluster.Cluster
	restConfig *rest.Config
	kube       kubernetes.Interface
	muster     versioned.Interface
	objects    dynamic.Interface
)

func TestMain(m *testing.M) {
	// A short patience for partial gangs.
	harness.Main(m, harness.SchedulerAlone("partialGangTimeout: 8s"), func(ctx context.Context, env *harness.Env) (func() error, error) {
		cluster, restConfig, kube, muster = env.Cluster, env.Config, env.Kube, env.Muster
		objects = dynamic.NewForConfigOrDie(restConfig)
		return func() error { return harness.CheckScheduler(ctx, cluster) }, nil
	})
}

// world is what a test has for itself. It has a namespace, and nodes that only its pods go to.
type world struct {
	t         *testing.T
	ctx       context.Context
	namespace string
}

// newWorld makes a namespace and the given number of nodes of 4 CPUs. The test runs beside other tests.
func newWorld(t *testing.T, nodes int) *world {
	t.Helper()
	t.Parallel()
	return makeWorld(t, nodes)
}

// newQuietWorld is newWorld for a test that must be alone. Messages may name any node of the cluster, events of other tests may wake gangs,
// and metrics count all tests. Nothing of it is left for the next test.
func newQuietWorld(t *testing.T, nodes int) *world {
	t.Helper()
	w := makeWorld(t, nodes)
	t.Cleanup(w.clear)
	return w
}

func makeWorld(t *testing.T, nodes int) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, namespace: harness.Namespace(ctx, t, kube)}
	for i := range nodes {
		w.addNode(i)
	}
	return w
}

// clear removes what can wait or be waited for, and returns when it is gone. It may be a thousand pods.
func (w *world) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	gone, all := *metav1.NewDeleteOptions(0), metav1.ListOptions{}
	require.NoError(w.t, muster.SchedulingV1beta1().PodGroups(w.namespace).DeleteCollection(ctx, gone, all))
	require.NoError(w.t, kube.CoreV1().Nodes().DeleteCollection(ctx, gone, metav1.ListOptions{LabelSelector: pool + "=" + w.namespace}))
	require.NoError(w.t, kube.CoreV1().Pods(w.namespace).DeleteCollection(ctx, gone, all))
	require.NoError(w.t, kube.ResourceV1().ResourceClaims(w.namespace).DeleteCollection(ctx, gone, all))
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		pods, err := kube.CoreV1().Pods(w.namespace).List(ctx, all)
		if err != nil || len(pods.Items) > 0 {
			return false, err
		}
		claims, err := kube.ResourceV1().ResourceClaims(w.namespace).List(ctx, all)
		return err == nil && len(claims.Items) == 0, err
	})
	require.NoError(w.t, err, "everything of %s is gone", w.namespace)
}

// addNode adds a node of 4 CPUs to the test's pool.
func (w *world) addNode(i int, change ...func(*corev1.Node)) string {
	w.t.Helper()
	node := mustertesting.MakeNode(fmt.Sprintf("%s-%d", w.namespace, i)).Label(pool, w.namespace).
		Allocatable("cpu", "4", "memory", "16Gi", "pods", "110").Obj()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, change := range change {
		change(node)
	}
	_, err := kube.CoreV1().Nodes().Create(w.ctx, node, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return node.Name
}

// pod is a pod of 3 CPUs of a gang ("" for none). A node of the pool holds one.
func (w *world) pod(name, gang string, change ...func(*corev1.Pod)) *corev1.Pod {
	made := mustertesting.MakePod(name).Namespace(w.namespace).Requests("cpu", "3").SchedulerName("default-scheduler")
	if gang != "" {
		made = made.Group(gang)
	}
	pod := made.Obj()
	pod.Spec.NodeSelector = map[string]string{pool: w.namespace}
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

// createGang creates n pods of a gang.
func (w *world) createGang(gang string, n int, change ...func(*corev1.Pod)) {
	w.t.Helper()
	for i := range n {
		w.create(w.pod(fmt.Sprintf("%s-%d", gang, i), gang, change...))
	}
}

func (w *world) createGroup(name string, minMember int32, queue string) {
	w.t.Helper()
	group := mustertesting.MakePodGroup(name).Namespace(w.namespace).MinMember(minMember)
	if queue != "" {
		group = group.Queue(queue)
	}
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, group.Obj(), metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// bound counts the pods of the test whose names begin with a prefix and which have a node.
func (w *world) bound(prefix string) int {
	pods, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return -1
	}
	n := 0
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName != "" && strings.HasPrefix(pods.Items[i].Name, prefix) {
			n++
		}
	}
	return n
}

func (w *world) expectBound(prefix string, n int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d pods of %s are bound", n, prefix), func() bool { return w.bound(prefix) == n })
}

// expectHeld checks that a gang is reported unschedulable, once, and that none of its pods is bound, even later.
func (w *world) expectHeld(prefix string, messages ...string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s is reported to wait with %q", prefix, messages), func() bool { return w.reported(prefix, messages) })
	_ = wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, quiet, true, func(context.Context) (bool, error) {
		require.Zero(w.t, w.bound(prefix), "a pod of %s is bound", prefix)
		return false, nil
	})
}

// reported says whether a pod carries a PodScheduled condition whose message has all the texts.
func (w *world) reported(prefix string, messages []string) bool {
	pods, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	for i := range pods.Items {
		for _, condition := range pods.Items[i].Status.Conditions {
			if condition.Type != corev1.PodScheduled || condition.Status != corev1.ConditionFalse || !strings.HasPrefix(pods.Items[i].Name, prefix) {
				continue
			}
			all := true
			for _, message := range messages {
				all = all && strings.Contains(condition.Message, message)
			}
			if all {
				return true
			}
		}
	}
	return false
}

func (w *world) eventually(what string, met func() bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, soon, true, func(context.Context) (bool, error) { return met(), nil })
	require.NoError(w.t, err, what)
}

func (w *world) remove(name string) {
	w.t.Helper()
	harness.RemovePods(w.ctx, w.t, kube, w.namespace, name)
}
