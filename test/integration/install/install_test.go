// Package install_test installs Muster as docs/install.md says, upgrades it and removes it, and looks at what is left.
package install_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/integration/harness"
)

const (
	deploy = "../../../manifests/deploy"
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

// tryKubectl runs kubectl and returns what it printed.
func tryKubectl(ctx context.Context, input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, cluster.Kubectl(), append([]string{"--kubeconfig", cluster.Kubeconfig()}, args...)...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryKubectl(t.Context(), "", args...)
	require.NoError(t, err, out)
	return out
}

// apply installs a kustomization as users do, and refuses warnings, such as the ones of Pod Security.
func apply(t *testing.T, folder string) {
	t.Helper()
	assert.NotContains(t, kubectl(t, "apply", "--validate=strict", "-k", folder), "violate")
}

// requirePods waits until each Deployment has a pod of an image. Pod Security has let it in.
func requirePods(t *testing.T, image string) {
	t.Helper()
	for _, component := range []string{"controller", "scheduler"} {
		var out string
		err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
			var err error
			out, err = tryKubectl(ctx, "", "get", "pods", "-n", "muster-system", "-l", "app.kubernetes.io/component="+component, "-o", images)
			return err == nil && strings.Contains(out, image+"\n"), nil
		})
		require.NoError(t, err, "no pod of %s has the image %s: %s", component, image, out)
	}
}

// overlay returns a kustomization that installs Muster with another image.
func overlay(t *testing.T, tag string) string {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	source, err := filepath.Abs(deploy)
	require.NoError(t, err)
	base, err := filepath.Rel(folder, source)
	require.NoError(t, err)
	text := fmt.Sprintf("resources: [%s]\nimages: [{name: muster, newName: muster, newTag: %s}]\n", base, tag)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600))
	return folder
}

func TestInstallUpgradeAndRemove(t *testing.T) {
	// The policy of simulated pods belongs to the local cluster, not to an installation.
	kubectl(t, "delete", "-f", "../../../manifests/simulation")

	// Install. The pods are as restricted as their namespace demands.
	apply(t, deploy)
	requirePods(t, "muster:dev")
	out, err := tryKubectl(t.Context(), "", "run", "free", "--image=busybox", "-n", "muster-system", "--dry-run=server")
	require.Error(t, err, "the namespace takes a pod that is not restricted: %s", out)
	require.Contains(t, out, "violates PodSecurity")

	// Upgrade, and go back. Jobs stay.
	out, err = tryKubectl(t.Context(), job, "create", "-f", "-")
	require.NoError(t, err, out)
	uid := kubectl(t, "get", "vcjob", "kept", "-o", "jsonpath={.metadata.uid}")
	apply(t, overlay(t, "next"))
	requirePods(t, "muster:next")
	apply(t, deploy)
	requirePods(t, "muster:dev")
	require.Equal(t, uid, kubectl(t, "get", "vcjob", "kept", "-o", "jsonpath={.metadata.uid}"))

	// Remove.
	kubectl(t, "delete", "vcjob,podgroups", "--all", "-A")
	kubectl(t, "delete", "-k", deploy, "--ignore-not-found", "--timeout=2m")
	assert.Empty(t, kubectl(t, "get", "-k", deploy, "--ignore-not-found", "-o", "name"))
	assert.Empty(t, left(t))
}

// left returns the objects in the cluster that are of Muster or of its API, by their name. It returns all webhooks, too.
func left(t *testing.T) []string {
	t.Helper()
	kinds := strings.Fields(kubectl(t, "api-resources", "--verbs=list", "-o", "name"))
	require.NotEmpty(t, kinds)
	var found []string
	for _, name := range strings.Fields(kubectl(t, "get", strings.Join(kinds, ","), "-A", "--ignore-not-found", "-o", "name")) {
		for _, part := range []string{"muster", "volcano.sh", "primehub", "webhookconfiguration"} {
			if strings.Contains(name, part) {
				found = append(found, name)
				break
			}
		}
	}
	return found
}
