package neighbours_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// tenantUser is the user of the bad namespaces.
const tenantUser = "mallory"

// finalizer keeps objects of the bad namespaces. The suite takes it away in the end.
const finalizer = "example.com/never"

// nowhere is a node selector that no node has: pods with it are created, and not bound.
const nowhere = "example.com/nowhere"

// abuse is one thing that the bad tenant does.
type abuse struct {
	name string
	// namespace that it is done in; empty for namespaceBad.
	namespace string
	do        func(*tenant)
}

// tenant does an abuse, with the rights of the bad namespaces' user. Its objects are named after the abuse.
type tenant struct {
	*testing.T
	ctx       context.Context
	name      string
	namespace string
	kube      kubernetes.Interface
	muster    versioned.Interface
	// accepted and refused count what it has asked the API server for.
	accepted, refused atomic.Int32
}

// admitTenant gives the bad tenant all rights in its namespaces that are not about the namespace itself. It has the role "edit" of
// Kubernetes, and all of Muster's API. It returns when the API server knows of them.
func admitTenant(ctx context.Context) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: tenantUser}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{batchv1alpha1.SchemeGroupVersion.Group, busv1alpha1.SchemeGroupVersion.Group, schedulingv1beta1.SchemeGroupVersion.Group},
		Resources: []string{"*"}, Verbs: []string{"*"},
	}}}
	if _, err := env.Kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the role of tenants: %w", err)
	}
	kube, _ := tenantClients()
	for _, namespace := range badNamespaces {
		for _, role := range []string{"edit", tenantUser} {
			binding := &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: role},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: tenantUser}},
			}
			if _, err := env.Kube.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("giving the tenant its rights in %s: %w", namespace, err)
			}
		}
		for _, asked := range []authorizationv1.ResourceAttributes{
			{Namespace: namespace, Verb: "create", Resource: "pods"},
			{Namespace: namespace, Verb: "create", Group: batchv1alpha1.SchemeGroupVersion.Group, Resource: "jobs"},
		} {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &asked}}
			err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
				answer, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
				return err == nil && answer.Status.Allowed, err
			})
			if err != nil {
				return fmt.Errorf("waiting until the tenant may create %s in %s: %w", asked.Resource, namespace, err)
			}
		}
	}
	return nil
}

func tenantClients() (kubernetes.Interface, versioned.Interface) {
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: tenantUser}
	return kubernetes.NewForConfigOrDie(config), versioned.NewForConfigOrDie(config)
}

// newTenant makes a tenant that does one abuse.
func newTenant(t *testing.T, a abuse) *tenant {
	b := &tenant{T: t, ctx: t.Context(), name: strings.ToLower(a.name), namespace: a.namespace}
	if b.namespace == "" {
		b.namespace = namespaceBad
	}
	b.kube, b.muster = tenantClients()
	return b
}

// numbered names one of many objects.
func (b *tenant) numbered(i int) string { return fmt.Sprintf("%s-%d", b.name, i) }

// job, pod, group and task start an object of the abuse with a name made from its number. Jobs and PodGroups are in queueBad.
func (b *tenant) job(i int) *mustertesting.JobWrapper {
	return mustertesting.MakeJob(b.numbered(i)).Queue(queueBad)
}

func (b *tenant) pod(i int) *mustertesting.PodWrapper {
	return mustertesting.MakePod(b.numbered(i)).SchedulerName("muster")
}

func (b *tenant) group(i int) *mustertesting.PodGroupWrapper {
	return mustertesting.MakePodGroup(b.numbered(i)).Queue(queueBad)
}

func (b *tenant) command(i int, action busv1alpha1.Action, job *batchv1alpha1.Job) *busv1alpha1.Command {
	return &busv1alpha1.Command{
		ObjectMeta: metav1.ObjectMeta{Name: b.numbered(i)}, Action: string(action),
		TargetObject: metav1.NewControllerRef(job, batchv1alpha1.SchemeGroupVersion.WithKind("Job")),
	}
}

// absent is a Job that does not exist.
func (b *tenant) absent(i int) *batchv1alpha1.Job {
	return b.job(i).UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)).Obj()
}

// create creates an object in the tenant's namespace.
func (b *tenant) create(object runtime.Object) error {
	var err error
	switch o := object.(type) {
	case *batchv1alpha1.Job:
		o.Namespace = b.namespace
		var created *batchv1alpha1.Job
		if created, err = b.muster.BatchV1alpha1().Jobs(b.namespace).Create(b.ctx, o, metav1.CreateOptions{}); err == nil {
			*o = *created
		}
	case *schedulingv1beta1.PodGroup:
		o.Namespace = b.namespace
		_, err = b.muster.SchedulingV1beta1().PodGroups(b.namespace).Create(b.ctx, o, metav1.CreateOptions{})
	case *busv1alpha1.Command:
		_, err = b.muster.BusV1alpha1().Commands(b.namespace).Create(b.ctx, o, metav1.CreateOptions{})
	case *corev1.Pod:
		o.Namespace = b.namespace
		_, err = b.kube.CoreV1().Pods(b.namespace).Create(b.ctx, o, metav1.CreateOptions{})
	case *corev1.ConfigMap:
		_, err = b.kube.CoreV1().ConfigMaps(b.namespace).Create(b.ctx, o, metav1.CreateOptions{})
	case *corev1.Secret:
		_, err = b.kube.CoreV1().Secrets(b.namespace).Create(b.ctx, o, metav1.CreateOptions{})
	case *corev1.Service:
		_, err = b.kube.CoreV1().Services(b.namespace).Create(b.ctx, o, metav1.CreateOptions{})
	case *corev1.PersistentVolumeClaim:
		_, err = b.kube.CoreV1().PersistentVolumeClaims(b.namespace).Create(b.ctx, o, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("no client for %T", object)
	}
	return err
}

// must creates an object that the API server accepts. A Job becomes what the API server says.
func (b *tenant) must(object runtime.Object) {
	b.Helper()
	err := b.create(object)
	b.count(err)
	assert.NoError(b, err) // and not require, which must not be called by what many starts
}

// try creates an object that the API server may refuse.
func (b *tenant) try(object runtime.Object) {
	b.Helper()
	b.tolerate(b.create(object))
}

// tolerate fails for errors that are no answer to what was asked.
func (b *tenant) tolerate(err error) {
	b.Helper()
	b.count(err)
	if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && !apierrors.IsRequestEntityTooLargeError(err) {
		assert.NoError(b, err)
	}
}

func (b *tenant) count(err error) {
	if err == nil {
		b.accepted.Add(1)
	} else {
		b.refused.Add(1)
	}
}

// many does something n times, some at the same time.
func (b *tenant) many(n int, do func(i int)) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	require.NoError(b, group.Wait())
}

// again does something n times, one after the other with a pause.
func (b *tenant) again(n int, pause time.Duration, do func(i int)) {
	ticker := time.NewTicker(max(pause, time.Millisecond))
	defer ticker.Stop()
	for i := range n {
		do(i)
		select {
		case <-ticker.C:
		case <-b.ctx.Done():
			return
		}
	}
}

// soon waits until something is met.
func (b *tenant) soon(what string, met func() bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, mustertesting.Timeout)
	defer cancel()
	require.NoError(b, log.Wait(ctx, met), "not seen: %s", what)
}

// start creates a Job and waits until it has pods.
func (b *tenant) start(job *batchv1alpha1.Job) {
	b.Helper()
	b.must(job)
	b.soon("pods of "+job.Name, func() bool { return len(log.PodsOf(types.NamespacedName{Namespace: b.namespace, Name: job.Name})) > 0 })
}

// force deletes a pod at once, whether it is there or not.
func (b *tenant) force(name string) {
	b.Helper()
	b.tolerate(b.kube.CoreV1().Pods(b.namespace).Delete(b.ctx, name, *metav1.NewDeleteOptions(0)))
}

// pods lists the names of the pods of a Job that are there.
func (b *tenant) pods(job string) []string {
	b.Helper()
	list, err := b.kube.CoreV1().Pods(b.namespace).List(b.ctx, metav1.ListOptions{LabelSelector: batchv1alpha1.JobNameKey + "=" + job, ResourceVersion: "0"})
	require.NoError(b, err)
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// patchJob changes a Job by a JSON patch. The API server may refuse it.
func (b *tenant) patchJob(name, patch string) {
	b.Helper()
	_, err := b.muster.BatchV1alpha1().Jobs(b.namespace).Patch(b.ctx, name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	b.tolerate(err)
}

// patchGroup changes a PodGroup, or its status, by a merge patch. The API server may refuse it.
func (b *tenant) patchGroup(name, patch string, subresources ...string) {
	b.Helper()
	_, err := b.muster.SchedulingV1beta1().PodGroups(b.namespace).Patch(b.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	b.tolerate(err)
}

// groupOf is the name of a Job's PodGroup.
func groupOf(job *batchv1alpha1.Job) string { return job.Name + "-" + string(job.UID) }

// phase is the phase of a Job of the tenant.
func (b *tenant) phase(name string) batchv1alpha1.JobPhase {
	return log.Job(types.NamespacedName{Namespace: b.namespace, Name: name}).Phase
}

// kept are the kinds of objects that the tenant's finalizer is put on.
var kept = []schema.GroupVersionResource{
	corev1.SchemeGroupVersion.WithResource("pods"),
	batchv1alpha1.SchemeGroupVersion.WithResource("jobs"),
	schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups"),
	busv1alpha1.SchemeGroupVersion.WithResource("commands"),
}

// takeFinalizersAway removes the tenant's finalizer from all objects of a namespace that are being deleted. It returns how many objects of
// which kind there were.
func takeFinalizersAway(ctx context.Context, namespace string) (string, error) {
	client, err := metadata.NewForConfig(env.Config)
	if err != nil {
		return "", err
	}
	var left []string
	for _, kind := range kept {
		list, err := client.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		left = append(left, fmt.Sprintf("%d %s", len(list.Items), kind.Resource))
		for i := range list.Items {
			object := &list.Items[i]
			if object.DeletionTimestamp == nil || !slices.Contains(object.Finalizers, finalizer) {
				continue
			}
			others := slices.DeleteFunc(object.Finalizers, func(name string) bool { return name == finalizer })
			patch := fmt.Sprintf(`{"metadata":{"finalizers":["%s"]}}`, strings.Join(others, `","`))
			if len(others) == 0 {
				patch = `{"metadata":{"finalizers":null}}`
			}
			_, err := client.Resource(kind).Namespace(namespace).Patch(ctx, object.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return "", err
			}
		}
	}
	return strings.Join(left, ", "), nil
}
