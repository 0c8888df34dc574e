package meter

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are the metrics that a part of a cluster serves, by name.
type Metrics map[string]*dto.MetricFamily

// Metrics reads what a part of the cluster says of itself.
func (c *Cluster) Metrics(ctx context.Context, part string) (Metrics, error) {
	page, err := c.Get(ctx, part, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("asking %s for its metrics: %w", part, err)
	}
	metrics, err := parse(page)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", part, err)
	}
	return metrics, nil
}

func parse(page []byte) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(page))
}

// Sum adds up the values of a metric over its series whose label has one of the values. Over all without a label. The value of a histogram
// is how many observations it has. The sum of what is not served is 0.
func (m Metrics) Sum(name, label string, values ...string) float64 {
	total := 0.0
	for _, series := range m[name].GetMetric() {
		if label == "" || hasLabel(series, label, values) {
			total += series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
		}
	}
	return total
}

// Seconds adds up what the histograms of a metric have observed, in its unit.
func (m Metrics) Seconds(name string) float64 {
	total := 0.0
	for _, series := range m[name].GetMetric() {
		total += series.GetHistogram().GetSampleSum()
	}
	return total
}

func hasLabel(series *dto.Metric, label string, values []string) bool {
	return slices.ContainsFunc(series.GetLabel(), func(pair *dto.LabelPair) bool {
		return pair.GetName() == label && slices.Contains(values, pair.GetValue())
	})
}

// CPU is the processor time that the part has taken, in seconds.
func (m Metrics) CPU() float64 { return m.Sum("process_cpu_seconds_total", "") }

// Memory is the part's resident set, in bytes.
func (m Metrics) Memory() float64 { return m.Sum("process_resident_memory_bytes", "") }

// Writes is how many requests the part has made that change something, its events and its lease included.
func (m Metrics) Writes() float64 {
	return m.Sum("rest_client_requests_total", "method", "POST", "PUT", "PATCH", "DELETE")
}
