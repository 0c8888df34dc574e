package job

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		Args: kube.ExactlyOne("job"),
		RunE: func(command *cobra.Command, names []string) error {
			o.IOStreams = kube.Streams(command)
			if err := knows(command.Context(), connection, names[0], task); err != nil {
				return err
			}
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
	kube.AddLogFlags(command, o)
	command.Flags().StringVar(&task, "task", "", "print the logs of this task's pods only")
	connection.Complete(command, kube.Jobs)
	return command
}

// knows is an error if there is no Job of the name, or it has no such task. The task "" stands for any.
func knows(ctx context.Context, connection *kube.Connection, name, task string) error {
	clients, err := connection.Clients()
	if err != nil {
		return err
	}
	job, err := clients.Muster.BatchV1alpha1().Jobs(clients.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return nil // the user may read logs, and not Jobs
	}
	if err != nil {
		return err
	}
	if task != "" && !slices.ContainsFunc(job.Spec.Tasks, func(t batchv1alpha1.TaskSpec) bool { return t.Name == task }) {
		return unknownTask(job, task)
	}
	return nil
}

// unknownTask says which tasks a Job has.
func unknownTask(job *batchv1alpha1.Job, name string) error {
	tasks := make([]string, 0, len(job.Spec.Tasks))
	for i := range job.Spec.Tasks {
		tasks = append(tasks, job.Spec.Tasks[i].Name)
	}
	return fmt.Errorf("job %s has no task %s: it has %s", job.Name, name, strings.Join(tasks, ", "))
}
