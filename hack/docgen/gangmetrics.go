package main

import (
	"fmt"
	"strings"

	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
)

// gangMetricsPage lists the scheduler's own metrics, as the code declares them.
func gangMetricsPage() (string, error) {
	var page strings.Builder
	page.WriteString(generatedBy)
	page.WriteString("# Metrics of muster-scheduler's own\n\n*Reference*\n\n")
	page.WriteString("muster-scheduler serves these beside [the metrics of the upstream scheduler](metrics.md). Look at `muster_gangs` first: it says how many gangs wait, and in which phase.\n\n" +
		"Two metrics are 0 unless Muster has a defect: `muster_lost_wakeup_recovered_total` and `muster_state_drift`.\n\n" +
		"The label `queue` is empty if a gang or pod has no queue, or one that does not exist. No label grows with the number of gangs or pods.\n\n")
	page.WriteString("| metric | kind | meaning |\n|---|---|---|\n")
	for _, metric := range gangmetrics.Described() {
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", metric, metric.Type, metric.Help)
	}
	return page.String(), nil
}
