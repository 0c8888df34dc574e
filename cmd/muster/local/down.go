package local

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-sched/muster/pkg/localcluster"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

func newDownCommand() *cobra.Command {
	var dir string
	command := &cobra.Command{
		Use:   "down --dir DIR",
		Short: "Stop a cluster and remove what it made",
		Long: `Stop all parts of a cluster and remove everything that it made in its folder: its
data, its logs, its keys and its kubeconfig. Other files there are left alone.
It also clears up after a cluster that crashed.`,
		Example: `  muster local down --dir /tmp/m`,
		Args:    kube.None,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := needDir(command, dir); err != nil {
				return err
			}
			if err := localcluster.Remove(command.Context(), dir); err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "The cluster in %s is stopped and removed.\n", dir)
			return nil
		},
	}
	addDirFlag(command, &dir)
	return command
}
