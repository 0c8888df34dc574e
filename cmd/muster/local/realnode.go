package local

import (
	"github.com/spf13/cobra"

	"github.com/muster-sched/muster/pkg/localcluster/realnode"
)

// newRealNodeCommand makes the hidden verb that a cluster with a real node runs in namespaces of its own.
func newRealNodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "real-node CONFIG",
		Short:  "Run a real node; started by a local cluster, not by people",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			config, err := realnode.ReadConfig(args[0])
			if err != nil {
				return err
			}
			return realnode.Run(command.Context(), config)
		},
	}
}
