package main

import (
	"fmt"
	"strings"

	"github.com/muster-sched/muster/pkg/scheduler/gangs"
)

// gangMetricsPage lists the scheduler's own metrics, as the code declares them.
func gangMetricsPage() (string, error) {
	var page strings.Builder
	page.WriteString(generatedBy)
	page.WriteString("# Metrics of muster-scheduler's own\n\n")
	page.WriteString("Served beside [those of the upstream scheduler](metrics.md). None has a label that grows with the number of gangs or pods. A label `queue` is empty where there is no queue, or it does not exist.\n\n")
	page.WriteString("| metric | kind | what it tells |\n|---|---|---|\n")
	for _, metric := range gangs.MetricsReference() {
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", metric, metric.Kind, metric.Help)
	}
	return page.String(), nil
}
