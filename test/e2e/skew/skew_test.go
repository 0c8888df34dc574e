// Package skew runs Muster on a cluster that is older than its scheduler. `make test-skew` runs it on the older releases of Kubernetes, beside
// the cluster's own scheduler. Otherwise the API server of this release works as one of 1.35 does.
package skew

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
	"github.com/muster-sched/muster/test/installation"
)

// job is a Job without what has defaults.
const job = `{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "job", "namespace": "default"}, "spec": {"tasks": [
{"replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}}]}}`

func TestMain(m *testing.M) {
	options := localcluster.Options{}
	if os.Getenv(localcluster.VersionVariable) == "" {
		emulate := []string{"--emulated-version=1.35"}
		options.ExtraArgs = map[string][]string{localcluster.KubeAPIServer: emulate, localcluster.KubeControllerManager: emulate}
	}
	harness.Main(m, options)
}

// TestAnOlderCluster: the scheduler watches nothing that the API server does not serve, or it would never schedule.
func TestAnOlderCluster(t *testing.T) {
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	s.CreatePod(mustertesting.MakePod("ordinary").SchedulerName("default-scheduler").Requests("cpu", "1"))
	s.Pods(1, "an ordinary pod runs", s.In(harness.Running))
	job := s.CreateJob(mustertesting.MakeJob("gang").Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "2")))
	s.Pods(2, "both members wait: the ordinary pod has a part of the room", s.In(harness.Of(job.Name), harness.Unbound))
	s.AddNodes(1, "cpu", "4")
	s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running)
	s.WholeGangs(s.Namespace, 2*time.Second)

	log := func(program string) string {
		text, err := os.ReadFile(s.LogPath(program))
		require.NoError(t, err)
		assert.NotContains(t, string(text), "could not find the requested resource", "%s asks for what is not served", program)
		return string(text)
	}
	assert.Contains(t, log(localcluster.MusterScheduler), "The API server is older than this scheduler")
	served, err := s.Kube.Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	require.NoError(t, err)
	writesDefaults := false
	for _, resource := range served.APIResources {
		writesDefaults = writesDefaults || resource.Name == "mutatingadmissionpolicies"
	}
	told := assert.Contains
	if writesDefaults {
		told = assert.NotContains
	}
	told(t, log(localcluster.MusterController), "The API server writes no defaults into objects")
}

// TestTheBetaWritesDefaults installs the component that docs/install.md has for API servers of 1.35 with the policies' beta. Later releases
// serve the beta too. They do not when they work as 1.35.
func TestTheBetaWritesDefaults(t *testing.T) {
	cluster, err := localcluster.Up(t.Context(), localcluster.Options{
		Dir: filepath.Join(t.TempDir(), "cluster"), ControlPlaneOnly: true,
		ExtraArgs: map[string][]string{localcluster.KubeAPIServer: {
			"--feature-gates=MutatingAdmissionPolicy=true", "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
		}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, cluster.Down(context.Background())) })
	k := installation.Kubectl{T: t, Cluster: cluster, Root: "../../.."}
	k.Run("delete", "mutatingadmissionpolicybindings,mutatingadmissionpolicies", "--all") // those of the local cluster
	task := func() string {
		out, err := k.Try(t.Context(), job, "create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.spec.tasks[0].name}")
		require.NoError(t, err, out)
		return out
	}
	require.Eventually(t, func() bool { return task() == "" }, mustertesting.Timeout, mustertesting.Timeout/100)
	k.Run("apply", "-k", installation.WithComponent(t, k.Root+"/manifests/deploy", "beta-defaults"))
	require.Eventually(t, func() bool { return task() == "default0" }, mustertesting.Timeout, mustertesting.Timeout/100)
}
