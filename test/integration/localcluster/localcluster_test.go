// Package localcluster_test starts real clusters and looks at them from outside.
package localcluster_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// up starts a cluster that ends with the test.
func up(t *testing.T, options localcluster.Options) *localcluster.Cluster {
	t.Helper()
	if options.Dir == "" {
		options.Dir = filepath.Join(t.TempDir(), "cluster")
	}
	options.Progress = func(message string) { t.Log(message) }
	cluster, err := localcluster.Up(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, cluster.Down(ctx))
	})
	return cluster
}

func clientOf(t *testing.T, cluster *localcluster.Cluster) kubernetes.Interface {
	t.Helper()
	config, err := cluster.RESTConfig()
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}
