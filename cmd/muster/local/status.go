package local

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-sched/muster/pkg/localcluster"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

func newStatusCommand() *cobra.Command {
	var dir string
	command := &cobra.Command{
		Use:   "status --dir DIR",
		Short: "Show the parts of a cluster, and what is wrong with it",
		Long: `Show the parts of a cluster. A part that ended by itself is named with the end of
its log. METRICS is where a part serves its metrics; the file that is named below
the table has Prometheus read them. The exit code is 0 only if the cluster is
healthy.`,
		Example: `  muster local status --dir /tmp/m`,
		Args:    kube.None,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := needDir(command, dir); err != nil {
				return err
			}
			status, err := localcluster.StatusOf(command.Context(), dir)
			if err != nil {
				return err
			}
			printStatus(command.OutOrStdout(), status, time.Now())
			if len(status.Problems()) > 0 {
				return errUnhealthy
			}
			return nil
		},
	}
	addDirFlag(command, &dir)
	return command
}

func printStatus(out io.Writer, status localcluster.Status, now time.Time) {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tSTATE\tPID\tSINCE\tMETRICS\tLOG")
	for _, component := range status.Components {
		state, pid, since := "running", strconv.Itoa(component.PID), component.Started
		switch {
		case component.Crashed():
			state, since = "crashed: "+component.Outcome, *component.Ended
		case component.Ended != nil:
			state, since = "stopped", *component.Ended
		case !status.Running:
			state, pid = "gone", "-" // the supervisor was killed before it could note the end
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", component.Name, state, pid, now.Sub(since).Round(time.Second), metricsURL(component), component.LogPath)
	}
	table.Flush()
	if status.Running && status.APIError == nil {
		fmt.Fprintf(out, "\n%d nodes, %d ready\n", status.Nodes, status.ReadyNodes)
		fmt.Fprintf(out, "Read the metrics with: prometheus --config.file=%s\n", status.ScrapeConfig)
	}
	for _, problem := range status.Problems() {
		fmt.Fprintf(out, "\nPROBLEM: %s\n", problem)
	}
	for _, component := range status.Components {
		if len(component.LastWords) == 0 {
			continue
		}
		fmt.Fprintf(out, "\nFrom %s:\n", component.LogPath)
		for _, line := range component.LastWords {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
	if !status.Running {
		fmt.Fprintf(out, "Remove it with: muster local down --dir %s\n", status.Dir)
	}
}

// metricsURL is where a component serves its metrics, or a dash.
func metricsURL(component localcluster.ComponentStatus) string {
	if component.URL == "" {
		return "-"
	}
	return component.URL + "/metrics"
}
