package makers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// cell is one maker and one event, with a namespace and a queue of the same name, and verbs.
type cell struct {
	*testing.T
	ctx       context.Context
	name      string
	short     string
	maker     maker
	record    *cellRecord
	instances []*instance
}

// instance is one object of a user, for which a maker makes pods.
type instance struct {
	c     *cell
	maker maker
	name  string
	queue string
	// mixed: pods but the first of each stage name the cell's other queue.
	mixed bool
	// next stage to make.
	next int
	// live is how many pods it has when nothing is under way.
	live int
	// together is how many pods must have room before one may run.
	together int
	// created are the pods that the maker itself has made.
	created []*corev1.Pod
}

var cells atomic.Int32

func newCell(t *testing.T, event string, m maker) *cell {
	t.Helper()
	c := &cell{T: t, ctx: t.Context(), name: event + "-" + m.name, short: fmt.Sprint(cells.Add(1)), maker: m}
	c.record = all.open(c.name)
	require.NoError(t, createNamespace(c.ctx, c.name))
	t.Cleanup(func() {
		// A cell that failed leaves nothing in the way of others. The test's own context has ended. Any other cell has deleted all its
		// objects, so its namespace stays. To delete one, Kubernetes asks 80 times for what may be left in it.
		if t.Failed() {
			_ = env.Kube.CoreV1().Namespaces().Delete(context.Background(), c.name, metav1.DeleteOptions{})
		}
	})
	return c
}

func createNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := env.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		_, err := env.Kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the service account of namespace %s: %w", name, err)
	}
	return nil
}

// await waits until met, which is asked under the lock of the record.
func (c *cell) await(what string, met func() bool) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	defer cancel()
	if err := all.wait(ctx, c.record, func() bool { return len(c.record.faults) > 0 || met() }); err != nil {
		require.Failf(c, "not seen: "+what, "within %s; seen:\n%s", timeout, c.describe())
	}
	c.judge()
}

// judge fails if the record has seen what must never be.
func (c *cell) judge() {
	c.Helper()
	var faults []string
	all.ask(func() { faults = slices.Clone(c.record.faults) })
	if len(faults) > 0 {
		require.Failf(c, "the record has faults", "%s\nseen:\n%s", strings.Join(faults, "\n"), c.describe())
	}
}

// addQueue makes a queue that is as large as a number of pods, and waits until it is open.
func (c *cell) addQueue(name string, capability int) {
	c.Helper()
	all.ask(func() { c.record.capability[name] = int64(capability) })
	queue := mustertesting.MakeQueue(name).Capability(string(c.maker.resourceName()), fmt.Sprint(capability)).Obj()
	_, err := env.Muster.SchedulingV1beta1().Queues().Create(c.ctx, queue, metav1.CreateOptions{})
	require.NoError(c, err)
	c.queueState(name, schedulingv1beta1.QueueStateOpen)
}

func (c *cell) queueState(name string, states ...schedulingv1beta1.QueueState) {
	c.Helper()
	c.await(fmt.Sprintf("queue %s is %v", name, states), func() bool {
		queue := c.record.queues[name]
		return queue != nil && slices.Contains(states, queue.Status.State)
	})
}

// resize changes a queue's capability.
func (c *cell) resize(name string, capability int) {
	c.Helper()
	all.ask(func() { c.record.capability[name] = max(c.record.capability[name], int64(capability)) })
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		queue, err := env.Muster.SchedulingV1beta1().Queues().Get(c.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		queue.Spec.Capability = mustertesting.Resources(string(c.maker.resourceName()), fmt.Sprint(capability))
		_, err = env.Muster.SchedulingV1beta1().Queues().Update(c.ctx, queue, metav1.UpdateOptions{})
		return err
	})
	require.NoError(c, err)
	all.ask(func() { c.record.capability[name] = int64(capability) })
}

// order closes or opens a queue. While it is closed nothing may be bound.
func (c *cell) order(name string, action busv1alpha1.Action, capability int) {
	c.Helper()
	queue, err := env.Muster.SchedulingV1beta1().Queues().Get(c.ctx, name, metav1.GetOptions{})
	require.NoError(c, err)
	if action == busv1alpha1.OpenQueueAction {
		all.ask(func() { c.record.capability[name] = int64(capability) })
	}
	_, err = env.Muster.BusV1alpha1().Commands(c.name).Create(c.ctx, &busv1alpha1.Command{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "order-"}, Action: string(action),
		TargetObject: metav1.NewControllerRef(queue, schedulingv1beta1.SchemeGroupVersion.WithKind("Queue")),
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	if action == busv1alpha1.OpenQueueAction {
		c.queueState(name, schedulingv1beta1.QueueStateOpen)
		return
	}
	c.queueState(name, schedulingv1beta1.QueueStateClosed, schedulingv1beta1.QueueStateClosing)
	all.ask(func() { c.record.capability[name] = 0 })
}

// start has a maker make its first pods, and its PodGroup before them.
func (c *cell) start(name string) *instance {
	c.Helper()
	i := c.newInstance(name, c.maker)
	i.writeGroup()
	i.startPods()
	return i
}

// fill makes bare pods in the cell's queue.
func (c *cell) fill(name string, pods int) *instance {
	c.Helper()
	i := c.newInstance(name, maker{name: "filler", together: 1, resource: c.maker.resource, stages: []stage{{pods, bare("pod", noOwner)}}})
	i.startPods()
	return i
}

func (c *cell) newInstance(name string, m maker) *instance {
	i := &instance{c: c, maker: m, name: name, queue: c.name, together: m.together}
	c.instances = append(c.instances, i)
	return i
}

func (i *instance) groupName() string { return i.name + "-pg" }

// writeGroup writes the PodGroup of an instance, if its maker writes any. The API server takes a moment to learn that a queue is open.
func (i *instance) writeGroup() {
	i.c.Helper()
	if i.maker.group == nil {
		return
	}
	i.c.poll("PodGroup "+i.groupName()+" is written", func() error { return i.createGroup() })
}

// awaitRefusal waits until the API server refuses a PodGroup in the queue of an instance.
func (c *cell) awaitRefusal(i *instance) {
	c.Helper()
	c.poll("a PodGroup is refused", func() error {
		err := i.createGroup(metav1.DryRunAll)
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return fmt.Errorf("it is not: %w", err)
		}
		return nil
	})
}

// poll waits until a request has the answer that is expected.
func (c *cell) poll(what string, try func() error) {
	c.Helper()
	var last error
	err := wait.PollUntilContextTimeout(c.ctx, 50*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	require.NoError(c, err, "%s: %v", what, last)
}

func (i *instance) createGroup(dryRun ...string) error {
	shape := i.maker.group
	group := mustertesting.MakePodGroup(i.groupName()).Namespace(i.c.name).MinMember(shape.minMember).Queue(i.queue)
	for task, minimum := range shape.minTaskMember {
		group = group.MinTaskMember(task, minimum)
	}
	if shape.units > 0 {
		group = group.MinResources(string(i.maker.resourceName()), fmt.Sprint(shape.units))
	}
	_, err := env.Muster.SchedulingV1beta1().PodGroups(i.c.name).Create(i.c.ctx, group.Obj(), metav1.CreateOptions{DryRun: dryRun})
	return err
}

// setMinimum changes the PodGroup of an instance. Units 0 leaves minResources as it is.
func (i *instance) setMinimum(minMember int32, units int) {
	i.c.Helper()
	groups := env.Muster.SchedulingV1beta1().PodGroups(i.c.name)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		group, err := groups.Get(i.c.ctx, i.groupName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		group.Spec.MinMember = minMember
		if units > 0 {
			list := mustertesting.Resources(string(i.maker.resourceName()), fmt.Sprint(units))
			group.Spec.MinResources = &list
		}
		_, err = groups.Update(i.c.ctx, group, metav1.UpdateOptions{})
		return err
	})
	require.NoError(i.c, err)
}

// deleteGroups deletes all PodGroups of the cell, and returns when they are gone or made anew.
func (c *cell) deleteGroups() {
	c.Helper()
	groups := env.Muster.SchedulingV1beta1().PodGroups(c.name)
	list, err := groups.List(c.ctx, metav1.ListOptions{})
	require.NoError(c, err)
	for _, group := range list.Items {
		require.NoError(c, groups.Delete(c.ctx, group.Name, metav1.DeleteOptions{}))
	}
	c.await("the PodGroups are gone, or others", func() bool {
		return !slices.ContainsFunc(list.Items, func(old schedulingv1beta1.PodGroup) bool {
			now := c.record.groups[old.Name]
			return now != nil && now.UID == old.UID
		})
	})
}

func (i *instance) startPods() {
	i.c.Helper()
	if i.maker.group == nil || !i.maker.group.first {
		i.goOn()
	}
}

// goOn makes the next pods.
func (i *instance) goOn() {
	i.c.Helper()
	s := i.maker.stages[i.next]
	require.NoError(i.c, s.make(i.c.ctx, i, s.pods))
	i.next++
	i.live += s.pods
}

// mayGoOn says whether the maker makes its next pods now. The record's lock is held.
func (i *instance) mayGoOn() bool {
	switch {
	case i.next == len(i.maker.stages):
		return false
	case i.next == 0:
		group := i.c.record.groups[i.groupName()]
		return group != nil && group.Status.Phase != "" && group.Status.Phase != schedulingv1beta1.PodGroupPending
	}
	return len(i.pods(isBound)) == i.live
}

// pods are the pods of an instance that are neither finished nor being deleted. The record's lock is held.
func (i *instance) pods(fits func(*corev1.Pod) bool) []*corev1.Pod {
	var found []*corev1.Pod
	for _, pod := range i.c.record.pods {
		if pod.Labels[instanceLabel] == i.name && !isFinished(pod) && pod.DeletionTimestamp == nil && fits(pod) {
			found = append(found, pod)
		}
	}
	return found
}

func (i *instance) create(ctx context.Context, pod *corev1.Pod) error {
	i.created = append(i.created, pod)
	_, err := env.Kube.CoreV1().Pods(i.c.name).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// runs waits until all pods of the cell run, and all that are still to come.
func (c *cell) runs() {
	c.Helper()
	sum := 0
	for _, i := range c.instances {
		sum += i.live
		for _, s := range i.maker.stages[i.next:] {
			sum += s.pods
		}
	}
	c.rest(sum, "")
}

// rest waits until a number of pods is bound and the others say why they wait. The makers make more pods as theirs are bound. The cell is
// still at rest after both programs have done something that was asked for later.
func (c *cell) rest(bound int, why string) {
	c.Helper()
	c.settle(bound, why)
	c.probe()
	c.settle(bound, why)
}

func (c *cell) settle(bound int, why string) {
	c.Helper()
	for {
		var ready *instance
		unrest := ""
		c.awaitRest(&unrest, func() bool {
			unrest = c.unrest(bound, why)
			ready = nil
			for _, i := range c.instances {
				if i.mayGoOn() {
					ready = i
				}
			}
			return ready != nil || unrest == ""
		})
		if ready == nil {
			return
		}
		ready.goOn()
	}
}

// awaitRest is await with what keeps the cell from rest.
func (c *cell) awaitRest(unrest *string, met func() bool) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	defer cancel()
	if err := all.wait(ctx, c.record, func() bool { return len(c.record.faults) > 0 || met() }); err != nil {
		require.Failf(c, "no rest: "+*unrest, "within %s; seen:\n%s", timeout, c.describe())
	}
	c.judge()
}

// unrest says why the cell is not at rest with so many bound pods; "" if it is. The record's lock is held.
func (c *cell) unrest(bound int, why string) string {
	sum := 0
	for _, i := range c.instances {
		own := i.pods(isBound)
		sum += len(own)
		if n := len(i.pods(anyPod)); n != i.live {
			return fmt.Sprintf("%s has %d pods, not %d", i.name, n, i.live)
		}
		if len(own) > 0 && i.live+i.toCome() >= i.together && len(own) < min(i.together, i.live) {
			return fmt.Sprintf("%s is partial: %d pods are bound, %d must run together", i.name, len(own), i.together)
		}
		if text := i.disagrees(); text != "" {
			return text
		}
		if text := i.unexplained(why); text != "" {
			return text
		}
	}
	if sum != bound {
		return fmt.Sprintf("%d pods are bound, not %d", sum, bound)
	}
	return ""
}

func anyPod(*corev1.Pod) bool { return true }

func (i *instance) toCome() int {
	sum := 0
	for _, s := range i.maker.stages[i.next:] {
		sum += s.pods
	}
	return sum
}

// disagrees compares the counts of PodGroups with their pods.
func (i *instance) disagrees() string {
	running := map[string]int{}
	for _, pod := range i.pods(anyPod) {
		if isBound(pod) && pod.Status.Phase != corev1.PodRunning {
			return "pod " + pod.Name + " is bound and does not run yet"
		}
		if name := pod.Annotations[schedulingv1beta1.GroupNameAnnotation]; name != "" && isBound(pod) {
			running[name]++
		}
	}
	for name, n := range running {
		if group := i.c.record.groups[name]; group != nil && int(group.Status.Running) != n {
			return fmt.Sprintf("PodGroup %s counts %d running pods, not %d", name, group.Status.Running, n)
		}
	}
	return ""
}

// unexplained names a pod that waits and does not say why, in its condition or that of its PodGroup. A maker that waits for its PodGroup
// reads why there.
func (i *instance) unexplained(why string) string {
	for _, pod := range i.pods(func(pod *corev1.Pod) bool { return !isBound(pod) }) {
		reason, message := i.says(pod)
		if reason == "" || why == "" || !strings.Contains(strings.ToLower(message), why) {
			return fmt.Sprintf("pod %s waits and does not say %q, but %s: %s", pod.Name, why, reason, message)
		}
	}
	if group := i.c.record.groups[i.groupName()]; i.next == 0 && group != nil && !strings.Contains(strings.ToLower(saidOf(group)), why) {
		return fmt.Sprintf("PodGroup %s waits and does not say %q, but %s", group.Name, why, saidOf(group))
	}
	return ""
}

// says is the reason of a waiting pod, and the messages of the pod and of its PodGroup.
func (i *instance) says(pod *corev1.Pod) (reason, message string) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			reason, message = condition.Reason, condition.Message
		}
	}
	if group := i.c.record.groups[pod.Annotations[schedulingv1beta1.GroupNameAnnotation]]; group != nil {
		message += "; its PodGroup: " + saidOf(group)
	}
	return reason, message
}

// saidOf is what the condition of a PodGroup says that is current.
func saidOf(group *schedulingv1beta1.PodGroup) string {
	var current schedulingv1beta1.PodGroupCondition
	for _, condition := range group.Status.Conditions {
		if !condition.LastTransitionTime.Before(&current.LastTransitionTime) {
			current = condition
		}
	}
	return current.Reason + ": " + current.Message
}

// Reasons to wait, as users look for them. The queue of a cell has the cell's name, which names no reason.
const (
	quota     = " needed"        // the queue has so much free, and more is needed
	neverFits = "can never fit"  // the queue is smaller than what is asked for
	closed    = "is clos"        // the queue is closed or closing
	missing   = "does not exist" // the queue
	noGroup   = "podgroup"       // it is not there yet
)

// quotaFor is what pods say that wait for quota. The queue is smaller than what they need together, or it is full.
func (m maker) quotaFor(capability int) string {
	if m.fits(capability) == 0 {
		return neverFits
	}
	return quota
}

// stays looks out for faults for as long as an eviction may be late.
func (c *cell) stays() {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, watched)
	defer cancel()
	_ = all.wait(ctx, c.record, func() bool { return len(c.record.faults) > 0 })
	c.judge()
}

// finish lets a pod end well, as its kubelet does.
func (c *cell) finish(pod *corev1.Pod) {
	c.Helper()
	pods := env.Kube.CoreV1().Pods(c.name)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := pods.Get(c.ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status.Phase = corev1.PodSucceeded
		for k := range now.Status.ContainerStatuses {
			now.Status.ContainerStatuses[k].Ready = false
			now.Status.ContainerStatuses[k].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now()}}
		}
		_, err = pods.UpdateStatus(c.ctx, now, metav1.UpdateOptions{})
		return err
	})
	require.NoError(c, err)
	c.await("pod "+pod.Name+" has finished", func() bool {
		now := c.record.pods[pod.UID]
		return now == nil || isFinished(now)
	})
}

// remove deletes a pod, and returns when it is gone.
func (c *cell) remove(pod *corev1.Pod) {
	c.Helper()
	all.ask(func() { c.record.mayGo[pod.UID] = true })
	err := env.Kube.CoreV1().Pods(c.name).Delete(c.ctx, pod.Name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(c, err)
	}
	c.await("pod "+pod.Name+" is gone", func() bool { return c.record.pods[pod.UID] == nil })
}

// queueSays waits until the status of a queue says how much its pods use.
func (c *cell) queueSays(name string, used int64) {
	c.Helper()
	c.await(fmt.Sprintf("the status of queue %s says that %d is used", name, used), func() bool {
		queue := c.record.queues[name]
		return queue != nil && allocated(queue, c.maker.resourceName()) == used
	})
}

func allocated(queue *schedulingv1beta1.Queue, name corev1.ResourceName) int64 {
	amount := queue.Status.Allocated[name]
	return amount.Value()
}

// end deletes all that there is. Then the queues say that nothing is used, and can be deleted.
func (c *cell) end() {
	c.Helper()
	c.judge()
	all.ask(func() { c.record.allMayGo = true })
	background := metav1.DeletePropagationBackground
	gone, everything := metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}
	apps := env.Kube.AppsV1()
	for _, remove := range []func(context.Context, metav1.DeleteOptions, metav1.ListOptions) error{
		apps.Deployments(c.name).DeleteCollection, apps.ReplicaSets(c.name).DeleteCollection, apps.StatefulSets(c.name).DeleteCollection,
		apps.DaemonSets(c.name).DeleteCollection, env.Kube.BatchV1().Jobs(c.name).DeleteCollection, env.Kube.CoreV1().Pods(c.name).DeleteCollection,
		env.Muster.SchedulingV1beta1().PodGroups(c.name).DeleteCollection,
	} {
		require.NoError(c, remove(c.ctx, gone, everything))
	}
	c.await("all pods and PodGroups are gone", func() bool { return len(c.record.pods) == 0 && len(c.record.groups) == 0 })
	var queues []string
	all.ask(func() {
		for name := range c.record.queues {
			queues = append(queues, name)
		}
	})
	for _, name := range queues {
		c.await("the status of queue "+name+" says that nothing is in it", func() bool {
			s := c.record.queues[name].Status
			return allocated(c.record.queues[name], c.maker.resourceName()) == 0 && allocated(c.record.queues[name], corev1.ResourcePods) == 0 &&
				s.Pending+s.Inqueue+s.Running+s.Unknown == 0
		})
		require.NoError(c, clients.Delete(c.ctx, name, env.Muster.SchedulingV1beta1().Queues().Delete), "queue %s can be deleted", name)
		c.await("queue "+name+" is gone", func() bool { return c.record.queues[name] == nil })
	}
	c.instances = nil
	all.ask(func() { c.record.allMayGo, c.record.capability = false, map[string]int64{} })
}

// describe lists what there is in the cell.
func (c *cell) describe() string {
	var lines []string
	all.ask(func() {
		for _, pod := range c.record.pods {
			line := fmt.Sprintf("pod %s of queue %s: %s on %q", pod.Name, pod.Labels[queueLabel], pod.Status.Phase, pod.Spec.NodeName)
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodScheduled || condition.Type == corev1.DisruptionTarget {
					line += fmt.Sprintf(", %s=%s %s %s", condition.Type, condition.Status, condition.Reason, condition.Message)
				}
			}
			lines = append(lines, line+fmt.Sprintf(", PodGroup %q, deleted at %v", pod.Annotations[schedulingv1beta1.GroupNameAnnotation], pod.DeletionTimestamp))
		}
		for _, group := range c.record.groups {
			lines = append(lines, fmt.Sprintf("PodGroup %s: minMember %d, queue %s, %s, running %d, succeeded %d, %s", group.Name, group.Spec.MinMember,
				group.Spec.Queue, group.Status.Phase, group.Status.Running, group.Status.Succeeded, saidOf(group)))
		}
		for _, queue := range c.record.queues {
			lines = append(lines, fmt.Sprintf("queue %s: %s, capability %v, allocated %v, pending %d, inqueue %d, running %d, unknown %d, reserved %v", queue.Name,
				queue.Status.State, amounts(queue.Spec.Capability), amounts(queue.Status.Allocated), queue.Status.Pending,
				queue.Status.Inqueue, queue.Status.Running, queue.Status.Unknown, amounts(queue.Status.Reservation.Resource)))
		}
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// amounts writes a list of resources for people.
func amounts(list corev1.ResourceList) string {
	var parts []string
	for name, amount := range list {
		parts = append(parts, string(name)+" "+amount.String())
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
