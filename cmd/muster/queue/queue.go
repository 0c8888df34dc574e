// Package queue is `muster queue`: list, create, change, open, close and delete Queues.
package queue

import (
	"fmt"

	"github.com/spf13/cobra"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/explain"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// NewCommand makes `muster queue`.
func NewCommand() *cobra.Command {
	command := &cobra.Command{Use: "queue", Aliases: []string{"queues"}, Short: "List, create, change, open, close and delete Queues"}
	connection := kube.Connect(command)
	command.AddCommand(newListCommand(connection), newGetCommand(connection), newTreeCommand(connection),
		newCreateCommand(connection), newSetCommand(connection), newDeleteCommand(connection),
		newActCommand(connection, "open", "Have Queues take Jobs again", busv1alpha1.OpenQueueAction),
		newActCommand(connection, "close", "Have Queues take no more Jobs; what runs there goes on", busv1alpha1.CloseQueueAction))
	return command
}

func newListCommand(connection *kube.Connection) *cobra.Command {
	command := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List Queues", Example: `  muster queue list -w`, Args: kube.None,
	}
	connection.Get(command, kube.Queues, nil)
	return command
}

func newGetCommand(connection *kube.Connection) *cobra.Command {
	command := &cobra.Command{
		Use: "get NAME...", Short: "Print Queues by name, and what starts next in them", Example: `  muster queue get team-a -o yaml`, Args: kube.AtLeastOne("queue"),
	}
	connection.Get(command, kube.Queues, nil)
	connection.Complete(command, kube.Queues)
	get := command.RunE
	command.RunE = func(command *cobra.Command, names []string) error {
		if err := get(command, names); err != nil || !isForPeople(command) {
			return err
		}
		return printComing(command, connection, names)
	}
	return command
}

// isForPeople says whether a command has printed a table that is complete.
func isForPeople(command *cobra.Command) bool {
	output := command.Flag("output").Value.String()
	return command.Flag("watch").Value.String() == "false" && (output == "" || output == "wide")
}

// printComing prints how many wait in queues, and the next starts, as far as the user may see them.
func printComing(command *cobra.Command, connection *kube.Connection, queues []string) error {
	clients, err := connection.Clients()
	if err != nil {
		return err
	}
	reader := kube.NewReader(command.Context(), clients)
	if err := reader.Cluster(explain.PartQueues, explain.PartGroups); err != nil {
		return err
	}
	out := command.OutOrStdout()
	fmt.Fprintln(out)
	for _, queue := range queues {
		for _, line := range explain.Coming(&reader.Facts, queue) {
			fmt.Fprintln(out, line)
		}
	}
	if reader.Facts.Lacks(explain.PartGroups) {
		fmt.Fprintln(command.ErrOrStderr(), "warning:", reader.Facts.Lacking(explain.PartGroups))
	}
	return nil
}

func newActCommand(connection *kube.Connection, name, short string, action busv1alpha1.Action) *cobra.Command {
	command := &cobra.Command{
		Use:     name + " NAME...",
		Short:   short,
		Long:    short + ".\n\nmuster-controller does it; \"muster explain queue NAME\" says what came of it.",
		Example: "  muster queue " + name + " team-a",
		Args:    kube.AtLeastOne("queue"),
		RunE: func(command *cobra.Command, names []string) error {
			clients, err := connection.Clients()
			if err != nil {
				return err
			}
			return kube.EachName(names, func(queue string) error {
				asked, err := clients.CommandQueue(command.Context(), queue, action)
				if err != nil {
					return err
				}
				state, err := kube.Outcome(asked.QueueAfter(command.Context()))
				if err == nil {
					fmt.Fprintf(command.OutOrStdout(), "queue %s is asked to %s: %s\n", queue, name, state)
				}
				return err
			})
		},
	}
	connection.Complete(command, kube.Queues)
	return command
}
