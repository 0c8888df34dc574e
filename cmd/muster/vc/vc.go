// Package vc answers as Volcano's programs do, when this program is called by one of their names. These are vcctl, vsub, vjobs, vqueues,
// vcancel, vsuspend and vresume. Scripts that were written for them go on to work.
package vc

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// Programs are the names, and what the program does under each.
var Programs = map[string]func() *cobra.Command{
	"vcctl":    newVcctl,
	"vsub":     newVsub,
	"vjobs":    newVjobs,
	"vqueues":  newVqueues,
	"vcancel":  func() *cobra.Command { return withLetters(cancel("vcancel", "cancel job %s successfully\n"), swapped) },
	"vsuspend": func() *cobra.Command { return withLetters(commandJob("vsuspend", abort), swapped) },
	"vresume":  func() *cobra.Command { return withLetters(commandJob("vresume", resume), swapped) },
}

// failed is the exit code after an error.
const failed = 255

// call is one call of a command: what the flags say, and the cluster.
type call struct {
	*pflag.FlagSet
	*kube.Clients
	command    *cobra.Command
	connection *kube.Connection
}

// text is the value of a flag.
func (c *call) text(flag string) string {
	value, err := c.GetString(flag)
	if err != nil {
		panic(err) // the command has no such flag
	}
	return value
}

// isSet is the value of a flag that takes none.
func (c *call) isSet(flag string) bool {
	value, err := c.GetBool(flag)
	if err != nil {
		panic(err)
	}
	return value
}

// printf prints to the user.
func (c *call) printf(format string, args ...any) {
	fmt.Fprintf(c.command.OutOrStdout(), format, args...)
}

// verb makes a command of what it does. An error is printed where Volcano's programs print it, on standard output.
func verb(use, short string, do func(*call) error) *cobra.Command {
	command := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs}
	command.RunE = func(command *cobra.Command, _ []string) error {
		c := &call{FlagSet: command.Flags(), command: command}
		err := c.connect()
		if err == nil {
			err = do(c)
		}
		if err == nil {
			return nil
		}
		path := ""
		for at := command; at.HasParent(); at = at.Parent() {
			path += " " + at.Name()
		}
		c.printf("Failed to%s: %v\n", path, err)
		return kube.Reported(failed)
	}
	flags := command.Flags()
	flags.StringP("kubeconfig", "k", "", "file with the kubeconfig")
	flags.StringP("master", "s", "", "address of the API server, if not that of the kubeconfig")
	return command
}

// connect makes the clients that the flags ask for.
func (c *call) connect() error {
	config := genericclioptions.NewConfigFlags(true)
	kubeconfig, master := c.text("kubeconfig"), c.text("master")
	config.KubeConfig, config.APIServer = &kubeconfig, &master
	c.connection = &kube.Connection{Factory: cmdutil.NewFactory(config)}
	clients, err := c.connection.Clients()
	if err != nil {
		return err
	}
	// Volcano's programs do not ask the kubeconfig for a namespace.
	clients.Namespace = "default"
	if flag := c.Lookup("namespace"); flag != nil && flag.Value.String() != "" {
		clients.Namespace = flag.Value.String()
	}
	c.Clients = clients
	return nil
}

// letters are the short names of the flags "name" and "namespace".
type letters struct{ name, namespace string }

var (
	// usual are those of vcctl, swapped those of the other programs.
	usual   = letters{name: "N", namespace: "n"}
	swapped = letters{name: "n", namespace: "N"}
)

// withLetters adds the flags "name" and "namespace".
func withLetters(command *cobra.Command, l letters) *cobra.Command {
	command.Flags().StringP("name", l.name, "", "name of the job")
	command.Flags().StringP("namespace", l.namespace, "default", "namespace of the job")
	return command
}

// group makes a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{Use: use, Short: short}
	command.AddCommand(commands...)
	return command
}

func newVcctl() *cobra.Command {
	return group("vcctl", "Volcano's command line, answered by Muster",
		group("job", "Run, list, view, suspend, resume and delete jobs", runJob(), withLetters(listJobs("list"), usual), withLetters(viewJob("view"), usual),
			withLetters(commandJob("suspend", abort), usual), withLetters(commandJob("resume", resume), usual),
			withLetters(cancel("delete", "delete job %s successfully\n"), usual)),
		group("queue", "Create, delete, operate, list and get queues", createQueue(), deleteQueue(), operateQueue(), listQueues("list"), getQueue()),
		group("pod", "List the pods of jobs", listPods()),
		versionCommand())
}
