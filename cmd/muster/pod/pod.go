// Package pod is `muster pod`: the pods of Jobs.
package pod

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubectl/pkg/cmd/get"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// NewCommand makes `muster pod`.
func NewCommand() *cobra.Command {
	command := &cobra.Command{Use: "pod", Aliases: []string{"pods"}, Short: "List the pods of Jobs"}
	command.AddCommand(newListCommand(kube.Connect(command)))
	return command
}

func newListCommand(connection *kube.Connection) *cobra.Command {
	var job, queue string
	command := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the pods of Jobs",
		Example: `  muster pod list -j training -o wide     # with their nodes
  muster pod list -A -q team-a`,
		Args: kube.None,
	}
	connection.Get(command, kube.Pods, func(ctx context.Context, clients *kube.Clients, o *get.GetOptions) error {
		o.LabelSelector = selector(job, queue, o.LabelSelector)
		if queue != "" {
			if err := clients.QueueExists(ctx, queue); err != nil {
				return err
			}
		}
		if job != "" && !o.AllNamespaces {
			return clients.JobExists(ctx, job)
		}
		return nil
	})
	command.Flags().StringVarP(&job, "job", "j", "", "list the pods of this Job only")
	command.Flags().StringVarP(&queue, "queue", "q", "", "list the pods of this queue's Jobs only")
	connection.CompleteFlag(command, "job", kube.Jobs)
	connection.CompleteFlag(command, "queue", kube.Queues)
	return command
}

// selector selects the pods of one Job, a queue or all Jobs, with the labels that the user wants.
func selector(job, queue, labelsToo string) string {
	chosen := batchv1alpha1.JobNameKey // which all of them have
	if job != "" {
		chosen = labels.Set{batchv1alpha1.JobNameKey: job}.String()
	}
	if queue != "" {
		chosen += "," + labels.Set{batchv1alpha1.QueueNameKey: queue}.String()
	}
	if labelsToo != "" {
		chosen += "," + labelsToo
	}
	return chosen
}
