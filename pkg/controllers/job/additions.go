package job

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-sched/muster/pkg/controllers/worker"
)

// additions are the requests and limits that the API server adds to new pods of a namespace. Additions by webhooks are not known before the
// first pod. The zero value adds nothing.
type additions struct {
	// limitRanges of the namespace. Where several have a default for the same resource, the API server takes any; here it is the first.
	limitRanges []*corev1.LimitRange
	// overheadOf returns what a RuntimeClass takes for each pod beside its containers; nil if it takes nothing or does not exist.
	overheadOf func(runtimeClass string) corev1.ResourceList
}

// addTo changes the requests and limits in the spec of a pod as the API server's admission will do. Defaults of the API must have been
// filled in, such as requests for given limits.
func (a *additions) addTo(spec *corev1.PodSpec) {
	for _, limitRange := range a.limitRanges {
		for i := range limitRange.Spec.Limits {
			item := &limitRange.Spec.Limits[i]
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
				for n := range containers {
					needs := &containers[n].Resources
					needs.Requests = withDefaults(needs.Requests, item.DefaultRequest)
					needs.Limits = withDefaults(needs.Limits, item.Default)
				}
			}
		}
	}
	if spec.RuntimeClassName == nil || a.overheadOf == nil {
		return
	}
	if overhead := a.overheadOf(*spec.RuntimeClassName); overhead != nil {
		spec.Overhead = overhead
	}
}

// withDefaults adds the missing defaults to the list.
func withDefaults(list, byDefault corev1.ResourceList) corev1.ResourceList {
	for name, amount := range byDefault {
		if _, found := list[name]; found {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = amount
	}
	return list
}

// additionsIn returns the additions to pods of that namespace that the informers know.
func (c *Controller) additionsIn(namespace string) additions {
	limitRanges, err := c.limitRanges.LimitRanges(namespace).List(labels.Everything())
	if err != nil {
		limitRanges = nil // only a mistake in an index can cause this; the first pod shows what it really asks for
	}
	slices.SortFunc(limitRanges, func(a, b *corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	return additions{limitRanges: limitRanges, overheadOf: c.overheadOf}
}

func (c *Controller) overheadOf(runtimeClass string) corev1.ResourceList {
	class, err := c.runtimeClasses.Get(runtimeClass)
	if err != nil || class.Overhead == nil {
		return nil // without the class no pod can be created, with a reason
	}
	return class.Overhead.PodFixed
}

// additionsHandler enqueues the Jobs that wait for their queue when the additions to their pods change: they request another amount now.
func (c *Controller) additionsHandler() cache.ResourceEventHandler {
	changed := func(obj any) {
		object, ok := worker.LastKnown[metav1.Object](obj)
		if !ok {
			return
		}
		jobs, err := c.jobs.Jobs(object.GetNamespace()).List(labels.Everything())
		if err != nil {
			return
		}
		for _, job := range jobs {
			if c.mayWaitForQueue(job) {
				c.worker.Enqueue(keyOf(job))
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }, DeleteFunc: changed}
}
