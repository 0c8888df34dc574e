package chart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// image is a name that no shipped file has.
const image = "registry.example.com/batch/muster:v9"

// withAnImage copies the manifests, names an image in its one place, and returns the folder deploy. Of the CRDs it takes the smallest: most of
// the time went into rendering them.
func withAnImage(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, part := range []string{"admission", "crds", "deploy", "rbac", "scheduler"} {
		require.NoError(t, os.CopyFS(filepath.Join(root, part), os.DirFS(manifests+part)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "crds", "kustomization.yml"), []byte("resources: [bus.volcano.sh_commands.yaml]\n"), 0o600))
	deploy := filepath.Join(root, "deploy")
	place := filepath.Join(deploy, "image", "kustomization.yml")
	text, err := os.ReadFile(place)
	require.NoError(t, err)
	named := strings.NewReplacer("newName: muster", "newName: registry.example.com/batch/muster", "newTag: dev", "newTag: v9").Replace(string(text))
	require.NoError(t, os.WriteFile(place, []byte(named), 0o600))
	return deploy
}

// build renders a kustomization.
func build(t *testing.T, folder string) objects {
	t.Helper()
	found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	require.NoError(t, err)
	text, err := found.AsYaml()
	require.NoError(t, err)
	return parse(t, string(text))
}

// images are those of all containers of Deployments and pods.
func images(all objects) []string {
	var found []string
	for _, object := range all {
		for _, path := range [][]string{{"spec", "containers"}, {"spec", "template", "spec", "containers"}} {
			containers, _, _ := unstructured.NestedSlice(object, path...)
			for _, container := range containers {
				found = append(found, container.(map[string]any)["image"].(string))
			}
		}
	}
	return found
}

// TestEachOverlayTakesTheImageFromOnePlace: a name in deploy/image reaches all containers of each overlay.
func TestEachOverlayTakesTheImageFromOnePlace(t *testing.T) {
	deploy := withAnImage(t)
	files, err := filepath.Glob(filepath.Join(deploy, "*", "kustomization.yml"))
	require.NoError(t, err)
	overlays := []string{filepath.Join(deploy, "kustomization.yml"), filepath.Join(deploy, "replace-default", "static-pod", "kustomization.yml")}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		isPart := slices.Contains([]string{"second-scheduler", "controller"}, filepath.Base(filepath.Dir(file)))
		if !isPart && strings.Contains(string(text), "\nkind: Kustomization\n") {
			overlays = append(overlays, file)
		}
	}
	require.Greater(t, len(overlays), 5)
	for _, file := range overlays {
		found := images(build(t, filepath.Dir(file)))
		require.NotEmpty(t, found, file)
		for _, name := range found {
			assert.Equal(t, image, name, file)
		}
	}
}

// combination is a kustomization of a user.
type combination struct {
	base       string
	components []string
	shipped    string // the folder that is the same; "" if none is
}

// combinations are all ways to choose the scheduler's place, Volcano's defaults, and who writes defaults.
func combinations() []combination {
	shipped := map[string]string{
		".": ".", ". volcano-defaults": "coming-from-volcano", ". no-defaults": "kubernetes-1.35",
		". volcano-defaults no-defaults": "coming-from-volcano-1.35", "replace-default": "replace-default",
	}
	var all []combination
	for _, base := range []string{".", "replace-default"} {
		for _, volcano := range []string{"", "volcano-defaults"} {
			for _, defaults := range []string{"", "no-defaults", "beta-defaults"} {
				components := strings.Fields(volcano + " " + defaults)
				name := strings.Join(append([]string{base}, components...), " ")
				all = append(all, combination{base, components, shipped[name]})
			}
		}
	}
	return all
}

// TestTheOverlaysCombine renders each combination. A component changes what it is for, and nothing else.
func TestTheOverlaysCombine(t *testing.T) {
	deploy := withAnImage(t)
	for i, c := range combinations() {
		t.Run(strings.Join(append([]string{c.base}, c.components...), " "), func(t *testing.T) {
			folder := filepath.Join(filepath.Dir(deploy), fmt.Sprint("combination", i))
			require.NoError(t, os.Mkdir(folder, 0o755))
			text := "resources: [../deploy/" + c.base + "]\n"
			if len(c.components) > 0 {
				text += "components: [../deploy/" + strings.Join(c.components, ", ../deploy/") + "]\n"
			}
			require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yml"), []byte(text), 0o600))
			got := build(t, folder)
			if c.shipped != "" {
				requireSame(t, build(t, filepath.Join(deploy, c.shipped)), got)
			}
			for _, name := range images(got) {
				assert.Equal(t, image, name)
			}
			waitsForReady := slices.Contains(argsOf(t, got["Deployment/muster-controller"]), "--depends-on-condition=Ready")
			assert.Equal(t, slices.Contains(c.components, "volcano-defaults"), waitsForReady)
			want := map[string]int{"admissionregistration.k8s.io/v1": 1}
			switch {
			case slices.Contains(c.components, "no-defaults"):
				want = map[string]int{}
			case slices.Contains(c.components, "beta-defaults"):
				want = map[string]int{"admissionregistration.k8s.io/v1beta1": 1}
			}
			versions := map[string]int{}
			for key, object := range got {
				if strings.HasPrefix(key, "MutatingAdmissionPolicy") {
					versions[object["apiVersion"].(string)] = 1
				}
			}
			assert.Equal(t, want, versions, "versions of the policies that write defaults")
			requireSame(t, untouched(build(t, filepath.Join(deploy, c.base))), untouched(got))
		})
	}
}

// untouched are the objects that no component changes.
func untouched(all objects) objects {
	kept := objects{}
	for key, object := range all {
		if !strings.HasPrefix(key, "MutatingAdmissionPolicy") && key != "Deployment/muster-controller" {
			kept[key] = object
		}
	}
	return kept
}

// argsOf are the arguments of a Deployment's only container.
func argsOf(t *testing.T, deployment map[string]any) []string {
	t.Helper()
	containers, _, _ := unstructured.NestedSlice(deployment, "spec", "template", "spec", "containers")
	require.Len(t, containers, 1)
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	require.NoError(t, err)
	return args
}
