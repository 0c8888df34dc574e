package job

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/logs"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// maxLogs is how many logs are followed at once. A Job of a thousand pods should not open a thousand connections by mistake.
const maxLogs = 50

func newLogsCommand(connection *kube.Connection) *cobra.Command {
	o := logs.NewLogsOptions(genericiooptions.IOStreams{})
	o.AllContainers, o.Prefix, o.MaxFollowConcurrency = true, true, maxLogs
	var task string
	command := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the logs of a Job's pods",
		Long: `Print the logs of a Job's pods, each line with the pod and the container before it:
the last ten lines of each, unless --tail or --since says otherwise.`,
		Example: `  muster job logs training -f
  muster job logs training --task worker --tail=-1`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, names []string) error {
			o.IOStreams = kube.Streams(command)
			set := labels.Set{batchv1alpha1.JobNameKey: names[0]}
			if task != "" {
				set[batchv1alpha1.TaskSpecKey] = task
			}
			o.Selector = set.String()
			if command.Flag("container").Changed {
				o.AllContainers = false
			}
			if err := o.Complete(connection.Factory, command, nil); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			return o.RunLogsContext(command.Context())
		},
	}
	o.AddFlags(command)
	for _, rare := range []string{"all-containers", "all-pods", "selector", "insecure-skip-tls-verify-backend", "limit-bytes", "pod-running-timeout"} {
		if err := command.Flags().MarkHidden(rare); err != nil {
			panic(fmt.Sprintf("kubectl has no flag %s any more", rare))
		}
	}
	command.Flags().StringVar(&task, "task", "", "print the logs of this task's pods only")
	connection.Complete(command, kube.Jobs)
	return command
}
