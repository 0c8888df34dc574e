package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// writes counts what is written to the pods of a namespace, by pod.
type writes struct {
	mu      sync.Mutex
	byPod   map[string]int
	waiting map[string]int // pods with a condition PodScheduled=False
}

func (w *writes) thatItWaits(pod string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting[pod]
}

func (w *writes) of(pod string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byPod[pod]
}

// countWrites counts every change of the test's pods from now on.
func (w *world) countWrites() *writes {
	w.t.Helper()
	watcher, err := kube.CoreV1().Pods(w.namespace).Watch(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	w.t.Cleanup(watcher.Stop)
	seen := &writes{byPod: map[string]int{}, waiting: map[string]int{}}
	go func() {
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Modified {
				seen.mu.Lock()
				seen.byPod[pod.Name]++
				if _, waits := waitingCondition(pod); waits {
					seen.waiting[pod.Name]++
				}
				seen.mu.Unlock()
			}
		}
	}()
	return seen
}

// waiting returns the reason and the message of the condition PodScheduled=False of each pod whose name has a prefix.
func (w *world) waiting(prefix string) map[string][2]string {
	pods, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	found := map[string][2]string{}
	for i := range pods.Items {
		if !strings.HasPrefix(pods.Items[i].Name, prefix) {
			continue
		}
		if said, waits := waitingCondition(&pods.Items[i]); waits {
			found[pods.Items[i].Name] = said
		}
	}
	return found
}

// waitingCondition is the reason and the message of a pod's condition PodScheduled, if it is False.
func waitingCondition(pod *corev1.Pod) (said [2]string, waits bool) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return [2]string{condition.Reason, condition.Message}, true
		}
	}
	return said, false
}

// expectAllSay checks that all n members carry a reason, and one message that has the texts.
func (w *world) expectAllSay(prefix string, n int, reason string, texts ...string) {
	w.t.Helper()
	var last map[string][2]string
	err := wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, soon, true, func(context.Context) (bool, error) {
		last = w.waiting(prefix)
		messages := map[string]bool{}
		for _, said := range last {
			messages[said[1]] = true
			if said[0] != reason {
				return false, nil
			}
			for _, text := range texts {
				if !strings.Contains(said[1], text) {
					return false, nil
				}
			}
		}
		return len(last) == n && len(messages) == 1, nil
	})
	require.NoError(w.t, err, "%d pods of %s should say %s %q; they say %v", n, prefix, reason, texts, last)
}

// eventsOf returns the messages of the events of a reason on an object.
func (w *world) eventsOf(kind, name, reason string) []string {
	events, err := kube.CoreV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	var messages []string
	for i := range events.Items {
		event := &events.Items[i]
		if event.InvolvedObject.Kind == kind && event.InvolvedObject.Name == name && event.Reason == reason {
			assert.True(w.t, kind != "PodGroup" || !event.LastTimestamp.IsZero(), "clients sort events by lastTimestamp")
			messages = append(messages, event.Message)
		}
	}
	return messages
}

// noWrites checks that the members of a gang get no further write and no event. It waits longer than the scheduler does before a new text.
func (w *world) noWrites(seen *writes, prefix string, n, each int) {
	w.t.Helper()
	w.eventually("the watch has all writes", func() bool {
		for i := range n {
			if seen.of(fmt.Sprintf("%s-%d", prefix, i)) < each {
				return false
			}
		}
		return true
	})
	_ = wait.PollUntilContextTimeout(w.ctx, 100*time.Millisecond, 7*time.Second, true, func(context.Context) (bool, error) {
		for i := range n {
			name := fmt.Sprintf("%s-%d", prefix, i)
			require.Equal(w.t, each, seen.of(name), "writes to %s", name)
			require.Len(w.t, w.eventsOf("Pod", name, "FailedScheduling"), map[bool]int{true: 1}[i == 0], "one event for each gang, on its first pod")
		}
		require.Len(w.t, w.eventsOf("PodGroup", prefix, "Unschedulable"), 1)
		return false, nil
	})
}

func TestEveryMemberSaysOnceWhatItsGangLacks(t *testing.T) {
	w := newQuietWorld(t, 2)
	// The passers-by have a node that is too small for the gang. The report about the other nodes stays true all the time.
	const passersBy = "passers-by"
	w.addNode(9, func(n *corev1.Node) {
		n.Labels[passersBy] = ""
		n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1")
	})
	seen := w.countWrites()
	w.createGroup("g", 4, "")
	w.createGang("g", 5) // one more than the minimum: it waits for the same
	w.expectAllSay("g", 5, corev1.PodReasonUnschedulable,
		"room for 2 of the 4 members that start together", "2 more need 3 cpu each", "lacks 2 cpu")
	w.eventually("the PodGroup has its event", func() bool { return len(w.eventsOf("PodGroup", "g", "Unschedulable")) == 1 })
	assert.Contains(t, w.eventsOf("PodGroup", "g", "Unschedulable")[0], "room for 2 of the 4 members that start together")
	w.noWrites(seen, "g", 5, 1)

	// Pods that come and go make the gang be tried again. It costs nothing as long as the outcome is the same.
	for i := range 3 {
		name := fmt.Sprintf("passer-by-%d", i)
		w.create(w.pod(name, "", func(p *corev1.Pod) {
			p.Spec.NodeSelector[passersBy] = ""
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
		}))
		w.expectBound(name, 1)
		w.remove(name)
	}
	w.noWrites(seen, "g", 5, 1)

	w.addNode(2)
	w.addNode(3)
	w.addNode(4)
	w.expectBound("g", 5)
	w.eventually("no member says any more that it waits", func() bool { return len(w.waiting("g")) == 0 })
	assert.Len(t, w.eventsOf("PodGroup", "g", "Unschedulable"), 1)
}

func TestAGangThatStartsPromptlyIsNotReported(t *testing.T) {
	w := newWorld(t, 3)
	seen := w.countWrites()
	w.createGang("g", 3)
	w.createGroup("g", 3, "")
	w.expectBound("g", 3)
	for i := range 3 {
		w.eventually("its binding is seen", func() bool { return seen.of(fmt.Sprintf("g-%d", i)) > 0 })
	}
	_ = wait.PollUntilContextTimeout(w.ctx, 100*time.Millisecond, 4*time.Second, true, func(context.Context) (bool, error) {
		for i := range 3 {
			require.Zero(t, seen.thatItWaits(fmt.Sprintf("g-%d", i)), "no text says that it waits")
		}
		require.Empty(t, w.eventsOf("PodGroup", "g", "Unschedulable"))
		return false, nil
	})
}

func TestMembersSayWhatTheirGangWaitsFor(t *testing.T) {
	w := newWorld(t, 4)
	w.createGang("g", 2)
	w.expectAllSay("g", 2, "WaitingForPodGroup", "waiting for the pod's PodGroup to be created")

	w.createGroup("g", 3, "")
	w.expectAllSay("g", 2, "NotEnoughTasks", "fewer pods exist than the 3 that start together")
	w.eventually("the PodGroup has its event", func() bool { return len(w.eventsOf("PodGroup", "g", "Unschedulable")) == 1 })

	w.create(w.pod("g-2", "g"))
	w.expectBound("g", 3)

	_, err := muster.SchedulingV1beta1().Queues().Create(w.ctx, mustertesting.MakeQueue(w.namespace).Capability("cpu", "7").Obj(), metav1.CreateOptions{})
	require.NoError(t, err)
	w.createGroup("q", 3, w.namespace)
	w.createGang("q", 3)
	w.expectAllSay("q", 3, "WaitingForQuota", fmt.Sprintf("can never fit queue %q: 9 cpu asked, its capability is 7", w.namespace))
	w.eventually("the PodGroup has its event", func() bool { return len(w.eventsOf("PodGroup", "q", "Unschedulable")) == 1 })
	w.create(w.pod("single", "", func(p *corev1.Pod) {
		p.Annotations = map[string]string{"scheduling.volcano.sh/queue-name": w.namespace}
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("8")
	}))
	w.expectAllSay("single", 1, "WaitingForQuota", "8 cpu asked")

	// Quota is there now, room is not: a cluster autoscaler must see that.
	_, err = muster.SchedulingV1beta1().Queues().Patch(w.ctx, w.namespace, types.MergePatchType, []byte(`{"spec":{"capability":{"cpu":"100"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.expectAllSay("q", 3, corev1.PodReasonUnschedulable, "room for 1 of the 3 members that start together")
}

func TestATaskThatLacksPodsIsNamed(t *testing.T) {
	w := newWorld(t, 4)
	group := mustertesting.MakePodGroup("g").Namespace(w.namespace).MinMember(2).Obj()
	group.Spec.MinTaskMember = map[string]int32{"master": 1, "worker": 1}
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, group, metav1.CreateOptions{})
	require.NoError(t, err)
	w.createGang("g", 3, func(p *corev1.Pod) { p.Annotations["volcano.sh/task-spec"] = "worker" })
	w.expectAllSay("g", 3, "NotEnoughPodsOfTask", `fewer pods of task "master" exist than the 1 that its minimum asks for`)
	w.create(w.pod("g-master", "g", func(p *corev1.Pod) { p.Annotations["volcano.sh/task-spec"] = "master" }))
	w.expectBound("g", 4)
}

// TestEveryBindingIsToldOnce: the events of pods that are bound at once wait for the bindings, and still come.
func TestEveryBindingIsToldOnce(t *testing.T) {
	const n = 40
	w := newWorld(t, 2)
	small := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	}
	w.createGang("gang", n, small)
	w.createGroup("gang", n, "")
	w.create(w.pod("single", "", small))
	w.expectBound("", n+1)
	var told map[string]int
	w.eventually("each binding has been told", func() bool {
		told = w.told("Scheduled")
		return len(told) == n+1
	})
	for pod, times := range told {
		assert.Equal(t, 1, times, pod)
	}
}

// told returns how many events of a reason there are on each pod that has any.
func (w *world) told(reason string) map[string]int {
	events, err := kube.CoreV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	times := map[string]int{}
	for i := range events.Items {
		if event := &events.Items[i]; event.InvolvedObject.Kind == "Pod" && event.Reason == reason {
			times[event.InvolvedObject.Name]++
		}
	}
	return times
}
