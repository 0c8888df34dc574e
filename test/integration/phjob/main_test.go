// Package phjob_test runs the phjob, podgroup and queue controllers against a real API server. There is no scheduler and no kubelet: the
// tests write what they would write.
package phjob_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterscheme "github.com/muster-sched/muster/pkg/client/clientset/versioned/scheme"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	phjobcontroller "github.com/muster-sched/muster/pkg/controllers/phjob"
	"github.com/muster-sched/muster/pkg/controllers/podgroup"
	"github.com/muster-sched/muster/pkg/controllers/queue"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/phjob"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/text"
	"github.com/muster-sched/muster/test/integration/harness"
)

const (
	// soon bounds what should take milliseconds; it only matters when something is broken, or the machine is very busy.
	soon = time.Minute
	// quiet is how long the tests watch for something that must not happen.
	quiet = time.Second
	// node is where the tests bind pods to. It has less than the jobs ask for: only quota decides.
	node = "small"
	// startTimeout is how long a pod may take to run.
	startTimeout = 3 * time.Minute
)

// TestMain starts these, and all tests share them; each test has its own namespace, queues and clocks.
var (
	kube   kubernetes.Interface
	muster versioned.Interface
	// whileDown stops the controllers, lets something happen and starts new ones, which know only the API's state.
	whileDown func(happens func())
	// now is the time of the phjob and podgroup controllers, which a test moves.
	now = &movedClock{}
)

func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{ControlPlaneOnly: true}, func(ctx context.Context, env *harness.Env) (func() error, error) {
		kube, muster = env.Kube, env.Muster
		if err := addNode(ctx, node); err != nil {
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

func addNode(ctx context.Context, name string) error {
	if _, err := kube.CoreV1().Nodes().Create(ctx, mustertesting.MakeNode(name).Obj(), metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType,
		[]byte(`{"status":{"allocatable":{"cpu":"1","memory":"1Ti","pods":"1000"},"conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
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
	broadcaster, recorder := newRecorder(ctx)
	kubeInformers := informers.NewSharedInformerFactory(kube, 0)
	musterInformers := musterinformers.NewSharedInformerFactory(muster, 0)
	used, err := usage.New(kubeInformers, musterInformers)
	if err != nil {
		return nil, err
	}
	reports := worker.NewReports()
	config := phjobcontroller.Config{
		Kube: kube, Muster: muster, KubeInformers: kubeInformers, MusterInformers: musterInformers,
		Usage: used, Recorder: recorder, Reports: reports, Settings: phjob.DefaultConfig(), SchedulerName: "none", Clock: now,
	}
	jobs, err := phjobcontroller.New(config)
	if err != nil {
		return nil, err
	}
	schedules, err := phjobcontroller.NewSchedules(config)
	if err != nil {
		return nil, err
	}
	groups, err := podgroup.New(podgroup.Config{
		KubeClient: kube, MusterClient: muster, KubeInformers: kubeInformers, MusterInformers: musterInformers,
		Usage: used, Recorder: recorder, OvercommitFactor: 1.2, HoldTimeout: time.Second, OvertakeTime: time.Second, Reports: reports,
		PhJobs: jobs, Clock: now,
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
	ended := make(chan struct{}, 4)
	go func() { queues.Run(ctx); ended <- struct{}{} }()
	go func() { jobs.Run(ctx, 4); ended <- struct{}{} }()
	go func() { schedules.Run(ctx); ended <- struct{}{} }()
	go func() {
		if jobs.WaitForSync(ctx) {
			groups.Run(ctx, 4)
		}
		ended <- struct{}{}
	}()
	return func() {
		cancel()
		for range cap(ended) {
			<-ended
		}
		kubeInformers.Shutdown()
		musterInformers.Shutdown()
		broadcaster.Shutdown()
	}, nil
}

// newRecorder writes events until its broadcaster is shut down.
func newRecorder(ctx context.Context) (record.EventBroadcaster, record.EventRecorder) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(musterscheme.AddToScheme(scheme))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	return broadcaster, broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "muster-controller"})
}

// movedClock is the real time, which a test can move.
type movedClock struct {
	clock.RealClock
	moved atomic.Int64 // nanoseconds
}

// Now is the real time, moved.
func (c *movedClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.moved.Load())) }

// Since is how long ago a moved time was.
func (c *movedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *movedClock) move(d time.Duration) { c.moved.Add(int64(d)) }

// later restarts the controllers with a later time. The test's end takes that back.
func (w *world) later(d time.Duration) {
	whileDown(func() { now.move(d) })
	w.Cleanup(func() { whileDown(func() { now.move(-d) }) })
}

// elapse moves the time of the controllers while they run. The test's end takes that back.
func (w *world) elapse(d time.Duration) {
	now.move(d)
	w.Cleanup(func() { whileDown(func() { now.move(-d) }) })
}

// world is a test's own namespace and group, with verbs for what the test does and sees.
type world struct {
	*testing.T
	namespace, group string
}

// newWorld has a group with quotas for the group and for each user. It has the image base and instance types of 1 to 8 CPUs.
func newWorld(t *testing.T, groupCPU, userCPU string) *world {
	t.Helper()
	w := &world{T: t}
	w.createNamespace()
	w.group = w.namespace + "-users"
	q := mustertesting.MakeQueue(w.group).Parent("root").Capability("cpu", groupCPU).Dequeue(schedulingv1beta1.DequeueStrategyFIFO).
		Extend(&schedulingv1beta1.QueueExtension{UserQuota: &schedulingv1beta1.UserQuota{Default: mustertesting.Resources("cpu", userCPU)}}).Obj()
	q.Labels = map[string]string{primehubv1alpha1.GroupIDLabel: w.group + "-id", primehubv1alpha1.GroupNameLabel: w.group}
	_, err := muster.SchedulingV1beta1().Queues().Create(t.Context(), q, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = muster.SchedulingV1beta1().Queues().Delete(context.Background(), w.group, metav1.DeleteOptions{})
	})
	w.eventually("the queue is open", func() bool { return w.queue().Status.State == schedulingv1beta1.QueueStateOpen })
	w.createPresets()
	return w
}

// createNamespace creates the namespace.
func (w *world) createNamespace() {
	w.Helper()
	namespace, err := kube.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hub-"}}, metav1.CreateOptions{})
	require.NoError(w, err)
	w.namespace = namespace.Name
	w.eventually("the namespace has its service account", func() bool {
		_, err := kube.CoreV1().ServiceAccounts(w.namespace).Get(w.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
}

// createPresets creates the image and the instance types.
func (w *world) createPresets() {
	w.Helper()
	_, err := muster.PrimehubV1alpha1().Images(w.namespace).Create(w.Context(), &primehubv1alpha1.Image{
		ObjectMeta: metav1.ObjectMeta{Name: "base"}, Spec: primehubv1alpha1.ImageSpec{URL: "base:1"}}, metav1.CreateOptions{})
	require.NoError(w, err)
	for _, n := range []int{1, 2, 4, 8} {
		w.createType(fmt.Sprint("cpu-", n), primehubv1alpha1.InstanceTypeSpec{LimitsCPU: float64(n), LimitsMemory: "1G"})
	}
}

func (w *world) createType(name string, spec primehubv1alpha1.InstanceTypeSpec) {
	w.Helper()
	_, err := muster.PrimehubV1alpha1().InstanceTypes(w.namespace).Create(w.Context(), &primehubv1alpha1.InstanceType{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	require.NoError(w, err)
}

func (w *world) eventually(what string, met func() bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 5*time.Millisecond, soon, true, func(context.Context) (bool, error) { return met(), nil })
	require.NoError(w, err, "not seen: %s", what)
}

// never fails if something happens within a while.
func (w *world) never(what string, met func() bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 20*time.Millisecond, quiet, true, func(context.Context) (bool, error) { return met(), nil })
	require.Error(w, err, "seen: %s", what)
}

func (w *world) queue() *schedulingv1beta1.Queue {
	w.Helper()
	q, err := muster.SchedulingV1beta1().Queues().Get(w.Context(), w.group, metav1.GetOptions{})
	require.NoError(w, err)
	return q
}

// submit creates a PhJob of a user. Jobs of a group are scheduled by the second of their creation: each has one of its own.
func (w *world) submit(name, user string, cpus int, changes ...func(*primehubv1alpha1.PhJob)) {
	w.Helper()
	created := w.create(name, user, cpus, changes...)
	w.eventually("the next second", func() bool { return time.Now().Truncate(time.Second).After(created.CreationTimestamp.Time) })
}

// create creates a PhJob of a user.
func (w *world) create(name, user string, cpus int, changes ...func(*primehubv1alpha1.PhJob)) *primehubv1alpha1.PhJob {
	w.Helper()
	job := &primehubv1alpha1.PhJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: primehubv1alpha1.PhJobSpec{
			Command: "echo start", DisplayName: name, UserID: user + "-id", UserName: user, GroupID: w.group + "-id", GroupName: w.group,
			Image: "base", InstanceType: fmt.Sprint("cpu-", cpus),
		},
	}
	for _, change := range changes {
		change(job)
	}
	created, err := muster.PrimehubV1alpha1().PhJobs(w.namespace).Create(w.Context(), job, metav1.CreateOptions{})
	require.NoError(w, err)
	return created
}

func (w *world) job(name string) *primehubv1alpha1.PhJob {
	w.Helper()
	job, err := muster.PrimehubV1alpha1().PhJobs(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
	require.NoError(w, err)
	return job
}

func (w *world) change(name string, change func(*primehubv1alpha1.PhJob)) {
	w.Helper()
	w.eventually("PhJob "+name+" can be changed", func() bool {
		job := w.job(name)
		change(job)
		_, err := muster.PrimehubV1alpha1().PhJobs(w.namespace).Update(w.Context(), job, metav1.UpdateOptions{})
		require.True(w, err == nil || apierrors.IsConflict(err), "%v", err)
		return err == nil
	})
}

func cancel(job *primehubv1alpha1.PhJob) { job.Spec.Cancel = true }

// phase waits until a PhJob is in a phase, and returns it.
func (w *world) phase(name string, want primehubv1alpha1.PhJobPhase) *primehubv1alpha1.PhJob {
	w.Helper()
	var job *primehubv1alpha1.PhJob
	err := wait.PollUntilContextTimeout(w.Context(), 5*time.Millisecond, soon, true, func(context.Context) (bool, error) {
		job = w.job(name)
		return job.Status.Phase == want, nil
	})
	require.NoError(w, err, "PhJob %s is not %s: %+v", name, want, job.Status)
	return job
}

// says waits until a PhJob has a message.
func (w *world) says(name string, reason primehubv1alpha1.PhJobReason, message string) {
	w.Helper()
	var job *primehubv1alpha1.PhJob
	err := wait.PollUntilContextTimeout(w.Context(), 5*time.Millisecond, soon, true, func(context.Context) (bool, error) {
		job = w.job(name)
		return job.Status.Reason == reason && text.WithoutTime(job.Status.Message) == message, nil
	})
	require.NoError(w, err, "PhJob %s does not say %s %q: %+v", name, reason, message, job.Status)
}

// pod waits for the pod of a PhJob.
func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	var pod *corev1.Pod
	w.eventually("pod "+name, func() bool {
		var err error
		pod, err = kube.CoreV1().Pods(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		return err == nil && pod.DeletionTimestamp == nil
	})
	return pod
}

func (w *world) hasPod(name string) bool {
	_, err := kube.CoreV1().Pods(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
	return !apierrors.IsNotFound(err)
}

func (w *world) podGoes(name string) {
	w.Helper()
	w.eventually("pod "+name+" is deleted", func() bool {
		pod, err := kube.CoreV1().Pods(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && pod.DeletionTimestamp != nil
	})
	_ = kube.CoreV1().Pods(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}) // as the kubelet does
}

// starts plays the scheduler and the kubelet: the pod gets a node and runs.
func (w *world) starts(name string) {
	w.Helper()
	w.pod(name)
	require.NoError(w, kube.CoreV1().Pods(w.namespace).Bind(w.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
	w.podStatus(name, `{"phase":"Running"}`)
	w.phase(name, primehubv1alpha1.PhJobRunning)
}

// podStatus writes the status of a pod.
func (w *world) podStatus(name, status string) {
	w.Helper()
	_, err := kube.CoreV1().Pods(w.namespace).Patch(w.Context(), name, types.StrategicMergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	require.NoError(w, err)
}

// groups are the PodGroups of the namespace.
func (w *world) groups() []string {
	w.Helper()
	list, err := muster.SchedulingV1beta1().PodGroups(w.namespace).List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
