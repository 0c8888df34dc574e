package worker

import "k8s.io/client-go/tools/cache"

// LastKnown is the object that an informer tells of, also where it missed the deletion and only knows that the object is gone:
// then it is as it was last seen. False if it is no T.
func LastKnown[T any](obj any) (T, bool) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	object, ok := obj.(T)
	return object, ok
}
