// Package queueing_test runs the podgroup and queue controllers against a real API server. There is no scheduler, no kubelet and no job
// controller: the tests write what they would write. There are no admission policies either: the controllers must find the same errors.
package queueing_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/podgroup"
	"github.com/muster-sched/muster/pkg/controllers/queue"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
	mustertext "github.com/muster-sched/muster/pkg/text"
	"github.com/muster-sched/muster/test/integration/harness"
)

const (
	// soon bounds what should take milliseconds; it only matters when something is broken, or the machine is very busy.
	soon = time.Minute
	// quiet is how long the tests watch for something that must not happen.
	quiet = time.Second
	// node is where the tests bind pods to. It has 1000 CPUs.
	node = "big"
	// holdTimeout is longer than any test takes: a test that needs it to pass says that it began earlier.
	holdTimeout = 5 * time.Minute
	// overtakeTime is, too.
	overtakeTime = 10 * time.Minute
)

// TestMain starts these, and all tests share them; each test has a namespace and queues of its own.
var (
	kube   kubernetes.Interface
	muster versioned.Interface
	// podGroups is the podgroup controller that runs.
	podGroups *podgroup.Controller
	// whileDown stops the controllers, lets something happen and starts new ones, which know only the API's state.
	whileDown func(happens func())
)

func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{ControlPlaneOnly: true}, func(ctx context.Context, env *harness.Env) (func() error, error) {
		kube, muster = env.Kube, env.Muster
		if err := harness.DeletePolicies(ctx, env); err != nil {
			return nil, err
		}
		if err := addNode(ctx, node, "1000"); err != nil {
			return nil, err
		}
		stop, err := startControllers(ctx)
		if err != nil {
			return nil, err
		}
		whileDown = func(happens func()) {
			stop()
			happens()
			if stop, err = startControllers(ctx); err != nil {
				panic(err)
			}
		}
		return func() error { stop(); return nil }, nil
	})
}

func addNode(ctx context.Context, name, cpu string) error {
	if _, err := kube.CoreV1().Nodes().Create(ctx, mustertesting.MakeNode(name).Obj(), metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"status":{"allocatable":{"cpu":%q,"memory":"1Ti","pods":"1000"}}}`, cpu), metav1.PatchOptions{}, "status")
	return err
}

// startControllers runs the controllers until stop is called, which returns when they have ended.
func startControllers(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(schedulingv1beta1.AddToScheme(scheme))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "muster-controller"})

	kubeInformers := informers.NewSharedInformerFactory(kube, 0)
	musterInformers := musterinformers.NewSharedInformerFactory(muster, 0)
	used, err := usage.New(kubeInformers, musterInformers)
	if err != nil {
		return nil, err
	}
	groups, err := podgroup.New(podgroup.Config{
		KubeClient: kube, MusterClient: muster, KubeInformers: kubeInformers, MusterInformers: musterInformers,
		Usage: used, Recorder: recorder, OvercommitFactor: 1.2, HoldTimeout: holdTimeout, OvertakeTime: overtakeTime, AdoptFrom: []string{"muster"},
		Reports: worker.NewReports(),
	})
	if err != nil {
		return nil, err
	}
	queues, err := queue.New(queue.Config{MusterClient: muster, MusterInformers: musterInformers, Usage: used, Shares: groups.Shares, Recorder: recorder})
	if err != nil {
		return nil, err
	}
	kubeInformers.Start(ctx.Done())
	musterInformers.Start(ctx.Done())
	podGroups = groups
	ended := make(chan struct{}, 2)
	go func() { groups.Run(ctx, 4); ended <- struct{}{} }()
	go func() { queues.Run(ctx); ended <- struct{}{} }()
	return func() {
		cancel()
		<-ended
		<-ended
		kubeInformers.Shutdown()
		musterInformers.Shutdown()
		broadcaster.Shutdown()
	}, nil
}

// fixture is a test's own namespace, with verbs for what the test does and sees.
type fixture struct {
	*testing.T
	ctx       context.Context
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{T: t, ctx: t.Context()}
	namespace, err := kube.CoreV1().Namespaces().Create(s.ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	s.namespace = namespace.Name
	s.eventually("the namespace has its service account", func() bool {
		_, err := kube.CoreV1().ServiceAccounts(s.namespace).Get(s.ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	return s
}

// name makes a name for a cluster-wide object that no other test uses.
func (s *fixture) name(short string) string { return s.namespace + "-" + short }

func (s *fixture) eventually(what string, met func() bool) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.ctx, 5*time.Millisecond, soon, true, func(context.Context) (bool, error) { return met(), nil })
	require.NoError(s, err, "not seen: %s", what)
}

// never fails if something happens within a while.
func (s *fixture) never(what string, met func() bool) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.ctx, 20*time.Millisecond, quiet, true, func(context.Context) (bool, error) { return met(), nil })
	require.Error(s, err, "seen: %s", what)
}

func (s *fixture) createQueue(w *mustertesting.QueueWrapper) *schedulingv1beta1.Queue {
	s.Helper()
	created, err := muster.SchedulingV1beta1().Queues().Create(s.ctx, w.Obj(), metav1.CreateOptions{})
	require.NoError(s, err)
	s.Cleanup(func() {
		_ = muster.SchedulingV1beta1().Queues().Delete(context.Background(), created.Name, metav1.DeleteOptions{})
	})
	return created
}

func (s *fixture) queue(name string) *schedulingv1beta1.Queue {
	s.Helper()
	got, err := muster.SchedulingV1beta1().Queues().Get(s.ctx, name, metav1.GetOptions{})
	require.NoError(s, err)
	return got
}

func (s *fixture) queueState(name string, want schedulingv1beta1.QueueState) {
	s.Helper()
	s.eventually(fmt.Sprintf("queue %s is %s", name, want), func() bool { return s.queue(name).Status.State == want })
}

func (s *fixture) createGroup(w *mustertesting.PodGroupWrapper) {
	s.Helper()
	_, err := muster.SchedulingV1beta1().PodGroups(s.namespace).Create(s.ctx, w.Namespace(s.namespace).Obj(), metav1.CreateOptions{})
	require.NoError(s, err)
}

func (s *fixture) group(name string) *schedulingv1beta1.PodGroup {
	s.Helper()
	got, err := muster.SchedulingV1beta1().PodGroups(s.namespace).Get(s.ctx, name, metav1.GetOptions{})
	require.NoError(s, err)
	return got
}

func (s *fixture) deleteGroup(name string) {
	s.Helper()
	require.NoError(s, muster.SchedulingV1beta1().PodGroups(s.namespace).Delete(s.ctx, name, metav1.DeleteOptions{}))
}

func (s *fixture) phase(name string, want schedulingv1beta1.PodGroupPhase) {
	s.Helper()
	s.eventually(fmt.Sprintf("PodGroup %s is %s", name, want), func() bool { return s.group(name).Status.Phase == want })
}

// why waits until a PodGroup is Pending for a reason. If the message has numbers that change with other PodGroups, it says when they were
// found.
func (s *fixture) why(name, message string) {
	s.Helper()
	s.eventually(fmt.Sprintf("PodGroup %s waits because %s", name, message), func() bool {
		status := s.group(name).Status
		return status.Phase == schedulingv1beta1.PodGroupPending && len(status.Conditions) == 1 &&
			status.Conditions[0].Type == schedulingv1beta1.PodGroupUnschedulableType &&
			status.Conditions[0].Reason == reasonFor(message) && mustertext.WithoutTime(status.Conditions[0].Message) == message &&
			hasNumbers(message) == (status.Conditions[0].Message != message)
	})
}

func hasNumbers(message string) bool {
	return strings.Contains(message, " free of its ") || strings.Contains(message, "maxRunningJobs") || strings.Contains(message, "that all nodes have")
}

// reasonFor is the reason that goes with a message of admission. The quota of a queue, or of its user, is used up, or something else is in
// the way.
func reasonFor(message string) string {
	for _, part := range []string{" free of its ", "can never fit ", "maxRunningJobs"} {
		if strings.Contains(message, part) {
			return schedulingv1beta1.QuotaExceededReason
		}
	}
	return schedulingv1beta1.NotEnoughResourcesReason
}

// createPods makes pods of a group that ask for 1 CPU each.
func (s *fixture) createPods(group string, names ...string) {
	s.Helper()
	for _, name := range names {
		pod := mustertesting.MakePod(name).Namespace(s.namespace).Group(group).Requests("cpu", "1").SchedulerName("none").Obj()
		_, err := kube.CoreV1().Pods(s.namespace).Create(s.ctx, pod, metav1.CreateOptions{})
		require.NoError(s, err)
	}
}

func (s *fixture) bind(names ...string) {
	s.Helper()
	for _, name := range names {
		require.NoError(s, kube.CoreV1().Pods(s.namespace).Bind(s.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{}))
	}
}

func (s *fixture) setPhase(phase corev1.PodPhase, names ...string) {
	s.Helper()
	s.changePods(func(status *corev1.PodStatus) { status.Phase = phase }, names...)
}

// setWaiting says of pods why they have no node, as the scheduler does.
func (s *fixture) setWaiting(message string, names ...string) {
	s.Helper()
	s.changePods(func(status *corev1.PodStatus) {
		status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
		}}
	}, names...)
}

func (s *fixture) changePods(change func(*corev1.PodStatus), names ...string) {
	s.Helper()
	for _, name := range names {
		pods := kube.CoreV1().Pods(s.namespace)
		require.NoError(s, clients.Change(s.ctx, name, pods.Get, pods.UpdateStatus, func(pod *corev1.Pod) { change(&pod.Status) }))
	}
}

func (s *fixture) deletePods(names ...string) {
	s.Helper()
	harness.RemovePods(s.ctx, s, kube, s.namespace, names...)
}

// events are the events on an object of the test, by reason. Events on queues are in namespace default.
func (s *fixture) events(namespace, kind, name string) map[string][]corev1.Event {
	s.Helper()
	list, err := kube.CoreV1().Events(namespace).List(s.ctx, metav1.ListOptions{})
	require.NoError(s, err)
	found := map[string][]corev1.Event{}
	for _, event := range list.Items {
		if event.InvolvedObject.Kind == kind && event.InvolvedObject.Name == name {
			found[event.Reason] = append(found[event.Reason], event)
		}
	}
	return found
}

func (s *fixture) event(namespace, kind, name, reason, message string) {
	s.Helper()
	s.eventually(fmt.Sprintf("event %s on %s %s: %s", reason, kind, name, message), func() bool {
		for _, event := range s.events(namespace, kind, name)[reason] {
			if mustertext.WithoutTime(event.Message) == message && !event.LastTimestamp.IsZero() {
				return true
			}
		}
		return false
	})
}
