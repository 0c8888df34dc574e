package job

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

const (
	// secretsRole is the ClusterRole with the rights on Secrets that a Job with a key needs (manifests/rbac/controller.yaml).
	secretsRole = "muster-controller-secrets"
	// rightPause is how long to wait for a new right to take effect. API servers learn of a RoleBinding from a watch.
	rightPause = 20 * time.Millisecond
	// rightTime is how long a right may take to have effect before its absence is an error. An API server that is busy shows its watches
	// seconds late.
	rightTime = 10 * time.Second
)

// secretAccess says how this process gets its rights on Secrets. It has none by itself. A Job with a key has its own RoleBinding, with the
// name of its Secret. It gives this process the rights of secretsRole in the Job's namespace. The binding goes with the Secret.
type secretAccess struct {
	reviews authenticationclient.SelfSubjectReviewInterface

	mu   sync.Mutex
	self *rbacv1.Subject // this process, as the API server knows it; nil if that was not asked yet
}

// binding is the RoleBinding that goes with the Secret of that name.
func (a *secretAccess) binding(ctx context.Context, job *batchv1alpha1.Job, name string) (*rbacv1.RoleBinding, error) {
	self, err := a.subject(ctx)
	if err != nil {
		return nil, err
	}
	return &rbacv1.RoleBinding{
		ObjectMeta: metaOf(job, name),
		Subjects:   []rbacv1.Subject{*self},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: secretsRole},
	}, nil
}

// subject is this process. The API server is asked once.
func (a *secretAccess) subject(ctx context.Context) (*rbacv1.Subject, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.self != nil {
		return a.self, nil
	}
	review, err := a.reviews.Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking who this process is: %w", err)
	}
	a.self = subjectOf(review.Status.UserInfo.Username)
	return a.self, nil
}

// subjectOf is the subject of a RoleBinding for a user name.
func subjectOf(username string) *rbacv1.Subject {
	if namespace, name, err := serviceaccount.SplitUsername(username); err == nil {
		return &rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	return &rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: username}
}

// secretReader reads the Job's own Secrets, for plugins that must not make them a second time.
type secretReader struct {
	o    *objects
	ctx  context.Context
	job  *batchv1alpha1.Job
	read map[string]plugin.Object // name -> what was read, nil if there is none
	// done gets the RoleBindings that give the rights on them.
	done map[applied]string
	err  error // the first error
}

// data returns the content of the Job's own Secret of that name, nil if there is none.
func (r *secretReader) data(name string) map[string][]byte {
	live, err := r.live(name)
	r.err = cmp.Or(r.err, err)
	if live == nil {
		return nil
	}
	return live.(*corev1.Secret).Data
}

// live returns the Job's own Secret of that name, nil if there is none. It is read once. So a key is written to the Secret that was read
// for it, or to none.
func (r *secretReader) live(name string) (plugin.Object, error) {
	if live, isRead := r.read[name]; isRead {
		return live, nil
	}
	// This process needs a right on the Secret first.
	bindings := r.o.kinds.bindings
	wanted, err := r.o.access.binding(r.ctx, r.job, name)
	if err != nil {
		return nil, err
	}
	binding, err := r.o.applyObject(r.ctx, r.job, bindings, bindings.cached(r.job.Namespace, name), wanted)
	if err != nil {
		return nil, fmt.Errorf("applying the rolebindings %s: %w", name, err)
	}
	r.done[applied{bindings, name}] = binding.GetResourceVersion()
	live, err := r.o.readSecret(r.ctx, r.job.Namespace, name)
	if err != nil {
		return nil, err
	}
	if live != nil && !metav1.IsControlledBy(live, r.job) {
		return nil, fmt.Errorf("applying the secrets %s: %w", name, errObjectTaken)
	}
	r.read[name] = live
	return live, nil
}

// readSecret reads the Secret of that name; nil if there is none. This process has no right to it while its RoleBinding is new. Nor has it one
// when the binding is gone and the informer still shows it. Both return a staleError. After rightTime a refusal is an error.
func (o *objects) readSecret(ctx context.Context, namespace, name string) (plugin.Object, error) {
	live, err := o.kinds.secrets.client(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		binding, bindingErr := o.kinds.bindings.client(namespace).Get(ctx, name, metav1.GetOptions{})
		isGone := apierrors.IsNotFound(bindingErr)
		if isGone || bindingErr == nil && o.clock.Now().Sub(binding.GetCreationTimestamp().Time) < rightTime {
			return nil, &staleError{fmt.Sprintf("RoleBinding %s has no effect: %v", name, err), rightPause}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the secret %s: %w", name, err)
	}
	return live, nil
}

// checkSecrets applies the objects of the Job's plugins again if one of its Secrets has changed. Secrets are not watched, so this is asked
// before pods are created that mount them.
func (o *objects) checkSecrets(ctx context.Context, t *jobSync) error {
	for object, version := range t.local.plugins.applied {
		if object.kind != o.kinds.secrets {
			continue
		}
		live, err := o.readSecret(ctx, t.acting.Namespace, object.name)
		if err != nil {
			return err
		}
		if live == nil || live.GetResourceVersion() != version {
			t.local.plugins.applied = nil
			return o.apply(ctx, t)
		}
	}
	return nil
}

// deleteSecrets deletes the Secrets of a Job that has ended. They have the names of the bindings that give the right to do so.
func (o *objects) deleteSecrets(ctx context.Context, job *batchv1alpha1.Job) error {
	for _, binding := range o.kinds.bindings.ownedBy(job.UID) {
		live, err := o.readSecret(ctx, job.Namespace, binding.GetName())
		if err != nil {
			return fmt.Errorf("deleting the secrets %s: %w", binding.GetName(), err)
		}
		if live == nil || !metav1.IsControlledBy(live, job) || live.GetDeletionTimestamp() != nil {
			continue
		}
		if err := o.kinds.secrets.delete(ctx, live); err != nil {
			return err
		}
	}
	return nil
}

// slowSecrets makes the data of Secrets that takes long to make, such as RSA keys. It makes one at a time, so that all use at most one
// processor, and namespaces take turns. Workers that sync Jobs do not wait for it: a Job is synced again when its data is made.
type slowSecrets struct {
	worker *worker.Worker
	made   func(key string) // called with the key of a Job whose data is made

	mu    sync.Mutex
	byJob map[string]*slowSecret // ns/name of the Job -> its Secret
}

// slowSecret is the Secret of one Job.
type slowSecret struct {
	job  types.UID
	slow *plugin.SlowSecret
	data map[string][]byte // nil until it is made
}

func newSlowSecrets(made func(key string)) *slowSecrets {
	s := &slowSecrets{made: made, byJob: map[string]*slowSecret{}}
	s.worker = worker.New("job-secrets", s)
	return s
}

// get returns the data of a Job's Secret; nil if it is not made yet. It is made then.
func (s *slowSecrets) get(job *batchv1alpha1.Job, slow *plugin.SlowSecret) map[string][]byte {
	key := keyOf(job)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byJob[key]
	if known == nil || known.job != job.UID || known.slow.Name != slow.Name {
		known = &slowSecret{job: job.UID, slow: slow}
		s.byJob[key] = known
	}
	if known.data == nil {
		s.worker.Enqueue(key)
	}
	return known.data
}

// forget drops the data for the Job with that key, made or not.
func (s *slowSecrets) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byJob, key)
}

// Sync makes the data for the Job with that key, if it is still needed. It implements worker.Syncer.
func (s *slowSecrets) Sync(_ context.Context, key string) (time.Duration, error) {
	s.mu.Lock()
	known := s.byJob[key]
	isMade := known == nil || known.data != nil
	s.mu.Unlock()
	if isMade {
		return 0, nil
	}
	data, err := known.slow.Make()
	if err != nil {
		return 0, fmt.Errorf("making the data of Secret %s: %w", known.slow.Name, err)
	}
	s.mu.Lock()
	known.data = data
	s.mu.Unlock()
	s.made(key)
	return 0, nil
}
