// Package installation installs and removes Muster with kubectl in a local cluster, for tests. The steps are those of docs/install.md.
package installation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// Timeout is how long one command of kubectl may take, with the roll-outs and deletions that it waits for. The deletion of a CRD can take
// five minutes: see docs/install.md.
const Timeout = 7 * time.Minute

// Components are the values of the label app.kubernetes.io/component of Muster's pods. The Deployments and Leases are called muster- and this.
var Components = []string{"controller", "scheduler"}

// Job is a Job of a user, called "kept".
const Job = `{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "kept", "namespace": "default"}, "spec": {"tasks": [
{"name": "t", "replicas": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}]}}`

// Kubectl runs kubectl as the administrator of a cluster.
type Kubectl struct {
	T       testing.TB
	Cluster *localcluster.Cluster
	// Root is the root of the repository.
	Root string
}

// Try runs kubectl with an input, and returns what it printed.
func (k Kubectl) Try(ctx context.Context, input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	command := exec.CommandContext(ctx, k.Cluster.Kubectl(), append([]string{"--kubeconfig", k.Cluster.Kubeconfig()}, args...)...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}

// Run runs kubectl, and fails the test if kubectl fails.
func (k Kubectl) Run(args ...string) string {
	k.T.Helper()
	out, err := k.Try(k.T.Context(), "", args...)
	require.NoError(k.T, err, out)
	return out
}

// page has the steps that users follow, and folder is the kustomization in them. Both are relative to the root of the repository.
const (
	page   = "docs/install.md"
	folder = "manifests/deploy"
)

// Steps returns the commands in the first block of a section of docs/install.md, without the word kubectl. They install the kustomizations in
// another folder. The root is that of the repository.
func Steps(root, section, deploy string) ([][]string, error) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, err
	}
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		return nil, fmt.Errorf("%s has no section %q", page, section)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	_, block, _ := strings.Cut(body, "```console\n")
	block, _, _ = strings.Cut(block, "```")
	var steps [][]string
	for _, line := range strings.Split(block, "\n") {
		if command, isStep := strings.CutPrefix(line, "$ kubectl "); isStep {
			steps = append(steps, strings.Fields(strings.Replace(command, folder, deploy, 1)))
		}
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("section %q of %s has no kubectl command", section, page)
	}
	return steps, nil
}

// Follow does the steps of a section of docs/install.md for the kustomizations in a folder. A warning is an error, such as one of Pod
// Security.
func (k Kubectl) Follow(ctx context.Context, section, deploy string) error {
	steps, err := Steps(k.Root, section, deploy)
	if err != nil {
		return err
	}
	for _, step := range steps {
		out, err := k.Try(ctx, "", step...)
		if err == nil && strings.Contains(out, "violate") {
			err = errors.New("a warning of Pod Security")
		}
		if err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", strings.Join(step, " "), err, out)
		}
	}
	return nil
}

// Kustomization is the folder of the kustomization that docs/install.md names for the release of Kubernetes of a cluster.
func Kustomization(cluster *localcluster.Cluster, root string) string {
	deploy := filepath.Join(root, folder)
	if strings.HasPrefix(cluster.Options().KubernetesVersion, "v1.35.") {
		deploy = filepath.Join(deploy, "kubernetes-1.35")
	}
	return deploy
}

// Remove does the steps that remove what a kustomization has installed, and checks that its objects are gone.
func (k Kubectl) Remove(deploy string) {
	k.T.Helper()
	require.NoError(k.T, k.Follow(k.T.Context(), "Remove", deploy))
	assert.Empty(k.T, k.Run("get", "-k", deploy, "--ignore-not-found", "-o", "name"))
}

// AwaitPods waits until each Deployment of Muster has a pod of an image. Such a pod exists only if Pod Security admits it.
func (k Kubectl) AwaitPods(image string) {
	k.T.Helper()
	for _, component := range Components {
		var out string
		err := wait.PollUntilContextTimeout(k.T.Context(), 200*time.Millisecond, Timeout, true, func(ctx context.Context) (bool, error) {
			var err error
			out, err = k.Try(ctx, "", "get", "pods", "-n", "muster-system", "-l", "app.kubernetes.io/component="+component,
				"-o", "jsonpath={.items[*].spec.containers[0].image}")
			return err == nil && slices.Contains(strings.Fields(out), image), nil
		})
		require.NoError(k.T, err, "no pod of %s has the image %s: %s", component, image, out)
	}
}

// Left returns the objects in the cluster that are of Muster, of its API or of Helm, by their name. It returns all webhooks, too. It leaves out the
// policy of simulated pods, which belongs to the local cluster.
func (k Kubectl) Left() []string {
	k.T.Helper()
	kinds := strings.Fields(k.Run("api-resources", "--verbs=list", "-o", "name"))
	require.NotEmpty(k.T, kinds)
	var found []string
	for _, name := range strings.Fields(k.Run("get", strings.Join(kinds, ","), "-A", "--ignore-not-found", "-o", "name")) {
		if strings.Contains(name, "muster-simulated-pods") {
			continue
		}
		for _, part := range []string{"muster", "volcano.sh", "primehub", "helm", "webhookconfiguration"} {
			if strings.Contains(name, part) {
				found = append(found, name)
				break
			}
		}
	}
	return found
}

// Overlay returns a kustomization that installs the one in a folder with another tag of the image.
func Overlay(t testing.TB, folder, tag string) string {
	t.Helper()
	return kustomization(t, folder, func(base string) string {
		return fmt.Sprintf("resources: [%s]\nimages: [{name: muster, newName: muster, newTag: %s}]\n", base, tag)
	})
}

// WithComponent returns a kustomization that installs the one in a folder with a component in it.
func WithComponent(t testing.TB, folder, component string) string {
	t.Helper()
	return kustomization(t, folder, func(base string) string {
		return fmt.Sprintf("resources: [%s]\ncomponents: [%s/%s]\n", base, base, component)
	})
}

// kustomization writes a kustomization whose text contains the path to another, and returns its folder.
func kustomization(t testing.TB, folder string, text func(base string) string) string {
	t.Helper()
	overlay, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	source, err := filepath.Abs(folder)
	require.NoError(t, err)
	base, err := filepath.Rel(overlay, source)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text(base)), 0o600))
	return overlay
}
