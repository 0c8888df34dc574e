package main

import (
	"fmt"
	"strings"

	"github.com/muster-sched/muster/pkg/controllers/history"
	"github.com/muster-sched/muster/pkg/controllers/job"
	"github.com/muster-sched/muster/pkg/controllers/queue"
)

// metricsPart describes the metrics of Jobs, of their history and of queues.
func metricsPart() string {
	b := &strings.Builder{}
	b.WriteString("| metric | type | meaning |\n|---|---|---|\n")
	row := func(name, kind, help string, labels []string) {
		if len(labels) > 0 {
			name += "{" + strings.Join(labels, ",") + "}"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, kind, help)
	}
	for _, m := range job.Metrics() {
		row(m.Name, m.Type, m.Help, m.Labels)
	}
	for _, m := range history.Metrics() {
		row(m.Name, m.Type, m.Help, m.Labels)
	}
	for _, m := range queue.Metrics() {
		row(m.Name, m.Type, m.Help, m.Labels)
	}
	return b.String()
}
