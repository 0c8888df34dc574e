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

	"github.com/muster-sched/muster/pkg/explain"

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
		if err := reader.Cluster(explain.PartQueues, explain.PartGroups, explain.PartPods); err != nil {
			return err
		}
		out, found := command.OutOrStdout(), answerOf(&reader.Facts)
		if err := output.Print(out, found, func() error { return found.print(out) }); err != nil {
			return err
		}
		if found.isPartial {
			fmt.Fprintln(command.ErrOrStderr(), "warning:", reader.Facts.Lacking(explain.PartGroups, explain.PartPods),
				"The table has only users whom the queues name.")
		}
		return reader.Facts.Lacking(explain.PartQueues)
	}
	return command
}

// answer is what the command says. A list that the user may not read is missing, not empty.
type answer struct {
	Queues []queueUse `json:"queues,omitzero"`
	Users  []userUse  `json:"users,omitzero"`
	// isPartial says that the users are those in the statuses of queues, which name the largest.
	isPartial bool
}

// queueUse is what a queue uses.
type queueUse struct {
	Name string `json:"name"`
	// Full is the percentage of the limit that is used of the scarcest resource. Both are missing if nothing limits the queue.
	Full     *int64              `json:"fullPercent,omitempty"`
	Scarcest corev1.ResourceName `json:"scarcest,omitempty"`
	kube.Amounts
	// Running and Waiting count PodGroups, those of queues below it included.
	Running int32 `json:"running"`
	Waiting int32 `json:"waiting"`
	// Outlook says when what waits is expected to start.
	*explain.Outlook
	lastStart string
}

// userUse is what a user uses in a queue. Pods without a user have no name. The number of pods is missing if it is not known.
type userUse struct {
	Name  string              `json:"name,omitempty"`
	Queue string              `json:"queue"`
	Pods  *int                `json:"pods,omitempty"`
	Used  corev1.ResourceList `json:"used"`
}

// answerOf is the answer as far as the facts are known.
func answerOf(facts *explain.Facts) *answer {
	a := &answer{}
	if !facts.Lacks(explain.PartQueues) {
		a.Queues = queuesOf(facts)
	}
	switch {
	case !facts.Lacks(explain.PartGroups, explain.PartPods):
		a.Users = []userUse{}
		for _, use := range explain.Uses(*facts) {
			a.Users = append(a.Users, userUse{Name: use.User, Queue: use.Queue, Pods: &use.Pods, Used: use.Requests.ToResourceList()})
		}
	case a.Queues != nil:
		a.Users, a.isPartial = usersOf(facts), true
	}
	return a
}

// usersOf are the users that the statuses of queues name, by what they use of cpu, the most first.
func usersOf(facts *explain.Facts) []userUse {
	users := []userUse{}
	for i := range facts.Queues {
		if extension := facts.Queues[i].Status.Muster; extension != nil {
			for _, user := range extension.Users {
				used := user.Allocated.DeepCopy()
				delete(used, corev1.ResourcePods)
				users = append(users, userUse{Name: user.Name, Queue: facts.Queues[i].Name, Used: used})
			}
		}
	}
	slices.SortStableFunc(users, func(x, y userUse) int { return y.Used.Cpu().Cmp(*x.Used.Cpu()) })
	return users
}

// queuesOf lists the fullest queue first.
func queuesOf(facts *explain.Facts) []queueUse {
	queues, outlooks := []queueUse{}, explain.Outlooks(facts)
	for i := range facts.Queues {
		queue := &facts.Queues[i]
		figures := facts.FiguresOf(queue)
		outlook := outlooks[queue.Name]
		one := queueUse{Name: queue.Name, Amounts: kube.AmountsOf(figures), Outlook: outlook, lastStart: outlook.Cell(facts.Now)}
		one.Running, one.Waiting = explain.JobsOf(queue)
		if percent, scarcest, limited := explain.Scarcest(figures); limited {
			one.Full, one.Scarcest = &percent, scarcest
		}
		queues = append(queues, one)
	}
	slices.SortFunc(queues, func(x, y queueUse) int {
		return cmp.Or(-cmp.Compare(ptr.Deref(x.Full, -1), ptr.Deref(y.Full, -1)), cmp.Compare(x.Name, y.Name))
	})
	return queues
}

// print prints two tables, but none of what is not known. A printer writes headings once, so each has its own.
func (a *answer) print(out io.Writer) error {
	if a.Queues != nil {
		if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(a.queueTable(), out); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	if a.Users == nil {
		return nil
	}
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(a.userTable(), out)
}

func (a *answer) queueTable() *metav1.Table {
	table := kube.NewTable(slices.Concat([]string{"QUEUE", "FULL"}, kube.AmountColumns, []string{"RUNNING", "WAITING", "LAST-START"})...)
	for _, queue := range a.Queues {
		full := "-"
		if queue.Full != nil {
			full = fmt.Sprintf("%d%% of its %s", *queue.Full, queue.Scarcest)
		}
		kube.AddRow(table, append(append([]any{queue.Name, full}, queue.Cells()...), queue.Running, queue.Waiting, queue.lastStart)...)
	}
	return table
}

func (a *answer) userTable() *metav1.Table {
	table := kube.NewTable("USER", "QUEUE", "PODS", "USED")
	for _, user := range a.Users {
		pods := "-"
		if user.Pods != nil {
			pods = fmt.Sprint(*user.Pods)
		}
		kube.AddRow(table, cmp.Or(user.Name, "-"), user.Queue, pods, kube.InWords(user.Used))
	}
	return table
}
