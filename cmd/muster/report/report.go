// Package report is `muster report`: sums over the Jobs that have ended.
package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

const formatCSV = "csv"

// subjects are what a report may be about.
var subjects = []string{historyv1alpha1.ByUser, historyv1alpha1.ByQueue, historyv1alpha1.ByNamespace}

// NewCommand makes `muster report`.
func NewCommand() *cobra.Command {
	query, by := &kube.HistoryQuery{Since: "30d"}, historyv1alpha1.ByUser
	command := &cobra.Command{
		Use:   "report",
		Short: "Sum up the Jobs that have ended, by user, queue or namespace",
		Long: `Sum up the Jobs and PhJobs that have ended: how many there were, how long they waited on
average, how long they ran, and how much they had on nodes. Hours of memory are those of
a GiB. muster-controller keeps a history if it runs with --history-dir.`,
		Example: `  muster report --by user --since 30d
  muster report -A --by queue --since 2026-01-01 --until 2026-02-01 -o csv`,
		Args: kube.None,
	}
	connection := kube.Connect(command)
	query.AddFlags(command.Flags())
	command.Flags().StringVar(&by, "by", by, "user, queue or namespace: what has a row")
	output := kube.AddOutput(command.Flags(), formatCSV)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if !slices.Contains(subjects, by) {
			return fmt.Errorf("--by %s: give user, queue or namespace", by)
		}
		clients, err := connection.Clients()
		if err != nil {
			return err
		}
		found, err := clients.Report(command.Context(), query, by)
		if err != nil {
			return err
		}
		out := command.OutOrStdout()
		return output.Print(out, found, func() error {
			if output.String() == formatCSV {
				return printCSV(out, found)
			}
			return printTable(out, found)
		})
	}
	connection.CompleteFlag(command, "queue", kube.Queues)
	kube.CompleteWords(command, "phase", kube.EndPhases())
	kube.CompleteWords(command, "by", subjects)
	return command
}

// resourcesOf lists the resources of all rows: cpu and memory first.
func resourcesOf(report *historyv1alpha1.JobReport) []corev1.ResourceName {
	names := map[corev1.ResourceName]bool{corev1.ResourceCPU: true, corev1.ResourceMemory: true}
	for _, row := range report.Rows {
		for name := range row.ResourceSeconds {
			names[name] = true
		}
	}
	first := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	return append(first, slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(name corev1.ResourceName) bool { return slices.Contains(first, name) })...)
}

func printTable(out io.Writer, report *historyv1alpha1.JobReport) error {
	names := resourcesOf(report)
	columns := []string{strings.ToUpper(report.By), "JOBS", "SUCCEEDED", "WAITED", "RAN", "EVICTIONS"}
	for _, name := range names {
		columns = append(columns, kube.HoursColumn(name))
	}
	table := kube.NewTable(columns...)
	for _, row := range report.Rows {
		cells := []any{orNone(row.Name), row.Jobs, row.Succeeded, span(row.WaitSeconds / max(row.Jobs, 1)), span(row.RunSeconds), row.Evictions}
		for _, name := range names {
			cells = append(cells, fmt.Sprintf("%.2f", kube.Hours(name, row.ResourceSeconds[name])))
		}
		kube.AddRow(table, cells...)
	}
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, out)
}

// printCSV prints numbers without units, for spreadsheets.
func printCSV(out io.Writer, report *historyv1alpha1.JobReport) error {
	names := resourcesOf(report)
	lines := [][]string{{report.By, "jobs", "succeeded", "wait_seconds", "run_seconds", "evictions"}}
	for _, name := range names {
		lines[0] = append(lines[0], strings.ReplaceAll(strings.ToLower(kube.HoursColumn(name)), "-", "_"))
	}
	for _, row := range report.Rows {
		line := []string{row.Name}
		for _, n := range []int64{row.Jobs, row.Succeeded, row.WaitSeconds, row.RunSeconds, row.Evictions} {
			line = append(line, fmt.Sprint(n))
		}
		for _, name := range names {
			line = append(line, fmt.Sprintf("%.4f", kube.Hours(name, row.ResourceSeconds[name])))
		}
		lines = append(lines, line)
	}
	if err := csv.NewWriter(out).WriteAll(lines); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func orNone(name string) string {
	if name == "" {
		return "-"
	}
	return name
}

func span(seconds int64) string { return duration.HumanDuration(time.Duration(seconds) * time.Second) }
