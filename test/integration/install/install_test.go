// Package install_test installs Muster as docs/install.md says, upgrades it and removes it, and looks at what is left. Nothing runs the pods
// here; test/real/install does.
package install_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/installation"
	"github.com/muster-sched/muster/test/integration/harness"
)

var cluster *localcluster.Cluster

// The controller manager makes the pods of the Deployments, and nothing runs them.
func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{ControlPlaneOnly: true}, func(_ context.Context, env *harness.Env) (func() error, error) {
		cluster = env.Cluster
		return nil, nil
	})
}

func TestInstallUpgradeAndRemove(t *testing.T) {
	k := installation.Kubectl{T: t, Cluster: cluster, Root: "../../.."}
	deploy := installation.Kustomization(cluster, k.Root)

	// Install. The pods are as restricted as their namespace demands.
	require.NoError(t, k.Follow(t.Context(), "Beside the default scheduler", deploy))
	k.AwaitPods("muster:dev")
	out, err := k.Try(t.Context(), "", "run", "free", "--image=busybox", "-n", "muster-system", "--dry-run=server")
	require.Error(t, err, "the namespace takes a pod that is not restricted: %s", out)
	require.Contains(t, out, "violates PodSecurity")

	// Upgrade, and go back. Jobs stay.
	out, err = k.Try(t.Context(), installation.Job, "create", "-f", "-")
	require.NoError(t, err, out)
	uid := k.Run("get", "vcjob", "kept", "-o", "jsonpath={.metadata.uid}")
	require.NoError(t, k.Follow(t.Context(), "Upgrade", installation.Overlay(t, deploy, "next")))
	k.AwaitPods("muster:next")
	require.NoError(t, k.Follow(t.Context(), "Upgrade", deploy))
	k.AwaitPods("muster:dev")
	require.Equal(t, uid, k.Run("get", "vcjob", "kept", "-o", "jsonpath={.metadata.uid}"))

	// Remove.
	require.NotEmpty(t, k.Left())
	k.Remove(deploy)
	assert.Empty(t, k.Left())
}
