package tenants_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/integration/harness"
)

// Keys of pods that say what is charged. They are written out, as this checker shares nothing with the product.
const (
	chargedTo  = "muster.sh/charged-to"
	groupName  = "scheduling.k8s.io/group-name"
	queueName  = "scheduling.volcano.sh/queue-name"
	groupLabel = "primehub.io/group"
)

// record has the pods that the API server has told of. From them it makes the books anew.
type record struct {
	mu sync.Mutex
	// pods that exist, as they are and as they were created.
	pods, created map[types.UID]*corev1.Pod
	// queueOfGroup is the queue of each PodGroup that was seen, as it was first.
	queueOfGroup map[types.NamespacedName]string
	// parents and capabilities of the queues, and what their statuses say is allocated.
	parents                 map[string]string
	capabilities, allocated map[string]corev1.ResourceList
	// faults are the bindings that have exceeded a capability, and the evictions that give borrowed room back too late.
	faults []string
}

func startRecord(ctx context.Context) (*record, error) {
	r := &record{
		pods: map[types.UID]*corev1.Pod{}, created: map[types.UID]*corev1.Pod{}, queueOfGroup: map[types.NamespacedName]string{},
		parents: map[string]string{}, capabilities: map[string]corev1.ResourceList{}, allocated: map[string]corev1.ResourceList{},
	}
	err := harness.Follow(ctx, env, follow(r, r.seePod, r.forgetPod),
		follow(r, r.seeGroup, func(group *schedulingv1beta1.PodGroup) {
			delete(r.queueOfGroup, types.NamespacedName{Namespace: group.Namespace, Name: group.Name})
		}),
		follow(r, r.seeQueue, func(*schedulingv1beta1.Queue) {}))
	return r, err
}

// follow makes handlers that run under the lock of the record.
func follow[T metav1.Object](r *record, seen, gone func(T)) cache.ResourceEventHandler {
	locked := func(do func(T), object T) {
		r.mu.Lock()
		defer r.mu.Unlock()
		do(object)
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { locked(seen, object.(T)) },
		UpdateFunc: func(old, object any) {
			if old.(T).GetUID() != object.(T).GetUID() {
				locked(gone, old.(T))
			}
			locked(seen, object.(T))
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			locked(gone, object.(T))
		},
	}
}

func (r *record) seePod(pod *corev1.Pod) {
	before := r.pods[pod.UID]
	if before == nil {
		r.created[pod.UID] = pod
	}
	r.pods[pod.UID] = pod
	r.judgeEviction(pod)
	if before != nil && before.Spec.NodeName == "" && pod.Spec.NodeName != "" {
		r.judgeBinding(pod)
	}
}

func (r *record) forgetPod(pod *corev1.Pod) {
	delete(r.pods, pod.UID)
	delete(r.created, pod.UID)
}

func (r *record) seeGroup(group *schedulingv1beta1.PodGroup) {
	name := types.NamespacedName{Namespace: group.Namespace, Name: group.Name}
	if _, known := r.queueOfGroup[name]; !known {
		r.queueOfGroup[name] = group.Spec.Queue
	}
}

func (r *record) seeQueue(queue *schedulingv1beta1.Queue) {
	r.parents[queue.Name], r.capabilities[queue.Name], r.allocated[queue.Name] = queue.Spec.Parent, queue.Spec.Capability, queue.Status.Allocated
}

// judgeBinding adds a fault if the bound pod exceeds a capability of its queue, or of one above.
func (r *record) judgeBinding(pod *corev1.Pod) {
	sums := r.sums()
	asked := requestsOf(pod)
	for queue := r.queueOf(pod); queue != ""; queue = r.parents[queue] {
		for name, limit := range r.capabilities[queue] {
			used := sums[queue][name]
			if amount := asked[name]; !amount.IsZero() && used.Cmp(limit) > 0 {
				r.faults = append(r.faults, fmt.Sprintf("with pod %s/%s the pods of queue %s request %s %s, and its capability is %s",
					pod.Namespace, pod.Name, queue, &used, name, &limit))
			}
		}
	}
}

// longestGrace is how many seconds a pod on borrowed room may take to end.
const longestGrace = 600

// judgeEviction adds a fault if a pod was evicted from borrowed room, and may take longer to end.
func (r *record) judgeEviction(pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds <= longestGrace {
		return
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && strings.Contains(condition.Message, "above its share") {
			r.faults = append(r.faults, fmt.Sprintf("pod %s/%s has %d seconds to end", pod.Namespace, pod.Name, *pod.DeletionGracePeriodSeconds))
		}
	}
}

// isTaken says whether a pod with a node is bound by a scheduler, or its kubelet has taken it.
func isTaken(pod *corev1.Pod) bool {
	taken := pod.Annotations[chargedTo] != "" || pod.Status.Phase != corev1.PodPending
	for _, condition := range pod.Status.Conditions {
		taken = taken || condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue
	}
	return taken
}

// queueOf is the queue that a bound pod is charged to: that of the annotation which came with its binding. Without one it is what the pod
// named when it was created.
func (r *record) queueOf(pod *corev1.Pod) string {
	if account, written := pod.Annotations[chargedTo]; written {
		queue, _, _ := strings.Cut(account, "/")
		return queue
	}
	first := r.created[pod.UID]
	if queue := r.queueOfGroup[types.NamespacedName{Namespace: pod.Namespace, Name: first.Annotations[groupName]}]; queue != "" {
		return queue
	}
	if queue := first.Annotations[queueName]; queue != "" {
		return queue
	}
	return strings.TrimPrefix(first.Labels[groupLabel], "escaped-") // each queue of a world has the name of its group
}

// requestsOf is what a pod takes from its queue.
func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	if requests == nil {
		requests = corev1.ResourceList{}
	}
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return requests
}

// sums are what the bound, unfinished pods of each queue and of those below it request.
func (r *record) sums() map[string]corev1.ResourceList {
	sums := map[string]corev1.ResourceList{}
	for _, pod := range r.pods {
		if pod.Spec.NodeName == "" || !isTaken(pod) || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for queue := r.queueOf(pod); queue != ""; queue = r.parents[queue] {
			if sums[queue] == nil {
				sums[queue] = corev1.ResourceList{}
			}
			for name, amount := range requestsOf(pod) {
				sum := sums[queue][name].DeepCopy()
				sum.Add(amount)
				sums[queue][name] = sum
			}
		}
	}
	return sums
}

// used is the cpu of the pods of a queue.
func (r *record) used(queue string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	cpu := r.sums()[queue][corev1.ResourceCPU]
	return cpu.String()
}

// bookResources are the resources that the books of both programs are compared in.
var bookResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods}

// disagrees compares the books of both programs with the sums; "" if they are equal. The controller's are the statuses of the queues, and the
// scheduler's are its metrics. It reads the metrics only when the statuses are right, as they cost much.
func (r *record) disagrees(ctx context.Context, queues ...string) string {
	if text := r.statusesDisagree(queues); text != "" {
		return text
	}
	page, err := env.Cluster.Get(ctx, localcluster.MusterScheduler, "/metrics")
	if err != nil {
		return err.Error()
	}
	scheduler := usedMetrics(string(page))
	r.mu.Lock()
	defer r.mu.Unlock()
	sums := r.sums()
	var differences []string
	for _, queue := range queues {
		for _, name := range bookResources {
			want := sums[queue][name]
			if metric := scheduler[queue+"/"+string(name)]; metric != want.AsApproximateFloat64() {
				differences = append(differences, fmt.Sprintf("the scheduler charges queue %s %v %s, and its pods request %s", queue, metric, name, &want))
			}
		}
	}
	return strings.Join(differences, "; ")
}

// statusesDisagree compares the statuses of the queues with the sums.
func (r *record) statusesDisagree(queues []string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	sums := r.sums()
	var differences []string
	for _, queue := range queues {
		for _, name := range bookResources {
			if want, said := sums[queue][name], r.allocated[queue][name]; want.Cmp(said) != 0 {
				differences = append(differences, fmt.Sprintf("the status of queue %s says %s %s, and its pods request %s", queue, &said, name, &want))
			}
		}
	}
	return strings.Join(differences, "; ")
}

// usedMetrics reads the scheduler's charges, by queue and resource.
func usedMetrics(page string) map[string]float64 {
	used := map[string]float64{}
	for line := range strings.Lines(page) {
		labels, value, found := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "muster_queue_used")), "} ")
		if !strings.HasPrefix(line, "muster_queue_used{") || !found {
			continue
		}
		parts := strings.Split(labels, `"`) // {queue="Q",resource="R"
		if amount, err := strconv.ParseFloat(value, 64); err == nil && len(parts) >= 4 {
			used[parts[1]+"/"+parts[3]] = amount
		}
	}
	return used
}

// podsOf describes the pods of a namespace for people.
func (r *record) podsOf(namespace string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := map[string]bool{}
	for _, pod := range r.pods {
		if pod.Namespace != namespace {
			continue
		}
		line := fmt.Sprintf("pod %s: %s on %q, PodGroup %q, charged to %q, deleted at %v", pod.Name, pod.Status.Phase, pod.Spec.NodeName,
			pod.Annotations[groupName], pod.Annotations[chargedTo], pod.DeletionTimestamp)
		for _, condition := range pod.Status.Conditions {
			if condition.Message != "" {
				line += ", " + condition.Reason + ": " + condition.Message
			}
		}
		lines[line] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(lines)), "\n")
}
