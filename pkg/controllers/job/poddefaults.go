package job

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	nodelisters "k8s.io/client-go/listers/node/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/job/build"
)

// podDefaults knows what the API server gives to new pods that do not name it.
type podDefaults struct {
	priorityClasses schedulinglisters.PriorityClassLister
	limitRanges     corelisters.LimitRangeLister
	runtimeClasses  nodelisters.RuntimeClassLister
}

// additionsIn returns the additions to pods of that namespace that the informers know.
func (d *podDefaults) additionsIn(namespace string) build.Additions {
	limitRanges, _ := d.limitRanges.LimitRanges(namespace).List(labels.Everything()) // an informer's lister lists all without an error
	slices.SortFunc(limitRanges, func(a, b *corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	return build.Additions{LimitRanges: limitRanges, OverheadOf: d.overheadOf}
}

func (d *podDefaults) overheadOf(runtimeClass string) corev1.ResourceList {
	class, err := d.runtimeClasses.Get(runtimeClass)
	if err != nil || class.Overhead == nil {
		return nil // without the class no pod can be created, with a reason
	}
	return class.Overhead.PodFixed
}

func (d *podDefaults) priorityOf(className string) int32 {
	if className == "" {
		return d.globalPriority()
	}
	class, err := d.priorityClasses.Get(className)
	if err != nil {
		// A class that does not exist yet keeps the pods from being created, with a reason; here it only orders.
		return 0
	}
	return class.Value
}

// globalPriority is the priority that the API server gives to pods without a class. It is the least of the global defaults.
func (d *podDefaults) globalPriority() int32 {
	classes, _ := d.priorityClasses.List(labels.Everything()) // as above
	var least *int32
	for _, class := range classes {
		if class.GlobalDefault && (least == nil || class.Value < *least) {
			least = &class.Value
		}
	}
	return ptr.Deref(least, 0)
}
