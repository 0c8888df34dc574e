package job

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
	"github.com/muster-sched/muster/pkg/resources"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

const formatWide = "wide"

func newHistoryCommand(connection *kube.Connection) *cobra.Command {
	query, limit := &kube.HistoryQuery{}, int64(50)
	command := &cobra.Command{
		Use:   "history [NAME]",
		Short: "List Jobs and PhJobs that have ended, deleted ones included",
		Long: `List Jobs and PhJobs that have ended, the latest first. They stay in the history when they
are deleted. muster-controller keeps it if it runs with --history-dir.`,
		Example: `  muster job history
  muster job history train -o yaml            # all Jobs that had this name
  muster job history --user ada --since 7d -o wide
  muster job history -A --phase Failed --since 2026-01-01 --until 2026-02-01 --limit 0`,
	}
	query.AddFlags(command.Flags())
	command.Flags().Int64Var(&limit, "limit", limit, "print that many Jobs at most; 0 for all")
	output := kube.AddOutput(command.Flags(), formatWide)
	command.RunE = func(command *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return fmt.Errorf("%s takes one job: leave out %q", command.CommandPath(), args[1])
		case limit < 0:
			return fmt.Errorf("--limit %d: give 0 or more", limit)
		case len(args) == 1:
			query.Name = args[0]
		}
		clients, err := connection.Clients()
		if err != nil {
			return err
		}
		records, err := ended(command.Context(), clients, query, limit)
		if err != nil {
			return err
		}
		out := command.OutOrStdout()
		err = output.Print(out, records, func() error {
			table := historyTable(records.Items, query.AllNamespaces, output.String() == formatWide)
			return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, out)
		})
		switch {
		case err != nil:
			return err
		case len(records.Items) == 0:
			fmt.Fprintln(command.ErrOrStderr(), "The history has no such Jobs.")
		case records.Continue != "":
			fmt.Fprintln(command.ErrOrStderr(), "There are earlier ones: --limit 0 prints all, --until or --since chooses a time.")
		}
		return nil
	}
	connection.CompleteFlag(command, "queue", kube.Queues)
	kube.CompleteWords(command, "phase", kube.EndPhases())
	return command
}

// ended reads the records. A name without a record is an error.
func ended(ctx context.Context, clients *kube.Clients, query *kube.HistoryQuery, limit int64) (*historyv1alpha1.JobRecordList, error) {
	records, err := clients.Records(ctx, query, limit)
	if err == nil && len(records.Items) == 0 && query.Name != "" {
		return nil, fmt.Errorf("the history has no such Job %q in namespace %s: it may not have ended (muster job get %s)", query.Name, clients.Namespace, query.Name)
	}
	return records, err
}

// historyTable has a row for each record.
func historyTable(records []historyv1alpha1.JobRecord, isAll, isWide bool) *metav1.Table {
	columns := []string{"NAME", "KIND", "USER", "QUEUE", "PODS", "PHASE", "WAITED", "RAN", "ENDED"}
	if isAll {
		columns = append([]string{"NAMESPACE"}, columns...)
	}
	if isWide {
		columns = append(columns, "REQUESTS", "RESOURCE-HOURS", "RESTARTS", "EVICTIONS", "REASON", "MESSAGE")
	}
	table := kube.NewTable(columns...)
	for i := range records {
		r := &records[i].Record
		cells := []any{r.Name, r.Kind, orNone(r.User), orNone(r.Queue), r.Pods, r.Phase, span(r.WaitSeconds), span(r.RunSeconds),
			duration.HumanDuration(time.Since(r.Ended.Time))}
		if isAll {
			cells = append([]any{r.Namespace}, cells...)
		}
		if isWide {
			cells = append(cells, orNone(resources.FromResourceList(r.Requests).InWords()), orNone(strings.Join(kube.HoursInWords(r.ResourceSeconds), ", ")),
				r.Restarts, r.Evictions, orNone(r.Reason), orNone(r.Message))
		}
		kube.AddRow(table, cells...)
	}
	return table
}

func orNone(text string) string { return cmp.Or(text, "-") }

func span(seconds int64) string { return duration.HumanDuration(time.Duration(seconds) * time.Second) }
