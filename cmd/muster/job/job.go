// Package job is `muster job`: list, run, stop and start Jobs.
package job

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/cmd/get"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// NewCommand makes `muster job`.
func NewCommand() *cobra.Command {
	command := &cobra.Command{Use: "job", Aliases: []string{"jobs"}, Short: "List, run, stop and start Jobs"}
	connection := kube.Connect(command)
	command.AddCommand(
		newListCommand(connection), newGetCommand(connection), newRunCommand(connection), newUpdateCommand(connection),
		newCancelCommand(connection), newLogsCommand(connection), newHistoryCommand(connection))
	for _, v := range verbs {
		command.AddCommand(v.newCommand(connection))
	}
	return command
}

func newListCommand(connection *kube.Connection) *cobra.Command {
	var queue, phase string
	command := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List Jobs",
		Example: `  muster job list -o wide                 # with reason and message
  muster job list -A -q team-a            # all Jobs of a queue
  muster job list --phase Pending -w      # waiting Jobs; then each change`,
		Args: kube.None,
	}
	connection.Get(command, kube.Jobs, func(ctx context.Context, clients *kube.Clients, o *get.GetOptions) error {
		in, err := kube.Phase(phase)
		if err == nil && queue != "" {
			err = clients.QueueExists(ctx, queue)
		}
		o.FieldSelector = kube.Fields("spec.queue", queue, "status.state.phase", in)
		return err
	})
	command.Flags().StringVarP(&queue, "queue", "q", "", "list Jobs of this queue only")
	command.Flags().StringVar(&phase, "phase", "", "list Jobs in this phase only, for example Pending or Running")
	connection.CompleteFlag(command, "queue", kube.Queues)
	kube.CompleteWords(command, "phase", kube.Phases())
	return command
}

func newGetCommand(connection *kube.Connection) *cobra.Command {
	command := &cobra.Command{
		Use:     "get NAME...",
		Short:   "Print Jobs by name",
		Example: `  muster job get training -o yaml`,
		Args:    kube.AtLeastOne("job"),
	}
	connection.Get(command, kube.Jobs, nil)
	connection.Complete(command, kube.Jobs)
	return command
}
