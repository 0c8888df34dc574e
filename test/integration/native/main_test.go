// Package native_test runs muster-scheduler in its shipped form beside the default scheduler. The API server has the native PodGroups of
// Kubernetes (feature gate GenericWorkload, API group scheduling.k8s.io/v1beta1). Upstream's plugin GangScheduling is then part of each
// profile. Its gangs and ours share a process, a scheduling queue and the nodes.
package native_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	nativev1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/integration/harness"
)

const (
	// soon bounds what takes milliseconds for our gangs and seconds for native ones, which upstream tries again by a timer.
	soon = time.Minute
	// quiet is how long the tests watch for something that must not happen.
	quiet = 2 * time.Second
	// pool is the label that keeps each test to nodes of its own.
	pool = "test-pool"
	// gate is what Kubernetes calls native gangs. The gate GangScheduling of earlier releases is part of it now.
	gate = "--feature-gates=GenericWorkload=true"
)

var (
	cluster *localcluster.Cluster
	kube    kubernetes.Interface
	muster  versioned.Interface
)

func TestMain(m *testing.M) {
	config, err := manifests.FS.ReadFile("scheduler/second-scheduler.yaml")
	if err != nil {
		panic(err)
	}
	options := localcluster.Options{
		SchedulerConfig: string(config),
		Without:         []string{localcluster.KWOK},
		ExtraArgs: map[string][]string{
			localcluster.KubeAPIServer:         {gate, "--runtime-config=scheduling.k8s.io/v1beta1=true"},
			localcluster.KubeControllerManager: {gate},
			localcluster.MusterScheduler:       {gate},
		},
	}
	harness.Main(m, options, func(ctx context.Context, env *harness.Env) (func() error, error) {
		cluster, kube, muster = env.Cluster, env.Kube, env.Muster
		return func() error { return checkMetrics(ctx) }, nil
	})
}

// checkMetrics checks what must hold whatever the tests did. No gang was forgotten, and none was seen that is not of a test's queue.
func checkMetrics(ctx context.Context) error {
	page, err := cluster.Get(ctx, localcluster.MusterScheduler, "/metrics")
	if err != nil {
		return fmt.Errorf("reading the scheduler's metrics: %w", err)
	}
	for _, line := range []string{"muster_lost_wakeup_recovered_total 0", "muster_state_drift 0"} {
		if !strings.Contains(string(page), "\n"+line) {
			return fmt.Errorf("the scheduler's metrics do not have %q:\n%s", line, page)
		}
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "muster_gangs{") && !strings.Contains(line, `queue="test`) {
			return fmt.Errorf("the scheduler takes native pods for a gang: %s", line)
		}
	}
	return nil
}

// world is what a test has for itself. It has a namespace, a queue of its name, and nodes that only its pods go to.
type world struct {
	t         *testing.T
	ctx       context.Context
	namespace string
}

// newWorld makes a namespace, a queue with a capability in CPUs and the given number of nodes. Each node has 4 CPUs and holds one pod of
// this package.
func newWorld(t *testing.T, nodes int, capability string) *world {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	name := harness.Namespace(ctx, t, kube)
	queue := mustertesting.MakeQueue(name).Capability("cpu", capability).Obj()
	_, err := muster.SchedulingV1beta1().Queues().Create(ctx, queue, metav1.CreateOptions{})
	require.NoError(t, err)
	w := &world{t: t, ctx: ctx, namespace: name}
	for i := range nodes {
		w.addNode(i)
	}
	return w
}

func (w *world) addNode(i int) {
	w.t.Helper()
	node := mustertesting.MakeNode(fmt.Sprintf("%s-%d", w.namespace, i)).Label(pool, w.namespace).
		Allocatable("cpu", "4", "memory", "16Gi", "pods", "110").Obj()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err := kube.CoreV1().Nodes().Create(w.ctx, node, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// pod is a pod of 3 CPUs for the profile "muster", of a gang of one kind or the other.
func (w *world) pod(name string, join func(*mustertesting.PodWrapper) *mustertesting.PodWrapper) *corev1.Pod {
	pod := join(mustertesting.MakePod(name).Namespace(w.namespace).Requests("cpu", "3").SchedulerName("muster")).Obj()
	pod.Spec.NodeSelector = map[string]string{pool: w.namespace}
	pod.Spec.TerminationGracePeriodSeconds = new(int64)
	return pod
}

func (w *world) create(pod *corev1.Pod) {
	w.t.Helper()
	_, err := kube.CoreV1().Pods(w.namespace).Create(w.ctx, pod, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// group makes a PodGroup of ours in the test's queue.
func (w *world) group(name string, size int) {
	w.t.Helper()
	group := mustertesting.MakePodGroup(name).Namespace(w.namespace).MinMember(int32(size)).Queue(w.namespace).Obj()
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, group, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// nativeGroup makes a native PodGroup.
func (w *world) nativeGroup(name string, size int) {
	w.t.Helper()
	group := &nativev1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	group.Spec.SchedulingPolicy.Gang = &nativev1beta1.GangSchedulingPolicy{MinCount: int32(size)}
	_, err := kube.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, group, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// member is a pod of a gang of ours.
func (w *world) member(gang string, i int) *corev1.Pod {
	return w.pod(fmt.Sprintf("%s-%d", gang, i), func(p *mustertesting.PodWrapper) *mustertesting.PodWrapper { return p.Group(gang) })
}

// nativeMember is a pod of a native gang.
func (w *world) nativeMember(gang string, i int) *corev1.Pod {
	return w.pod(fmt.Sprintf("%s-%d", gang, i), func(p *mustertesting.PodWrapper) *mustertesting.PodWrapper { return p.NativeGroup(gang) })
}

// ours makes a gang of ours.
func (w *world) ours(name string, size int) {
	w.t.Helper()
	w.group(name, size)
	for i := range size {
		w.create(w.member(name, i))
	}
}

// native makes a native gang.
func (w *world) native(name string, size int, change ...func(*corev1.Pod)) {
	w.t.Helper()
	w.nativeGroup(name, size)
	for i := range size {
		pod := w.nativeMember(name, i)
		for _, change := range change {
			change(pod)
		}
		w.create(pod)
	}
}

// pods lists the pods whose names begin with a prefix.
func (w *world) pods(prefix string) []corev1.Pod {
	w.t.Helper()
	list, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	var pods []corev1.Pod
	for _, pod := range list.Items {
		if strings.HasPrefix(pod.Name, prefix) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// bound counts the ones that have a node.
func (w *world) bound(prefix string) int {
	w.t.Helper()
	n := 0
	for _, pod := range w.pods(prefix) {
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

func (w *world) expectBound(prefix string, n int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d pods of %s are bound", n, prefix), func() bool { return w.bound(prefix) == n })
}

// expectNoneBound checks that no pod of the name is bound, also a while later.
func (w *world) expectNoneBound(prefix string) {
	w.t.Helper()
	_ = wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, quiet, true, func(context.Context) (bool, error) {
		require.Zero(w.t, w.bound(prefix), "a pod of %s is bound", prefix)
		return false, nil
	})
}

func (w *world) removeGang(name string, size int) {
	w.t.Helper()
	for i := range size {
		harness.RemovePods(w.ctx, w.t, kube, w.namespace, fmt.Sprintf("%s-%d", name, i))
	}
}

func (w *world) eventually(what string, met func() bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, soon, true, func(context.Context) (bool, error) { return met(), nil })
	require.NoError(w.t, err, what)
}
