// Package runs keeps in a ConfigMap how long successful runs took. So a restart does not forget it, nor the deletion of Jobs.
//
// muster-controller is its only owner. It alone sees how Jobs and pods end: the scheduler's informer has no pods that have ended. The estimates that
// follow stand in the status of PodGroups, where the scheduler reads them.
package runs

import (
	"context"
	"fmt"
	"slices"
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
	noted   noted          // what the history has of
	changed bool           // since it was written
}

// End is the end of a run.
type End struct {
	ID         string // of the run, without spaces
	At         time.Time
	Run        runtimes.Run
	Took       time.Duration
	Stated     time.Duration // how long it should have run by the word of its user, 0 for no word
	Successful bool
}

// New makes a history that is kept by a client of ConfigMaps; nil keeps it in memory only.
func New(configMaps typedcorev1.ConfigMapInterface, c clock.Clock) *Runs {
	return &Runs{configMaps: configMaps, clock: c}
}

// Note notes the end of a run, once. A run that was not successful counts only if it took much longer than stated.
func (r *Runs) Note(end *End) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(end)
}

// NoteLate notes the ends of runs that no leader has noted. The first leader of all notes all of them, the next ones what the last had no time for.
func (r *Runs) NoteLate(ends []*End) {
	slices.SortStableFunc(ends, func(a, b *End) int { return a.At.Compare(b.At) })
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, end := range ends {
		if !r.noted.has(end.ID, end.At) {
			r.note(end)
		}
	}
}

func (r *Runs) note(end *End) {
	if r.history == nil || !r.noted.add(end.ID, end.At) {
		return
	}
	if !end.Successful {
		r.changed = r.history.Failed(end.Run, end.Took, end.Stated) || r.changed
		return
	}
	r.history.Ended(end.Run, end.Took, end.Stated)
	r.changed = true
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
	var data map[string]string
	if r.configMaps != nil {
		data = r.read(ctx)
	}
	history, broken := runtimes.Read(data[Key])
	if broken > 0 {
		klog.FromContext(ctx).Error(nil, "The history of run times has lines that no controller has written. They are left out", "configMap", Name, "lines", broken)
	}
	noted, ok := readNoted(data[notedKey])
	if !ok && data[Key] != "" {
		noted.through = r.clock.Now().Unix() // an earlier version has not written what it has noted
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history, r.noted, r.changed = history, noted, broken > 0
}

// read returns what the ConfigMap has, or nothing if there is none that can be read.
func (r *Runs) read(ctx context.Context) (data map[string]string) {
	var failed error
	_ = wait.PollUntilContextTimeout(ctx, readPause, readFor, true, func(ctx context.Context) (bool, error) {
		found, err := r.configMaps.Get(ctx, Name, metav1.GetOptions{})
		switch {
		case err == nil:
			data = found.Data
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
	return data
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
	data, changed := r.take()
	if !changed {
		return
	}
	if err := r.write(ctx, data); err != nil {
		klog.FromContext(ctx).Error(err, "Writing the history of run times failed, trying again", "configMap", Name)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changed = true
	}
}

// take returns what the ConfigMap should have, and whether it is to be written.
func (r *Runs) take() (data map[string]string, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noted.prune(r.clock.Now()) // runs that failed grow it, too, and change nothing else
	if r.history == nil || !r.changed {
		return nil, false
	}
	r.changed = false
	return map[string]string{Key: r.history.String(), notedKey: r.noted.String()}, true
}

// write replaces the ConfigMap, whatever it has become.
func (r *Runs) write(ctx context.Context, data map[string]string) error {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: map[string]string{"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "controller"}},
		Data:       data,
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
