// Package described makes metrics that have a description, which the documentation lists.
package described

import (
	"strings"

	"k8s.io/component-base/metrics"
)

// Metric describes one metric.
type Metric struct {
	// Name under which it is served.
	Name string
	// Type is counter, gauge or histogram.
	Type string
	// Labels are its labels.
	Labels []string
	// Help says what it measures.
	Help string
}

// String prints a metric's name with its labels.
func (m Metric) String() string {
	if len(m.Labels) == 0 {
		return m.Name
	}
	return m.Name + "{" + strings.Join(m.Labels, ", ") + "}"
}

// Metrics makes metrics, and has the description of each. The zero value has none.
type Metrics struct {
	// All are the descriptions, in the order in which the metrics were made.
	All []Metric
	// Collectors are the metrics without the ones of Read. A metric costs and counts nothing before it is registered.
	Collectors []metrics.Registerable
}

func (m *Metrics) describe(name, kind, help string, labels []string) {
	m.All = append(m.All, Metric{Name: name, Type: kind, Labels: labels, Help: help})
}

func add[T metrics.Registerable](m *Metrics, collector T, name, kind, help string, labels []string) T {
	m.describe(name, kind, help, labels)
	m.Collectors = append(m.Collectors, collector)
	return collector
}

// Counter makes counters.
func (m *Metrics) Counter(name, help string, labels ...string) *metrics.CounterVec {
	c := metrics.NewCounterVec(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
	return add(m, c, name, "counter", help, labels)
}

// Total makes a counter without labels. It is served from the beginning.
func (m *Metrics) Total(name, help string) *metrics.Counter {
	c := metrics.NewCounter(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	return add(m, c, name, "counter", help, nil)
}

// Number makes a gauge without labels. It is served from the beginning.
func (m *Metrics) Number(name, help string) *metrics.Gauge {
	g := metrics.NewGauge(&metrics.GaugeOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	return add(m, g, name, "gauge", help, nil)
}

// Read describes gauges that a collector reads when the metrics are collected.
func (m *Metrics) Read(name, help string, labels ...string) *metrics.Desc {
	m.describe(name, "gauge", help, labels)
	return metrics.NewDesc(name, help, labels, nil, metrics.ALPHA, "")
}

// Gauge makes gauges.
func (m *Metrics) Gauge(name, help string, labels ...string) *metrics.GaugeVec {
	g := metrics.NewGaugeVec(&metrics.GaugeOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
	return add(m, g, name, "gauge", help, labels)
}

// Histogram makes a histogram.
func (m *Metrics) Histogram(name, help string, buckets []float64) *metrics.Histogram {
	h := metrics.NewHistogram(&metrics.HistogramOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA, Buckets: buckets})
	return add(m, h, name, "histogram", help, nil)
}

// Histograms makes histograms.
func (m *Metrics) Histograms(name, help string, buckets []float64, labels ...string) *metrics.HistogramVec {
	h := metrics.NewHistogramVec(&metrics.HistogramOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA, Buckets: buckets}, labels)
	return add(m, h, name, "histogram", help, labels)
}
