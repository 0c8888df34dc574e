// Package described makes metrics that have a description, which the documentation lists.
package described

import "k8s.io/component-base/metrics"

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

// Metrics makes metrics, and has the description of each. The zero value has none.
type Metrics struct {
	All        []Metric
	collectors []metrics.Registerable
}

// Register makes the metrics visible. Until then they cost nothing and count nothing.
func (m *Metrics) Register(register func(...metrics.Registerable)) { register(m.collectors...) }

func add[T metrics.Registerable](m *Metrics, collector T, name, kind, help string, labels []string) T {
	m.All = append(m.All, Metric{Name: name, Type: kind, Labels: labels, Help: help})
	m.collectors = append(m.collectors, collector)
	return collector
}

// Counter makes counters.
func (m *Metrics) Counter(name, help string, labels ...string) *metrics.CounterVec {
	c := metrics.NewCounterVec(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
	return add(m, c, name, "counter", help, labels)
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
