// Package phjob is `muster phjob`: list, run and stop PhJobs.
package phjob

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/logs"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// NewCommand makes `muster phjob`.
func NewCommand() *cobra.Command {
	command := &cobra.Command{Use: "phjob", Aliases: []string{"phjobs"}, Short: "List, run and stop PhJobs"}
	connection := kube.Connect(command)
	command.AddCommand(newListCommand(connection), newGetCommand(connection), newRunCommand(connection), newCancelCommand(connection), newLogsCommand(connection))
	return command
}

func newListCommand(connection *kube.Connection) *cobra.Command {
	command := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List PhJobs", Example: `  muster phjob list -A -w`, Args: kube.None,
	}
	connection.Get(command, kube.PhJobs, nil)
	return command
}

func newGetCommand(connection *kube.Connection) *cobra.Command {
	command := &cobra.Command{
		Use: "get NAME...", Short: "Print PhJobs by name", Example: `  muster phjob get train -o yaml`, Args: kube.AtLeastOne("phjob"),
	}
	connection.Get(command, kube.PhJobs, nil)
	connection.Complete(command, kube.PhJobs)
	return command
}

// submission is what `muster phjob run` creates.
type submission struct {
	name, user, group, groupID, instanceType, image string
	command                                         []string
}

func newRunCommand(connection *kube.Connection) *cobra.Command {
	o, printed, whatIf := &submission{}, genericclioptions.NewPrintFlags("created").WithTypeSetter(kube.Scheme), false
	command := &cobra.Command{
		Use:   "run NAME --group GROUP --instance-type TYPE --image IMAGE -- COMMAND [ARG...]",
		Short: "Create a PhJob",
		Long: `Create a PhJob: a command that runs once, with an image and an instance type of a
group. It is created for the user that --user names.

With --what-if it creates no PhJob. It says when the PhJob would start if it were
created now, and what it would wait for. The start is expected, not promised.`,
		Example: `  muster phjob run train --user ada --group research --instance-type gpu-1 --image pytorch -- python train.py
  muster phjob run train --user ada --group research --instance-type gpu-1 --image pytorch --what-if -- python train.py`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := o.read(command, args); err != nil {
				return err
			}
			clients, err := connection.Clients()
			if err != nil {
				return err
			}
			options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
			if whatIf {
				options.DryRun = []string{metav1.DryRunAll}
			}
			created, err := clients.Muster.PrimehubV1alpha1().PhJobs(clients.Namespace).Create(command.Context(), o.job(), options)
			if err != nil {
				return err
			}
			if !whatIf {
				return show(command, printed, created)
			}
			asked, err := startOf(command.Context(), clients, created)
			if err != nil {
				return err
			}
			if *printed.OutputFormat != "" {
				return show(command, printed, asked)
			}
			return kube.PrintStart(command.OutOrStdout(), "phjob", created.Name, &asked.Status)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.user, "user", "", "user whose quota counts")
	flags.StringVar(&o.group, "group", "", "group that the job runs in")
	flags.StringVar(&o.groupID, "group-id", "", "identifier of the group (default: its name)")
	flags.StringVar(&o.instanceType, "instance-type", "", "InstanceType, which says how much the job may use")
	flags.StringVarP(&o.image, "image", "i", "", "name of the Image")
	flags.BoolVar(&whatIf, "what-if", false, "say when the PhJob would start, and create nothing")
	flags.StringVarP(printed.OutputFormat, "output", "o", "", "how to print the PhJob that was created, or the answer: name, yaml or json")
	connection.CompleteFlag(command, "instance-type", "instancetypes.primehub.io")
	connection.CompleteFlag(command, "image", "images.primehub.io")
	return command
}

// show prints a PhJob that was created, or a StartReview.
func show(command *cobra.Command, printed *genericclioptions.PrintFlags, object runtime.Object) error {
	printer, err := printed.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(object, command.OutOrStdout())
}

// read takes over the arguments, and says which are missing.
func (o *submission) read(command *cobra.Command, args []string) error {
	dash := command.ArgsLenAtDash()
	switch {
	case len(args) == 0 || dash == 0:
		return errors.New("name the PhJob")
	case dash < 0 && len(args) > 1:
		return fmt.Errorf("what the pod runs stands behind --: muster phjob run %s -- %s", args[0], strings.Join(args[1:], " "))
	case len(args) == 1:
		return fmt.Errorf("say what the pod runs, behind --: muster phjob run %s -- COMMAND", args[0])
	}
	for _, flag := range []string{"user", "group", "instance-type", "image"} {
		if command.Flag(flag).Value.String() == "" {
			return fmt.Errorf("--%s is missing", flag)
		}
	}
	o.name, o.command = args[0], args[1:]
	if o.groupID == "" {
		o.groupID = o.group
	}
	return nil
}

func (o *submission) job() *primehubv1alpha1.PhJob {
	return &primehubv1alpha1.PhJob{
		ObjectMeta: metav1.ObjectMeta{Name: o.name},
		Spec: primehubv1alpha1.PhJobSpec{
			DisplayName: o.name, UserID: o.user, UserName: o.user, GroupID: o.groupID, GroupName: o.group,
			InstanceType: o.instanceType, Image: o.image, Command: kube.ShellWords(o.command),
		},
	}
}

func newCancelCommand(connection *kube.Connection) *cobra.Command {
	command := &cobra.Command{
		Use:     "cancel NAME...",
		Short:   "End PhJobs for good",
		Example: `  muster phjob cancel train`,
		Args:    kube.AtLeastOne("phjob"),
		RunE: func(command *cobra.Command, names []string) error {
			clients, err := connection.Clients()
			if err != nil {
				return err
			}
			return kube.EachName(names, func(name string) error {
				if err := cancel(command.Context(), clients, name); err != nil {
					return err
				}
				fmt.Fprintf(command.OutOrStdout(), "phjob %s is asked to end\n", name)
				return nil
			})
		},
	}
	connection.Complete(command, kube.PhJobs)
	return command
}

// cancel ends a PhJob, unless it has ended.
func cancel(ctx context.Context, clients *kube.Clients, name string) error {
	jobs := clients.Muster.PrimehubV1alpha1().PhJobs(clients.Namespace)
	job, err := jobs.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	switch job.Status.Phase {
	case primehubv1alpha1.PhJobSucceeded, primehubv1alpha1.PhJobFailed, primehubv1alpha1.PhJobCancelled, primehubv1alpha1.PhJobUnknown:
		return fmt.Errorf("phjob %s has ended: it is %s", name, job.Status.Phase)
	}
	_, err = jobs.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"cancel":true}}`), metav1.PatchOptions{})
	return err
}

func newLogsCommand(connection *kube.Connection) *cobra.Command {
	o := logs.NewLogsOptions(genericiooptions.IOStreams{})
	command := &cobra.Command{
		Use:     "logs NAME",
		Short:   "Print the log of a PhJob's pod",
		Example: `  muster phjob logs train -f`,
		Args:    kube.ExactlyOne("phjob"),
		RunE: func(command *cobra.Command, names []string) error {
			clients, err := connection.Clients()
			if err != nil {
				return err
			}
			_, err = clients.Muster.PrimehubV1alpha1().PhJobs(clients.Namespace).Get(command.Context(), names[0], metav1.GetOptions{})
			if err != nil && !apierrors.IsForbidden(err) {
				return err
			}
			o.IOStreams = kube.Streams(command)
			if err := o.Complete(connection.Factory, command, names); err != nil { // the pod has the name of its PhJob
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			return o.RunLogsContext(command.Context())
		},
	}
	kube.AddLogFlags(command, o)
	connection.Complete(command, kube.PhJobs)
	return command
}
