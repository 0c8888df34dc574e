// Package installation installs and removes Muster with kubectl in a local cluster, for tests. The steps are those of docs/install.md.
package installation

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

	"github.com/muster-sched/muster/pkg/localcluster"
)

// Patience is how long one command of kubectl may take, with the roll-outs and deletions that it waits for.
const Patience = 3 * time.Minute

// Components are the values of the label app.kubernetes.io/component of Muster's pods. The Deployments and Leases are called muster- and this.
var Components = []string{"controller", "scheduler"}

// Kubectl runs kubectl as the administrator of a cluster.
type Kubectl struct {
	T       testing.TB
	Cluster *localcluster.Cluster
}

// Try runs kubectl with an input, and returns what it printed.
func (k Kubectl) Try(ctx context.Context, input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
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

// Apply installs a kustomization as users do, and refuses warnings, such as the ones of Pod Security.
func (k Kubectl) Apply(folder string) {
	k.T.Helper()
	assert.NotContains(k.T, k.Run("apply", "--validate=strict", "-k", folder), "violate")
}

// Delete removes what a kustomization has installed, as users do.
func (k Kubectl) Delete(folder string) {
	k.T.Helper()
	k.Run("delete", "-k", folder, "--ignore-not-found", "--timeout=2m")
	assert.Empty(k.T, k.Run("get", "-k", folder, "--ignore-not-found", "-o", "name"))
}

// Left returns the objects in the cluster that are of Muster or of its API, by their name. It returns all webhooks, too. It leaves out the
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
		for _, part := range []string{"muster", "volcano.sh", "primehub", "webhookconfiguration"} {
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
	overlay, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	source, err := filepath.Abs(folder)
	require.NoError(t, err)
	base, err := filepath.Rel(overlay, source)
	require.NoError(t, err)
	text := fmt.Sprintf("resources: [%s]\nimages: [{name: muster, newName: muster, newTag: %s}]\n", base, tag)
	require.NoError(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600))
	return overlay
}
