// Package explain is `muster explain`: one page that says what becomes of an object, and why.
package explain

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/term"

	"github.com/muster-sched/muster/pkg/explain"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// NewCommand makes `muster explain`.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "explain",
		Short: "Say why a Job, PhJob, PodGroup, pod or queue waits, and what happened to it",
		Long: `Say on one page what an object does now, why it waits, who is before it, what would
free it, whether it can ever run, what was tried last, who evicted its pods and
what happened to it. The page is made of what the objects and events in the
cluster say; nothing is changed.

Where you may not read nodes, pods of others or priorities, the page says less,
and names what is missing.`,
		Example: `  muster explain job training
  muster explain queue team-a -o json
  muster explain pod training-worker-0`,
	}
	connection, output := kube.Connect(command), kube.AddOutput(command.PersistentFlags())
	for _, kind := range []struct {
		name, resource string
		page           func(*kube.Reader, string) (explain.Page, error)
	}{
		{"job", kube.Jobs, (*kube.Reader).Job},
		{"phjob", kube.PhJobs, (*kube.Reader).PhJob},
		{"podgroup", kube.PodGroups, (*kube.Reader).PodGroup},
		{"pod", kube.Pods, (*kube.Reader).Pod},
		{"queue", kube.Queues, (*kube.Reader).Queue},
	} {
		one := &cobra.Command{
			Use:     kind.name + " NAME",
			Short:   "Explain a " + kind.name,
			Example: "  muster explain " + kind.name + " NAME",
			Args:    cobra.ExactArgs(1),
			RunE: func(command *cobra.Command, names []string) error {
				clients, err := connection.Clients()
				if err != nil {
					return err
				}
				page, err := kind.page(kube.NewReader(command.Context(), clients), names[0])
				if err != nil {
					return err
				}
				out := command.OutOrStdout()
				return output.Print(out, page, func() error { return page.Write(out, emphasis(command)) })
			},
		}
		connection.Complete(one, kind.resource)
		command.AddCommand(one)
	}
	return command
}

// emphasis makes text bold on a terminal, unless the user wants no colours.
func emphasis(command *cobra.Command) func(string) string {
	if os.Getenv("NO_COLOR") != "" || !(term.TTY{Out: command.OutOrStdout()}).IsTerminalOut() {
		return nil
	}
	return func(text string) string { return fmt.Sprintf("\x1b[1m%s\x1b[0m", text) }
}
