package job

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// change is what `muster job update` changes. The rest of the Job stays.
type change struct {
	priorityClass *string
	min           *int32
	tasks         []string
	limit         *time.Duration
}

func newUpdateCommand(connection *kube.Connection) *cobra.Command {
	var class string
	var least int32
	var limit time.Duration
	wanted := &change{}
	command := &cobra.Command{
		Use:   "update NAME",
		Short: "Change a Job: its priority, its size, its minimum",
		Long: `Change what may be changed of a Job: its PriorityClass, the number of pods of its
tasks, how many of them start together, and how long it may run. The API server refuses other changes.`,
		Example: `  muster job update training --task worker=8 --min 9
  muster job update training --priority-class high`,
		Args: kube.ExactlyOne("job"),
		RunE: func(command *cobra.Command, names []string) error {
			if command.Flag("priority-class").Changed {
				wanted.priorityClass = &class
			}
			if command.Flag("min").Changed {
				wanted.min = &least
			}
			if command.Flag("time").Changed {
				wanted.limit = &limit
			}
			return wanted.update(command, connection, names[0])
		},
	}
	flags := command.Flags()
	flags.StringVar(&class, "priority-class", "", "PriorityClass of the Job")
	flags.Int32VarP(&least, "min", "m", 0, "number of pods that start together")
	flags.StringArrayVar(&wanted.tasks, "task", nil, "new number of pods of a task, NAME=REPLICAS, once for each")
	flags.DurationVarP(&limit, "time", "t", 0, "how long the Job may run in all; 0 takes the limit away")
	connection.Complete(command, kube.Jobs)
	connection.CompleteFlag(command, "priority-class", "priorityclasses")
	return command
}

func (c *change) update(command *cobra.Command, connection *kube.Connection, name string) error {
	if c.priorityClass == nil && c.min == nil && c.limit == nil && len(c.tasks) == 0 {
		return errors.New("say what to change: --priority-class, --min, --task or --time")
	}
	clients, err := connection.Clients()
	if err != nil {
		return err
	}
	jobs, ctx := clients.Muster.BatchV1alpha1().Jobs(clients.Namespace), command.Context()
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		job, err := jobs.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := c.apply(job); err != nil {
			return err
		}
		_, err = jobs.Update(ctx, job, metav1.UpdateOptions{})
		return err
	})
	if err == nil {
		fmt.Fprintf(command.OutOrStdout(), "job %s updated\n", name)
	}
	return err
}

// apply makes the change to a Job.
func (c *change) apply(job *batchv1alpha1.Job) error {
	job.Spec.PriorityClassName = ptr.Deref(c.priorityClass, job.Spec.PriorityClassName)
	job.Spec.MinAvailable = ptr.Deref(c.min, job.Spec.MinAvailable)
	if c.limit != nil {
		var err error
		if job.Spec.ActiveDeadlineSeconds, err = kube.Seconds("time", *c.limit); err != nil {
			return err
		}
	}
	for _, written := range c.tasks {
		name, replicas, err := kube.TaskReplicas(written)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(job.Spec.Tasks, func(task batchv1alpha1.TaskSpec) bool { return task.Name == name })
		if at < 0 {
			return unknownTask(job, name)
		}
		job.Spec.Tasks[at].Replicas = replicas
	}
	return nil
}
