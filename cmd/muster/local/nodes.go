package local

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-sched/muster/pkg/localcluster"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

func newNodesCommand() *cobra.Command {
	var dir string
	var add int
	command := &cobra.Command{
		Use:   "nodes --dir DIR --add N",
		Short: "Add simulated nodes to a running cluster",
		Long: `Add simulated nodes of the size that the cluster was started with, numbered on
from those there are, and return when they are ready. Take nodes away with
"kubectl delete node".`,
		Example: `  muster local nodes --dir /tmp/m --add 2`,
		Args:    kube.None,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := needDir(command, dir); err != nil {
				return err
			}
			if add < 1 {
				return fmt.Errorf("how many nodes? Give a number of at least 1 with --add")
			}
			cluster, err := localcluster.Load(dir)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(command.Context(), localcluster.DefaultTimeout)
			defer cancel()
			names, err := cluster.AddNodes(ctx, add)
			if err != nil {
				return err
			}
			for _, name := range names {
				fmt.Fprintf(command.OutOrStdout(), "node/%s added\n", name)
			}
			return nil
		},
	}
	addDirFlag(command, &dir)
	command.Flags().IntVar(&add, "add", 0, "number of nodes to add (required)")
	return command
}
