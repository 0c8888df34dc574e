package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// samples are series of values at equal distances. A value is NaN where a series has none.
type samples struct {
	series map[string][]float64
	length int // of complete readings
}

func newSamples() *samples { return &samples{series: map[string][]float64{}} }

// next ends a reading.
func (s *samples) next() { s.length++ }

// add notes a value in this reading.
func (s *samples) add(name string, labels map[string]string, value float64) {
	var pairs []string
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, label+"="+strconv.Quote(labels[label]))
	}
	key := name + "{" + strings.Join(pairs, ",") + "}"
	s.pad(key)
	s.series[key] = append(s.series[key], value)
}

// pad fills a series up to this reading.
func (s *samples) pad(key string) {
	for len(s.series[key]) < s.length {
		s.series[key] = append(s.series[key], math.NaN())
	}
}

// addFamily adds all series of a metric.
func (s *samples) addFamily(job string, family *dto.MetricFamily) {
	for _, metric := range family.GetMetric() {
		labels := map[string]string{"job": job, "instance": job}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		name, histogram := family.GetName(), metric.GetHistogram()
		if histogram == nil {
			s.add(name, labels, metric.GetGauge().GetValue()+metric.GetCounter().GetValue())
			continue
		}
		s.add(name+"_sum", labels, histogram.GetSampleSum())
		s.add(name+"_count", labels, float64(histogram.GetSampleCount()))
		for _, bucket := range histogram.GetBucket() {
			labels["le"] = strconv.FormatFloat(bucket.GetUpperBound(), 'g', -1, 64)
			s.add(name+"_bucket", labels, float64(bucket.GetCumulativeCount()))
		}
	}
}

// write prints the series in the notation of Prometheus' unit tests. There "1+0x3" is a value and three more that are equal, and "_" is none.
func (s *samples) write(out io.Writer, every time.Duration) error {
	text := &strings.Builder{}
	fmt.Fprintf(text, "# Metrics of both programs on a local cluster, every %s. Made by hack/record-metrics.sh.\n", every)
	for _, key := range slices.Sorted(maps.Keys(s.series)) {
		s.pad(key)
		fmt.Fprintf(text, "%s %s\n", key, notation(s.series[key]))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func notation(values []float64) string {
	var parts []string
	for i := 0; i < len(values); {
		n := 1
		for i+n < len(values) && same(values[i], values[i+n]) {
			n++
		}
		switch number := strconv.FormatFloat(values[i], 'g', -1, 64); {
		case math.IsNaN(values[i]) && n > 1:
			parts = append(parts, fmt.Sprintf("_x%d", n))
		case math.IsNaN(values[i]):
			parts = append(parts, "_")
		case n > 1:
			parts = append(parts, fmt.Sprintf("%s+0x%d", number, n-1)) // "0x3" would be a hexadecimal number
		default:
			parts = append(parts, number)
		}
		i += n
	}
	return strings.Join(parts, " ")
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
