// Package local has the verbs of `muster local`: a whole cluster on this machine.
package local

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// NewCommand makes `muster local` with all its verbs.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "local",
		Short: "Run a whole Kubernetes cluster with Muster on this machine",
		Long: `Run a real etcd, kube-apiserver and kube-controller-manager, simulated nodes,
muster-scheduler and muster-controller as processes on this machine, without
containers. Each cluster lives in a folder of its own, and several can run side
by side, as root or as an ordinary user.`,
		Example: `  muster local up --dir /tmp/m --nodes 4
  export KUBECONFIG=/tmp/m/kubeconfig
  kubectl get nodes
  muster local down --dir /tmp/m`,
	}
	command.AddCommand(newUpCommand(), newStatusCommand(), newNodesCommand(), newImportCommand(), newDownCommand(),
		newSuperviseCommand(), newRealNodeCommand())
	return command
}

// addDirFlag adds the flag that every verb has.
func addDirFlag(command *cobra.Command, dir *string) {
	command.Flags().StringVar(dir, "dir", "", "folder of the cluster (required)")
}

// needDir refuses a call without a folder, in words that help.
func needDir(command *cobra.Command, dir string) error {
	if dir == "" {
		return fmt.Errorf("which cluster? Name its folder with --dir, for example `%s --dir /tmp/m`", command.CommandPath())
	}
	return nil
}

// errUnhealthy makes the exit code tell what the output has explained already.
var errUnhealthy = errors.New("the cluster is not healthy")
