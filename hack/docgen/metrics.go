package main

import (
	"fmt"
	"strings"

	"github.com/muster-sched/muster/pkg/controllers/job"
)

// metricsPart describes the metrics of Jobs.
func metricsPart() string {
	b := &strings.Builder{}
	b.WriteString("| metric | type | what it tells |\n|---|---|---|\n")
	for _, m := range job.Metrics() {
		name := m.Name
		if len(m.Labels) > 0 {
			name += "{" + strings.Join(m.Labels, ",") + "}"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, m.Type, m.Help)
	}
	return b.String()
}
