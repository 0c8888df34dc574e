// Package chart_test compares what the Helm chart renders with what the kustomizations build, and tries its values.
package chart_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/pkg/localcluster"
)

const (
	folder    = "../../manifests/charts/muster"
	manifests = "../../manifests/"
	namespace = "muster-system"
)

var (
	emptyLines = regexp.MustCompile(`\n+`)
	// configurations are names of ConfigMaps that end with a hash of the contents. Helm's and kustomize's hashes differ.
	configurations = regexp.MustCompile(`(muster-(scheduler|phjob)-config)-[0-9a-z]{10}\b`)
)

// loadChart reads the chart once for all tests.
var loadChart = sync.OnceValues(func() (*chartv2.Chart, error) { return loader.Load(folder) })

// render returns the release that `helm template` would make with values, which are YAML.
func render(t *testing.T, namespace, values string) (*release.Release, error) {
	t.Helper()
	return renderFor(t, localcluster.KubernetesVersion, namespace, values)
}

// renderFor is render for a release of Kubernetes.
func renderFor(t *testing.T, kubernetes, namespace, values string) (*release.Release, error) {
	t.Helper()
	chart, err := loadChart()
	require.NoError(t, err)
	parsed := map[string]any{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(values), &parsed), values)
	install := action.NewInstall(action.NewConfiguration())
	install.KubeVersion, err = common.ParseKubeVersion(kubernetes)
	require.NoError(t, err)
	install.DryRunStrategy, install.ReleaseName, install.Namespace = action.DryRunClient, "muster", namespace
	found, err := install.Run(chart, parsed)
	if err != nil {
		return nil, err
	}
	return found.(*release.Release), nil
}

// objects are a set of objects by kind and name.
type objects map[string]map[string]any

// parse reads the objects of a text. Names that follow from the contents are written alike, and contents that are YAML are read. Empty lines
// are left out: kustomize adds some where it folds a text.
func parse(t *testing.T, text string) objects {
	t.Helper()
	text = configurations.ReplaceAllString(text, "$1-HASH")
	all := objects{}
	for decoder := utilyaml.NewYAMLToJSONDecoder(strings.NewReader(text)); ; {
		object := unstructured.Unstructured{}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if data, _, _ := unstructured.NestedMap(object.Object, "data"); data != nil {
			for name, value := range data {
				var content any
				if strings.HasSuffix(name, ".yaml") {
					require.NoError(t, yaml.Unmarshal([]byte(value.(string)), &content))
					data[name] = content
				}
			}
			object.Object["data"] = data
		}
		key := object.GetKind() + "/" + object.GetName()
		require.NotContains(t, all, key)
		all[key] = withoutEmptyLines(object.Object).(map[string]any)
	}
}

// withoutEmptyLines takes empty lines out of all strings of a value.
func withoutEmptyLines(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			value[name] = withoutEmptyLines(field)
		}
	case []any:
		for i, item := range value {
			value[i] = withoutEmptyLines(item)
		}
	case string:
		return emptyLines.ReplaceAllString(value, "\n")
	}
	return value
}

// rendered are the objects of the chart in Muster's namespace.
func rendered(t *testing.T, values string) objects {
	t.Helper()
	found, err := render(t, namespace, values)
	require.NoError(t, err)
	return parse(t, found.Manifest)
}

// built are the objects of kustomizations, without the namespace, which Helm makes.
func built(t *testing.T, folders ...string) objects {
	t.Helper()
	var text strings.Builder
	for _, folder := range folders {
		found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), manifests+folder)
		require.NoError(t, err)
		part, err := found.AsYaml()
		require.NoError(t, err)
		fmt.Fprintf(&text, "---\n%s", part)
	}
	all := parse(t, text.String())
	require.Contains(t, all, "Namespace/"+namespace)
	delete(all, "Namespace/"+namespace)
	return all
}

// requireSame compares object by object, so that a failure names the one that differs.
func requireSame(t *testing.T, want, got objects) {
	t.Helper()
	for key, object := range want {
		assert.Equal(t, object, got[key], key)
	}
	for key := range got {
		assert.Contains(t, want, key, "the chart has an object more")
	}
}

func TestTheChartEqualsTheKustomizations(t *testing.T) {
	for name, c := range map[string]struct {
		values  string
		folders []string
	}{
		"beside the default scheduler": {"{}", []string{"deploy"}},
		"coming from Volcano":          {"{comingFromVolcano: true}", []string{"deploy/coming-from-volcano"}},
		"in place of it":               {"{replaceDefaultScheduler: true}", []string{"deploy/replace-default"}},
		"everything": {
			"{tenancy: true, monitoring: {serviceMonitor: true, prometheusRule: true}}", []string{"deploy", "tenancy", "monitoring"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := built(t, c.folders...)
			require.Greater(t, len(want), 30)
			got := rendered(t, c.values)
			takeKept(t, got)
			requireSame(t, want, got)
		})
	}
}

// TestTheChartAddsTheComponentOfTheHistory: as a kustomization of the user's own does.
func TestTheChartAddsTheComponentOfTheHistory(t *testing.T) {
	own := t.TempDir()
	to, err := filepath.Rel(own, absolute(t, manifests))
	require.NoError(t, err)
	text := fmt.Sprintf("resources: [%[1]s/deploy]\ncomponents: [%[1]s/deploy/history]\n", to)
	require.NoError(t, os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(text), 0o600))
	from, err := filepath.Rel(absolute(t, manifests), own)
	require.NoError(t, err)
	got := rendered(t, "{history: {enabled: true}}")
	takeKept(t, got)
	requireSame(t, built(t, from), got)

	once := rendered(t, "{history: {enabled: true, accessMode: ReadWriteOnce}, controller: {replicas: 1}}")
	strategy, _, _ := unstructured.NestedString(once["Deployment/muster-controller"], "spec", "strategy", "type")
	assert.Equal(t, "Recreate", strategy, "a second pod cannot mount the volume")
	_, err = render(t, namespace, "{history: {enabled: true, accessMode: ReadWriteOnce}}")
	require.ErrorContains(t, err, "set controller.replicas to 1")
	assert.NotContains(t, rendered(t, "{history: {enabled: true, existingClaim: archive}}"), "PersistentVolumeClaim/muster-history")
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	path, err = filepath.EvalSymlinks(path)
	require.NoError(t, err)
	return path
}

// TestTheReadersOfQueuesCanBeLeftOut (issue 44, 1): by one value, or one component of a kustomization.
func TestTheReadersOfQueuesCanBeLeftOut(t *testing.T) {
	const name = "name: muster-queue-readers\n"
	count := func(values string) int {
		found, err := render(t, namespace, values)
		require.NoError(t, err)
		return strings.Count(found.Manifest, "\n  "+name)
	}
	assert.Equal(t, 3, count("{}"), "the role, the binding and its reference")
	assert.Equal(t, 1, count("{queueReaders: false}"))
}

// takeKept takes away what only Helm knows: that it leaves the CRDs, and the volume of the history.
func takeKept(t *testing.T, all objects) {
	t.Helper()
	kept := 0
	for _, object := range all {
		if unstructuredOf(object).GetAnnotations()["helm.sh/resource-policy"] == "keep" {
			if object["kind"] == "PersistentVolumeClaim" {
				unstructured.RemoveNestedField(object, "metadata", "annotations")
				continue
			}
			require.Equal(t, "CustomResourceDefinition", object["kind"])
			unstructured.RemoveNestedField(object, "metadata", "annotations", "helm.sh/resource-policy")
			kept++
		}
	}
	require.Equal(t, 11, kept)
}

// Each release of Kubernetes gets the objects that its kustomization has.
func TestTheChartOnOlderReleases(t *testing.T) {
	for version, folder := range map[string]string{
		"v1.35.0": "deploy/kubernetes-1.35", "v1.35.4-eks-1": "deploy/kubernetes-1.35", "v1.36.0-beta.1": "deploy", "v1.36.3-gke.100": "deploy",
	} {
		t.Run(version, func(t *testing.T) {
			found, err := renderFor(t, version, namespace, "{}")
			require.NoError(t, err)
			got := parse(t, found.Manifest)
			takeKept(t, got)
			requireSame(t, built(t, folder), got)
			assert.Equal(t, folder != "deploy", strings.Contains(found.Info.Notes, "docs/install.md says what differs"))
		})
	}
	found, err := renderFor(t, "v1.35.4", namespace, "{comingFromVolcano: true}")
	require.NoError(t, err)
	got := parse(t, found.Manifest)
	takeKept(t, got)
	requireSame(t, built(t, "deploy/coming-from-volcano-1.35"), got)

	_, err = renderFor(t, "v1.34.9", namespace, "{}")
	assert.ErrorContains(t, err, "kubeVersion: >=1.35.0-0")
}

func unstructuredOf(object map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object}
}

// The release can be in any namespace, and nothing names another one.
func TestTheNamespaceIsThatOfTheRelease(t *testing.T) {
	found, err := render(t, "batch", "{tenancy: true, monitoring: {serviceMonitor: true, prometheusRule: true}}")
	require.NoError(t, err)
	assert.NotContains(t, found.Manifest, namespace)
	assert.Contains(t, found.Manifest, "--leader-elect-resource-namespace=batch")
	assert.Contains(t, found.Manifest, "system:serviceaccount:batch:muster-controller")
	for key, object := range parse(t, found.Manifest) {
		assert.Contains(t, []string{"", "batch", "kube-system"}, unstructuredOf(object).GetNamespace(), key)
	}
	assert.Contains(t, found.Info.Notes, "kubectl -n batch rollout status deployment/muster-scheduler")
}

func TestLint(t *testing.T) {
	lint := action.NewLint()
	lint.Strict, lint.Namespace = true, namespace
	found := lint.Run([]string{folder}, nil)
	assert.Equal(t, 1, found.TotalChartsLinted)
	assert.Empty(t, found.Errors)
}

// A configuration that changes gets another name, so that the pods are replaced; one that does not keeps its name.
func TestAChangedConfigurationIsAnotherConfigMap(t *testing.T) {
	names := func(values string) []string {
		found, err := render(t, namespace, values)
		require.NoError(t, err)
		return regexp.MustCompile(`name: "?muster-(?:scheduler|phjob)-config-[0-9a-f]{10}`).FindAllString(found.Manifest, -1)
	}
	first := names("{}")
	require.Len(t, first, 2, "the ConfigMap and the volume")
	assert.Equal(t, first, names("{scheduler: {replicas: 1}}"))
	assert.NotEqual(t, first, names("{schedulerNames: [muster]}"))
	assert.NotEqual(t, names("{phjobs: {config: {timezone: Asia/Taipei}}}"), names("{phjobs: {config: {timezone: Asia/Tokyo}}}"))
}
