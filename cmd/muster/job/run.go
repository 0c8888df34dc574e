package job

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// runOptions are the flags of `muster job run`.
type runOptions struct {
	kube.Simple
	file string
	wait bool
	// whatIf asks when the Job would start in place of creating it.
	whatIf bool
	print  *genericclioptions.PrintFlags
	// dryRun says who checks the Job in place of creating it.
	dryRun cmdutil.DryRunStrategy
}

func newRunCommand(connection *kube.Connection) *cobra.Command {
	o := &runOptions{print: genericclioptions.NewPrintFlags("created").WithTypeSetter(kube.Scheme)}
	command := &cobra.Command{
		Use:   "run {NAME | -f FILE} [-- COMMAND [ARG...]]",
		Short: "Create a Job, and wait for its end if asked to",
		Long: `Create a Job, from a file or from flags: then it has one task of --replicas pods,
of which --min start together.

With --wait it prints how the Job gets on, and returns when the Job has ended. The
exit code is 0 if the Job is Completed, and 1 otherwise.

With --what-if it creates no Job. It says when the Job would start if it were created
now, and what it would wait for. The start is expected, not promised.`,
		Example: `  muster job run hello --image busybox -r 4 --requests cpu=500m -- sh -c "echo hello"
  muster job run training -i my/image --task master=1 --task worker=8 --gpus 1 --plugin svc --time 2h -- train.sh
  muster job run hello -r 4 --dry-run=client -o yaml > hello.yaml
  muster job run -f training.yaml --wait
  muster job run -f training.yaml --what-if`,
		RunE: func(command *cobra.Command, args []string) error { return o.run(command, connection, args) },
	}
	flags := command.Flags()
	o.AddFlags(flags)
	flags.StringVarP(&o.file, "filename", "f", "", "file with the Job, or - for standard input")
	cmdutil.AddDryRunFlag(command)
	flags.BoolVar(&o.wait, "wait", false, "wait until the Job has ended")
	flags.BoolVar(&o.whatIf, "what-if", false, "say when the Job would start, and create nothing")
	flags.StringVarP(o.print.OutputFormat, "output", "o", "", "how to print the Job that was created: name, yaml or json")
	connection.CompleteFlag(command, "queue", kube.Queues)
	connection.CompleteFlag(command, "priority-class", "priorityclasses")
	return command
}

func (o *runOptions) run(command *cobra.Command, connection *kube.Connection, args []string) (err error) {
	if o.dryRun, err = cmdutil.GetDryRunStrategy(command); err != nil {
		return err
	}
	if err := o.check(command, args); err != nil {
		return err
	}
	job, err := o.job(connection, args)
	if err != nil {
		return err
	}
	if o.dryRun == cmdutil.DryRunClient {
		job.SetGroupVersionKind(batchv1alpha1.SchemeGroupVersion.WithKind("Job"))
		return o.show(command, job)
	}
	clients, err := connection.Clients()
	if err != nil {
		return err
	}
	if job.Namespace != "" && job.Namespace != clients.Namespace {
		return fmt.Errorf("the Job in %s is for namespace %s: use -n %s", o.file, job.Namespace, job.Namespace)
	}
	options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	if o.dryRun == cmdutil.DryRunServer || o.whatIf {
		options.DryRun = []string{metav1.DryRunAll}
	}
	created, err := clients.Muster.BatchV1alpha1().Jobs(clients.Namespace).Create(command.Context(), job, options)
	if err != nil {
		return err
	}
	if o.whatIf {
		return o.ask(command, clients, created)
	}
	if err := o.show(command, created); err != nil || !o.wait {
		return err
	}
	return awaitEnd(command.Context(), clients, created, kube.NewProgress(command.ErrOrStderr()))
}

// show prints a Job that was created, or would be, or a StartReview.
func (o *runOptions) show(command *cobra.Command, object runtime.Object) error {
	cmdutil.PrintFlagsWithDryRunStrategy(o.print, o.dryRun)
	printer, err := o.print.ToPrinter()
	if err != nil {
		return err
	}
	if err := printer.PrintObj(object, command.OutOrStdout()); err != nil {
		return fmt.Errorf("printing the answer: %w", err)
	}
	return nil
}

// check says what is wrong with the command line alone.
func (o *runOptions) check(command *cobra.Command, args []string) error {
	switch {
	case o.whatIf && (o.wait || o.dryRun != cmdutil.DryRunNone):
		return errors.New("--what-if: there is no Job to wait for or to print: leave out --wait and --dry-run")
	case o.wait && o.dryRun != cmdutil.DryRunNone:
		return errors.New("--wait: with --dry-run there is no Job to wait for")
	case o.file != "" && len(args) > 0:
		return fmt.Errorf("name the Job in the file %s or on the command line, not both", o.file)
	case o.file != "":
		return nil
	case command.ArgsLenAtDash() == 0 || len(args) == 0:
		return errors.New("name the Job, or give a file with -f")
	case command.ArgsLenAtDash() != 1 && len(args) > 1:
		return fmt.Errorf("what the pods run stands behind --: muster job run %s -- %s", args[0], strings.Join(args[1:], " "))
	case len(o.Tasks) > 0 && command.Flag("replicas").Changed:
		return errors.New("--replicas: each --task says its own number of pods")
	}
	return nil
}

// job is the Job to create: that of the file, or one as the flags say.
func (o *runOptions) job(connection *kube.Connection, args []string) (*batchv1alpha1.Job, error) {
	if o.file != "" {
		return kube.ReadJob(connection, o.file)
	}
	o.Name, o.Command = args[0], args[1:]
	return o.Job()
}
