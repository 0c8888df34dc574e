package testing

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/manifests"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
)

// PolicyEvents returns the events that a policy of a Job may name, as the schema of the API lists them. A test that asks for something of
// each of them finds an event that was added by half.
func PolicyEvents(t testing.TB) []busv1alpha1.Event {
	t.Helper()
	text, err := manifests.FS.ReadFile("crds/batch.volcano.sh_jobs.yaml")
	require.NoError(t, err)
	var crd map[string]any
	require.NoError(t, yaml.Unmarshal(text, &crd))
	versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
	require.NoError(t, err)
	require.Len(t, versions, 1)
	values, _, err := unstructured.NestedStringSlice(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec",
		"properties", "policies", "items", "properties", "event", "enum")
	require.NoError(t, err)
	events := make([]busv1alpha1.Event, len(values))
	for i, value := range values {
		events[i] = busv1alpha1.Event(value)
	}
	require.Contains(t, events, busv1alpha1.AnyEvent)
	return events
}
