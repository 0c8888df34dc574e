// Package explain says in plain words what becomes of a Job, a PhJob, a PodGroup, a pod or a queue. It says why it waits, what would free it,
// whether it can ever run, and what happened to it. It is pure: it works on objects and events that were read before.
package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/admission"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/topology"
)

// Facts are what a page is made of. Unknown facts are left out, and the page says less.
type Facts struct {
	// Now is the time at which the page is made.
	Now time.Time
	// Job that is asked about, or that what is asked about belongs to; nil if there is none.
	Job *batchv1alpha1.Job
	// PhJob that is asked about; nil if there is none.
	PhJob *primehubv1alpha1.PhJob
	// PhSchedule that created the PhJob; nil if none did, or if it is gone.
	PhSchedule *primehubv1alpha1.PhSchedule
	// Group is the PodGroup that is asked about, or that what is asked about belongs to. It is nil if there is none.
	Group *schedulingv1beta1.PodGroup
	// Members are the pods of the Job or of the PodGroup.
	Members []corev1.Pod
	// Queues are all of them.
	Queues []schedulingv1beta1.Queue
	// PhJobs are those of all namespaces, if any PodGroup is of one. They have their place from when they were created.
	PhJobs []primehubv1alpha1.PhJob
	// Groups are the PodGroups of all namespaces.
	Groups []schedulingv1beta1.PodGroup
	// Own are the PodGroups of the reader's namespace, where those of all namespaces may not be read.
	Own []schedulingv1beta1.PodGroup
	// Priorities are the values of the PriorityClasses by name. The value of "" is the default.
	Priorities map[string]int32
	// Nodes are all of them.
	Nodes []corev1.Node
	// Bound are the pods that have a node and have not ended.
	Bound []corev1.Pod
	// Tree has the domains of the network. It is nil if nothing is asked about them, or if they may not be read.
	Tree *topology.Tree
	// Events are the events of the object and of its parts.
	Events []corev1.Event
	// Unread are the parts that the user may not read. Nothing is said that would need them.
	Unread []Part
}

// queue finds a queue; nil if there is none.
func (f *Facts) queue(name string) *schedulingv1beta1.Queue {
	for i := range f.Queues {
		if f.Queues[i].Name == name {
			return &f.Queues[i]
		}
	}
	return nil
}

// path is a queue and its ancestors that exist, from below. A circle is gone round once.
func (f *Facts) path(name string) []*schedulingv1beta1.Queue {
	var path []*schedulingv1beta1.Queue
	for queue := f.queue(name); queue != nil && !slices.Contains(path, queue); queue = f.queue(queue.ParentName()) {
		path = append(path, queue)
	}
	return path
}

// priority is the value of a PodGroup's PriorityClass.
func (f *Facts) priority(group *schedulingv1beta1.PodGroup) int32 {
	return f.Priorities[group.Spec.PriorityClassName]
}

// waiting are the PodGroups of a queue that have not started, in the order in which they start. Admitted ones are first, then they are sorted
// by priority and age. muster-controller admits in that order, and the scheduler starts in it.
func (f *Facts) waiting(queue string) []*schedulingv1beta1.PodGroup {
	var waiting []*schedulingv1beta1.PodGroup
	for i := range f.Groups {
		if group := &f.Groups[i]; admission.QueueOf(group) == queue && waits(group) {
			waiting = append(waiting, group)
		}
	}
	slices.SortFunc(waiting, f.compare)
	return waiting
}

// waits says whether a PodGroup has not started, or has to start anew.
func waits(group *schedulingv1beta1.PodGroup) bool {
	switch group.Status.Phase {
	case "", schedulingv1beta1.PodGroupPending, schedulingv1beta1.PodGroupInqueue:
		return group.DeletionTimestamp == nil
	}
	return false
}

func (f *Facts) compare(a, b *schedulingv1beta1.PodGroup) int {
	_, nameOfA := ownerOfPhJob(a)
	_, nameOfB := ownerOfPhJob(b)
	return cmp.Or(
		-cmp.Compare(admitted(a), admitted(b)),
		-cmp.Compare(f.priority(a), f.priority(b)),
		f.since(a).Compare(f.since(b)),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(nameOfA, nameOfB),
	)
}

// since is when a PodGroup, or the PhJob that it is for, was created.
func (f *Facts) since(group *schedulingv1beta1.PodGroup) time.Time {
	if isPhJob, name := ownerOfPhJob(group); isPhJob {
		for i := range f.PhJobs {
			if job := &f.PhJobs[i]; job.Namespace == group.Namespace && job.Name == name {
				return job.CreationTimestamp.Time
			}
		}
	}
	return group.CreationTimestamp.Time
}

// ownerOfPhJob names the PhJob that a PodGroup is for, or else the PodGroup. The name decides between two of the same second.
func ownerOfPhJob(group *schedulingv1beta1.PodGroup) (isPhJob bool, name string) {
	if kind, name := ownerOf(group); kind == "PhJob" {
		return true, name
	}
	return false, group.Name
}

// admitted is 1 for a PodGroup that its queue has admitted, and 0 otherwise.
func admitted(group *schedulingv1beta1.PodGroup) int {
	if group.Status.Phase == "" || group.Status.Phase == schedulingv1beta1.PodGroupPending {
		return 0
	}
	return 1
}

// ended says whether a pod has finished or is being deleted.
func ended(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// ago writes how long ago something was, as kubectl does.
func (f *Facts) ago(at time.Time) string {
	if at.IsZero() {
		return "at a time that is not known"
	}
	return strings.TrimSpace(short(f.Now.Sub(at))) + " ago"
}

// Part is what pages and tables are made of, and what a user may not be allowed to read.
type Part string

// The parts, as the sentence about a missing right names them.
const (
	PartQueues      Part = "queues"
	PartGroups      Part = "podgroups of all namespaces"
	PartPriorities  Part = "priorityclasses"
	PartNodes       Part = "nodes"
	PartPods        Part = "pods of all namespaces"
	PartTopology    Part = "hypernodes and networktopologies"
	PartEvents      Part = "events"
	PartPhSchedules Part = "phschedules"
	PartPhJobs      Part = "phjobs of all namespaces"
)

// ownerOf names what a PodGroup is for: its Job or PhJob if it has one.
func ownerOf(group *schedulingv1beta1.PodGroup) (kind, name string) {
	if owner := metav1.GetControllerOf(group); owner != nil && (owner.Kind == "PhJob" || owner.Kind == "Job") {
		return owner.Kind, owner.Name
	}
	return "PodGroup", group.Name
}

// titleOf names a PodGroup for people.
func titleOf(group *schedulingv1beta1.PodGroup) string {
	kind, name := ownerOf(group)
	return kind + " " + group.Namespace + "/" + name
}
