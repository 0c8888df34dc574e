// Package top is `muster top`: who uses how much.
package top

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/explain"
	"github.com/muster-sched/muster/pkg/resources"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// NewCommand makes `muster top`.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "top",
		Short: "Print queues and users by what they use",
		Long: `Print queues and users by what their running pods request: the fullest queue first, and
the user with the most cpu first. A user is the value of the label muster.sh/user.`,
		Example: `  muster top`,
		Args:    cobra.NoArgs,
	}
	connection := kube.Connect(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		clients, err := connection.Clients()
		if err != nil {
			return err
		}
		reader := kube.NewReader(command.Context(), clients)
		if err := reader.Cluster(); err != nil {
			return err
		}
		out, printer := command.OutOrStdout(), printers.NewTablePrinter(printers.PrintOptions{})
		if err := printer.PrintObj(queueTable(reader.Facts.Queues), out); err != nil {
			return err
		}
		fmt.Fprintln(out)
		// A printer writes headings once.
		if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(userTable(explain.Uses(reader.Facts)), out); err != nil {
			return err
		}
		for _, unread := range reader.Facts.Unread {
			fmt.Fprintln(command.ErrOrStderr(), "warning:", unread)
		}
		return nil
	}
	return command
}

// fill says how full a queue is: the percentage of its capability that is used of its scarcest resource; -1 if nothing limits it.
func fill(queue *schedulingv1beta1.Queue) (percent int64, scarcest corev1.ResourceName) {
	percent = -1
	limit, used := resources.FromResourceList(queue.Spec.Capability), resources.FromResourceList(queue.Status.Allocated)
	for name, most := range limit {
		if most <= 0 {
			continue
		}
		if part := int64(float64(used[name]) * 100 / float64(most)); part > percent || part == percent && name < scarcest {
			percent, scarcest = part, name
		}
	}
	return percent, scarcest
}

func queueTable(queues []schedulingv1beta1.Queue) *metav1.Table {
	slices.SortFunc(queues, func(a, b schedulingv1beta1.Queue) int {
		fullA, _ := fill(&a)
		fullB, _ := fill(&b)
		return cmp.Or(-cmp.Compare(fullA, fullB), cmp.Compare(a.Name, b.Name))
	})
	table := kube.NewTable("QUEUE", "FULL", "USED", "RUNNING", "WAITING")
	for i := range queues {
		queue := &queues[i]
		full := "-"
		if percent, scarcest := fill(queue); percent >= 0 {
			full = fmt.Sprintf("%d%% of its %s", percent, scarcest)
		}
		used := resources.FromResourceList(queue.Status.Allocated)
		delete(used, corev1.ResourcePods)
		kube.AddRow(table, queue.Name, full, cmp.Or(used.InWords(), "-"), queue.Status.Running, queue.Status.Pending+queue.Status.Inqueue)
	}
	return table
}

func userTable(uses []explain.Use) *metav1.Table {
	table := kube.NewTable("USER", "QUEUE", "PODS", "USED")
	for _, use := range uses {
		kube.AddRow(table, cmp.Or(use.User, "-"), use.Queue, use.Pods, cmp.Or(use.Requests.InWords(), "-"))
	}
	return table
}
