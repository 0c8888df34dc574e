package histories_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/simulation"
)

const (
	namespace = metav1.NamespaceDefault
	queueName = "q"
)

// world is a cluster and the history that happens to it.
type world struct {
	t       *rapid.T
	api     *simulation.API
	process *process
	next    int                         // for names and UIDs
	diary   []string                    // the steps so far, for readers of a failure
	excused bool                        // more than its capability may be reserved of the queue: it was lowered under a round
	before  *view                       // while one thing changes: what the scheduler had been told before
	ended   map[run]sets.Set[types.UID] // the pods that have succeeded
	burst   sets.Set[string]            // gangs whose events arrive in a burst now; nil outside of bursts

	mu    sync.Mutex
	wrong []string // the faults of the scheduler
}

// mistake is thrown when the scheduler did something wrong; it says what, and tells the history.
type mistake string

// inBubble runs a history where time is the bubble's, and returns what went wrong.
func inBubble(t *testing.T, rt *rapid.T, history func(*world)) (failure string) {
	var thrown any
	synctest.Test(t, func(*testing.T) {
		// rapid wants its panics in the goroutine that it called.
		defer func() { thrown = recover() }()
		w := &world{t: rt, api: simulation.New(), ended: map[run]sets.Set[types.UID]{}}
		defer w.end()
		w.begin()
		history(w)
	})
	switch thrown := thrown.(type) {
	case nil:
		return ""
	case mistake:
		return string(thrown)
	default:
		panic(thrown)
	}
}

func (w *world) begin() {
	for range 3 {
		w.createNode()
	}
	queue := mustertesting.MakeQueue(queueName).Capability("cpu", "12").Obj()
	queue.UID = w.newUID()
	require.NoError(w.t, w.api.Create(simulation.Queues, queue, ""))
	w.start()
}

func (w *world) start() {
	w.api.Release(simulation.AllResources...)
	p, err := startProcess(w.api, w)
	require.NoError(w.t, err)
	w.process, w.excused = p, false
	w.settle()
}

func (w *world) end() {
	if w.process != nil {
		w.process.kill()
	}
}

// settle waits until no goroutine has work at this moment, and reports errors.
func (w *world) settle() {
	synctest.Wait()
	if len(w.wrong) > 0 {
		story := fmt.Sprintf("%s\nthe history:\n%s", strings.Join(w.wrong, "\n"), strings.Join(w.diary, "\n"))
		if *verbosity >= 0 { // the log ends with the first failure
			fmt.Fprintln(os.Stderr, story)
			os.Exit(1)
		}
		panic(mistake(story))
	}
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	time.Sleep(d) // of the bubble
	w.settle()
}

func (w *world) note(format string, args ...any) {
	w.diary = append(w.diary, fmt.Sprintf("%8s ", time.Since(epoch).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// epoch is when all bubbles begin.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (w *world) newUID() types.UID {
	w.next++
	return types.UID(fmt.Sprintf("uid-%04d", w.next))
}

func (w *world) newName(prefix string) string {
	w.next++
	return fmt.Sprintf("%s-%d", prefix, w.next)
}

func (w *world) draw(label string, from, to int) int {
	return rapid.IntRange(from, to).Draw(w.t, label)
}

func (w *world) oneIn(n int, label string) bool { return w.draw(label, 1, n) == n }

// pick draws one of several, false if there are none.
func pick[T any](w *world, label string, from []T) (T, bool) {
	var none T
	if len(from) == 0 {
		return none, false
	}
	return from[w.draw(label, 0, len(from)-1)], true
}

func (w *world) pods() []*corev1.Pod { return simulation.Stored[*corev1.Pod](w.api, simulation.Pods) }
func (w *world) nodes() []*corev1.Node {
	return simulation.Stored[*corev1.Node](w.api, simulation.Nodes)
}
func (w *world) groups() []*schedulingv1beta1.PodGroup {
	return simulation.Stored[*schedulingv1beta1.PodGroup](w.api, simulation.PodGroups)
}
func (w *world) queue() *schedulingv1beta1.Queue {
	return simulation.Stored[*schedulingv1beta1.Queue](w.api, simulation.Queues)[0]
}

// update stores a new state of a copy of an object.
func update[T interface {
	runtime.Object
	metav1.Object
}](w *world, gvr schema.GroupVersionResource, obj T, how func(T)) {
	changed := obj.DeepCopyObject().(T)
	how(changed)
	w.change(func() error { return w.api.Update(gvr, changed, changed.GetNamespace()) })
}

// change has the API take in one thing, and waits until all know of it. The checks must not be ahead of the scheduler.
func (w *world) change(what func() error) {
	before := w.told()
	w.before = &before
	require.NoError(w.t, what())
	w.settle()
	w.before = nil
}

func (w *world) remove(gvr schema.GroupVersionResource, obj metav1.Object) {
	w.change(func() error { return w.api.Delete(gvr, obj.GetNamespace(), obj.GetName()) })
}

func (w *world) createNode() {
	node := mustertesting.MakeNode(w.newName("node")).Allocatable("cpu", "6", "memory", "64Gi", "pods", "110").Obj()
	node.UID = w.newUID()
	w.note("create node %s", node.Name)
	require.NoError(w.t, w.api.Create(simulation.Nodes, node, ""))
	w.settle()
}

// podOf is a pod of a gang, or of none.
func (w *world) podOf(group, task string, cpu, version int) *corev1.Pod {
	made := mustertesting.MakePod(w.newName("pod")).SchedulerName(shipped.SchedulerName).Requests("cpu", fmt.Sprint(cpu)).Version(version)
	if group != "" {
		made = made.Group(group)
	}
	if task != "" {
		made = made.Task(task)
	}
	pod := made.Obj()
	pod.UID, pod.CreationTimestamp = w.newUID(), metav1.Now()
	pod.Status.Phase = corev1.PodPending
	return pod
}

func (w *world) createPod(pod *corev1.Pod) {
	w.note("create %s of gang %q, cpu %s, version %d", pod.Name, groupOf(pod), cpuOf(pod).String(), versionOf(pod))
	require.NoError(w.t, w.api.Create(simulation.Pods, pod, namespace))
	w.settle()
}

func cpuOf(pod *corev1.Pod) *resource.Quantity {
	return pod.Spec.Containers[0].Resources.Requests.Cpu()
}
