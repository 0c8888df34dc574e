package job

import (
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"

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
		Args:    cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, names []string) error {
			clients, err := connection.Clients()
			if err != nil {
				return err
			}
			return kube.EachName(names, func(name string) error {
				if err := clients.CommandJob(command.Context(), name, v.action, message); err != nil {
					return err
				}
				fmt.Fprintf(command.OutOrStdout(), "job %s %s\n", name, v.done)
				return nil
			})
		},
	}
	command.Flags().StringVar(&message, "message", "", "why; the Job's status repeats it")
	connection.Complete(command, kube.Jobs)
	return command
}

func newCancelCommand(connection *kube.Connection) *cobra.Command {
	var keep bool
	command := &cobra.Command{
		Use:   "cancel NAME...",
		Short: "Delete Jobs with their pods, or end them for good",
		Example: `  muster job cancel training
  muster job cancel training --keep       # ends it, and keeps the Job to look at`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, names []string) error {
			clients, err := connection.Clients()
			if err != nil {
				return err
			}
			return kube.EachName(names, func(name string) error {
				if keep {
					err = clients.CommandJob(command.Context(), name, busv1alpha1.TerminateJobAction, "")
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
