package program

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	serverversion "k8s.io/apimachinery/pkg/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"
)

// newOptions returns options that lead to an API server. At the end of the test the program has its own version again.
func newOptions(t *testing.T, handler http.HandlerFunc) *options.Options {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	cluster := &api.Config{
		Clusters: map[string]*api.Cluster{"c": {Server: server.URL}}, Contexts: map[string]*api.Context{"c": {Cluster: "c"}}, CurrentContext: "c",
	}
	require.NoError(t, clientcmd.WriteToFile(*cluster, kubeconfig))
	opts := options.NewOptions()
	opts.ConfigFile = filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(opts.ConfigFile, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection:\n  kubeconfig: "+
		kubeconfig+"\nleaderElection:\n  leaderElect: false\n"), 0o600))
	t.Cleanup(func() {
		restored := options.NewOptions()
		require.NoError(t, restored.Flags.FlagSet("feature gate").Set(emulatedVersionFlag, version.DefaultKubeBinaryVersion))
		require.NoError(t, restored.ComponentGlobalsRegistry.Set())
	})
	return opts
}

// answer answers each question with a version.
func answer(t *testing.T, info serverversion.Info) http.HandlerFunc {
	text, err := json.Marshal(info)
	require.NoError(t, err)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(text)
	}
}

func emulated(opts *options.Options) string {
	return opts.ComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent).EmulationVersion().String()
}

// TestAnOlderServerIsEmulated: 1.36 and 1.35 do not serve DeviceTaintRules in v1, which the scheduler of 1.37 watches.
func TestAnOlderServerIsEmulated(t *testing.T) {
	tests := map[string]struct {
		info  serverversion.Info
		want  string
		rules bool // whether DeviceTaintRules are watched
	}{
		"1.35":                             {serverversion.Info{Major: "1", Minor: "35", GitVersion: "v1.35.4"}, "1.35", false},
		"1.36 of a vendor":                 {serverversion.Info{Major: "1", Minor: "36+", GitVersion: "v1.36.3-eks-7f3e1a2"}, "1.36", false},
		"1.36 of another vendor":           {serverversion.Info{Major: "1", Minor: "36", GitVersion: "v1.36.3+k3s1"}, "1.36", false},
		"1.37 that works as 1.36":          {serverversion.Info{GitVersion: "v1.37.2", EmulationMajor: "1", EmulationMinor: "36"}, "1.36", false},
		"1.37":                             {serverversion.Info{GitVersion: "v1.37.9", EmulationMajor: "1", EmulationMinor: "37"}, "1.37", true},
		"1.38, for which nothing is to do": {serverversion.Info{GitVersion: "v1.38.0"}, "1.37", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			opts := newOptions(t, answer(t, test.info))
			require.NoError(t, emulateOlderServer(t.Context(), opts))
			assert.Equal(t, test.want, emulated(opts))
			assert.Equal(t, test.rules, utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules))
		})
	}
}

func TestANamedVersionIsKept(t *testing.T) {
	opts := newOptions(t, answer(t, serverversion.Info{GitVersion: "v1.35.4"}))
	require.NoError(t, opts.Flags.FlagSet("feature gate").Set(emulatedVersionFlag, "1.36"))
	require.NoError(t, opts.ComponentGlobalsRegistry.Set())
	require.NoError(t, emulateOlderServer(t.Context(), opts))
	assert.Equal(t, "1.36", emulated(opts))
}

func TestAServerThatIsTooOldIsRefused(t *testing.T) {
	opts := newOptions(t, answer(t, serverversion.Info{GitVersion: "v1.30.14"}))
	require.ErrorContains(t, emulateOlderServer(t.Context(), opts), "working as the API server's release 1.30: emulation version 1.30 is not between [1.34, 1.37")
}

func TestTheVersionIsAskedForUntilTheServerAnswers(t *testing.T) {
	var asked atomic.Int32
	later := answer(t, serverversion.Info{GitVersion: "v1.36.3"})
	opts := newOptions(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		later(w, r)
	})
	require.NoError(t, emulateOlderServer(t.Context(), opts))
	assert.Equal(t, "1.36", emulated(opts))
}
