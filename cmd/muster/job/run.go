package job

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"

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
		return readJob(connection, namespace, o.file)
	case command.ArgsLenAtDash() == 0 || len(args) == 0:
		return nil, errors.New("name the Job, or give a file with -f")
	case command.ArgsLenAtDash() != 1 && len(args) > 1:
		return nil, fmt.Errorf("what the pods run stands behind --: muster job run %s -- %s", args[0], args[1])
	}
	o.Name, o.Command = args[0], args[1:]
	return o.Job()
}

// readJob reads the one Job of a file.
func readJob(connection *kube.Connection, namespace, file string) (*batchv1alpha1.Job, error) {
	infos, err := connection.NewBuilder().Unstructured().Local().
		FilenameParam(false, &resource.FilenameOptions{Filenames: []string{file}}).Do().Infos()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if len(infos) != 1 {
		return nil, fmt.Errorf("%s has %d objects: give a file with one Job, or use kubectl apply", file, len(infos))
	}
	object, isObject := infos[0].Object.(*unstructured.Unstructured)
	if !isObject || object.GroupVersionKind() != batchv1alpha1.SchemeGroupVersion.WithKind("Job") {
		return nil, fmt.Errorf("%s has a %s: give a file with a Job of %s", file, infos[0].Object.GetObjectKind().GroupVersionKind(), batchv1alpha1.SchemeGroupVersion)
	}
	job := &batchv1alpha1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, job, true); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if job.Namespace != "" && job.Namespace != namespace {
		return nil, fmt.Errorf("the Job in %s is for namespace %s: use -n %s", file, job.Namespace, job.Namespace)
	}
	return job, nil
}
