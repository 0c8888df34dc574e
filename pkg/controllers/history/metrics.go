package history

import (
	"k8s.io/component-base/metrics"

	"github.com/muster-sched/muster/pkg/described"
)

// instruments are the metrics of the controller.
type instruments struct {
	records  *metrics.CounterVec // by kind
	failures *metrics.CounterVec
	lost     *metrics.CounterVec // by kind
	waiting  *metrics.GaugeVec
	bytes    *metrics.GaugeVec

	described.Metrics
}

// Metrics describes the metrics of the controller.
func Metrics() []described.Metric { return newInstruments().All }

func newInstruments() *instruments {
	m := &instruments{}
	m.records = m.Counter("muster_history_records_total", "Records that were written to the history of Jobs, by kind: Job or PhJob.", "kind")
	m.failures = m.Counter("muster_history_write_failures_total", "How often a record could not be written to the history. It is tried again.")
	m.lost = m.Counter("muster_history_records_lost_total",
		"Records that were dropped, because too many of deleted Jobs wait to be written, by kind: Job or PhJob.", "kind")
	m.waiting = m.Gauge("muster_history_records_waiting", "Records that wait to be written to the history.")
	m.bytes = m.Gauge("muster_history_bytes", "Size of the files of the history, in bytes.")
	return m
}
