package upstream

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// TellApart wraps a handler for informers that report an update when an object was deleted and created anew. The handler gets a deletion
// and an addition. Informers report so when both happen while they cannot watch. A handler that takes the two for one object keeps what it
// knew of the old one.
func TellApart(handler cache.ResourceEventHandler) cache.ResourceEventHandler { return apart{handler} }

type apart struct{ cache.ResourceEventHandler }

// OnUpdate passes on a change of one object, or that one object was deleted and another added.
func (h apart) OnUpdate(oldObj, newObj any) {
	was, ok1 := oldObj.(metav1.Object)
	is, ok2 := newObj.(metav1.Object)
	if ok1 && ok2 && was.GetUID() != is.GetUID() {
		h.OnDelete(oldObj)
		h.OnAdd(newObj, false)
		return
	}
	h.ResourceEventHandler.OnUpdate(oldObj, newObj)
}

// TellPodsApart returns a factory like the scheduler's own, whose pods come from the same informer by way of TellApart.
//
// Why: the upstream scheduler takes two pods of one name for one that has left its node. Then it ends itself. Pods of Jobs have the names
// of their predecessors each time that a Job restarts. A plugin cannot change the scheduler's handlers.
func TellPodsApart(own informers.SharedInformerFactory, client kubernetes.Interface, name *cache.InformerName) informers.SharedInformerFactory {
	pods := own.Core().V1().Pods().Informer()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithInformerName(name))
	factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return podInformer{pods} })
	return factory
}

// podInformer wraps the handlers that are added to it.
type podInformer struct{ cache.SharedIndexInformer }

// AddEventHandler adds a handler that tells pods apart.
func (i podInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(TellApart(h))
}

// AddEventHandlerWithResyncPeriod adds a handler that tells pods apart.
func (i podInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(TellApart(h), resync)
}

// AddEventHandlerWithOptions adds a handler that tells pods apart.
func (i podInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, opts cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(TellApart(h), opts)
}
