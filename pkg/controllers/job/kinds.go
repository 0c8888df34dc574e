package job

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// kind gives access to the objects of one kind that Jobs own beside their pods.
type kind struct {
	resource schema.GroupResource
	informer cache.SharedIndexInformer // nil if the objects are not watched
	client   func(namespace string) client[plugin.Object]
}

// client is the common part of the typed clients of all kinds.
type client[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// untyped makes a typed client one of objects. It returns nil in place of the empty object that comes with an error.
type untyped[T plugin.Object] struct{ client[T] }

// Get reads an object.
func (c untyped[T]) Get(ctx context.Context, name string, options metav1.GetOptions) (plugin.Object, error) {
	return orNil(c.client.Get(ctx, name, options))
}

// Create creates an object, which is a T.
func (c untyped[T]) Create(ctx context.Context, object plugin.Object, options metav1.CreateOptions) (plugin.Object, error) {
	return orNil(c.client.Create(ctx, object.(T), options))
}

// Update updates an object, which is a T.
func (c untyped[T]) Update(ctx context.Context, object plugin.Object, options metav1.UpdateOptions) (plugin.Object, error) {
	return orNil(c.client.Update(ctx, object.(T), options))
}

func orNil[T plugin.Object](object T, err error) (plugin.Object, error) {
	if err != nil {
		return nil, err
	}
	return object, nil
}

// cached returns the object as the informer shows it, or nil.
func (k *kind) cached(namespace, name string) plugin.Object {
	object, exists, err := k.informer.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil
	}
	return object.(plugin.Object)
}

// ownedBy returns the objects that the Job with that UID controls, as the informer shows them.
func (k *kind) ownedBy(uid types.UID) []plugin.Object {
	return indexed[plugin.Object](k.informer.GetIndexer(), byOwningJob, string(uid))
}

// delete deletes an object as it was seen. It returns no error if it is gone.
func (k *kind) delete(ctx context.Context, object plugin.Object) error {
	err := k.client(object.GetNamespace()).Delete(ctx, object.GetName(), *metav1.NewPreconditionDeleteOptions(string(object.GetUID())))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the %s %s: %w", k.resource.Resource, object.GetName(), err)
	}
	return nil
}

// kinds are the kinds of objects that plugins make, of claims, and of the bindings for rights on Secrets.
type kinds struct {
	services, configMaps, policies, bindings, claims *kind
	// secrets are not watched: to list Secrets, this process would need a right on every Secret.
	secrets *kind
	// informers show only objects that plugins make and that carry a Job's name. The controller starts them itself: other controllers that
	// want to see Services must not find these.
	informers informers.SharedInformerFactory
}

// newKinds makes the kinds and asks for their informers. Jobs name claims of their users, so claims of any creator are watched; so their
// informer is shared.
func newKinds(kube kubernetes.Interface, shared informers.SharedInformerFactory) *kinds {
	own := informers.NewSharedInformerFactoryWithOptions(kube, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = batchv1alpha1.JobNameKey }))
	return &kinds{
		informers:  own,
		services:   kindOf[*corev1.Service](corev1.Resource("services"), own.Core().V1().Services().Informer(), kube.CoreV1().Services),
		configMaps: kindOf[*corev1.ConfigMap](corev1.Resource("configmaps"), own.Core().V1().ConfigMaps().Informer(), kube.CoreV1().ConfigMaps),
		policies: kindOf[*networkingv1.NetworkPolicy](networkingv1.Resource("networkpolicies"),
			own.Networking().V1().NetworkPolicies().Informer(), kube.NetworkingV1().NetworkPolicies),
		bindings: kindOf[*rbacv1.RoleBinding](rbacv1.Resource("rolebindings"), own.Rbac().V1().RoleBindings().Informer(), kube.RbacV1().RoleBindings),
		claims: kindOf[*corev1.PersistentVolumeClaim](corev1.Resource("persistentvolumeclaims"),
			shared.Core().V1().PersistentVolumeClaims().Informer(), kube.CoreV1().PersistentVolumeClaims),
		secrets: kindOf[*corev1.Secret](corev1.Resource("secrets"), nil, kube.CoreV1().Secrets),
	}
}

// kindOf is the kind of a resource with a typed client. informer is nil if it is not watched.
func kindOf[T plugin.Object, C client[T]](resource schema.GroupResource, informer cache.SharedIndexInformer, typed func(namespace string) C) *kind {
	return &kind{resource, informer, func(namespace string) client[plugin.Object] { return untyped[T]{typed(namespace)} }}
}

// ofPlugins are the kinds of the objects that plugins make, or need, and that are watched.
func (k *kinds) ofPlugins() []*kind {
	return []*kind{k.services, k.configMaps, k.policies, k.bindings}
}

// all are the kinds of all objects that are watched.
func (k *kinds) all() []*kind { return append(k.ofPlugins(), k.claims) }

// of returns the kind of an object that a plugin wants.
func (k *kinds) of(object plugin.Object) (*kind, error) {
	switch object.(type) {
	case *corev1.Service:
		return k.services, nil
	case *corev1.ConfigMap:
		return k.configMaps, nil
	case *corev1.Secret:
		return k.secrets, nil
	case *networkingv1.NetworkPolicy:
		return k.policies, nil
	default:
		return nil, fmt.Errorf("a plugin wants a %T: not a kind that plugins make", object)
	}
}
