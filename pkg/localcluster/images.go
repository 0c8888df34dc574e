package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/muster-sched/muster/pkg/localcluster/realnode"
)

// EtcKubernetes is the folder that the real node has as its /etc/kubernetes. The kubelet runs the static pods of its folder manifests.
func (c *Cluster) EtcKubernetes() string {
	return realnode.EtcKubernetes(filepath.Join(c.dir, internalName, realNodeDir))
}

// ImportImage gives the real node the images of an archive in the format of OCI or of `docker save`.
func (c *Cluster) ImportImage(ctx context.Context, archive string) error {
	state, err := c.state()
	if err != nil {
		return err
	}
	for _, process := range state.Processes {
		if process.Name != RealNode || process.Ended != nil {
			continue
		}
		socket := fmt.Sprintf("/proc/%d/root%s", process.PID, realnode.ContainerdSocket)
		output, err := exec.CommandContext(ctx, "ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", archive).CombinedOutput()
		if err != nil {
			return fmt.Errorf("importing %s: %w: %s", archive, err, strings.TrimSpace(string(output)))
		}
		return nil
	}
	return errors.New("the cluster has no real node that runs: start one with `muster local up --real-node`")
}
