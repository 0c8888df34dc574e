package ledger

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
)

// Groups knows which queues are groups of PrimeHub. Its zero value knows none. It is safe for concurrent use.
type Groups struct {
	mu     sync.Mutex
	names  map[string]string           // queue -> its group
	queues map[string]sets.Set[string] // group -> the queues that say they are it
}

// Set takes over which PrimeHub group a queue belongs to. It returns the groups whose pods may be charged elsewhere now.
func (g *Groups) Set(queue *schedulingv1beta1.Queue) (changed []string) {
	return g.set(queue.Name, queue.Labels[primehubv1alpha1.GroupNameLabel])
}

// Delete forgets a queue, and returns the groups whose pods may be charged elsewhere from now on.
func (g *Groups) Delete(queue string) (changed []string) { return g.set(queue, "") }

func (g *Groups) set(queue, group string) (changed []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	last := g.names[queue]
	if last == group {
		return nil
	}
	if last != "" {
		g.queues[last].Delete(queue)
		delete(g.names, queue)
		changed = append(changed, last)
	}
	if group != "" {
		if g.names == nil {
			g.names, g.queues = map[string]string{}, map[string]sets.Set[string]{}
		}
		if g.queues[group] == nil {
			g.queues[group] = sets.New[string]()
		}
		g.names[queue] = group
		g.queues[group].Insert(queue)
		changed = append(changed, group)
	}
	return changed
}

// PrimeHubGroupOf is the PrimeHub group that a pod's label names, in the form of the queue's label; "" for none.
func PrimeHubGroupOf(pod *corev1.Pod) string {
	group, _ := primehubv1alpha1.Unescape(pod.Labels[primehubv1alpha1.PodGroupLabel])
	return primehubv1alpha1.LabelOf(group)
}

// AccountOf is what is charged for a pod without a PodGroup. It is the queue that its annotation names, or else the queue of the PrimeHub group
// that its label names. It may be a user there. It is "" for a pod that names neither, and where several queues say that they are the
// group.
func (g *Groups) AccountOf(pod *corev1.Pod) string {
	if queue := pod.Annotations[schedulingv1beta1.QueueNameAnnotation]; queue != "" {
		return quota.Account(queue, pod.Labels[schedulingv1beta1.UserLabel])
	}
	group := PrimeHubGroupOf(pod)
	if group == "" {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queues[group]) != 1 {
		return ""
	}
	user, _ := primehubv1alpha1.Unescape(pod.Labels[primehubv1alpha1.PodUserLabel])
	return quota.Account(g.queues[group].UnsortedList()[0], primehubv1alpha1.LabelOf(user))
}
