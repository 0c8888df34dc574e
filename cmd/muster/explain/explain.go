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
		Use:   "explain [KIND] NAME",
		Short: "Say why a Job, PhJob, PodGroup, pod or queue waits, and what happened to it",
		Long: `Say on one page what an object does now, why it waits, who is before it, what would
free it, whether it can ever run, what was tried last, who evicted its pods and
what happened to it. The page is made of what the objects and events in the
cluster say; nothing is changed.

Where you may not read nodes, pods of others or priorities, the page says less,
and names what is missing.

A name without a kind is that of a Job.`,
		Example: `  muster explain training
  muster explain queue team-a -o json
  muster explain pod training-worker-0`,
	}
	connection, output := kube.Connect(command), kube.AddOutput(command.PersistentFlags())
	for _, k := range kinds {
		one := &cobra.Command{
			Use: k.name + " NAME", Aliases: k.aliases, Short: "Explain a " + k.name, Example: "  muster explain " + k.name + " NAME",
			Args: kube.ExactlyOne(k.name),
			RunE: func(command *cobra.Command, names []string) error {
				return k.explain(command, connection, output, names[0])
			},
		}
		connection.Complete(one, k.resource)
		command.AddCommand(one)
	}
	command.Args = func(command *cobra.Command, args []string) error {
		if len(args) > 1 {
			return kube.UnknownCommand(command, args[0])
		}
		return nil
	}
	command.RunE = func(command *cobra.Command, names []string) error {
		if len(names) == 0 {
			return command.Help()
		}
		return kinds[0].explain(command, connection, output, names[0])
	}
	connection.Complete(command, kinds[0].resource)
	return command
}

// kind is a kind of objects that have a page.
type kind struct {
	name, resource string
	aliases        []string
	page           func(*kube.Reader, string) (explain.Page, error)
}

// kinds begin with that of a name alone.
var kinds = []kind{
	{"job", kube.Jobs, []string{"jobs", "vcjob", "vcjobs", "vj"}, (*kube.Reader).Job},
	{"phjob", kube.PhJobs, []string{"phjobs"}, (*kube.Reader).PhJob},
	{"podgroup", kube.PodGroups, []string{"podgroups", "pg", "pgs"}, (*kube.Reader).PodGroup},
	{"pod", kube.Pods, []string{"pods", "po"}, (*kube.Reader).Pod},
	{"queue", kube.Queues, []string{"queues", "q"}, (*kube.Reader).Queue},
}

func (k kind) explain(command *cobra.Command, connection *kube.Connection, output *kube.Output, name string) error {
	clients, err := connection.Clients()
	if err != nil {
		return err
	}
	page, err := k.page(kube.NewReader(command.Context(), clients), name)
	if err != nil {
		return err
	}
	out := command.OutOrStdout()
	return output.Print(out, page, func() error { return page.Write(out, emphasis(command)) })
}

// emphasis makes text bold on a terminal, unless the user wants no colours.
func emphasis(command *cobra.Command) func(string) string {
	if os.Getenv("NO_COLOR") != "" || !(term.TTY{Out: command.OutOrStdout()}).IsTerminalOut() {
		return nil
	}
	return func(text string) string { return fmt.Sprintf("\x1b[1m%s\x1b[0m", text) }
}
