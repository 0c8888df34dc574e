package queue

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

func newTreeCommand(connection *kube.Connection) *cobra.Command {
	return &cobra.Command{
		Use:     "tree",
		Short:   "Print the tree of Queues with what each uses of its capability",
		Example: `  muster queue tree`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			clients, err := connection.Clients()
			if err != nil {
				return err
			}
			queues, err := clients.Muster.SchedulingV1beta1().Queues().List(command.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(treeTable(queues.Items), command.OutOrStdout())
		},
	}
}

// treeTable is the tree as a table, each queue below its parent.
func treeTable(queues []schedulingv1beta1.Queue) *metav1.Table {
	table := kube.NewTable("QUEUE", "STATE", "RUNNING", "WAITING", "USED", "CAPABILITY")
	visit(queues, func(queue *schedulingv1beta1.Queue, depth int) {
		status := &queue.Status
		kube.AddRow(table, strings.Repeat("  ", depth)+queue.Name, string(status.State), status.Running, status.Pending+status.Inqueue,
			orDash(resources.FromResourceList(status.Allocated)), orDash(resources.FromResourceList(queue.Spec.Capability)))
	})
	return table
}

func orDash(amounts resources.List) string {
	delete(amounts, "pods")
	return cmp.Or(amounts.InWords(), "-")
}

// visit goes through the tree from its roots, siblings by name. A queue whose parent does not exist, and each queue of a circle, is shown
// as a root: none is left out.
func visit(queues []schedulingv1beta1.Queue, do func(queue *schedulingv1beta1.Queue, depth int)) {
	byName, children := map[string]*schedulingv1beta1.Queue{}, map[string][]string{}
	for i := range queues {
		byName[queues[i].Name] = &queues[i]
	}
	var roots []string
	for name, queue := range byName {
		if parent := parentOf(queue); byName[parent] == nil {
			roots = append(roots, name)
		} else {
			children[parent] = append(children[parent], name)
		}
	}
	seen := map[string]bool{}
	var walk func(names []string, depth int)
	walk = func(names []string, depth int) {
		slices.Sort(names)
		for _, name := range names {
			if !seen[name] {
				seen[name] = true
				do(byName[name], depth)
				walk(children[name], depth+1)
			}
		}
	}
	walk(roots, 0)
	var circles []string
	for name := range byName {
		if !seen[name] {
			circles = append(circles, name)
		}
	}
	walk(circles, 0)
}

// parentOf is the queue above another; "" above the root.
func parentOf(queue *schedulingv1beta1.Queue) string {
	if queue.Name == schedulingv1beta1.RootQueue {
		return ""
	}
	return cmp.Or(queue.Spec.Parent, schedulingv1beta1.RootQueue)
}
