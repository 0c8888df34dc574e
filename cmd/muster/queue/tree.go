package queue

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/explain"
	"github.com/muster-sched/muster/pkg/resources"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

func newTreeCommand(connection *kube.Connection) *cobra.Command {
	command := &cobra.Command{
		Use:   "tree",
		Short: "Print the tree of Queues with what each uses of its capability",
		Example: `  muster queue tree
  muster queue tree -o json`,
		Args: kube.None,
	}
	output := kube.AddOutput(command.Flags())
	command.RunE = func(command *cobra.Command, _ []string) error {
		clients, err := connection.Clients()
		if err != nil {
			return err
		}
		queues, err := clients.Muster.SchedulingV1beta1().Queues().List(command.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		out, found := command.OutOrStdout(), treeOf(queues.Items)
		return output.Print(out, found, func() error {
			return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(found.table(), out)
		})
	}
	return command
}

// tree is what the command says: queues from the root down, each behind its parent.
type tree struct {
	Queues []branch `json:"queues"`
}

// branch is a queue of the tree.
type branch struct {
	Name string `json:"name"`
	// Parent is missing above the root.
	Parent string `json:"parent,omitempty"`
	// Depth is 0 for the root.
	Depth int                          `json:"depth"`
	State schedulingv1beta1.QueueState `json:"state"`
	// Running and Waiting count PodGroups, those of queues below it included.
	Running int32 `json:"running"`
	Waiting int32 `json:"waiting"`
	kube.Amounts
	Capability corev1.ResourceList `json:"capability"`
}

func treeOf(queues []schedulingv1beta1.Queue) *tree {
	t := &tree{Queues: []branch{}}
	facts := explain.Facts{Queues: queues}
	visit(queues, func(queue *schedulingv1beta1.Queue, depth int) {
		running, waiting := explain.JobsOf(queue)
		t.Queues = append(t.Queues, branch{
			Name: queue.Name, Parent: queue.ParentName(), Depth: depth, State: queue.Status.State, Running: running, Waiting: waiting,
			Amounts: kube.AmountsOf(facts.FiguresOf(queue)), Capability: withoutPods(queue.Spec.Capability),
		})
	})
	return t
}

// table shows the depth by spaces.
func (t *tree) table() *metav1.Table {
	table := kube.NewTable(slices.Concat([]string{"QUEUE", "STATE", "RUNNING", "WAITING"}, kube.AmountColumns, []string{"CAPABILITY"})...)
	for _, queue := range t.Queues {
		cells := []any{strings.Repeat("  ", queue.Depth) + queue.Name, string(queue.State), queue.Running, queue.Waiting}
		kube.AddRow(table, append(append(cells, queue.Cells()...), kube.InWords(queue.Capability))...)
	}
	return table
}

func withoutPods(quantities corev1.ResourceList) corev1.ResourceList {
	amounts := resources.FromResourceList(quantities)
	delete(amounts, corev1.ResourcePods)
	return amounts.ToResourceList()
}

// visit goes through the tree from its roots, siblings by name. A queue whose parent does not exist, and each queue of a circle, is shown
// as a root. None is left out.
func visit(queues []schedulingv1beta1.Queue, do func(queue *schedulingv1beta1.Queue, depth int)) {
	byName, children := map[string]*schedulingv1beta1.Queue{}, map[string][]string{}
	for i := range queues {
		byName[queues[i].Name] = &queues[i]
	}
	var roots []string
	for name, queue := range byName {
		if parent := queue.ParentName(); byName[parent] == nil {
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
