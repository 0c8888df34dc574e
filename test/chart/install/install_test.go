// Package install_test installs the Helm chart on a real control plane with Helm's own library. It upgrades the release, takes that back and
// removes it.
package install_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/integration/harness"
)

const (
	folder    = "../../../manifests/charts/muster"
	release   = "muster"
	namespace = "muster-system"
	// job is a Job of a user.
	job = `{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "kept", "namespace": "default"}, "spec": {"tasks": [
{"name": "t", "replicas": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}]}}`
	// longest is how long a step may take.
	longest = 3 * time.Minute
)

var cluster *localcluster.Cluster

// The controller manager makes the pods of the Deployments, and nothing runs them.
func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{ControlPlaneOnly: true}, func(_ context.Context, env *harness.Env) (func() error, error) {
		cluster = env.Cluster
		return nil, nil
	})
}

// configuration is that of an action, as the command helm makes it.
func configuration(t *testing.T) *action.Configuration {
	t.Helper()
	settings := cli.New()
	settings.KubeConfig = cluster.Kubeconfig()
	settings.SetNamespace(namespace)
	found := action.NewConfiguration()
	require.NoError(t, found.Init(settings.RESTClientGetter(), namespace, "secret"))
	return found
}

func chart(t *testing.T) *chartv2.Chart {
	t.Helper()
	found, err := loader.Load(folder)
	require.NoError(t, err)
	return found
}

func install(t *testing.T, values map[string]any) {
	t.Helper()
	do := action.NewInstall(configuration(t))
	do.ReleaseName, do.Namespace, do.CreateNamespace = release, namespace, true
	do.WaitStrategy, do.Timeout = kube.HookOnlyStrategy, longest
	_, err := do.RunWithContext(t.Context(), chart(t), values)
	require.NoError(t, err)
}

func upgrade(t *testing.T, values map[string]any) {
	t.Helper()
	do := action.NewUpgrade(configuration(t))
	do.Namespace, do.WaitStrategy, do.Timeout = namespace, kube.HookOnlyStrategy, longest
	_, err := do.RunWithContext(t.Context(), release, chart(t), values)
	require.NoError(t, err)
}

func rollBack(t *testing.T) {
	t.Helper()
	do := action.NewRollback(configuration(t))
	do.WaitStrategy, do.Timeout = kube.HookOnlyStrategy, longest
	require.NoError(t, do.Run(release))
}

// uninstall removes the release and waits until its objects are gone.
func uninstall(t *testing.T) {
	t.Helper()
	do := action.NewUninstall(configuration(t))
	do.WaitStrategy, do.Timeout = kube.LegacyStrategy, longest
	_, err := do.Run(release)
	require.NoError(t, err)
}

// tryKubectl runs kubectl and returns what it printed.
func tryKubectl(ctx context.Context, input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
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

// requirePods waits until each Deployment has pods, and all of them have an image.
func requirePods(t *testing.T, image string) {
	t.Helper()
	for _, program := range []string{"controller", "scheduler"} {
		var out string
		err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, longest, true, func(ctx context.Context) (bool, error) {
			var err error
			out, err = tryKubectl(ctx, "", "get", "pods", "-n", namespace, "-l", "app.kubernetes.io/component="+program,
				"-o", "jsonpath={.items[*].spec.containers[0].image}")
			return err == nil && strings.Contains(" "+out+" ", " "+image+" "), nil
		})
		require.NoError(t, err, "no pod of %s has the image %s: %s", program, image, out)
	}
}

// createJob creates the Job once the API server serves the new kind.
func createJob(t *testing.T) {
	t.Helper()
	var out string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, longest, true, func(ctx context.Context) (bool, error) {
		var err error
		out, err = tryKubectl(ctx, job, "create", "-f", "-")
		return err == nil, nil
	})
	require.NoError(t, err, out)
}

// left returns the names of all objects that are of Muster or of its API, and of Helm.
func left(t *testing.T) []string {
	t.Helper()
	kinds := strings.Fields(kubectl(t, "api-resources", "--verbs=list", "-o", "name"))
	require.NotEmpty(t, kinds)
	var found []string
	for _, name := range strings.Fields(kubectl(t, "get", strings.Join(kinds, ","), "-A", "--ignore-not-found", "-o", "name")) {
		for _, part := range []string{"muster", "volcano.sh", "primehub", "helm", "webhookconfiguration"} {
			if strings.Contains(name, part) {
				found = append(found, name)
				break
			}
		}
	}
	return found
}

func image(tag string) map[string]any { return map[string]any{"image": map[string]any{"tag": tag}} }

// An upgrade and its rollback keep Jobs. A removal as docs/install.md describes it leaves nothing.
func TestInstallUpgradeRollBackAndRemove(t *testing.T) {
	// The local cluster has objects of Muster, and the policy of simulated pods, which belongs to no installation.
	kubectl(t, "delete", "-f", "../../../manifests/simulation")
	kubectl(t, "delete", "-k", "../../../manifests/deploy", "--ignore-not-found", "--timeout=2m")
	require.Empty(t, left(t))
	install(t, nil)
	kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	requirePods(t, "muster:dev")
	createJob(t)
	uid := kubectl(t, "get", "vcjob", "kept", "-o", "jsonpath={.metadata.uid}")

	upgrade(t, image("next"))
	requirePods(t, "muster:next")
	rollBack(t)
	requirePods(t, "muster:dev")
	require.Equal(t, uid, kubectl(t, "get", "vcjob", "kept", "-o", "jsonpath={.metadata.uid}"))

	// Jobs outlive the release, and the next one takes over the CRDs.
	uninstall(t)
	require.Equal(t, uid, kubectl(t, "get", "vcjob", "kept", "-o", "jsonpath={.metadata.uid}"))
	install(t, nil)
	require.Equal(t, uid, kubectl(t, "get", "vcjob", "kept", "-o", "jsonpath={.metadata.uid}"))

	kubectl(t, "delete", "vcjob,podgroups", "--all", "-A")
	uninstall(t)
	kubectl(t, "delete", "-k", "../../../manifests/crds", "--timeout=2m")
	kubectl(t, "delete", "namespace", namespace, "--timeout=2m")
	assert.Empty(t, left(t))
}
