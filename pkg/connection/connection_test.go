package connection_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-sched/muster/pkg/connection"
)

func TestOwnConnections(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[]}`))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	client := func(config *rest.Config) func() {
		clients, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		return func() {
			_, err := clients.CoreV1().Pods("ns").List(context.Background(), metav1.ListOptions{})
			require.NoError(t, err)
		}
	}
	one, another := client(config), client(rest.AddUserAgent(config, "another"))
	own := client(connection.Own(config))

	one()
	another()
	require.EqualValues(t, 1, connections.Load(), "by default clients share a connection")
	own()
	own()
	require.EqualValues(t, 2, connections.Load())
	require.Nil(t, config.Dial, "the configuration that is given stays as it is")
}
