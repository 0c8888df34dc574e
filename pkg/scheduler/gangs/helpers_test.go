package gangs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// testArgs are the arguments of the trackers of these tests.
var testArgs = config.CoschedulingArgs{
	Admission:          config.AdmissionRequired,
	PermitTimeout:      metav1.Duration{Duration: time.Minute},
	PartialGangTimeout: metav1.Duration{Duration: time.Hour},
	InitialBackoff:     metav1.Duration{Duration: time.Second},
	MaxBackoff:         metav1.Duration{Duration: 10 * time.Second},
}

// newTestTracker makes a tracker that has read everything, leads and enforces quota, with a clock that stands. It knows queue q, without limits.
func newTestTracker(t testing.TB) (*gangs.Tracker, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	tr := gangs.New(clock)
	t.Cleanup(tr.Dirty.ShutDown)
	t.Cleanup(tr.Reports.ShutDown)
	require.NoError(t, tr.Configure("muster", testArgs))
	tr.Quota.EnforceQuota()
	tr.SetQueue(mustertesting.MakeQueue("q").Obj())
	tr.Feed.Open()
	tr.Leadership.Lead()
	return tr, clock
}

// openTracker is a newTestTracker whose clock does not matter.
func openTracker(t testing.TB) *gangs.Tracker {
	t.Helper()
	tr, _ := newTestTracker(t)
	return tr
}

// theGang is the key of the gang of groupIn and memberNamed.
var theGang = state.Key{Namespace: metav1.NamespaceDefault, Name: "g"}

// groupIn makes the PodGroup of theGang, in queue q.
func groupIn(phase schedulingv1beta1.PodGroupPhase, minMember int32) *schedulingv1beta1.PodGroup {
	return mustertesting.MakePodGroup("g").UID("g").MinMember(minMember).Queue("q").Phase(phase).Obj()
}

// memberNamed makes a pod of theGang that requests one CPU. Its UID is its name. If it has a node, the scheduler has bound it for theGang.
func memberNamed(name string) *mustertesting.PodWrapper {
	return mustertesting.MakePod(name).UID(name).Group("g").SchedulerName("muster").Requests("cpu", "1").Annotation(schedulingv1beta1.BoundForAnnotation, "g")
}

// singleNamed makes a pod without a gang that requests one CPU of a queue. Its UID is its name.
func singleNamed(name, queue string) *mustertesting.PodWrapper {
	return mustertesting.MakePod(name).UID(name).SchedulerName("muster").Requests("cpu", "1").QueueName(queue)
}

// gangOf has a gang without a queue come, with n members of one CPU: <name>-0 and so on.
func gangOf(tr *gangs.Tracker, name string, minMember int32, n int) []*corev1.Pod {
	tr.SetPodGroup(mustertesting.MakePodGroup(name).UID(name).MinMember(minMember).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		member := fmt.Sprintf("%s-%d", name, i)
		pods[i] = mustertesting.MakePod(member).UID(member).Group(name).SchedulerName("muster").Requests("cpu", "1").Obj()
		tr.SetPod(pods[i])
	}
	return pods
}

func keyNamed(name string) state.Key {
	return state.Key{Namespace: metav1.NamespaceDefault, Name: name}
}

// setPods tells a tracker of pods.
func setPods(tr *gangs.Tracker, pods ...*corev1.Pod) {
	for _, pod := range pods {
		tr.SetPod(pod)
	}
}

// on is a pod that the scheduler has bound to a node. The UID of its PodGroup is its name.
func on(pod *corev1.Pod, node string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	if key, inGang := gang.KeyOf(pod); inGang {
		pod.Annotations[schedulingv1beta1.BoundForAnnotation] = key.Name
	}
	return pod
}

// onByHand is a pod that another client has bound to a node.
func onByHand(pod *corev1.Pod, node string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	delete(pod.Annotations, schedulingv1beta1.BoundForAnnotation)
	return pod
}

// deleting is a pod that is being deleted.
func deleting(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(2000, 0)}
	return pod
}

// withGate is a pod that waits for the removal of a scheduling gate.
func withGate(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}}
	return pod
}

func namesOf(pods []*corev1.Pod) []string {
	names := []string{}
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

// yes is the decision that a gang fits. Without places it is uncertain where.
func yes(s *gangs.Snapshot, places map[types.UID]string) *placement.Decision {
	d := &placement.Decision{Feasibility: placement.Uncertain, Members: s.Problem.Members, Places: places}
	if places != nil {
		d.Feasibility = placement.Possible
	}
	return d
}

// no is the decision that a gang does not fit, because a plugin has rejected a pod.
func no(s *gangs.Snapshot, message string, rejected *corev1.Pod, plugin string) *placement.Decision {
	return &placement.Decision{
		Feasibility: placement.Impossible, Members: s.Problem.Members, Message: message, Rejected: []*corev1.Pod{rejected}, Rejectors: sets.New(plugin),
	}
}

// begin has the scout's gang decided to fit, and returns the pods to activate.
func begin(t testing.TB, tr *gangs.Tracker, scout *corev1.Pod, places map[types.UID]string) []*corev1.Pod {
	t.Helper()
	s := tr.Decisions.Snapshot(scout)
	require.NotNil(t, s)
	activate, ok := tr.Decisions.Commit(s, yes(s, places))
	require.True(t, ok)
	return activate
}

// refuse has the scout's gang decided not to fit.
func refuse(t testing.TB, tr *gangs.Tracker, scout *corev1.Pod, message string) {
	t.Helper()
	s := tr.Decisions.Snapshot(scout)
	require.NotNil(t, s)
	_, ok := tr.Decisions.Commit(s, no(s, message, scout, "NodeResourcesFit"))
	require.True(t, ok)
}

// reserve does what the plugins do in Reserve, in the order of the profiles. unreserve does what they do in Unreserve.
func reserve(tr *gangs.Tracker, pod *corev1.Pod) {
	tr.Quota.Charge(pod)
	tr.Reserve(pod)
}

func unreserve(tr *gangs.Tracker, pod *corev1.Pod) {
	tr.Unreserve(pod)
	tr.Quota.Refund(pod)
}

// permit reserves for a pod and asks Permit.
func permit(tr *gangs.Tracker, pod *corev1.Pod) (gangs.PermitResult, []types.UID) {
	reserve(tr, pod)
	return tr.Permit(pod)
}

// startAttempt has theGang, of the members m0 to m(n-1), decided to fit, and the first of them reserved.
func startAttempt(t testing.TB, tr *gangs.Tracker, n int) {
	t.Helper()
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, int32(n)))
	for i := range n {
		tr.SetPod(memberNamed(fmt.Sprint("m", i)).Obj())
	}
	first := memberNamed("m0").Obj()
	require.Empty(t, tr.Gate(first))
	begin(t, tr, first, nil)
	reserve(tr, first)
	require.Equal(t, gang.Attempting, phaseOf(tr, theGang))
}

// release brings a gang to where its members are being bound, each on a node of its name.
func release(t testing.TB, tr *gangs.Tracker, pods []*corev1.Pod) {
	t.Helper()
	begin(t, tr, pods[0], nil)
	for i, pod := range pods {
		result, _ := permit(tr, pod)
		require.Equal(t, i == len(pods)-1, result == gangs.Allow)
	}
}

func statusOf(tr *gangs.Tracker, key state.Key) gang.Status {
	tr.Lock()
	defer tr.Unlock()
	return tr.Status(tr.Gangs[key])
}

func phaseOf(tr *gangs.Tracker, key state.Key) gang.Phase { return statusOf(tr, key).Phase }

// toLookAt are the gangs that the dispatcher is about to look at. It looks at them no more.
func toLookAt(tr *gangs.Tracker) []state.Key {
	var keys []state.Key
	for tr.Dirty.Len() > 0 {
		key, _ := tr.Dirty.Get()
		keys = append(keys, key)
		tr.Dirty.Done(key)
	}
	return keys
}

// readTime has a queue read the time again after the test's clock has stepped. The queue may have read it before the step, and set its timer
// after that: the timer would never fire.
func readTime(queue interface {
	AddAfter(key state.Key, d time.Duration)
}) {
	queue.AddAfter(state.Key{Name: "never"}, 100*365*24*time.Hour)
}

// lookAgain waits until the dispatcher is about to look at something, and returns it.
func lookAgain(t testing.TB, tr *gangs.Tracker) []state.Key {
	t.Helper()
	readTime(tr.Dirty)
	require.Eventually(t, func() bool { return tr.Dirty.Len() > 0 }, mustertesting.Timeout, time.Millisecond)
	return toLookAt(tr)
}

// counting registers a metric, which counts only from then on, and returns what reads it.
func counting(t testing.TB, counter metrics.Registerable) func() float64 {
	t.Helper()
	registry := metrics.NewKubeRegistry()
	registry.MustRegister(counter)
	return func() float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		sum := 0.0
		for _, family := range families {
			for _, metric := range family.Metric {
				sum += metric.Counter.GetValue()
			}
		}
		return sum
	}
}

// reservedAgainst is what is reserved on nodes against a pod, nil if nothing is.
func reservedAgainst(tr *gangs.Tracker, pod *corev1.Pod) state.Kept {
	g, _ := tr.Find(pod.UID)
	return tr.WaitList.AgainstMember(g, pod)
}
