package job

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/build"
)

// additionsIn returns the additions to pods of that namespace that the informers know.
func (c *Controller) additionsIn(namespace string) build.Additions {
	limitRanges, err := c.limitRanges.LimitRanges(namespace).List(labels.Everything())
	if err != nil {
		limitRanges = nil // only a mistake in an index can cause this; the first pod shows what it really asks for
	}
	slices.SortFunc(limitRanges, func(a, b *corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	return build.Additions{LimitRanges: limitRanges, OverheadOf: c.overheadOf}
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
