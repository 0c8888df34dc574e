package usage

import (
	"slices"

	"github.com/muster-sched/muster/pkg/admission"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/ledger"
)

// listen registers the handlers that keep the ledger up to date.
func (t *Tracker) listen() (err error) {
	t.synced, err = worker.Listen(
		worker.On(t.queues, cache.ResourceEventHandlerFuncs{AddFunc: t.onQueue, UpdateFunc: func(_, obj any) { t.onQueue(obj) }, DeleteFunc: t.onQueueDelete}),
		worker.On(t.podGroups, cache.ResourceEventHandlerFuncs{AddFunc: t.onGroup, UpdateFunc: t.onGroupUpdate, DeleteFunc: t.onGroupDelete}),
		worker.On(t.pods, cache.ResourceEventHandlerFuncs{AddFunc: t.onPod, UpdateFunc: t.onPodUpdate, DeleteFunc: t.onPodDelete}),
	)
	return err
}

func (t *Tracker) onQueue(obj any) {
	queue := obj.(*schedulingv1beta1.Queue)
	t.ledger.SetQueue(queue)
	t.settleGroups(t.groups.Set(queue))
}

// settleGroups books the pods again that name groups of PrimeHub.
func (t *Tracker) settleGroups(groups []string) {
	if len(groups) == 0 {
		return
	}
	for _, pod := range t.Pods() {
		if slices.Contains(groups, ledger.PrimeHubGroupOf(pod)) {
			t.settlePod(groupKey(pod.Namespace, pod.Name))
		}
	}
}

func (t *Tracker) onQueueDelete(obj any) {
	if queue, ok := worker.LastKnown[*schedulingv1beta1.Queue](obj); ok {
		t.ledger.DeleteQueue(queue.Name)
		t.settleGroups(t.groups.Delete(queue.Name))
	}
}

func (t *Tracker) onGroup(obj any) {
	group := obj.(*schedulingv1beta1.PodGroup)
	t.settleMembers(group.Namespace, group.Name)
}

func (t *Tracker) onGroupUpdate(oldObj, newObj any) {
	last, next := oldObj.(*schedulingv1beta1.PodGroup), newObj.(*schedulingv1beta1.PodGroup)
	if last.UID != next.UID {
		t.ReleaseHold(last.Namespace, last.Name, last.UID)
	}
	if admission.AccountOf(last) != admission.AccountOf(next) {
		t.settleMembers(next.Namespace, next.Name)
	}
}

func (t *Tracker) onGroupDelete(obj any) {
	if group, ok := worker.LastKnown[*schedulingv1beta1.PodGroup](obj); ok {
		t.ReleaseHold(group.Namespace, group.Name, group.UID)
	}
}

func (t *Tracker) onPod(obj any) {
	pod := obj.(*corev1.Pod)
	t.settlePod(groupKey(pod.Namespace, pod.Name))
}

func (t *Tracker) onPodUpdate(oldObj, newObj any) {
	last, next := oldObj.(*corev1.Pod), newObj.(*corev1.Pod)
	if last.UID != next.UID {
		t.forgetPod(last.UID)
	}
	t.settlePod(groupKey(next.Namespace, next.Name))
}

func (t *Tracker) onPodDelete(obj any) {
	if pod, ok := worker.LastKnown[*corev1.Pod](obj); ok {
		t.forgetPod(pod.UID)
	}
}

func indexByGroup(obj any) ([]string, error) {
	if group := admission.PodGroupOf(obj.(*corev1.Pod)); group != "" {
		return []string{group}, nil
	}
	return nil, nil
}

func indexByQueue(obj any) ([]string, error) {
	return []string{admission.QueueOf(obj.(*schedulingv1beta1.PodGroup))}, nil
}
