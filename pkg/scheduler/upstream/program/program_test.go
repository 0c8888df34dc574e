package program

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// TestTheInformerOfPodsHasASwitch: a benchmark compares the program with and without ours.
func TestTheInformerOfPodsHasASwitch(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	cluster := &api.Config{
		Clusters: map[string]*api.Cluster{"c": {Server: server.URL}}, Contexts: map[string]*api.Context{"c": {Cluster: "c"}}, CurrentContext: "c",
	}
	require.NoError(t, clientcmd.WriteToFile(*cluster, kubeconfig))
	settings := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(settings, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection:\n  kubeconfig: "+
		kubeconfig+"\nleaderElection:\n  leaderElect: false\n"), 0o600))
	for name, keep := range map[string]bool{"ours": false, "upstream's": true} {
		t.Run(name, func(t *testing.T) {
			opts := options.NewOptions()
			opts.ConfigFile = settings
			opts.Authentication.RemoteKubeConfigFileOptional, opts.Authorization.RemoteKubeConfigFileOptional = true, true
			opts.SecureServing.BindPort = 0
			config, sched, err := setUp(t.Context(), opts, Program{KeepInformer: keep})
			require.NoError(t, err)
			assert.NotNil(t, sched.Profiles["default-scheduler"])
			informer := fmt.Sprintf("%T", config.InformerFactory.InformerFor(&corev1.Pod{}, nil))
			assert.Equal(t, !keep, informer == "upstream.podInformer", informer)
		})
	}
}
