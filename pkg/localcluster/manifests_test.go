package localcluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	discoveryfake "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"
)

func TestWithKubeconfigKeepsTheRest(t *testing.T) {
	data, err := withKubeconfig([]byte("kind: K\nclientConnection:\n  qps: 5000\nprofiles:\n- schedulerName: muster\n"), "/k")
	require.NoError(t, err)
	got := map[string]any{}
	require.NoError(t, yaml.Unmarshal(data, &got))
	assert.Equal(t, map[string]any{
		"kind":             "K",
		"clientConnection": map[string]any{"qps": 5000.0, "kubeconfig": "/k"},
		"profiles":         []any{map[string]any{"schedulerName": "muster"}},
	}, got)
}

// TestManifestsAreInstallable finds a manifest of a kind that the local cluster cannot install
// before a cluster does.
func TestManifestsAreInstallable(t *testing.T) {
	for _, folder := range installedFolders {
		objects, err := readObjects(folder)
		require.NoError(t, err)
		require.NotEmpty(t, objects)
		for _, object := range objects {
			assert.Contains(t, installedResources, object.GroupVersionKind(), "%s of manifests/%s", object.GetName(), folder)
		}
	}
}

func TestStages(t *testing.T) {
	objects, err := readObjects("stages")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, object := range objects {
		if object.GetKind() == "KwokConfiguration" {
			continue
		}
		assert.Equal(t, "Stage", object.GetKind())
		assert.False(t, seen[object.GetName()], "two stages are called %s", object.GetName())
		seen[object.GetName()] = true
		kind, _, err := unstructured.NestedString(object.Object, "spec", "resourceRef", "kind")
		require.NoError(t, err)
		assert.Contains(t, []string{"Pod", "Node"}, kind)
		// Without a selector a stage would fit everything.
		expressions, _, err := unstructured.NestedSlice(object.Object, "spec", "selector", "matchExpressions")
		require.NoError(t, err)
		assert.NotEmpty(t, expressions, object.GetName())
	}
	for _, name := range []string{"node-ready", "node-not-ready", "pod-start", "pod-end", "pod-start-again", "pod-delete"} {
		assert.Contains(t, seen, name)
	}
}

// TestSimulatedPodsPolicyNamesWhoSimulates: it would be of no effect for any other user.
func TestSimulatedPodsPolicyNamesWhoSimulates(t *testing.T) {
	objects, err := readObjects("simulation")
	require.NoError(t, err)
	conditions, _, err := unstructured.NestedSlice(objects[0].Object, "spec", "matchConditions")
	require.NoError(t, err)
	require.Len(t, conditions, 1)
	assert.Equal(t, fmt.Sprintf("request.userInfo.username == %q", kwokIdentity), conditions[0].(map[string]any)["expression"])
}

// TestSchedulerConfigs: Muster's scheduler leaves the ordinary pods to the cluster's own where there is one.
func TestSchedulerConfigs(t *testing.T) {
	t.Setenv(BinDirVariable, t.TempDir())
	served := func(version, scheduler string) []string {
		options, err := Options{Dir: t.TempDir(), KubernetesVersion: version}.complete()
		require.NoError(t, err)
		data, err := (&layout{options: options}).schedulerConfig(scheduler)
		require.NoError(t, err)
		var config struct {
			Profiles []struct {
				SchedulerName string `json:"schedulerName"`
			} `json:"profiles"`
		}
		require.NoError(t, yaml.Unmarshal(data, &config))
		var names []string
		for _, profile := range config.Profiles {
			names = append(names, profile.SchedulerName)
		}
		return names
	}
	assert.ElementsMatch(t, []string{"default-scheduler", "muster", "volcano"}, served(KubernetesVersion, MusterScheduler))
	assert.ElementsMatch(t, []string{"muster", "volcano"}, served(OlderVersions[0], MusterScheduler))
	assert.Empty(t, served(OlderVersions[0], KubeScheduler), "the default profile")
}

// TestMutatingPolicies: they are the only objects that an older API server does not serve.
func TestMutatingPolicies(t *testing.T) {
	for version, want := range map[string]bool{"v1": true, "v1beta1": false} {
		client := &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{
			{GroupVersion: "admissionregistration.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "validatingadmissionpolicies"}}},
			{GroupVersion: "admissionregistration.k8s.io/" + version, APIResources: []metav1.APIResource{{Name: "mutatingadmissionpolicies"}}},
		}}}
		if want {
			client.Resources = client.Resources[1:]
		}
		got, err := servesMutatingPolicies(client)
		require.NoError(t, err)
		assert.Equal(t, want, got, version)
	}
	objects, err := readObjects("admission")
	require.NoError(t, err)
	mutating := 0
	for _, object := range objects {
		if isMutatingPolicy(object) {
			mutating++
		}
	}
	assert.Equal(t, 6, mutating, "three policies with their bindings")
}
