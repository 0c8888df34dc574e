package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/controller/util/consistency"
	"k8s.io/utils/clock"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/plugins"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
	"github.com/muster-sched/muster/pkg/job/validation"
)

// objects creates, changes and deletes the objects of Jobs beside their pods: those of plugins, claims, and PodGroups.
type objects struct {
	muster      versioned.Interface
	recorder    record.EventRecorder
	clock       clock.PassiveClock
	enqueue     func(key string) // syncs the Job with that key again
	defaults    *podDefaults
	kinds       *kinds
	access      *secretAccess
	slowSecrets *slowSecrets
	writtenJobs *worker.Written[*batchv1alpha1.Job]
	written     consistency.ConsistencyStore
	mayDelete   func(uid types.UID, ended time.Time) bool // of Jobs whose time is up; nil for always
}

// pluginState is the result of a Job's plugins for its spec, and the known state of their objects.
type pluginState struct {
	set     *plugins.Set // nil if the plugins refuse the spec
	refusal error        // why they do
	// applied are the objects that were found or made in the wanted form. nil before the first look.
	applied map[applied]string // -> resource version
	// notes are warnings for users, from the plugins and about policies that can never fire.
	notes []plugin.Note
	// said are the notes that an event has reported.
	said sets.Set[plugin.Note]
}

// applied identifies an object that plugins want.
type applied struct {
	kind *kind
	name string
}

// errObjectTaken says that an object cannot be made because something else has its name.
var errObjectTaken = errors.New("is there already and belongs to another owner: delete it, or give the Job another name")

// load makes the plugins of the Job's spec.
func (ps *pluginState) load(job *batchv1alpha1.Job) {
	set, errs := plugins.For(job)
	ps.set, ps.refusal, ps.applied = set, errs.ToAggregate(), nil
	if len(errs) > 0 {
		return
	}
	ps.notes = set.Notes()
	for _, useless := range validation.NeverFires(job) {
		ps.notes = append(ps.notes, plugin.Note{Reason: eventPolicyNeverFires, Message: useless})
	}
	ps.said = ps.said.Intersection(sets.New(ps.notes...)) // texts of users that change again and again must not pile up
}

// finding says why the plugins do not work for a Job; nil if they do. A Job that has nothing yet is invalid. A Job that has started was
// scaled beyond what a plugin can do.
func (ps *pluginState) finding(s *plan.Snapshot) *plan.Finding {
	switch {
	case ps.refusal == nil:
		return nil
	case s.IsFresh():
		return &plan.Finding{Reason: plan.ReasonInvalid, Message: ps.refusal.Error()}
	default:
		return &plan.Finding{Reason: eventPluginError, Message: ps.refusal.Error()}
	}
}

// tell reports the notes of the Job, once.
func (o *objects) tell(job *batchv1alpha1.Job, ps *pluginState) {
	for _, note := range ps.notes {
		if !ps.said.Has(note) {
			ps.said.Insert(note)
			o.recorder.Event(job, corev1.EventTypeWarning, note.Reason, note.Message)
		}
	}
}

// apply brings the objects of the Job's plugins to the wanted form. It does nothing while they are as it left them.
func (o *objects) apply(ctx context.Context, t *jobSync) error {
	job, ps := t.acting, &t.local.plugins
	o.tell(job, ps)
	if !ps.set.HasObjects() || isApplied(job, ps) {
		return nil
	}
	done := map[applied]string{}
	secrets := &secretReader{o: o, ctx: ctx, job: job, read: map[string]plugin.Object{}, done: done}
	wanted, err := o.objectsOf(job, ps.set, secrets)
	if err != nil {
		return err
	}
	for _, object := range wanted {
		kind, err := o.kinds.of(object)
		if err != nil {
			return err
		}
		var live plugin.Object
		if kind.informer != nil {
			live = kind.cached(job.Namespace, object.GetName())
		} else if live, err = secrets.live(object.GetName()); err != nil {
			return err
		}
		live, err = o.applyObject(ctx, job, kind, live, object)
		if err != nil {
			return fmt.Errorf("applying the %s %s: %w", kind.resource.Resource, object.GetName(), err)
		}
		done[applied{kind, object.GetName()}] = live.GetResourceVersion()
	}
	ps.applied = done
	o.slowSecrets.forget(keyOf(job))
	return nil
}

// objectsOf returns the objects that the plugins want. If the data of a Secret takes long to make, it returns that error until it is made.
func (o *objects) objectsOf(job *batchv1alpha1.Job, set *plugins.Set, secrets *secretReader) ([]plugin.Object, error) {
	wanted, err := set.Objects(secrets.data)
	slow := (*plugin.SlowSecret)(nil)
	if secrets.err != nil || !errors.As(err, &slow) {
		return wanted, cmp.Or(secrets.err, err)
	}
	made := o.slowSecrets.get(job, slow)
	if made == nil {
		return nil, err
	}
	return set.Objects(func(name string) map[string][]byte {
		if name == slow.Name {
			return made
		}
		return secrets.data(name)
	})
}

// isApplied says whether all watched objects exist in the form in which they were applied.
func isApplied(job *batchv1alpha1.Job, ps *pluginState) bool {
	for object, version := range ps.applied {
		if object.kind.informer == nil {
			continue
		}
		if live := object.kind.cached(job.Namespace, object.name); live == nil || live.GetResourceVersion() != version {
			return false
		}
	}
	return ps.applied != nil
}

// applyObject creates an object if live is nil, or updates the live one if it differs.
func (o *objects) applyObject(ctx context.Context, job *batchv1alpha1.Job, kind *kind, live, wanted plugin.Object) (plugin.Object, error) {
	if live == nil {
		created, err := kind.client(job.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
		if err == nil {
			o.written.WroteAt(nameOf(job), job.UID, kind.resource, created.GetResourceVersion())
			return created, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		if live, err = o.checkObject(ctx, job, kind, wanted); err != nil {
			return nil, err
		}
	}
	if !metav1.IsControlledBy(live, job) {
		return nil, errObjectTaken
	}
	return o.refreshObject(ctx, job, kind, live, wanted)
}

// checkObject reads the existing object that blocks the wanted one.
func (o *objects) checkObject(ctx context.Context, job *batchv1alpha1.Job, kind *kind, wanted plugin.Object) (plugin.Object, error) {
	live, err := kind.client(job.Namespace).Get(ctx, wanted.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if secret, isSecret := live.(*corev1.Secret); isSecret && metav1.IsControlledBy(secret, job) {
		// Another replica has just made it. Its key is the one to keep, not ours: read all again.
		return nil, apierrors.NewConflict(kind.resource, secret.Name, errors.New("it was made meanwhile"))
	}
	return live, nil
}

func (o *objects) refreshObject(ctx context.Context, job *batchv1alpha1.Job, kind *kind, live, wanted plugin.Object) (plugin.Object, error) {
	changed, err := plugins.Refresh(live, wanted)
	if err != nil {
		return nil, err
	}
	// Without its labels the informer would not show the object.
	if live.GetLabels()[batchv1alpha1.JobNameKey] != job.Name {
		if changed == nil {
			changed = live.DeepCopyObject().(plugin.Object)
		}
		changed.SetLabels(labels.Merge(live.GetLabels(), wanted.GetLabels()))
	}
	if changed == nil || live.GetDeletionTimestamp() != nil {
		return live, nil
	}
	updated, err := kind.client(job.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	o.written.WroteAt(nameOf(job), job.UID, kind.resource, updated.GetResourceVersion())
	return updated, nil
}

// deleteAll deletes the objects of the plugins of a Job that has ended. It returns the first error.
func (o *objects) deleteAll(ctx context.Context, t *jobSync) error {
	job := t.acting
	failed := o.deleteSecrets(ctx, job)
	for _, kind := range o.kinds.ofPlugins() {
		if kind == o.kinds.bindings && failed != nil {
			continue // they give the right to delete the Secrets
		}
		for _, object := range kind.ownedBy(job.UID) {
			if object.GetDeletionTimestamp() == nil {
				failed = cmp.Or(failed, kind.delete(ctx, object))
			}
		}
	}
	return failed
}
