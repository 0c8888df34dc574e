package pytorch

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// script runs the script of the init container with programs of the test's own in place of nc and sleep.
func script(t *testing.T, programs map[string]string, timeout string) (string, error) {
	t.Helper()
	folder := t.TempDir()
	for name, content := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+content), 0o755))
	}
	run := exec.CommandContext(t.Context(), "sh", "-c", waitScript, "j-master-0.j", "23456", timeout)
	run.Env = []string{"PATH=" + folder + ":/usr/bin:/bin", "FOLDER=" + folder}
	out, err := run.CombinedOutput()
	return string(out), err
}

func TestWorkersWaitUntilTheMasterListens(t *testing.T) {
	out, err := script(t, map[string]string{
		"nc":    `echo "$@" >>"$FOLDER/asked"; [ "$(wc -l <"$FOLDER/asked")" -ge 3 ] || exit 1; cat "$FOLDER/asked" >&1`,
		"sleep": `[ "$1" = 2 ]`,
	}, "300")
	require.NoError(t, err)
	assert.Equal(t, "-z -w 2 j-master-0.j 23456\n-z -w 2 j-master-0.j 23456\n-z -w 2 j-master-0.j 23456\n", out)
}

func TestWorkersFailWhenNoMasterComes(t *testing.T) {
	// The clock of this test moves on by a minute each time that it is looked at.
	out, err := script(t, map[string]string{
		"nc":    `exit 1`,
		"sleep": `:`,
		"date":  `echo x >>"$FOLDER/looked"; echo $((60 * $(wc -l <"$FOLDER/looked")))`,
	}, "100")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 1, exit.ExitCode())
	assert.Equal(t, "no master at j-master-0.j:23456 after 100 seconds\n", out)
}

func TestAContainerOfThatNameStays(t *testing.T) {
	own := corev1.Container{Name: waitName, Image: "own"}
	pod := &corev1.PodSpec{InitContainers: []corev1.Container{own}}
	addWait(pod, &corev1.Container{Name: waitName, Image: "other"})
	assert.Equal(t, []corev1.Container{own}, pod.InitContainers)
}
