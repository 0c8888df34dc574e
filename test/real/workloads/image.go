package workloads

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// ImportMuster builds Muster's image from a folder of its sources, as docs/install.md says, and gives it to the real node. The settings are
// variables of make.
func ImportMuster(ctx context.Context, cluster *localcluster.Cluster, sources, tag string, settings ...string) error {
	command := exec.CommandContext(ctx, "make", append([]string{"-C", sources, "image", "IMAGE=muster:" + tag}, settings...)...)
	// This make must not use the settings of the make that runs the tests.
	command.Env = append(os.Environ(), "MAKEFLAGS=", "MAKEOVERRIDES=")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building image %s in %s: %w: %s", tag, sources, err, output)
	}
	return cluster.ImportImage(ctx, filepath.Join(sources, "bin", "image", "muster.tar"))
}
