package worker

import "k8s.io/client-go/tools/cache"

// LastKnown is the object of an informer's event. If the informer missed the deletion, it is the object as it was last seen. It returns
// false if it is no T.
func LastKnown[T any](obj any) (T, bool) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	object, ok := obj.(T)
	return object, ok
}

// OnAny calls do for each object that comes, changes or goes.
func OnAny[T any](do func(T)) cache.ResourceEventHandlerFuncs {
	known := func(obj any) {
		if object, ok := LastKnown[T](obj); ok {
			do(object)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: known, UpdateFunc: func(_, obj any) { known(obj) }, DeleteFunc: known}
}
