package manifests_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	musterscheme "github.com/muster-sched/muster/pkg/client/clientset/versioned/scheme"
)

// foreign are the groups whose types this module need not know; their objects only have to be objects.
var foreign = map[string]bool{
	"kubescheduler.config.k8s.io": true, // the scheduler's own tests read these
	"kwok.x-k8s.io":               true,
	"config.kwok.x-k8s.io":        true,
	"kustomize.config.k8s.io":     true,
	"apiregistration.k8s.io":      true, // each local cluster with a history applies it
	"monitoring.coreos.com":       true, // test/monitoring reads the rules
}

func strictDecoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, musterscheme.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// files returns all YAML files below this folder.
func files(t *testing.T) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if path == "charts" {
			return fs.SkipDir // test/chart renders them
		}
		if extension := filepath.Ext(path); extension == ".yaml" || extension == ".yml" {
			found = append(found, path)
		}
		return err
	}))
	require.NotEmpty(t, found)
	return found
}

// documents returns the YAML documents of a file, without empty ones.
func documents(t *testing.T, path string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var all [][]byte
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if values := map[string]any{}; yaml.Unmarshal(document, &values) != nil || len(values) > 0 {
			all = append(all, document)
		}
	}
}

// Each manifest holds objects that have only fields that their types know.
func TestManifestsDecodeStrictly(t *testing.T) {
	decoder := strictDecoder(t)
	for _, path := range files(t) {
		t.Run(path, func(t *testing.T) {
			found := documents(t, path)
			require.NotEmpty(t, found, "no object")
			for i, document := range found {
				object := &unstructured.Unstructured{}
				require.NoError(t, yaml.UnmarshalStrict(document, &object.Object), "document %d", i)
				if foreign[object.GroupVersionKind().Group] {
					continue
				}
				assert.NotEmpty(t, object.GetName(), "document %d", i)
				_, _, err := decoder.Decode(document, nil, nil)
				assert.NoError(t, err, "document %d", i)
			}
		})
	}
}

// `kubectl apply -k` must know each file, since programs read all of a folder.
func TestKustomizationsListAllFilesOfTheirFolder(t *testing.T) {
	for _, folder := range []string{"crds", "rbac", "admission", "tenancy", "monitoring", "deploy/history"} {
		text, err := os.ReadFile(filepath.Join(folder, "kustomization.yml"))
		require.NoError(t, err)
		var kustomization struct {
			Resources []string `json:"resources"`
		}
		require.NoError(t, yaml.Unmarshal(text, &kustomization))
		paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		require.NoError(t, err)
		var names []string
		for _, path := range paths {
			names = append(names, strings.TrimPrefix(path, folder+"/"))
		}
		assert.ElementsMatch(t, names, kustomization.Resources, folder)
	}
}
