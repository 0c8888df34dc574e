package worker

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Written remembers objects as the API server returned them from the last write, until the informer has caught up. A
// controller that looks there first neither repeats its own write nor runs into a conflict with it. The zero value is
// ready; it is safe for concurrent use.
type Written[T metav1.Object] struct {
	mu    sync.Mutex
	byKey map[string]T
}

// Put remembers what a write of the key returned.
func (w *Written[T]) Put(key string, object T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey == nil {
		w.byKey = map[string]T{}
	}
	w.byKey[key] = object
}

// Latest is the newer of what was last written for the key and what the informer has.
func (w *Written[T]) Latest(key string, cached T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	written, ok := w.byKey[key]
	if !ok {
		return cached
	}
	if written.GetUID() == cached.GetUID() && newer(written, cached) {
		return written
	}
	delete(w.byKey, key)
	return cached
}

// Forget drops what was remembered for the key.
func (w *Written[T]) Forget(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byKey, key)
}

func newer(a, b metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}
