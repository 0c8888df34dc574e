// Package install_test installs the Helm chart on a real control plane with Helm's own library. It upgrades the release, takes that back and
// removes it.
package install_test

import (
	"context"
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
	"github.com/muster-sched/muster/test/installation"
	"github.com/muster-sched/muster/test/integration/harness"
)

const (
	folder    = "../../../manifests/charts/muster"
	release   = "muster"
	namespace = "muster-system"
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
	do.WaitStrategy, do.Timeout = kube.HookOnlyStrategy, installation.Timeout
	_, err := do.RunWithContext(t.Context(), chart(t), values)
	require.NoError(t, err)
}

func upgrade(t *testing.T, values map[string]any) {
	t.Helper()
	do := action.NewUpgrade(configuration(t))
	do.Namespace, do.WaitStrategy, do.Timeout = namespace, kube.HookOnlyStrategy, installation.Timeout
	_, err := do.RunWithContext(t.Context(), release, chart(t), values)
	require.NoError(t, err)
}

func rollBack(t *testing.T) {
	t.Helper()
	do := action.NewRollback(configuration(t))
	do.WaitStrategy, do.Timeout = kube.HookOnlyStrategy, installation.Timeout
	require.NoError(t, do.Run(release))
}

// uninstall removes the release and waits until its objects are gone.
func uninstall(t *testing.T) {
	t.Helper()
	do := action.NewUninstall(configuration(t))
	do.WaitStrategy, do.Timeout = kube.LegacyStrategy, installation.Timeout
	_, err := do.Run(release)
	require.NoError(t, err)
}

// createJob creates the Job once the API server serves the new kind.
func createJob(k installation.Kubectl) {
	k.T.Helper()
	var out string
	err := wait.PollUntilContextTimeout(k.T.Context(), 200*time.Millisecond, installation.Timeout, true, func(ctx context.Context) (bool, error) {
		var err error
		out, err = k.Try(ctx, installation.Job, "create", "-f", "-")
		return err == nil, nil
	})
	require.NoError(k.T, err, out)
}

func image(tag string) map[string]any { return map[string]any{"image": map[string]any{"tag": tag}} }

// An upgrade and its rollback keep Jobs. A removal as docs/install.md describes it leaves nothing.
func TestInstallUpgradeRollBackAndRemove(t *testing.T) {
	k := installation.Kubectl{T: t, Cluster: cluster, Root: "../../.."}
	uid := func() string { return k.Run("get", "vcjob", "kept", "-o", "jsonpath={.metadata.uid}") }
	k.Remove(installation.Kustomization(cluster, k.Root)) // the local cluster has objects of Muster
	require.Empty(t, k.Left())
	install(t, nil)
	k.Run("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	k.AwaitPods("muster:dev")
	createJob(k)
	created := uid()

	upgrade(t, image("next"))
	k.AwaitPods("muster:next")
	rollBack(t)
	k.AwaitPods("muster:dev")
	require.Equal(t, created, uid())

	// Jobs outlive the release, and the next one takes over the CRDs.
	uninstall(t)
	require.Equal(t, created, uid())
	install(t, nil)
	require.Equal(t, created, uid())

	require.NotEmpty(t, k.Left())
	k.Run("delete", "vcjob,podgroups", "--all", "-A")
	uninstall(t)
	k.Run("delete", "-k", k.Root+"/manifests/crds")
	k.Run("delete", "namespace", namespace)
	assert.Empty(t, k.Left())
}
