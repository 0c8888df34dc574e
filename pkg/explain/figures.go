package explain

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// FiguresOf are the amounts of a queue, as its status and those of its ancestors say. They are what muster-controller found for
// `kubectl get queue`.
func (f *Facts) FiguresOf(queue *schedulingv1beta1.Queue) quota.Figures {
	figures := quota.Figures{
		Used: resources.FromResourceList(queue.Status.Allocated), Reserved: reservedFor(queue), Limit: resources.List{},
		Guarantee: resources.FromResourceList(termsOf(queue).Guarantee), Share: shareOf(queue),
	}
	for _, q := range f.path(queue.Name) {
		for name, limit := range limitOf(q) {
			if _, named := figures.Limit[name]; !named {
				figures.Limit[name] = limit
			}
		}
	}
	if root := f.queue(schedulingv1beta1.RootQueue); root != nil {
		figures.Cluster = shareOf(root)
	}
	return figures
}

// Scarcest is how much of its limit a queue uses of the resource that is nearest to it, in percent. limited is false if nothing limits the
// queue.
func Scarcest(figures quota.Figures) (percent int64, resource corev1.ResourceName, limited bool) {
	scarcest := figures.Scarcest()
	limit := figures.Limit[scarcest]
	if limit <= 0 {
		return 0, scarcest, false
	}
	return int64(float64(figures.Used[scarcest]) * 100 / float64(limit)), scarcest, true
}

// JobsOf counts the PodGroups of a queue that run and that wait, those of its children included.
func JobsOf(queue *schedulingv1beta1.Queue) (running, waiting int32) {
	if extension := queue.Status.Muster; extension != nil {
		return extension.Running, extension.Waiting
	}
	return 0, 0 // no controller has seen it
}

// termsOf are the terms of a queue that count: the present ones, or the last valid ones.
func termsOf(queue *schedulingv1beta1.Queue) schedulingv1beta1.QueueTerms {
	extension := queue.Status.Muster
	if extension != nil && extension.LastValid != nil && meta.IsStatusConditionFalse(queue.Status.Conditions, schedulingv1beta1.QueueValidCondition) {
		return *extension.LastValid
	}
	return schedulingv1beta1.QueueTerms{
		Parent: queue.Spec.Parent, Guarantee: queue.Spec.Guarantee.Resource, Deserved: queue.Spec.Deserved, Capability: queue.Spec.Capability,
	}
}

// limitOf is the capability that counts.
func limitOf(queue *schedulingv1beta1.Queue) resources.List {
	return resources.FromResourceList(termsOf(queue).Capability)
}

// reservedFor is what is kept for admitted PodGroups of a queue and its descendants that have not started.
func reservedFor(queue *schedulingv1beta1.Queue) resources.List {
	return resources.FromResourceList(queue.Status.Reservation.Resource)
}

// shareOf is the present share of a queue; nil while muster-controller has not computed it.
func shareOf(queue *schedulingv1beta1.Queue) resources.List {
	if extension := queue.Status.Muster; extension != nil && extension.Deserved != nil {
		return resources.FromResourceList(extension.Deserved)
	}
	return nil
}
