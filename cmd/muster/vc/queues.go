package vc

import (
	"cmp"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/version"

	"github.com/muster-sched/muster/pkg/admission"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// queueName is the queue that a command is for.
func (c *call) queueName() (string, error) {
	name := c.text("name")
	if name == "" {
		return "", errors.New("queue name must be specified: use --name")
	}
	return name, nil
}

func createQueue() *cobra.Command {
	command := verb("create", "Create a queue", func(c *call) error {
		weight, err := c.GetInt32("weight")
		if err != nil {
			return err
		}
		queue := &schedulingv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: c.text("name")}, Spec: schedulingv1beta1.QueueSpec{Weight: weight}}
		if _, err := c.Muster.SchedulingV1beta1().Queues().Create(c.command.Context(), queue, metav1.CreateOptions{}); err != nil {
			return err
		}
		if c.text("state") != string(schedulingv1beta1.QueueStateClosed) {
			return nil
		}
		_, err = c.CommandQueue(c.command.Context(), queue.Name, busv1alpha1.CloseQueueAction)
		return err
	})
	command.Flags().StringP("name", "n", "test", "name of the queue")
	command.Flags().Int32P("weight", "w", 1, "weight of the queue")
	command.Flags().StringP("state", "S", "Open", "state of the queue, Open or Closed")
	return command
}

func deleteQueue() *cobra.Command {
	command := verb("delete", "Delete a queue", func(c *call) error {
		name, err := c.queueName()
		if err != nil {
			return err
		}
		return c.Muster.SchedulingV1beta1().Queues().Delete(c.command.Context(), name, metav1.DeleteOptions{})
	})
	command.Flags().StringP("name", "n", "", "name of the queue")
	return command
}

func operateQueue() *cobra.Command {
	command := verb("operate", "Open or close a queue, or change its weight", func(c *call) error {
		name, err := c.queueName()
		if err != nil {
			return err
		}
		switch action := c.text("action"); action {
		case "open":
			_, err = c.CommandQueue(c.command.Context(), name, busv1alpha1.OpenQueueAction)
			return err
		case "close":
			_, err = c.CommandQueue(c.command.Context(), name, busv1alpha1.CloseQueueAction)
			return err
		case "update":
			return c.weigh(name)
		default:
			return fmt.Errorf("action %q is not known: use open, close or update", action)
		}
	})
	command.Flags().StringP("name", "n", "", "name of the queue")
	command.Flags().Int32P("weight", "w", 0, "weight of the queue, for the action update")
	command.Flags().StringP("action", "a", "", "open, close or update")
	return command
}

func (c *call) weigh(name string) error {
	weight, err := c.GetInt32("weight")
	if err != nil {
		return err
	}
	if weight == 0 {
		return fmt.Errorf("when %q queue %s, weight must be specified: use --weight", "update", name)
	}
	_, err = c.Muster.SchedulingV1beta1().Queues().Patch(c.command.Context(), name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"weight":%d}}`, weight), metav1.PatchOptions{})
	return err
}

func listQueues(use string) *cobra.Command {
	return verb(use, "List queues", func(c *call) error { return c.printQueues("") })
}

func getQueue() *cobra.Command {
	command := verb("get", "Print a queue", func(c *call) error {
		name, err := c.queueName()
		if err != nil {
			return err
		}
		return c.printQueues(name)
	})
	command.Flags().StringP("name", "n", "", "name of the queue")
	return command
}

// newVqueues makes vqueues. It counts PodGroups, as vcctl does: Volcano's always says 0.
func newVqueues() *cobra.Command {
	command := verb("vqueues", "Print one queue or all", func(c *call) error { return c.printQueues(c.text("name")) })
	command.Flags().StringP("name", "n", "", "name of the queue; without it, all are printed")
	return command
}

// printQueues prints one queue, or all for "", with the number of PodGroups in each phase.
func (c *call) printQueues(only string) error {
	queues, err := c.queues(only)
	if err != nil {
		return err
	}
	groups, err := c.Muster.SchedulingV1beta1().PodGroups(metav1.NamespaceAll).List(c.command.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(queues) == 0 {
		c.printf("No resources found\n")
		return nil
	}
	counts := map[string]map[schedulingv1beta1.PodGroupPhase]int{}
	for i := range groups.Items {
		name := admission.QueueOf(&groups.Items[i])
		if counts[name] == nil {
			counts[name] = map[schedulingv1beta1.PodGroupPhase]int{}
		}
		counts[name][cmp.Or(groups.Items[i].Status.Phase, schedulingv1beta1.PodGroupPending)]++
	}
	c.printf("%-25s%-8s%-8s%-8s%-8s%-8s%-8s%-8s%-8s\n", "Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed")
	for i := range queues {
		queue, n := &queues[i], counts[queues[i].Name]
		c.printf("%-25s%-8d%-8s%-8s%-8d%-8d%-8d%-8d%-8d\n", queue.Name, queue.Spec.Weight, queue.Status.State, queue.Spec.Parent,
			n[schedulingv1beta1.PodGroupInqueue], n[schedulingv1beta1.PodGroupPending], n[schedulingv1beta1.PodGroupRunning],
			n[schedulingv1beta1.PodGroupUnknown], n[schedulingv1beta1.PodGroupCompleted])
	}
	return nil
}

func (c *call) queues(only string) ([]schedulingv1beta1.Queue, error) {
	client := c.Muster.SchedulingV1beta1().Queues()
	if only != "" {
		queue, err := client.Get(c.command.Context(), only, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return []schedulingv1beta1.Queue{*queue}, nil
	}
	all, err := client.List(c.command.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}

func versionCommand() *cobra.Command {
	return verb("version", "Print the version", func(c *call) error {
		info := version.Get()
		table := tabwriter.NewWriter(c.command.OutOrStdout(), 0, 0, 1, ' ', 0)
		defer table.Flush()
		fmt.Fprintf(table, "API Version:\t%s\nVersion:\t%s\nGit SHA:\t%s\nBuilt At:\t%s\nGo Version:\t%s\nGo OS/Arch:\t%s\n",
			batchv1alpha1.SchemeGroupVersion.Version, info.GitVersion, info.GitCommit, info.BuildDate, info.GoVersion, info.Platform)
		return nil
	})
}
