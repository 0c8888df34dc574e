// Package install_test installs Muster as docs/install.md says, upgrades it and removes it, and looks at what is left. Nothing runs the pods
// here; test/real/install does.
package install_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/installation"
	"github.com/muster-sched/muster/test/integration/harness"
)

const (
	// images prints the image of each pod on a line.
	images = `jsonpath={range .items[*]}{.spec.containers[0].image}{"\n"}{end}`
	// job is a Job of a user.
	job = `{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "kept", "namespace": "default"}, "spec": {"tasks": [
{"name": "t", "replicas": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}]}}`
)

var cluster *localcluster.Cluster

// The controller manager makes the pods of the Deployments, and nothing runs them.
func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{ControlPlaneOnly: true}, func(_ context.Context, env *harness.Env) (func() error, error) {
		cluster = env.Cluster
		return nil, nil
	})
}

// requirePods waits until each Deployment has a pod of an image. Pod Security has let it in.
func requirePods(k installation.Kubectl, image string) {
	k.T.Helper()
	for _, component := range installation.Components {
		var out string
		err := wait.PollUntilContextTimeout(k.T.Context(), 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
			var err error
			out, err = k.Try(ctx, "", "get", "pods", "-n", "muster-system", "-l", "app.kubernetes.io/component="+component, "-o", images)
			return err == nil && strings.Contains(out, image+"\n"), nil
		})
		require.NoError(k.T, err, "no pod of %s has the image %s: %s", component, image, out)
	}
}

func TestInstallUpgradeAndRemove(t *testing.T) {
	k := installation.Kubectl{T: t, Cluster: cluster, Root: "../../.."}
	deploy := installation.Kustomization(cluster, k.Root)

	// Install. The pods are as restricted as their namespace demands.
	require.NoError(t, k.Follow(t.Context(), "Beside the default scheduler", deploy))
	requirePods(k, "muster:dev")
	out, err := k.Try(t.Context(), "", "run", "free", "--image=busybox", "-n", "muster-system", "--dry-run=server")
	require.Error(t, err, "the namespace takes a pod that is not restricted: %s", out)
	require.Contains(t, out, "violates PodSecurity")

	// Upgrade, and go back. Jobs stay.
	out, err = k.Try(t.Context(), job, "create", "-f", "-")
	require.NoError(t, err, out)
	uid := k.Run("get", "vcjob", "kept", "-o", "jsonpath={.metadata.uid}")
	require.NoError(t, k.Follow(t.Context(), "Upgrade", installation.Overlay(t, deploy, "next")))
	requirePods(k, "muster:next")
	require.NoError(t, k.Follow(t.Context(), "Upgrade", deploy))
	requirePods(k, "muster:dev")
	require.Equal(t, uid, k.Run("get", "vcjob", "kept", "-o", "jsonpath={.metadata.uid}"))

	// Remove.
	require.NotEmpty(t, k.Left())
	k.Remove(deploy)
	assert.Empty(t, k.Left())
}
