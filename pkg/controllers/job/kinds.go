package job

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
type kind interface {
	resource() schema.GroupResource
	get(ctx context.Context, namespace, name string) (plugin.Object, error)
	create(ctx context.Context, object plugin.Object) (plugin.Object, error)
	update(ctx context.Context, object plugin.Object) (plugin.Object, error)
	delete(ctx context.Context, object plugin.Object) error
}

// watchedKind is a kind that an informer shows.
type watchedKind interface {
	kind
	// watched is the informer.
	watched() cache.SharedIndexInformer
	// cached returns the object as the informer shows it, or nil.
	cached(namespace, name string) plugin.Object
	// ownedBy returns the objects that the Job with that UID controls, as the informer shows them.
	ownedBy(uid types.UID) []plugin.Object
}

// client is the common part of the typed clients of all kinds.
type client[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// kindOf implements kind with a typed client.
type kindOf[T plugin.Object] struct {
	group  schema.GroupResource
	client func(namespace string) client[T]
}

// watchedKindOf implements watchedKind with a typed client and an informer.
type watchedKindOf[T plugin.Object] struct {
	kindOf[T]
	informer cache.SharedIndexInformer
}

func (k *kindOf[T]) resource() schema.GroupResource            { return k.group }
func (k *watchedKindOf[T]) watched() cache.SharedIndexInformer { return k.informer }

func (k *watchedKindOf[T]) cached(namespace, name string) plugin.Object {
	object, exists, err := k.informer.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil
	}
	return object.(T)
}

func (k *watchedKindOf[T]) ownedBy(uid types.UID) []plugin.Object {
	return indexed[plugin.Object](k.informer.GetIndexer(), byOwningJob, string(uid))
}

func (k *kindOf[T]) get(ctx context.Context, namespace, name string) (plugin.Object, error) {
	return orNil(k.client(namespace).Get(ctx, name, metav1.GetOptions{}))
}

func (k *kindOf[T]) create(ctx context.Context, object plugin.Object) (plugin.Object, error) {
	return orNil(k.client(object.GetNamespace()).Create(ctx, object.(T), metav1.CreateOptions{}))
}

func (k *kindOf[T]) update(ctx context.Context, object plugin.Object) (plugin.Object, error) {
	return orNil(k.client(object.GetNamespace()).Update(ctx, object.(T), metav1.UpdateOptions{}))
}

func (k *kindOf[T]) delete(ctx context.Context, object plugin.Object) error {
	return k.client(object.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(object.GetUID())),
	})
}

// orNil returns nil in place of the empty object that comes with an error.
func orNil[T plugin.Object](object T, err error) (plugin.Object, error) {
	if err != nil {
		return nil, err
	}
	return object, nil
}

// core is a resource of the core API.
func core(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }

// kinds are the kinds of objects that plugins make, of claims, and of the bindings for rights on Secrets.
type kinds struct {
	services, configMaps, policies, bindings, claims watchedKind
	// secrets are not watched: to list Secrets, this process would need a right on every Secret.
	secrets kind
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
		informers: own,
		services: watchedBy(own.Core().V1().Services().Informer(), core("services"),
			func(ns string) client[*corev1.Service] { return kube.CoreV1().Services(ns) }),
		configMaps: watchedBy(own.Core().V1().ConfigMaps().Informer(), core("configmaps"),
			func(ns string) client[*corev1.ConfigMap] { return kube.CoreV1().ConfigMaps(ns) }),
		policies: watchedBy(own.Networking().V1().NetworkPolicies().Informer(),
			schema.GroupResource{Group: networkingv1.GroupName, Resource: "networkpolicies"},
			func(ns string) client[*networkingv1.NetworkPolicy] { return kube.NetworkingV1().NetworkPolicies(ns) }),
		bindings: watchedBy(own.Rbac().V1().RoleBindings().Informer(), schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"},
			func(ns string) client[*rbacv1.RoleBinding] { return kube.RbacV1().RoleBindings(ns) }),
		claims: watchedBy(shared.Core().V1().PersistentVolumeClaims().Informer(), core("persistentvolumeclaims"),
			func(ns string) client[*corev1.PersistentVolumeClaim] { return kube.CoreV1().PersistentVolumeClaims(ns) }),
		secrets: &kindOf[*corev1.Secret]{core("secrets"), func(ns string) client[*corev1.Secret] { return kube.CoreV1().Secrets(ns) }},
	}
}

// watchedBy is the kind of a resource that the informer shows.
func watchedBy[T plugin.Object](informer cache.SharedIndexInformer, resource schema.GroupResource, of func(ns string) client[T]) watchedKind {
	return &watchedKindOf[T]{kindOf[T]{resource, of}, informer}
}

// ofPlugins are the kinds of the objects that plugins make, or need, and that are watched.
func (k *kinds) ofPlugins() []watchedKind {
	return []watchedKind{k.services, k.configMaps, k.policies, k.bindings}
}

// all are the kinds of all objects that are watched.
func (k *kinds) all() []watchedKind { return append(k.ofPlugins(), k.claims) }

// of returns the kind of an object that a plugin wants.
func (k *kinds) of(object plugin.Object) (kind, error) {
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
