package api_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/muster-sched/muster/pkg/controllers/runs"
)

// withTokenOfController is a client with a token of muster-controller's ServiceAccount, and nothing else.
func withTokenOfController(t *testing.T) dynamic.Interface {
	t.Helper()
	token, err := admin(t).CoreV1().ServiceAccounts("muster-system").CreateToken(t.Context(), "muster-controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	own := rest.AnonymousClientConfig(config)
	own.BearerToken = token.Status.Token
	theirs, err := dynamic.NewForConfig(own)
	require.NoError(t, err)
	return theirs
}

// made are objects of the kinds that muster-controller makes for the plugins of Jobs, as it makes them.
var made = map[schema.GroupVersionResource]string{
	{Version: "v1", Resource: "configmaps"}: `{apiVersion: v1, kind: ConfigMap, data: {a: b}}`,
	{Version: "v1", Resource: "services"}:   `{apiVersion: v1, kind: Service, spec: {ports: [{port: 1}]}}`,
	secrets:                                 `{apiVersion: v1, kind: Secret}`,
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}: `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy,
		spec: {podSelector: {}}}`,
	roleBindings: `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding,
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: muster-controller-secrets},
		subjects: [{kind: ServiceAccount, namespace: muster-system, name: muster-controller}]}`,
}

var (
	secrets      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	roleBindings = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
)

// ofJob is what the controller writes on each object that it makes for a Job.
func ofJob(job *unstructured.Unstructured) string {
	return fmt.Sprintf(`metadata: {labels: {volcano.sh/job-name: %q}, ownerReferences: [
		{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: %q, uid: %q, controller: true}]}`, job.GetName(), job.GetName(), job.GetUID())
}

// madeObject is an object of a kind that the controller makes.
func madeObject(t *testing.T, gvr schema.GroupVersionResource, name string, patches ...string) *unstructured.Unstructured {
	t.Helper()
	object := merge(t, parse(t, made[gvr]), fmt.Sprintf("metadata: {name: %s}", name))
	for _, patch := range patches {
		object = merge(t, object, patch)
	}
	return &unstructured.Unstructured{Object: object}
}

// storeIn creates an object as an administrator. It goes with the test.
func storeIn(t *testing.T, gvr schema.GroupVersionResource, namespace string, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	all := client.Resource(gvr).Namespace(namespace)
	stored, err := all.Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, ignoreNotFound(all.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{})))
	})
	return stored
}

func requireForbidden(t *testing.T, err error, message string) {
	t.Helper()
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, message)
}

// TestTheControllerWritesOnlyObjectsOfJobs: a program with the controller's token changes nothing else, in no namespace.
func TestTheControllerWritesOnlyObjectsOfJobs(t *testing.T) {
	const own, system, owned = metav1.NamespaceDefault, metav1.NamespaceSystem,
		"muster-controller makes, changes and deletes only objects that a Job of batch.volcano.sh controls"
	controller := withTokenOfController(t)
	job := create(t, jobs, parse(t, smallJob))
	// It gives itself the right on Secrets in each namespace that has a Job with a key.
	for _, namespace := range []string{own, system} {
		storeIn(t, roleBindings, namespace, madeObject(t, roleBindings, "keys"))
		eventually(t, "the right on Secrets", func() bool {
			_, err := controller.Resource(secrets).Namespace(namespace).Get(t.Context(), "no-such", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	for gvr := range made {
		at := func(namespace string) dynamic.ResourceInterface { return controller.Resource(gvr).Namespace(namespace) }
		try := func(namespace string, patches ...string) error {
			_, err := at(namespace).Create(t.Context(), madeObject(t, gvr, "new", patches...), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		t.Run("new "+gvr.Resource, func(t *testing.T) {
			require.NoError(t, try(own, ofJob(job)))
			requireForbidden(t, try(own), owned)
			requireForbidden(t, try(own, ofJob(job), "metadata: {labels: null}"), "names the Job on each object that it makes")
			requireForbidden(t, try(own, `metadata: {ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}]}`), owned)
			requireForbidden(t, try(system, ofJob(job)), "makes no objects in the namespaces of Kubernetes itself")
		})
		t.Run("others' "+gvr.Resource, func(t *testing.T) {
			for _, namespace := range []string{own, system} {
				theirs := storeIn(t, gvr, namespace, madeObject(t, gvr, "theirs"))
				requireForbidden(t, at(namespace).Delete(t.Context(), "theirs", metav1.DeleteOptions{}), owned)
				theirs.SetLabels(map[string]string{"volcano.sh/job-name": job.GetName()})
				_, err := at(namespace).Update(t.Context(), theirs, metav1.UpdateOptions{})
				requireForbidden(t, err, owned)
				theirs.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(job, jobs.GroupVersion().WithKind("Job"))})
				_, err = at(namespace).Update(t.Context(), theirs, metav1.UpdateOptions{})
				requireForbidden(t, err, owned)
			}
		})
		t.Run("its own "+gvr.Resource, func(t *testing.T) {
			ours := storeIn(t, gvr, own, madeObject(t, gvr, "ours", ofJob(job)))
			ours.SetAnnotations(map[string]string{"a": "b"})
			ours, err := at(own).Update(t.Context(), ours, metav1.UpdateOptions{})
			require.NoError(t, err)
			ours.SetOwnerReferences(nil)
			_, err = at(own).Update(t.Context(), ours, metav1.UpdateOptions{})
			requireForbidden(t, err, owned)
			require.NoError(t, at(own).Delete(t.Context(), "ours", metav1.DeleteOptions{}))
		})
	}
	for _, patch := range []string{
		`roleRef: {name: muster-controller}`,
		`subjects: [{kind: ServiceAccount, namespace: default, name: default}]`,
		`subjects: [{kind: ServiceAccount, namespace: muster-system, name: muster-controller}, {kind: ServiceAccount, namespace: default, name: default}]`,
	} {
		binding := madeObject(t, roleBindings, "new", ofJob(job), patch)
		requireForbidden(t, dryRun(t, controller, roleBindings, binding.Object), "gives the role muster-controller-secrets, and to itself")
	}
}

// TestTheControllerKeepsTheHistoryOfRunTimes: the one object that no Job controls. Another name, or another namespace, is refused.
func TestTheControllerKeepsTheHistoryOfRunTimes(t *testing.T) {
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	controller := withTokenOfController(t).Resource(configMaps)
	create := func(namespace, name string) error {
		_, err := controller.Namespace(namespace).Create(t.Context(), madeObject(t, configMaps, name), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	require.NoError(t, create("muster-system", runs.Name))
	requireForbidden(t, create("muster-system", "another"), "only objects that a Job of batch.volcano.sh controls")
	requireForbidden(t, create(metav1.NamespaceDefault, runs.Name), "only objects that a Job of batch.volcano.sh controls")

	kept := storeIn(t, configMaps, "muster-system", madeObject(t, configMaps, runs.Name))
	kept.Object["data"] = map[string]any{runs.Key: "x"}
	_, err := controller.Namespace("muster-system").Update(t.Context(), kept, metav1.UpdateOptions{})
	require.NoError(t, err)
	theirs := storeIn(t, configMaps, "muster-system", madeObject(t, configMaps, "theirs"))
	_, err = controller.Namespace("muster-system").Update(t.Context(), theirs, metav1.UpdateOptions{})
	requireForbidden(t, err, "only objects that a Job of batch.volcano.sh controls")
}
