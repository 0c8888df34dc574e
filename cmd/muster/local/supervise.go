package local

import (
	"github.com/spf13/cobra"

	"github.com/muster-sched/muster/pkg/localcluster"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// superviseVerb is the hidden verb that `muster local up` runs in the background.
const superviseVerb = "supervise"

func newSuperviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:    superviseVerb,
		Short:  "Keep a cluster running; started by \"muster local up\", not by people",
		Hidden: true,
		Args:   kube.None,
		RunE: func(command *cobra.Command, _ []string) error {
			return localcluster.Supervise(command.Context())
		},
	}
}
