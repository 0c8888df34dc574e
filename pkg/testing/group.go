package testing

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// PodGroupWrapper builds a PodGroup.
type PodGroupWrapper struct {
	group schedulingv1beta1.PodGroup
}

// MakePodGroup starts a PodGroup in the namespace "default" whose spec is empty.
func MakePodGroup(name string) *PodGroupWrapper {
	return &PodGroupWrapper{schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}}
}

// Obj returns the PodGroup. Each call returns a copy of its own.
func (w *PodGroupWrapper) Obj() *schedulingv1beta1.PodGroup { return w.group.DeepCopy() }

// Namespace sets the PodGroup's namespace.
func (w *PodGroupWrapper) Namespace(namespace string) *PodGroupWrapper {
	w.group.Namespace = namespace
	return w
}

// Owner makes the PodGroup a controlled child of a Job.
func (w *PodGroupWrapper) Owner(job *batchv1alpha1.Job) *PodGroupWrapper {
	w.group.OwnerReferences = controlledBy(job)
	return w
}

// UID sets the PodGroup's UID; the API server ignores it.
func (w *PodGroupWrapper) UID(uid string) *PodGroupWrapper {
	w.group.UID = uidOf(uid)
	return w
}

// MinMember sets how many members start together.
func (w *PodGroupWrapper) MinMember(n int32) *PodGroupWrapper {
	w.group.Spec.MinMember = n
	return w
}

// MinTaskMember sets how many members of a task the minimum must include.
func (w *PodGroupWrapper) MinTaskMember(task string, n int32) *PodGroupWrapper {
	if w.group.Spec.MinTaskMember == nil {
		w.group.Spec.MinTaskMember = map[string]int32{}
	}
	w.group.Spec.MinTaskMember[task] = n
	return w
}

// MinResources sets what the minimum needs, as Resources reads it.
func (w *PodGroupWrapper) MinResources(namesAndQuantities ...string) *PodGroupWrapper {
	list := Resources(namesAndQuantities...)
	w.group.Spec.MinResources = &list
	return w
}

// Queue sets the PodGroup's queue.
func (w *PodGroupWrapper) Queue(queue string) *PodGroupWrapper {
	w.group.Spec.Queue = queue
	return w
}

// PriorityClass sets the PodGroup's priority class.
func (w *PodGroupWrapper) PriorityClass(name string) *PodGroupWrapper {
	w.group.Spec.PriorityClassName = name
	return w
}

// Phase sets the PodGroup's phase.
func (w *PodGroupWrapper) Phase(phase schedulingv1beta1.PodGroupPhase) *PodGroupWrapper {
	w.group.Status.Phase = phase
	return w
}

// Created sets the creation time; the API server ignores it.
func (w *PodGroupWrapper) Created(at time.Time) *PodGroupWrapper {
	w.group.CreationTimestamp = metav1.NewTime(at)
	return w
}

// QueueWrapper builds a Queue.
type QueueWrapper struct {
	queue schedulingv1beta1.Queue
}

// Annotation sets an annotation.
func (w *QueueWrapper) Annotation(key, value string) *QueueWrapper {
	metav1.SetMetaDataAnnotation(&w.queue.ObjectMeta, key, value)
	return w
}

// MakeQueue starts a Queue of weight 1.
func MakeQueue(name string) *QueueWrapper {
	return &QueueWrapper{schedulingv1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       schedulingv1beta1.QueueSpec{Weight: 1},
	}}
}

// Obj returns the Queue. Each call returns a copy of its own.
func (w *QueueWrapper) Obj() *schedulingv1beta1.Queue { return w.queue.DeepCopy() }

// Parent sets the Queue's parent.
func (w *QueueWrapper) Parent(parent string) *QueueWrapper {
	w.queue.Spec.Parent = parent
	return w
}

// NodeGroups sets the groups of nodes that the Queue's pods must go to.
func (w *QueueWrapper) NodeGroups(names ...string) *QueueWrapper {
	w.queue.Spec.Affinity = &schedulingv1beta1.Affinity{
		NodeGroupAffinity: &schedulingv1beta1.NodeGroupAffinity{RequiredDuringSchedulingIgnoredDuringExecution: names},
	}
	return w
}

// Capability sets what the Queue may use, as Resources reads it.
func (w *QueueWrapper) Capability(namesAndQuantities ...string) *QueueWrapper {
	w.queue.Spec.Capability = Resources(namesAndQuantities...)
	return w
}

// Deserved sets the Queue's share, as Resources reads it.
func (w *QueueWrapper) Deserved(namesAndQuantities ...string) *QueueWrapper {
	w.queue.Spec.Deserved = Resources(namesAndQuantities...)
	return w
}

// Guarantee sets what is never lent to other queues.
func (w *QueueWrapper) Guarantee(namesAndQuantities ...string) *QueueWrapper {
	w.queue.Spec.Guarantee.Resource = Resources(namesAndQuantities...)
	return w
}

// Dequeue sets the Queue's dequeue strategy.
func (w *QueueWrapper) Dequeue(strategy schedulingv1beta1.DequeueStrategy) *QueueWrapper {
	w.queue.Spec.DequeueStrategy = strategy
	return w
}

// State sets the Queue's state.
func (w *QueueWrapper) State(state schedulingv1beta1.QueueState) *QueueWrapper {
	w.queue.Status.State = state
	return w
}

// User sets the user on whose quota of the Queue the PodGroup runs.
func (w *PodGroupWrapper) User(user string) *PodGroupWrapper {
	if user != "" {
		w.group.Labels = map[string]string{schedulingv1beta1.UserLabel: user}
	}
	return w
}

// Extend sets what the Queue says beyond a Queue of Volcano.
func (w *QueueWrapper) Extend(extension *schedulingv1beta1.QueueExtension) *QueueWrapper {
	w.queue.Spec.Muster = extension
	return w
}
