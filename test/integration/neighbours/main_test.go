// Package neighbours_test runs the ordinary Jobs of one namespace beside another namespace that does harm. The cluster is whole, with
// simulated nodes. The tenant of the bad namespace has the rights that tenants have: all that is namespaced, and nothing else.
package neighbours_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/integration/harness"
)

// parallel is how many abuses are under way at the same time. They wait more than they compute.
const parallel = "16"

// nodes hold all pods at once: nothing waits for room but what asks for more than there is.
const nodes = 14

// The queues. Each tenant has one of its own, and both use queueShared.
const (
	queueGood   = "good"
	queueShared = "shared"
	// queueBad has room for all ordinary pods of the bad namespace.
	queueBad = "bad"
	// queueSmall has room for a few. Pods reach it only through Jobs.
	queueSmall = "small"
	// queueAmple has room for all that is in it, and not for much more.
	queueAmple = "ample"
	// queueNarrow has less than what is in it asks for.
	queueNarrow = "narrow"
	// queueOne and queueOther are for what moves from queue to queue.
	queueOne, queueOther = "one", "other"
	// queueFull has a pod that runs all the time. It leaves room for three PodGroups that never get pods, and for no Job of four cores.
	queueFull = "full"
	// queueClosed takes no work.
	queueClosed = "closed"
)

// capabilities of the queues. One good Job of full size fits into queueGood at a time.
var capabilities = map[string][]string{
	queueGood:   {"cpu", "8", "memory", "10Gi", "ephemeral-storage", "1Ti"},
	queueShared: {"cpu", "8", "memory", "64Gi"},
	queueBad:    {"cpu", "64", "memory", "256Gi"},
	queueSmall:  {"cpu", "2", "memory", "8Gi", "pods", "8"},
	queueAmple:  {"cpu", "4"},
	queueNarrow: {"cpu", "2"},
	queueOne:    {"cpu", "4"},
	queueOther:  {"cpu", "4"},
	queueFull:   {"cpu", "8"},
	queueClosed: {"cpu", "4"},
}

// The namespaces. The bad tenant has several, for some abuses would stop other abuses.
const (
	namespaceGood = "good"
	namespaceBad  = "bad"
	// namespaceQuota has a ResourceQuota that refuses most pods.
	namespaceQuota = "bad-quota"
	// namespaceLimits has a LimitRange with absurd defaults.
	namespaceLimits = "bad-limits"
	// namespaceKept is for abuses of Jobs that have pods: in namespaceBad they would wait long for them.
	namespaceKept = "bad-kept"
	// namespaceGoing is deleted while a finalizer keeps its Jobs.
	namespaceGoing = "bad-going"
)

var badNamespaces = []string{namespaceBad, namespaceQuota, namespaceLimits, namespaceKept, namespaceGoing}

// TestMain starts these.
var (
	env *harness.Env
	log *watchlog.Log
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	// The programs collect garbage as they are shipped: their memory is judged.
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	options := localcluster.Options{Nodes: nodes, NodeCPU: "32", NodeMemory: "128Gi"}
	harness.Main(m, options, func(ctx context.Context, started *harness.Env) (func() error, error) {
		env = started
		var err error
		if log, err = watchlog.Start(ctx, env.Kube, env.Muster); err != nil {
			return nil, err
		}
		if err := createQueues(ctx); err != nil {
			return nil, err
		}
		if err := fillQueue(ctx); err != nil {
			return nil, err
		}
		return func() error { return harness.CheckScheduler(ctx, env.Cluster) }, createNamespaces(ctx)
	})
}

func createQueues(ctx context.Context) error {
	for name, capability := range capabilities {
		queue := mustertesting.MakeQueue(name).Capability(capability...).Obj()
		if _, err := env.Muster.SchedulingV1beta1().Queues().Create(ctx, queue, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating queue %s: %w", name, err)
		}
	}
	for name := range capabilities {
		if err := awaitQueue(ctx, name, func(q *schedulingv1beta1.Queue) bool { return q.Status.State == schedulingv1beta1.QueueStateOpen }); err != nil {
			return fmt.Errorf("waiting until queue %s is open: %w", name, err)
		}
	}
	closed, err := env.Muster.SchedulingV1beta1().Queues().Get(ctx, queueClosed, metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = env.Muster.BusV1alpha1().Commands(metav1.NamespaceDefault).Create(ctx, &busv1alpha1.Command{
		ObjectMeta:   metav1.ObjectMeta{Name: "close"},
		Action:       string(busv1alpha1.CloseQueueAction),
		TargetObject: metav1.NewControllerRef(closed, schedulingv1beta1.SchemeGroupVersion.WithKind("Queue")),
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("closing queue %s: %w", queueClosed, err)
	}
	return awaitQueue(ctx, queueClosed, func(q *schedulingv1beta1.Queue) bool { return q.Status.State == schedulingv1beta1.QueueStateClosed })
}

// filler is the pod that fills queueFull. Nothing evicts it: it has the highest priority.
var filler = mustertesting.MakePod("filler").SchedulerName("muster").QueueName(queueFull).PriorityClass("system-cluster-critical").Requests("cpu", "5").Obj()

// fillQueue returns when the filler has its quota.
func fillQueue(ctx context.Context) error {
	if _, err := env.Kube.CoreV1().Pods(filler.Namespace).Create(ctx, filler, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the pod that fills queue %s: %w", queueFull, err)
	}
	err := awaitQueue(ctx, queueFull, func(q *schedulingv1beta1.Queue) bool { return !q.Status.Allocated.Cpu().IsZero() })
	if err != nil {
		return fmt.Errorf("waiting until queue %s is full: %w", queueFull, err)
	}
	return nil
}

func createNamespaces(ctx context.Context) error {
	for _, name := range append([]string{namespaceGood}, badNamespaces...) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := env.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	return admitTenant(ctx)
}
