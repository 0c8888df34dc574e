package program

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// TestTheInformerOfPodsHasASwitch: a benchmark compares the program with and without ours.
func TestTheInformerOfPodsHasASwitch(t *testing.T) {
	for name, keep := range map[string]bool{"ours": false, "upstream's": true} {
		t.Run(name, func(t *testing.T) {
			opts := newOptions(t, http.NotFound)
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
