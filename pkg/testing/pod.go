package testing

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// PodWrapper builds a pod.
type PodWrapper struct {
	pod corev1.Pod
}

// MakePod starts a pod in the namespace "default" with one container that asks for nothing and is never started again.
func MakePod(name string) *PodWrapper {
	return &PodWrapper{corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "main", Image: "busybox"}},
		},
	}}
}

// Obj returns the pod. Each call returns a copy of its own.
func (w *PodWrapper) Obj() *corev1.Pod { return w.pod.DeepCopy() }

// Namespace sets the pod's namespace.
func (w *PodWrapper) Namespace(namespace string) *PodWrapper {
	w.pod.Namespace = namespace
	return w
}

// UID sets the pod's UID; the API server ignores it.
func (w *PodWrapper) UID(uid string) *PodWrapper {
	w.pod.UID = uidOf(uid)
	return w
}

// Group ties the pod to a PodGroup of its namespace.
func (w *PodWrapper) Group(name string) *PodWrapper {
	return w.Annotation(schedulingv1beta1.GroupNameAnnotation, name)
}

// NativeGroup ties the pod to a PodGroup of Kubernetes' own.
func (w *PodWrapper) NativeGroup(name string) *PodWrapper {
	w.pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	return w
}

// Version sets the incarnation of the Job that the pod belongs to.
func (w *PodWrapper) Version(version int) *PodWrapper {
	return w.Annotation(batchv1alpha1.JobVersionKey, strconv.Itoa(version))
}

// Task sets the task that the pod belongs to, as the job controller does: annotation and label.
func (w *PodWrapper) Task(name string) *PodWrapper {
	return w.Annotation(batchv1alpha1.TaskSpecKey, name).Label(batchv1alpha1.TaskSpecKey, name)
}

// QueueName names the queue of a pod without PodGroup.
func (w *PodWrapper) QueueName(queue string) *PodWrapper {
	return w.Annotation(schedulingv1beta1.QueueNameAnnotation, queue)
}

// Annotation adds an annotation.
func (w *PodWrapper) Annotation(key, value string) *PodWrapper {
	metav1.SetMetaDataAnnotation(&w.pod.ObjectMeta, key, value)
	return w
}

// Label adds a label.
func (w *PodWrapper) Label(key, value string) *PodWrapper {
	metav1.SetMetaDataLabel(&w.pod.ObjectMeta, key, value)
	return w
}

// Requests sets what the pod asks for, as Resources reads it.
func (w *PodWrapper) Requests(namesAndQuantities ...string) *PodWrapper {
	w.pod.Spec.Containers[0].Resources.Requests = Resources(namesAndQuantities...)
	return w
}

// SchedulerName sets the pod's scheduler.
func (w *PodWrapper) SchedulerName(name string) *PodWrapper {
	w.pod.Spec.SchedulerName = name
	return w
}

// PriorityClass sets the pod's priority class.
func (w *PodWrapper) PriorityClass(name string) *PodWrapper {
	w.pod.Spec.PriorityClassName = name
	return w
}

// Priority sets the pod's priority, which the API server otherwise resolves from its class.
func (w *PodWrapper) Priority(priority int32) *PodWrapper {
	w.pod.Spec.Priority = &priority
	return w
}

// Node binds the pod.
func (w *PodWrapper) Node(name string) *PodWrapper {
	w.pod.Spec.NodeName = name
	return w
}

// Phase sets the pod's phase.
func (w *PodWrapper) Phase(phase corev1.PodPhase) *PodWrapper {
	w.pod.Status.Phase = phase
	return w
}

// Condition adds a condition with a reason and a message.
func (w *PodWrapper) Condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) *PodWrapper {
	w.pod.Status.Conditions = append(w.pod.Status.Conditions,
		corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	return w
}

// Terminating marks the pod as being deleted since a time.
func (w *PodWrapper) Terminating(since time.Time) *PodWrapper {
	deletion := metav1.NewTime(since)
	w.pod.DeletionTimestamp = &deletion
	return w
}

// Owner makes the pod a controlled child of a Job.
func (w *PodWrapper) Owner(job *batchv1alpha1.Job) *PodWrapper {
	w.pod.OwnerReferences = controlledBy(job)
	return w
}

func controlledBy(job *batchv1alpha1.Job) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1alpha1.SchemeGroupVersion.WithKind("Job"))}
}

// ExitAfter lets the simulated pod end a time after its start, with an exit code.
func (w *PodWrapper) ExitAfter(d time.Duration, code int) *PodWrapper {
	return w.Annotation(SimExitAfter, d.String()).Annotation(SimExitCode, strconv.Itoa(code))
}

// NodeWrapper builds a node.
type NodeWrapper struct {
	node corev1.Node
}

// MakeNode starts a ready node without room.
func MakeNode(name string) *NodeWrapper {
	return &NodeWrapper{corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}}
}

// Obj returns the node. Each call returns a copy of its own.
func (w *NodeWrapper) Obj() *corev1.Node { return w.node.DeepCopy() }

// Label adds a label.
func (w *NodeWrapper) Label(key, value string) *NodeWrapper {
	metav1.SetMetaDataLabel(&w.node.ObjectMeta, key, value)
	return w
}

// Allocatable sets capacity and allocatable, as Resources reads them.
func (w *NodeWrapper) Allocatable(namesAndQuantities ...string) *NodeWrapper {
	w.node.Status.Capacity = Resources(namesAndQuantities...)
	w.node.Status.Allocatable = Resources(namesAndQuantities...)
	return w
}
