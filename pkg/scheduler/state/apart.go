package state

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// TellApart wraps a handler so that it is told of a deletion and an addition where informers speak of an update, because an
// object was deleted and another of its name created while they could not watch. A handler that takes the two for one object
// keeps what it knew of the old. The upstream scheduler takes them for one pod that has left its node, and ends itself; pods
// of Jobs have the names of those before them each time that a Job restarts.
func TellApart(handler cache.ResourceEventHandler) cache.ResourceEventHandler { return apart{handler} }

type apart struct{ cache.ResourceEventHandler }

// OnUpdate tells of one object that has changed, or of one that went and one that came.
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
