package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestKubernetesVersion keeps the constant in step with the module, which pins the control plane.
func TestKubernetesVersion(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	require.NoError(t, err)
	assert.Contains(t, string(data), "\tk8s.io/kubernetes "+KubernetesVersion+"\n")
}

// TestOlderVersions keeps the list in step with the modules that pin older control planes.
func TestOlderVersions(t *testing.T) {
	modules, err := filepath.Glob(filepath.Join("..", "..", "hack", "controlplane", "*", "go.mod"))
	require.NoError(t, err)
	require.Len(t, OlderVersions, len(modules))
	for i, module := range modules {
		data, err := os.ReadFile(module)
		require.NoError(t, err)
		assert.Contains(t, string(data), "\tk8s.io/kubernetes "+OlderVersions[i]+" ")
		assert.True(t, strings.HasPrefix(OlderVersions[i], filepath.Base(filepath.Dir(module))+"."), module)
	}
}

// TestAnOlderControlPlaneUsesThePinnedStore: only the programs of Kubernetes are built for an older release.
func TestAnOlderControlPlaneUsesThePinnedStore(t *testing.T) {
	programs := binaries{dir: "bin", version: "v1.36.3"}
	for name, version := range map[string]string{
		Etcd: KubernetesVersion, KWOK: KubernetesVersion, KubeAPIServer: "v1.36.3", KubeControllerManager: "v1.36.3", KubeScheduler: "v1.36.3",
	} {
		assert.Equal(t, []string{filepath.Join("bin", "controlplane", version, name)}, programs.of(name))
	}
}

func TestFindBinariesNamesWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	controlPlane := filepath.Join(dir, "bin", "controlplane", KubernetesVersion)
	require.NoError(t, os.MkdirAll(controlPlane, 0o755))
	for _, name := range []string{Etcd, KubeAPIServer} {
		require.NoError(t, os.WriteFile(filepath.Join(controlPlane, name), nil, 0o755))
	}
	// A file that cannot be run counts as missing.
	require.NoError(t, os.WriteFile(filepath.Join(controlPlane, KubeControllerManager), nil, 0o644))

	err := findBinaries(t.Context(), Options{BinDir: filepath.Join(dir, "bin"), ControlPlaneOnly: true, KubernetesVersion: KubernetesVersion})
	require.ErrorContains(t, err, "missing: "+filepath.Join(controlPlane, KubeControllerManager)+";")
	require.ErrorContains(t, err, "run `make build` in")

	err = findBinaries(t.Context(), Options{BinDir: filepath.Join(dir, "bin"), ControlPlaneOnly: true, KubernetesVersion: "v1.36.3"})
	require.ErrorContains(t, err, "run `make build && hack/controlplane/build-older.sh bin v1.36` in")
}

// TestOnlyProgramsOfTheClusterAreBuilt: the first demo need not wait for a program that it does not run.
func TestOnlyProgramsOfTheClusterAreBuilt(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		built   string
	}{
		"the cluster of the demo":  {Options{KubernetesVersion: KubernetesVersion, Scheduler: MusterScheduler}, "kubectl etcd kube-apiserver kube-controller-manager kwok"},
		"with the stock scheduler": {Options{KubernetesVersion: KubernetesVersion, Scheduler: KubeScheduler}, "kubectl etcd kube-apiserver kube-controller-manager kwok kube-scheduler"},
		"on an older release":      {Options{KubernetesVersion: "v1.36.3", Scheduler: KubeScheduler}, "kubectl etcd kwok"},
	} {
		t.Run(name, func(t *testing.T) {
			checkout := t.TempDir()
			script := filepath.Join(checkout, buildScript)
			require.NoError(t, os.MkdirAll(filepath.Dir(script), 0o755))
			require.NoError(t, os.WriteFile(script, []byte("echo built: ${*:2} >&2\nexit 1\n"), 0o755))
			test.options.BinDir, test.options.Progress = filepath.Join(checkout, "bin"), func(string) {}
			require.ErrorContains(t, findBinaries(t.Context(), test.options), ": built: "+test.built)
		})
	}
}

func TestDefaultBinDir(t *testing.T) {
	t.Run("is what the variable says", func(t *testing.T) {
		t.Setenv(BinDirVariable, "/somewhere")
		dir, err := DefaultBinDir()
		require.NoError(t, err)
		assert.Equal(t, "/somewhere", dir)
	})
	t.Run("is bin of the checkout around", func(t *testing.T) {
		t.Setenv(BinDirVariable, "")
		root, err := filepath.Abs(filepath.Join("..", ".."))
		require.NoError(t, err)
		dir, err := DefaultBinDir()
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(root, "bin"), dir)
	})
	t.Run("is told to be unknown elsewhere", func(t *testing.T) {
		t.Setenv(BinDirVariable, "")
		t.Chdir(t.TempDir())
		_, err := DefaultBinDir()
		require.ErrorContains(t, err, "--bin-dir or MUSTER_BIN_DIR")
	})
}
