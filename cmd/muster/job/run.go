package job

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// runOptions are the flags of `muster job run`.
type runOptions struct {
	kube.Simple
	file  string
	wait  bool
	print *genericclioptions.PrintFlags
}

func newRunCommand(connection *kube.Connection) *cobra.Command {
	o := &runOptions{print: genericclioptions.NewPrintFlags("created").WithTypeSetter(kube.Scheme)}
	command := &cobra.Command{
		Use:   "run {NAME | -f FILE} [-- COMMAND [ARG...]]",
		Short: "Create a Job, and wait for its end if asked to",
		Long: `Create a Job, from a file or from flags: then it has one task of --replicas pods,
of which --min start together.

With --wait it prints how the Job gets on, and returns when the Job has ended. The
exit code is 0 if the Job is Completed, and 1 otherwise.`,
		Example: `  muster job run hello --image busybox -r 4 --requests cpu=500m -- sh -c "echo hello"
  muster job run -f training.yaml --wait`,
		RunE: func(command *cobra.Command, args []string) error { return o.run(command, connection, args) },
	}
	flags := command.Flags()
	o.AddFlags(flags)
	flags.StringVarP(&o.file, "filename", "f", "", "file with the Job, or - for standard input")
	flags.BoolVar(&o.wait, "wait", false, "wait until the Job has ended")
	flags.StringVarP(o.print.OutputFormat, "output", "o", "", "how to print the Job that was created: name, yaml or json")
	return command
}

func (o *runOptions) run(command *cobra.Command, connection *kube.Connection, args []string) error {
	clients, err := connection.Clients()
	if err != nil {
		return err
	}
	job, err := o.job(connection, clients.Namespace, command, args)
	if err != nil {
		return err
	}
	created, err := clients.Muster.BatchV1alpha1().Jobs(clients.Namespace).Create(command.Context(), job,
		metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return err
	}
	printer, err := o.print.ToPrinter()
	if err != nil {
		return err
	}
	if err := printer.PrintObj(created, command.OutOrStdout()); err != nil {
		return fmt.Errorf("printing the Job: %w", err)
	}
	if !o.wait {
		return nil
	}
	return awaitEnd(command.Context(), clients, created, kube.NewProgress(command.ErrOrStderr()))
}

// job is the Job to create: that of the file, or one as the flags say.
func (o *runOptions) job(connection *kube.Connection, namespace string, command *cobra.Command, args []string) (*batchv1alpha1.Job, error) {
	switch {
	case o.file != "" && len(args) > 0:
		return nil, fmt.Errorf("name the Job in the file %s or on the command line, not both", o.file)
	case o.file != "":
		job, err := kube.ReadJob(connection, o.file)
		if err == nil && job.Namespace != "" && job.Namespace != namespace {
			return nil, fmt.Errorf("the Job in %s is for namespace %s: use -n %s", o.file, job.Namespace, job.Namespace)
		}
		return job, err
	case command.ArgsLenAtDash() == 0 || len(args) == 0:
		return nil, errors.New("name the Job, or give a file with -f")
	case command.ArgsLenAtDash() != 1 && len(args) > 1:
		return nil, fmt.Errorf("what the pods run stands behind --: muster job run %s -- %s", args[0], args[1])
	}
	o.Name, o.Command = args[0], args[1:]
	return o.Job()
}
