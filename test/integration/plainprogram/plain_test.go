// Package plainprogram_test runs two replicas of a scheduler that only registers the plugins (folder scheduler) against a real API server.
package plainprogram_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-sched/muster/manifests"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/integration/harness"
)

const (
	// soon bounds what takes seconds. It only matters when something is broken, or the machine is very busy.
	soon = 90 * time.Second
	// ofGang is the size of the gangs, and their minimum.
	ofGang = 4
)

var (
	env    *harness.Env
	binary string
	kube   kubernetes.Interface
	muster versioned.Interface
)

func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{ControlPlaneOnly: true}, func(ctx context.Context, started *harness.Env) (func() error, error) {
		env, kube, muster = started, started.Kube, started.Muster
		binary = filepath.Join(filepath.Dir(env.Cluster.Dir()), "scheduler")
		build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/muster-sched/muster/test/integration/plainprogram/scheduler")
		if output, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the scheduler: %w\n%s", err, output)
		}
		return nil, nil
	})
}

// election is a Lease that the replicas of one test share.
type election struct {
	name     string
	duration time.Duration
	config   string // file
}

// newElection writes the configuration of the replicas. It is the one that ships for benchmarks, with leader election and a short time until
// partial gangs are evicted.
func newElection(t *testing.T, name string, duration, partialGangTimeout time.Duration) *election {
	t.Helper()
	data, err := manifests.FS.ReadFile("scheduler/benchmark.yaml")
	require.NoError(t, err)
	text := string(data)
	replace := func(old, with string) {
		require.Contains(t, text, old)
		text = strings.Replace(text, old, with, 1)
	}
	replace("clientConnection:\n", "clientConnection:\n  kubeconfig: "+env.Cluster.Kubeconfig()+"\n")
	replace("leaderElect: false", fmt.Sprintf("leaderElect: true\n  resourceName: %s\n  resourceNamespace: kube-system\n  leaseDuration: %s\n  renewDeadline: %s\n  retryPeriod: %s",
		name, duration, duration*2/3, duration/10))
	replace("admission: Ignore", "admission: Ignore\n      partialGangTimeout: "+partialGangTimeout.String())
	replace("schedulerName: default-scheduler", "schedulerName: "+name)
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	return &election{name: name, duration: duration, config: config}
}

// replica is a running scheduler.
type replica struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start runs a replica. It ends with the test at the latest.
func (e *election) start(t *testing.T) *replica {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	r := &replica{cmd: exec.Command(binary, "--config="+e.config, "--secure-port=0", "-v=2"), ended: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = log, log
	require.NoError(t, r.cmd.Start())
	go func() {
		_ = r.cmd.Wait() // how it ended does not matter
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.kill(t)
		require.NoError(t, log.Close())
		if t.Failed() {
			text, err := os.ReadFile(log.Name())
			require.NoError(t, err)
			t.Logf("log of a replica:\n%s", text[max(0, len(text)-20_000):])
		}
	})
	return r
}

func (r *replica) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	require.NoError(t, r.cmd.Process.Signal(signal))
}

// kill ends a replica with SIGKILL.
func (r *replica) kill(t *testing.T) {
	t.Helper()
	_ = r.cmd.Process.Kill() // it may have ended
	<-r.ended
}

// awaitRenewal returns when the leader renews its Lease.
func (e *election) awaitRenewal(t *testing.T) {
	t.Helper()
	var first time.Time
	require.NoError(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, soon, true, func(ctx context.Context) (bool, error) {
		lease, err := kube.CoordinationV1().Leases("kube-system").Get(ctx, e.name, metav1.GetOptions{})
		if err != nil || lease.Spec.RenewTime == nil {
			return false, err
		}
		if first.IsZero() {
			first = lease.Spec.RenewTime.Time
		}
		return lease.Spec.RenewTime.After(first), nil
	}), "the leader renews its lease")
}

// holder is the identity of the leader, "" if there is none.
func (e *election) holder(ctx context.Context) string {
	lease, err := kube.CoordinationV1().Leases("kube-system").Get(ctx, e.name, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// startLeaderAndStandby starts a replica, waits until it leads, and starts another.
func (e *election) startLeaderAndStandby(t *testing.T) (leader, standby *replica) {
	t.Helper()
	leader = e.start(t)
	e.awaitLeaderOtherThan(t, "")
	return leader, e.start(t)
}

func (e *election) awaitLeaderOtherThan(t *testing.T, last string) {
	t.Helper()
	require.NoError(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, soon, true, func(ctx context.Context) (bool, error) {
		holder := e.holder(ctx)
		return holder != "" && holder != last, nil
	}), "a replica leads")
}

// createNode makes a node of some CPUs for the pods of a test.
func createNode(t *testing.T, name, pool string, cpus int) {
	t.Helper()
	node := mustertesting.MakeNode(name).Label("pool", pool).Allocatable("cpu", fmt.Sprint(cpus), "memory", "64Gi", "pods", "110").Obj()
	_, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
}

// createGang makes a gang of pods for the scheduler of an election. The election's name is also that of their node pool.
func (e *election) createGang(t *testing.T, namespace, name, queue string, minMember, members int, cpu string) {
	t.Helper()
	group := mustertesting.MakePodGroup(name).Namespace(namespace).MinMember(int32(minMember)).Queue(queue).Obj()
	_, err := muster.SchedulingV1beta1().PodGroups(namespace).Create(t.Context(), group, metav1.CreateOptions{})
	require.NoError(t, err)
	for i := range members {
		pod := mustertesting.MakePod(fmt.Sprintf("%s-%d", name, i)).Namespace(namespace).Group(name).Requests("cpu", cpu).SchedulerName(e.name).Obj()
		pod.Spec.NodeSelector = map[string]string{"pool": e.name}
		_, err := kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// podsOf are the pods of a gang.
func podsOf(ctx context.Context, namespace, gang string) ([]corev1.Pod, error) {
	list, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for _, pod := range list.Items {
		if strings.HasPrefix(pod.Name, gang+"-") {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// expectReason waits until all members of a gang without a node have a PodScheduled condition with this reason and message.
func expectReason(t *testing.T, namespace, gang, reason, message string) {
	t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, soon, true, func(ctx context.Context) (bool, error) {
		pods, err := podsOf(ctx, namespace, gang)
		if err != nil {
			return false, err
		}
		pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName != "" })
		for i := range pods {
			pod := &pods[i]
			condition := scheduledCondition(pod)
			if condition == nil || condition.Status != corev1.ConditionFalse || condition.Reason != reason || !strings.Contains(condition.Message, message) {
				last = fmt.Sprintf("%s: %+v", pod.Name, condition)
				return false, nil
			}
		}
		return len(pods) > 0, nil
	})
	require.NoError(t, err, "all members of %s say %s: %s; last seen: %s", gang, reason, message, last)
}

func scheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// TestGangsStartThoughTheLeaderIsKilled: the leader of two replicas is killed while gangs arrive, and the standby carries on.
func TestGangsStartThoughTheLeaderIsKilled(t *testing.T) {
	const gangs, nodes, cpus = 50, 10, 20 // room for all
	ctx := t.Context()
	e := newElection(t, "killed", 3*time.Second, 20*time.Second)
	namespace := harness.Namespace(ctx, t, kube)
	for i := range nodes {
		createNode(t, fmt.Sprint("killed-", i), e.name, cpus)
	}
	log, err := watchlog.Start(ctx, kube, muster)
	require.NoError(t, err)
	leader, _ := e.startLeaderAndStandby(t)
	e.createGang(t, namespace, "too-large", "", 2, 2, "21")
	e.createGang(t, namespace, "too-few", "", 3, 2, "1")
	boundOf := func() map[string]int {
		bound := map[string]int{}
		for _, pod := range log.Pods(func(p watchlog.Pod) bool { return p.Node != "" && p.Live() }) {
			bound[pod.Group]++
		}
		return bound
	}
	for i := range gangs {
		if i == gangs/2 {
			require.NoError(t, log.Wait(ctx, func() bool { return boundOf()["gang-10"] > 0 }), "the leader schedules")
			leader.kill(t)
			e.start(t) // a new standby
		}
		e.createGang(t, namespace, fmt.Sprint("gang-", i), "", ofGang, ofGang, "1")
	}
	waitCtx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	require.NoError(t, log.Wait(waitCtx, func() bool {
		bound, whole := boundOf(), 0
		for i := range gangs {
			if bound[fmt.Sprint("gang-", i)] == ofGang {
				whole++
			}
		}
		return whole == gangs
	}), "all gangs are bound: %v", boundOf())
	assert.Zero(t, boundOf()["too-large"])
	assert.Zero(t, boundOf()["too-few"])
	expectReason(t, namespace, "too-large", corev1.PodReasonUnschedulable, "room for 0 of the 2 members that start together")
	expectReason(t, namespace, "too-few", schedulingv1beta1.NotEnoughPodsReason, "fewer pods exist than the 3 that start together")
	evicted := log.Pods(func(p watchlog.Pod) bool { return p.Node != "" && !p.Live() })
	assert.Empty(t, evicted, "no gang whose minimum runs loses a member")
	assert.Empty(t, watchlog.GangViolations(log.Incarnations(), soon))
}

// TestAStandbyWritesNothing: it does not see what the leader has reserved in memory. So a gang that is being bound looks broken to it.
// While the leader is stopped all writes would be the standby's.
func TestAStandbyWritesNothing(t *testing.T) {
	const partialGangTimeout, lease = 2 * time.Second, 20 * time.Second
	ctx := t.Context()
	e := newElection(t, "standby", lease, partialGangTimeout)
	namespace := harness.Namespace(ctx, t, kube)
	createNode(t, "standby-0", e.name, 4)
	leader, _ := e.startLeaderAndStandby(t)
	e.createGang(t, namespace, "first", "", 1, 1, "1")
	require.NoError(t, wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, soon, true, func(ctx context.Context) (bool, error) {
		pods, err := podsOf(ctx, namespace, "first")
		return err == nil && len(pods) == 1 && pods[0].Spec.NodeName != "", err
	}), "the leader schedules")

	e.awaitRenewal(t) // so that nearly the whole lease is left
	leader.signal(t, syscall.SIGSTOP)
	stopped := time.Now()
	// One member is bound, the rest cannot be, and one is nominated to a node.
	e.createGang(t, namespace, "partial", "default", 3, 3, "2")
	group, err := muster.SchedulingV1beta1().PodGroups(namespace).Get(ctx, "partial", metav1.GetOptions{})
	require.NoError(t, err)
	bound := map[string]string{schedulingv1beta1.BoundForAnnotation: string(group.UID), schedulingv1beta1.ChargedToAnnotation: "default"}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "partial-0", Annotations: bound}, Target: corev1.ObjectReference{Kind: "Node", Name: "standby-0"}}
	require.NoError(t, kube.CoreV1().Pods(namespace).Bind(ctx, binding, metav1.CreateOptions{}))
	nomination := []byte(`{"status":{"nominatedNodeName":"standby-0"}}`)
	_, err = kube.CoreV1().Pods(namespace).Patch(ctx, "partial-1", "application/merge-patch+json", nomination, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	before, err := podsOf(ctx, namespace, "partial")
	require.NoError(t, err)
	// The standby may lead after most of the lease.
	_ = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, lease/2-time.Since(stopped), true, func(context.Context) (bool, error) {
		now, err := podsOf(t.Context(), namespace, "partial")
		require.NoError(t, err)
		require.Equal(t, versions(before), versions(now), "nothing is written %s after the leader was stopped", time.Since(stopped))
		return false, nil
	})
	require.Greater(t, time.Since(stopped), 3*partialGangTimeout)

	// As the leader, the same process repairs what it sees.
	last := e.holder(ctx)
	leader.kill(t)
	e.awaitLeaderOtherThan(t, last)
	require.NoError(t, wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, soon, true, func(ctx context.Context) (bool, error) {
		pods, err := podsOf(ctx, namespace, "partial")
		if err != nil {
			return false, err
		}
		repaired := true
		for _, pod := range pods {
			evicted := pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil
			repaired = repaired && evicted && pod.Status.NominatedNodeName == ""
		}
		return repaired, nil
	}), "the new leader evicts the partial gang and drops the nomination")
	expectReason(t, namespace, "partial", schedulingv1beta1.NotEnoughPodsReason, "earlier pods of the gang are still ending") // the evicted one counts no more
}

// versions are the resource versions of pods.
func versions(pods []corev1.Pod) map[string]string {
	versions := map[string]string{}
	for _, pod := range pods {
		versions[pod.Name] = pod.ResourceVersion
	}
	return versions
}
