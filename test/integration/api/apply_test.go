package api_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/localcluster"
)

// kubectl runs the kubectl that fits the cluster and returns what it printed.
func kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, cluster.Kubectl(), append([]string{"--kubeconfig", cluster.Kubeconfig()}, args...)...).CombinedOutput()
	return string(out), err
}

// unpack writes a folder of the manifests to the disk and returns where.
func unpack(t *testing.T, folder string) string {
	t.Helper()
	dir := t.TempDir()
	part, err := fs.Sub(manifests.FS, folder)
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(dir, part))
	return dir
}

// Plain "kubectl apply" keeps what was applied in an annotation of limited size, which large CRDs do not fit into.
func TestCRDsFitIntoKubectlApply(t *testing.T) {
	dir := unpack(t, "crds")
	for range 2 {
		out, err := kubectl(t, "apply", "-f", dir)
		require.NoError(t, err, out)
	}
	out, err := kubectl(t, "wait", "--for=condition=Established", "--timeout=30s", "-f", dir)
	require.NoError(t, err, out)
	out, err = kubectl(t, "wait", "--for=condition=NonStructuralSchema", "--timeout=1s", "-f", dir)
	require.Error(t, err, "a schema is not structural: %s", out)
}

// Manifests written for Volcano apply unchanged: the seeds' Jobs, and what its users write.
func TestVolcanoManifestsApply(t *testing.T) {
	files, err := filepath.Glob("testdata/volcano/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			out, err := kubectl(t, "apply", "--dry-run=server", "--validate=strict", "-f", file)
			assert.NoError(t, err, out)
		})
	}
}

func TestExamplesApply(t *testing.T) {
	out, err := kubectl(t, "apply", "--dry-run=server", "--validate=strict", "-f", unpack(t, "examples"))
	assert.NoError(t, err, out)
}

// Short names find our Jobs, not those of batch/v1.
func TestShortNamesWork(t *testing.T) {
	create(t, jobs, merge(t, parse(t, smallJob), "metadata: {name: short-names}"))
	for _, name := range []string{"vcjob", "vj", "jobs.batch.volcano.sh"} {
		out, err := kubectl(t, "get", name, "short-names", "-o", "name")
		require.NoError(t, err, out)
		assert.Equal(t, "job.batch.volcano.sh/short-names\n", out)
	}
	for _, name := range []string{"pg", "q", "queue", "podgroup"} {
		out, err := kubectl(t, "get", name)
		assert.NoError(t, err, out)
	}
}

// The documentation of the fields reaches the users.
func TestExplainTellsWhatFieldsMean(t *testing.T) {
	for field, part := range map[string]string{
		"vcjob.spec.minAvailable":                        "start together or not at all",
		"vcjob.spec.tasks.template.spec.containers.name": "FIELD: name",
		"podgroup.spec.minMember":                        "start together, or not at all",
		"queue.spec.capability":                          "hard limit",
	} {
		out, err := kubectl(t, "explain", field)
		require.NoError(t, err, out)
		assert.Contains(t, out, part)
	}
}

// Manifests that install Muster into a cluster, applied as users do. No pod runs here: there are no nodes.
func TestDeploymentsApply(t *testing.T) {
	for _, folder := range []string{"deploy", "deploy/replace-default", "deploy/coming-from-volcano"} {
		t.Run(folder, func(t *testing.T) {
			out, err := kubectl(t, "apply", "--validate=strict", "-k", "../../../manifests/"+folder)
			require.NoError(t, err, out)
			assert.NotContains(t, out, "Warning: unknown field")
		})
	}
	out, err := kubectl(t, "get", "deployments", "-n", "muster-system", "-o", "name")
	require.NoError(t, err, out)
	assert.Equal(t, "deployment.apps/muster-controller\ndeployment.apps/muster-scheduler\n", out)

	out, err = kubectl(t, "apply", "--dry-run=server", "--validate=strict", "-k", "../../../manifests/deploy/replace-default/static-pod")
	require.NoError(t, err, out)
}

// The programs know the flags that the manifests give them.
func TestDeploymentsUseFlagsThatExist(t *testing.T) {
	for _, folder := range []string{"deploy", "deploy/replace-default", "deploy/coming-from-volcano"} {
		out, err := kubectl(t, "kustomize", "../../../manifests/"+folder)
		require.NoError(t, err, out)
		for _, document := range strings.Split(out, "\n---\n") {
			deployment := &appsv1.Deployment{}
			require.NoError(t, yaml.Unmarshal([]byte(document), deployment))
			if deployment.Kind != "Deployment" {
				continue
			}
			container := deployment.Spec.Template.Spec.Containers[0]
			require.Len(t, container.Command, 1)
			program := filepath.Join(binDir(t), filepath.Base(container.Command[0]))
			shown, err := exec.CommandContext(t.Context(), program, append(container.Args, "--help")...).CombinedOutput()
			require.NoError(t, err, "%s %v: %s", program, container.Args, shown)
		}
	}
}

func binDir(t *testing.T) string {
	t.Helper()
	dir, err := localcluster.DefaultBinDir()
	require.NoError(t, err)
	return dir
}

// The reference page has every flag of muster-controller's own, and no other.
func TestFlagsAreDocumented(t *testing.T) {
	help, err := exec.CommandContext(t.Context(), filepath.Join(binDir(t), "muster-controller"), "--help").CombinedOutput()
	require.NoError(t, err)
	own, _, found := strings.Cut(string(help), "Leader election flags:")
	require.True(t, found)
	page, err := os.ReadFile("../../../docs/reference/flags.md")
	require.NoError(t, err)

	var inHelp, inPage []string
	for _, match := range regexp.MustCompile(`(?m)^ +(--[a-z-]+)`).FindAllStringSubmatch(own, -1) {
		inHelp = append(inHelp, match[1])
	}
	for _, match := range regexp.MustCompile("(?m)^\\| `(--[a-z-]+)`").FindAllStringSubmatch(string(page), -1) {
		inPage = append(inPage, match[1])
	}
	require.NotEmpty(t, inHelp)
	assert.ElementsMatch(t, inHelp, inPage)
}

// Users who come from Volcano get its behaviour where Muster's default is another.
func TestOverlayForUsersOfVolcano(t *testing.T) {
	out, err := kubectl(t, "kustomize", "../../../manifests/deploy/coming-from-volcano")
	require.NoError(t, err, out)
	assert.Contains(t, out, "- --depends-on-condition=Ready\n")
	out, err = kubectl(t, "kustomize", "../../../manifests/deploy")
	require.NoError(t, err, out)
	assert.NotContains(t, out, "--depends-on-condition", "the default is ours")
}

// kinds renders a kustomization and counts the API version and kind of its objects.
func kinds(t *testing.T, folder string) map[string]int {
	t.Helper()
	out, err := kubectl(t, "kustomize", folder)
	require.NoError(t, err, out)
	count := map[string]int{}
	for _, document := range strings.Split(out, "\n---\n") {
		object := &metav1.TypeMeta{}
		require.NoError(t, yaml.Unmarshal([]byte(document), object))
		count[object.APIVersion+" "+object.Kind]++
	}
	return count
}

// kustomization writes a kustomization that is to stand beside the folder manifests.
func kustomization(t *testing.T, text string) string {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	source, err := filepath.Abs("../../../manifests")
	require.NoError(t, err)
	base, err := filepath.Rel(folder, source)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(strings.ReplaceAll(text, "../manifests", base)), 0o600))
	return folder
}

// For older clusters the policies that write defaults are left out or of another version, and nothing else differs.
func TestOverlaysForOlderClusters(t *testing.T) {
	const version, older = "admissionregistration.k8s.io/v1 ", "admissionregistration.k8s.io/v1beta1 "
	policies := []string{"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
	without, beta := kinds(t, "../../../manifests/deploy"), kinds(t, "../../../manifests/deploy")
	for _, kind := range policies {
		require.Equal(t, 3, without[version+kind])
		beta[older+kind] = beta[version+kind]
		delete(without, version+kind)
		delete(beta, version+kind)
	}
	assert.Equal(t, without, kinds(t, "../../../manifests/deploy/kubernetes-1.35"))
	assert.Equal(t, beta, kinds(t, kustomization(t, "resources: [../manifests/deploy]\ncomponents: [../manifests/deploy/beta-defaults]\n")))
}

// TestTheReadersOfQueuesCanBeLeftOut (issue 44, 1): the component leaves out the binding, and nothing else.
func TestTheReadersOfQueuesCanBeLeftOut(t *testing.T) {
	want := kinds(t, "../../../manifests/deploy")
	want["rbac.authorization.k8s.io/v1 ClusterRoleBinding"]--
	got := kinds(t, kustomization(t, "resources: [../manifests/deploy]\ncomponents: [../manifests/deploy/no-queue-readers]\n"))
	assert.Equal(t, want, got)
}

// The kustomization that the page of defaults shows does what it says.
func TestTheSchedulerNameIsChangedAsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/defaults.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "```yaml\nresources: ")
	require.True(t, found)
	shown, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	out, err := kubectl(t, "kustomize", kustomization(t, "resources: "+shown))
	require.NoError(t, err, out)
	assert.Contains(t, out, "\ndata:\n  default: volcano\n  served: muster,volcano\nkind: ConfigMap\n")
	assert.Contains(t, out, "- --scheduler-name=$(DEFAULT_SCHEDULER_NAME)\n")
	assert.Contains(t, out, "configMapKeyRef:\n              key: default\n              name: muster-scheduler-names\n")
}
