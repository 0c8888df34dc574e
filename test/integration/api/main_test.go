// Package api_test asks a real API server what it makes of our custom resources. The answers are which objects it accepts or refuses, with
// which texts and defaults, and how it shows them.
package api_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/integration/harness"
)

// The resources under test.
var (
	jobs      = schema.GroupVersionResource{Group: "batch.volcano.sh", Version: "v1alpha1", Resource: "jobs"}
	podGroups = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}
	queues    = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}
	commands  = schema.GroupVersionResource{Group: "bus.volcano.sh", Version: "v1alpha1", Resource: "commands"}

	phJobs        = schema.GroupVersionResource{Group: "primehub.io", Version: "v1alpha1", Resource: "phjobs"}
	phSchedules   = schema.GroupVersionResource{Group: "primehub.io", Version: "v1alpha1", Resource: "phschedules"}
	images        = schema.GroupVersionResource{Group: "primehub.io", Version: "v1alpha1", Resource: "images"}
	instanceTypes = schema.GroupVersionResource{Group: "primehub.io", Version: "v1alpha1", Resource: "instancetypes"}

	hyperNodes        = schema.GroupVersionResource{Group: "topology.volcano.sh", Version: "v1alpha1", Resource: "hypernodes"}
	networkTopologies = schema.GroupVersionResource{Group: "muster.sh", Version: "v1alpha1", Resource: "networktopologies"}
	startReviews      = schema.GroupVersionResource{Group: "muster.sh", Version: "v1alpha1", Resource: "startreviews"}
)

// ofCluster are the resources without a namespace.
var ofCluster = []schema.GroupVersionResource{queues, hyperNodes, networkTopologies}

// TestMain starts these, and all tests share them. Tests that store objects give them names of their own.
var (
	cluster *localcluster.Cluster
	config  *rest.Config
	client  dynamic.Interface
)

func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{ControlPlaneOnly: true}, func(_ context.Context, env *harness.Env) (func() error, error) {
		cluster, config = env.Cluster, env.Config
		var err error
		client, err = dynamic.NewForConfig(config)
		return nil, err
	})
}

// resource returns the client for objects of a kind; all namespaced ones live in the namespace default.
func resource(gvr schema.GroupVersionResource) dynamic.ResourceInterface {
	if slices.Contains(ofCluster, gvr) {
		return client.Resource(gvr)
	}
	return client.Resource(gvr).Namespace(metav1.NamespaceDefault)
}

// tryCreate asks whether the API server would store an object, and refuses fields that the schema does not have. Lint has to agree.
func tryCreate(t *testing.T, gvr schema.GroupVersionResource, object map[string]any) error {
	t.Helper()
	full := withTemplates(object)
	err := askCreate(t, gvr, full)
	requireLintAgrees(t, full.Object, nil, err)
	return err
}

// askCreate asks the API server alone. Tests that wait for a policy to be in force need that: lint knows the rule before.
func askCreate(t *testing.T, gvr schema.GroupVersionResource, object *unstructured.Unstructured) error {
	t.Helper()
	_, err := resource(gvr).Create(t.Context(), object.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	return err
}

// create stores an object and removes it when the test ends.
func create(t *testing.T, gvr schema.GroupVersionResource, object map[string]any) *unstructured.Unstructured {
	t.Helper()
	created, err := resource(gvr).Create(t.Context(), withTemplates(object),
		metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	require.NoError(t, err)
	t.Cleanup(func() {
		err := resource(gvr).Delete(context.Background(), created.GetName(), metav1.DeleteOptions{})
		require.NoError(t, ignoreNotFound(err))
	})
	return created
}

// withTemplates gives tasks a template that say nothing about it. A policy refuses them without, and most tests are about something else.
func withTemplates(object map[string]any) *unstructured.Unstructured {
	full := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
	list, _, _ := unstructured.NestedSlice(full.Object, "spec", "tasks")
	for i := range list {
		task, isTask := list[i].(map[string]any)
		if _, has := task["template"]; full.GetKind() == "Job" && isTask && !has {
			task["template"] = map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "main"}}}}
			_ = unstructured.SetNestedSlice(full.Object, list, "spec", "tasks")
		}
	}
	return full
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
