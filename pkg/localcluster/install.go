package localcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// SystemNamespace is where Muster's programs and their service accounts live.
const SystemNamespace = "muster-system"

// fieldManager owns what the local cluster installs.
const fieldManager = "muster-local"

// tokenSeconds is longer than the life of any local cluster.
const tokenSeconds = 10 * 365 * 24 * 60 * 60

// installedFolders are the folders of manifests whose objects every local cluster has, in order.
var installedFolders = []string{"crds", "rbac", "admission", "simulation"}

// installedResources maps the kinds that the installed folders of manifests contain to their
// resources. A kind that is not here is refused, so that the list cannot fall behind silently.
var installedResources = map[schema.GroupVersionKind]schema.GroupVersionResource{
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}:                 {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	{Version: "v1", Kind: "Namespace"}:                                                               {Version: "v1", Resource: "namespaces"},
	{Version: "v1", Kind: "ConfigMap"}:                                                               {Version: "v1", Resource: "configmaps"},
	{Version: "v1", Kind: "ServiceAccount"}:                                                          {Version: "v1", Resource: "serviceaccounts"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}:                         {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}:                  {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}:                                {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}:                         {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"}:          {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding"}:   {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicybindings"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"}:        {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"}: {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
}

// install gives a bare API server what Muster ships: namespace, service accounts, roles, admission
// policies, and the API itself. Gives each program the kubeconfig of its service account.
func install(ctx context.Context, l *layout) error {
	config, err := restConfig(l.kubeconfig())
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	mutates, err := servesMutatingPolicies(kube.Discovery())
	if err != nil {
		return err
	}
	if !mutates {
		l.options.Progress("the API server serves no MutatingAdmissionPolicy: Jobs and Queues are stored without most of their defaults")
	}
	for _, folder := range installedFolders {
		objects, err := readObjects(folder)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if !mutates && isMutatingPolicy(object) {
				continue
			}
			if err := apply(ctx, client, object); err != nil {
				return fmt.Errorf("installing %s %s of manifests/%s: %w", object.GetKind(), object.GetName(), folder, err)
			}
		}
	}
	if err := awaitAPI(ctx, client); err != nil {
		return err
	}
	if l.options.History {
		if err := installHistory(ctx, l, client); err != nil {
			return err
		}
	}
	for _, name := range []string{MusterScheduler, MusterController} {
		if err := writeServiceAccountKubeconfig(ctx, l, kube, name); err != nil {
			return err
		}
	}
	return nil
}

// servesMutatingPolicies tells whether the API server serves what manifests/admission/defaults.yaml consists of. Releases before 1.36 do not.
func servesMutatingPolicies(client discovery.DiscoveryInterface) (bool, error) {
	list, err := client.ServerResourcesForGroupVersion(admissionregistrationv1.SchemeGroupVersion.String())
	if err != nil {
		return false, fmt.Errorf("asking which admission policies are served: %w", err)
	}
	isServed := func(r metav1.APIResource) bool { return r.Name == "mutatingadmissionpolicies" }
	return slices.ContainsFunc(list.APIResources, isServed), nil
}

func isMutatingPolicy(object *unstructured.Unstructured) bool {
	return strings.HasPrefix(object.GetKind(), "MutatingAdmissionPolicy")
}

// apply puts one object in place. The API server makes its first namespaces and roles itself after it is ready. So a missing one may come
// later: it is tried again for a while.
func apply(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured) error {
	resource, ok := installedResources[object.GroupVersionKind()]
	if !ok {
		return fmt.Errorf("kind %s is not one that a local cluster installs", object.GroupVersionKind())
	}
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, last = client.Resource(resource).Namespace(object.GetNamespace()).
			Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		if last == nil || apierrors.IsInvalid(last) || apierrors.IsBadRequest(last) {
			return true, last
		}
		return false, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// awaitAPI waits until every custom resource is served.
func awaitAPI(ctx context.Context, client dynamic.Interface) error {
	objects, err := readObjects("crds")
	if err != nil {
		return err
	}
	for _, object := range objects {
		err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
			return isServed(ctx, client, object)
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to be served: %w", object.GetName(), err)
		}
	}
	return nil
}

// isServed asks for the objects themselves: the condition Established comes a moment before the
// API server answers.
func isServed(ctx context.Context, client dynamic.Interface, definition *unstructured.Unstructured) (bool, error) {
	group, _, err := unstructured.NestedString(definition.Object, "spec", "group")
	if err != nil {
		return false, fmt.Errorf("reading the group: %w", err)
	}
	plural, _, err := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	if err != nil {
		return false, fmt.Errorf("reading the plural name: %w", err)
	}
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		return false, fmt.Errorf("reading the versions: %w", err)
	}
	for _, version := range versions {
		name, _ := version.(map[string]any)["name"].(string)
		resource := schema.GroupVersionResource{Group: group, Version: name, Resource: plural}
		_, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || apierrors.IsServiceUnavailable(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// defaulted are objects with a field each that an admission policy fills in.
var defaulted = []struct {
	resource schema.GroupVersionResource
	object   map[string]any
	field    string
}{
	{schedulingv1beta1.SchemeGroupVersion.WithResource("queues"), map[string]any{
		"apiVersion": schedulingv1beta1.SchemeGroupVersion.String(), "kind": "Queue",
		"metadata": map[string]any{"generateName": "await-"},
	}, "parent"},
	{batchv1alpha1.SchemeGroupVersion.WithResource("jobs"), map[string]any{
		"apiVersion": batchv1alpha1.SchemeGroupVersion.String(), "kind": "Job",
		"metadata": map[string]any{"generateName": "await-", "namespace": metav1.NamespaceDefault},
		"spec": map[string]any{"tasks": []any{map[string]any{"template": map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "main"}}},
		}}}},
	}, "schedulerName"},
}

// awaitDefaults waits until the admission policies fill in defaults, if the API server serves such policies. It looks for new policies each
// second and for new schemas every five seconds. Until it knows the schema, it refuses objects that a policy is to change.
func awaitDefaults(ctx context.Context, served discovery.DiscoveryInterface, client dynamic.Interface) error {
	if mutates, err := servesMutatingPolicies(served); err != nil || !mutates {
		return err
	}
	for _, d := range defaulted {
		object := &unstructured.Unstructured{Object: d.object}
		var last error
		err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
			var filledIn bool
			filledIn, last = isFilledIn(ctx, client.Resource(d.resource).Namespace(object.GetNamespace()), object, d.field)
			return filledIn, nil
		})
		if err != nil {
			return fmt.Errorf("waiting for the defaults of %s: %w", d.resource.Resource, errors.Join(err, last))
		}
	}
	return nil
}

// isFilledIn tells whether an object would be stored with that field of its spec.
func isFilledIn(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured, field string) (bool, error) {
	stored, err := client.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return false, err
	}
	_, found, err := unstructured.NestedString(stored.Object, "spec", field)
	return found, err
}

// writeServiceAccountKubeconfig makes a program run with the very permissions that it has in a
// real cluster.
func writeServiceAccountKubeconfig(ctx context.Context, l *layout, kube kubernetes.Interface, name string) error {
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := kube.CoreV1().ServiceAccounts(SystemNamespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("getting a token for service account %s: %w", types.NamespacedName{Namespace: SystemNamespace, Name: name}, err)
	}
	return l.writeKubeconfig(l.identityKubeconfig(name), l.ports.url(KubeAPIServer), &clientcmdapi.AuthInfo{Token: answer.Status.Token})
}
