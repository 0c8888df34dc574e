// Package runs keeps in a ConfigMap how long successful runs took. So a restart does not forget it, nor the deletion of Jobs.
//
// muster-controller is its only owner. It alone sees how Jobs and pods end: the scheduler's informer has no pods that have ended. The estimates that
// follow stand in the status of PodGroups, where the scheduler reads them.
package runs

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/runtimes"
)

const (
	// Name of the ConfigMap.
	Name = runtimes.ConfigMap
	// Key of its text.
	Key = runtimes.ConfigMapKey
	// writePause is the least time between two writes.
	writePause = time.Minute
	// readPause is the pause before the ConfigMap is read again that could not be read.
	readPause = time.Second
	// readFor is for how long that is tried. After that the history begins anew.
	readFor = 30 * time.Second
	// lastWrite is how long the write at the end may take.
	lastWrite = 5 * time.Second
)

// Runs is the history of a process. It is empty, and notes nothing, before it was read: another replica leads then. It is safe for concurrent use.
type Runs struct {
	configMaps typedcorev1.ConfigMapInterface // nil: it is kept in memory only
	clock      clock.Clock

	mu      sync.Mutex
	history *runtimes.Past // nil before it was read
	changed bool           // since it was written
}

// New makes a history that is kept by a client of ConfigMaps; nil keeps it in memory only.
func New(configMaps typedcorev1.ConfigMapInterface, c clock.Clock) *Runs {
	return &Runs{configMaps: configMaps, clock: c}
}

// Ended notes that a run was successful and took some time. Stated is how long it should have run by the word of its user, 0 for no word.
func (r *Runs) Ended(run runtimes.Run, took, stated time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.history != nil {
		r.history.Ended(run, took, stated)
		r.changed = true
	}
}

// Failed notes that a run took some time and was not successful. It counts only if it took much longer than stated.
func (r *Runs) Failed(run runtimes.Run, took, stated time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.history != nil && r.history.Failed(run, took, stated) {
		r.changed = true
	}
}

// Find finds how long something is expected to run.
func (r *Runs) Find(f runtimes.Facts) runtimes.Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.history == nil {
		return new(runtimes.Past).Find(f)
	}
	return r.history.Find(f)
}

// Read takes over what an earlier leader has written. Broken lines are left out, and overwritten with the next write.
func (r *Runs) Read(ctx context.Context) {
	text := ""
	if r.configMaps != nil {
		text = r.read(ctx)
	}
	history, broken := runtimes.Read(text)
	if broken > 0 {
		klog.FromContext(ctx).Error(nil, "The history of run times has lines that no controller has written. They are left out", "configMap", Name, "lines", broken)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history, r.changed = history, broken > 0
}

// read returns the text of the ConfigMap, or "" if there is none that can be read.
func (r *Runs) read(ctx context.Context) (text string) {
	var failed error
	_ = wait.PollUntilContextTimeout(ctx, readPause, readFor, true, func(ctx context.Context) (bool, error) {
		found, err := r.configMaps.Get(ctx, Name, metav1.GetOptions{})
		switch {
		case err == nil:
			text = found.Data[Key]
		case !apierrors.IsNotFound(err):
			failed = err
			return apierrors.IsForbidden(err), nil
		}
		failed = nil
		return true, nil
	})
	if failed != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(failed, "Reading the history of run times failed. It begins anew", "configMap", Name)
	}
	return text
}

// Run writes the history when it has changed, at most once a minute, and when the context ends.
func (r *Runs) Run(ctx context.Context) {
	if r.configMaps == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
			r.writeIfChanged(last)
			cancel()
			return
		case <-r.clock.After(writePause):
			r.writeIfChanged(ctx)
		}
	}
}

func (r *Runs) writeIfChanged(ctx context.Context) {
	text, changed := r.take()
	if !changed {
		return
	}
	if err := r.write(ctx, text); err != nil {
		klog.FromContext(ctx).Error(err, "Writing the history of run times failed, trying again", "configMap", Name)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changed = true
	}
}

// take returns the text of the history, and whether it is to be written.
func (r *Runs) take() (text string, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.history == nil || !r.changed {
		return "", false
	}
	r.changed = false
	return r.history.String(), true
}

// write replaces the ConfigMap, whatever it has become.
func (r *Runs) write(ctx context.Context, text string) error {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: map[string]string{"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "controller"}},
		Data:       map[string]string{Key: text},
	}
	_, err := r.configMaps.Update(ctx, object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = r.configMaps.Create(ctx, object, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", Name, err)
	}
	return nil
}
