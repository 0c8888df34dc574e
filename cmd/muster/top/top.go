// Package top is `muster top`: who uses how much.
package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/ptr"

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
		Example: `  muster top
  muster top -o json`,
		Args: kube.None,
	}
	connection, output := kube.Connect(command), kube.AddOutput(command.Flags())
	command.RunE = func(command *cobra.Command, _ []string) error {
		clients, err := connection.Clients()
		if err != nil {
			return err
		}
		reader := kube.NewReader(command.Context(), clients)
		if err := reader.Cluster(); err != nil {
			return err
		}
		out, found := command.OutOrStdout(), answerOf(reader.Facts)
		if err := output.Print(out, found, func() error { return found.print(out) }); err != nil {
			return err
		}
		for _, unread := range reader.Facts.Unread {
			fmt.Fprintln(command.ErrOrStderr(), "warning:", unread)
		}
		return nil
	}
	return command
}

// answer is what the command says.
type answer struct {
	Queues []queueUse `json:"queues"`
	Users  []userUse  `json:"users"`
}

// queueUse is what a queue uses.
type queueUse struct {
	Name string `json:"name"`
	// Full is the percentage of its capability that is used of its scarcest resource. Both are missing if nothing limits the queue.
	Full     *int64              `json:"fullPercent,omitempty"`
	Scarcest corev1.ResourceName `json:"scarcest,omitempty"`
	Used     corev1.ResourceList `json:"used"`
	// Running and Waiting count PodGroups.
	Running int32 `json:"running"`
	Waiting int32 `json:"waiting"`
}

// userUse is what a user uses in a queue. Pods without a user have no name.
type userUse struct {
	Name  string              `json:"name,omitempty"`
	Queue string              `json:"queue"`
	Pods  int                 `json:"pods"`
	Used  corev1.ResourceList `json:"used"`
}

// answerOf lists the fullest queue first.
func answerOf(facts explain.Facts) *answer {
	a := &answer{Queues: []queueUse{}, Users: []userUse{}}
	for i := range facts.Queues {
		queue := &facts.Queues[i]
		used := resources.FromResourceList(queue.Status.Allocated)
		delete(used, corev1.ResourcePods)
		one := queueUse{
			Name: queue.Name, Used: used.ToResourceList(), Running: queue.Status.Running, Waiting: queue.Status.Pending + queue.Status.Inqueue,
		}
		if percent, scarcest := fill(queue); percent >= 0 {
			one.Full, one.Scarcest = &percent, scarcest
		}
		a.Queues = append(a.Queues, one)
	}
	slices.SortFunc(a.Queues, func(x, y queueUse) int {
		return cmp.Or(-cmp.Compare(ptr.Deref(x.Full, -1), ptr.Deref(y.Full, -1)), cmp.Compare(x.Name, y.Name))
	})
	for _, use := range explain.Uses(facts) {
		a.Users = append(a.Users, userUse{Name: use.User, Queue: use.Queue, Pods: use.Pods, Used: use.Requests.ToResourceList()})
	}
	return a
}

// print prints two tables. A printer writes headings once, so each has its own.
func (a *answer) print(out io.Writer) error {
	if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(a.queueTable(), out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(a.userTable(), out)
}

// fill says how full a queue is, as the percentage of its scarcest resource that is used. It is -1 if nothing limits it.
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

func (a *answer) queueTable() *metav1.Table {
	table := kube.NewTable("QUEUE", "FULL", "USED", "RUNNING", "WAITING")
	for _, queue := range a.Queues {
		full := "-"
		if queue.Full != nil {
			full = fmt.Sprintf("%d%% of its %s", *queue.Full, queue.Scarcest)
		}
		kube.AddRow(table, queue.Name, full, inWords(queue.Used), queue.Running, queue.Waiting)
	}
	return table
}

func (a *answer) userTable() *metav1.Table {
	table := kube.NewTable("USER", "QUEUE", "PODS", "USED")
	for _, user := range a.Users {
		kube.AddRow(table, cmp.Or(user.Name, "-"), user.Queue, user.Pods, inWords(user.Used))
	}
	return table
}

func inWords(used corev1.ResourceList) string {
	return cmp.Or(resources.FromResourceList(used).InWords(), "-")
}
