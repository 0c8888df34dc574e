package worker

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

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

// All are the objects of a store or an index, as objects of their kind. They are shared: do not change them.
func All[T any](stored []any) []T {
	all := make([]T, len(stored))
	for i, obj := range stored {
		all[i] = obj.(T)
	}
	return all
}

// Source is an informer with a handler of its events.
type Source struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
}

// On is an informer with a handler.
func On(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) Source {
	return Source{informer, handler}
}

// Listen registers handlers. The results say when each has seen the objects that existed at the start.
func Listen(sources ...Source) (synced []cache.InformerSynced, err error) {
	for _, source := range sources {
		registration, err := source.informer.AddEventHandler(source.handler)
		if err != nil {
			return nil, fmt.Errorf("adding an event handler: %w", err)
		}
		synced = append(synced, registration.HasSynced)
	}
	return synced, nil
}
