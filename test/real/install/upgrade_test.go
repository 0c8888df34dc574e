//go:build real

package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/policy"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
	"github.com/muster-sched/muster/test/installation"
	"github.com/muster-sched/muster/test/real/workloads"
)

// TestUpgradeAndRemove installs the commit before, upgrades to this one, goes back, and upgrades again. Meanwhile one Job runs in containers,
// and others come and go. No container of the running Job is restarted. When Muster is removed, nothing is left.
func TestUpgradeAndRemove(t *testing.T) {
	s, k := begin(t)
	before := importCommitBefore(t)
	upgrade(s, k, "before", before)
	const members = 3
	long := create(s, mustertesting.MakeJob("long").MinAvailable(members).Task(mustertesting.MakeTask("member", members).
		Requests("cpu", "50m").Command("/busybox", "sh", "-c", "until [ -e /end ]; do /busybox sleep 0.2; done")), contained)
	awaitPhase(s, long, batchv1alpha1.Running)
	running := programs(s)
	require.Len(t, running, members)

	for n, release := range []struct{ name, folder string }{{"this commit", deploy}, {"the commit before", before}, {"this commit again", deploy}} {
		upgrade(s, k, release.name, release.folder)
		assert.Equal(t, running, programs(s), "containers of the running Job after the roll-out of %s", release.name)
		after := create(s, gang(fmt.Sprintf("after-%d", n)), simulated)
		awaitPhase(s, after, batchv1alpha1.Completed)
	}

	for n := range int32(members) {
		k.Run("exec", "-n", s.Namespace, policy.PodName(long, "member", n), "--", "/busybox", "touch", "/end")
	}
	awaitPhase(s, long, batchv1alpha1.Completed)
	assert.Zero(t, s.Job(s.Name(long)).Status.RetryCount)
	s.WholeGangs(s.Namespace, takeoverLimit)

	k.Remove(deploy)
	k.Run("delete", "-k", before, "--ignore-not-found") // what this commit has no more
	assert.Empty(t, k.Left())
}

// upgrade rolls a release out while gangs come and go, and prints how long both took.
func upgrade(s *harness.Story, k installation.Kubectl, name, folder string) {
	s.T.Helper()
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- install(s.Ctx, k, upgradeSteps, folder) }()
	var lasted []time.Duration
	for {
		created := time.Now()
		job := create(s, gang(fmt.Sprintf("during-%d", created.UnixNano())), simulated)
		awaitPhase(s, job, batchv1alpha1.Completed)
		lasted = append(lasted, time.Since(created))
		select {
		case err := <-done:
			require.NoError(s.T, err)
			s.T.Logf("%s was rolled out in %s; %d gangs of two seconds took %s meanwhile",
				name, time.Since(began).Round(100*time.Millisecond), len(lasted), figures(lasted))
			return
		default:
		}
	}
}

// programs are the containers of the Job that runs, by the pod. Another container, or another pod, would be another program.
func programs(s *harness.Story) map[string]string {
	s.T.Helper()
	pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(s.Ctx, metav1.ListOptions{LabelSelector: batchv1alpha1.JobNameKey + "=long"})
	require.NoError(s.T, err)
	found := map[string]string{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		require.Len(s.T, pod.Status.ContainerStatuses, 1)
		status := pod.Status.ContainerStatuses[0]
		require.NotNil(s.T, status.State.Running, "%s: %v", pod.Name, status.State)
		found[pod.Name] = fmt.Sprintf("pod %s, container %s, restarts %d", pod.UID, status.ContainerID, status.RestartCount)
	}
	return found
}

// importCommitBefore builds the image of the commit before from its own sources, and gives it to the node. It returns the kustomization that
// installs it. A checkout without history has no such commit: then the image is built once more from these sources.
func importCommitBefore(t *testing.T) string {
	t.Helper()
	sources := t.TempDir()
	archive := filepath.Join(t.TempDir(), "sources.tar")
	commit, err := run("git", "rev-parse", "--verify", "HEAD~1")
	pack := []string{"git", "archive", "--output=" + archive, commit}
	if err != nil {
		t.Logf("the commit before is not in this checkout: the image is built from this one. %s", commit)
		commit = "unknown"
		pack = []string{"tar", "-c", "-f", archive, "--exclude=./bin", "--exclude=./.cache", "."}
	}
	for _, step := range [][]string{pack, {"tar", "-x", "-f", archive, "-C", sources}} {
		out, err := run(step...)
		require.NoError(t, err, out)
	}
	require.NoError(t, os.Remove(archive))
	require.NoError(t, workloads.ImportMuster(t.Context(), harness.Shared().Cluster, sources, "before", "VERSION=before", "COMMIT="+commit))
	t.Logf("the commit before is %s", commit)
	return installation.Overlay(t, filepath.Join(sources, "manifests", "deploy"), "before")
}

// run runs a command in the root of this repository.
func run(command ...string) (string, error) {
	c := exec.Command(command[0], command[1:]...)
	c.Dir = root
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
