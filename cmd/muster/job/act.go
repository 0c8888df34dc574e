package job

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/phase"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// verb is something that a Command does to a Job.
type verb struct {
	name, short, done string
	action            busv1alpha1.Action
}

var verbs = []verb{
	{"suspend", "Stop Jobs; resume starts them again", "is asked to stop", busv1alpha1.AbortJobAction},
	{"resume", "Start Jobs again that were suspended", "is asked to go on", busv1alpha1.ResumeJobAction},
	{"restart", "Delete all pods of Jobs and create them anew", "is asked to restart", busv1alpha1.RestartJobAction},
}

func (v verb) newCommand(connection *kube.Connection) *cobra.Command {
	var message string
	command := &cobra.Command{
		Use:     v.name + " NAME...",
		Short:   v.short,
		Long:    v.short + ".\n\nmuster-controller does it; \"muster explain job NAME\" says what came of it.",
		Example: "  muster job " + v.name + " training --message \"the disks are full\"",
		Args:    kube.AtLeastOne("job"),
		RunE: func(command *cobra.Command, names []string) error {
			clients, err := connection.Clients()
			if err != nil {
				return err
			}
			return kube.EachName(names, func(name string) error {
				asked, err := ask(command.Context(), clients, name, v.name, v.action, message)
				if err != nil {
					return err
				}
				became, err := kube.Outcome(asked.JobAfter(command.Context()))
				if err == nil {
					fmt.Fprintf(command.OutOrStdout(), "job %s %s: %s\n", name, v.done, became)
				}
				return err
			})
		},
	}
	command.Flags().StringVar(&message, "message", "", "why; the Job's status repeats it")
	connection.Complete(command, kube.Jobs)
	return command
}

// ask creates a Command for a Job, unless it would do nothing.
func ask(ctx context.Context, clients *kube.Clients, name, verb string, action busv1alpha1.Action, message string) (*kube.Asked, error) {
	job, err := clients.Muster.BatchV1alpha1().Jobs(clients.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if err := refusal(job, verb, action); err != nil {
		return nil, err
	}
	return clients.CommandJob(ctx, job, action, message)
}

// refusal says why an action does nothing to a Job as it is. It is nil if the action does something, or the Job has no phase yet.
func refusal(job *batchv1alpha1.Job, verb string, action busv1alpha1.Action) error {
	current := job.Status.State.Phase
	switch {
	case ptr.Deref(job.Spec.Suspend, false) && action == busv1alpha1.ResumeJobAction:
		return fmt.Errorf("job %[1]s is held by its field spec.suspend, and %[2]s does nothing to it: "+
			`run kubectl patch vcjob %[1]s --type merge -p '{"spec":{"suspend":false}}'`, job.Name, verb)
	case current == "" || phase.Honours(current, action):
		return nil
	}
	return fmt.Errorf("job %s is %s, and %s does nothing to it", job.Name, current, verb)
}

func newCancelCommand(connection *kube.Connection) *cobra.Command {
	var keep bool
	command := &cobra.Command{
		Use:   "cancel NAME...",
		Short: "Delete Jobs with their pods, or end them for good",
		Example: `  muster job cancel training
  muster job cancel training --keep       # ends it, and keeps the Job to look at`,
		Args: kube.AtLeastOne("job"),
		RunE: func(command *cobra.Command, names []string) error {
			clients, err := connection.Clients()
			if err != nil {
				return err
			}
			return kube.EachName(names, func(name string) error {
				if keep {
					_, err = ask(command.Context(), clients, name, "cancel --keep", busv1alpha1.TerminateJobAction, "")
				} else {
					err = clients.Muster.BatchV1alpha1().Jobs(clients.Namespace).Delete(command.Context(), name,
						metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
				}
				if err == nil {
					fmt.Fprintf(command.OutOrStdout(), "job %s cancelled\n", name)
				}
				return err
			})
		},
	}
	command.Flags().BoolVar(&keep, "keep", false, "end the Job (phase Terminated) in place of deleting it")
	connection.Complete(command, kube.Jobs)
	return command
}
