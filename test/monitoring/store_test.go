package monitoring

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
)

// series is one time series.
type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// store is a storage of Prometheus' engine in memory.
type store struct {
	all      []series
	interval time.Duration
	end      time.Time // of the last sample of any series
}

// origin is the time of each first sample.
var origin = time.Unix(0, 0).UTC()

// add adds a series in the notation of Prometheus' unit tests.
func (s *store) add(t *testing.T, name, values string) {
	t.Helper()
	set, sequence, err := language.ParseSeriesDesc(name + " " + values)
	require.NoError(t, err, name)
	one := series{labels: set}
	for i, value := range sequence {
		at := origin.Add(time.Duration(i) * s.interval)
		if !value.Omitted {
			one.samples = append(one.samples, sample{at.UnixMilli(), value.Value})
		}
		if at.After(s.end) {
			s.end = at
		}
	}
	s.all = append(s.all, one)
}

// readStore reads a file of samples.
func readStore(t *testing.T, path string, interval time.Duration) *store {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	s := &store{interval: interval}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndex(line, "} ")
		require.Positive(t, end, line)
		s.add(t, line[:end+1], line[end+2:])
	}
	return s
}

// sample is a value at a time in milliseconds.
type sample struct {
	at    int64
	value float64
}

// T is the time.
func (s sample) T() int64 { return s.at }

// ST is when the series began; it is not known.
func (s sample) ST() int64 { return 0 }

// F is the value.
func (s sample) F() float64 { return s.value }

// H is nil: it is no native histogram.
func (s sample) H() *histogram.Histogram { return nil }

// FH is nil: it is no native histogram.
func (s sample) FH() *histogram.FloatHistogram { return nil }

// Type is that of a number.
func (s sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy implements chunks.Sample.
func (s sample) Copy() chunks.Sample { return s }

// Querier implements storage.Queryable.
func (s *store) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		var found []storage.Series
		for _, one := range s.all {
			if matches(one.labels, matchers) {
				found = append(found, storage.NewListSeries(one.labels, one.samples))
			}
		}
		return &seriesSet{series: found}
	}}, nil
}

func matches(set labels.Labels, matchers []*labels.Matcher) bool {
	for _, matcher := range matchers {
		if !matcher.Matches(set.Get(matcher.Name)) {
			return false
		}
	}
	return true
}

// seriesSet iterates over series.
type seriesSet struct {
	series []storage.Series
	next   int
}

// Next goes to the next one, if there is one.
func (s *seriesSet) Next() bool { s.next++; return s.next <= len(s.series) }

// At is the series that Next went to.
func (s *seriesSet) At() storage.Series { return s.series[s.next-1] }

// Err is nil: memory does not fail.
func (s *seriesSet) Err() error { return nil }

// Warnings are none.
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

var (
	language = parser.NewParser(parser.Options{})
	engine   = promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: language,
	})
)

// query evaluates an expression for each step from one time to another, as an alert or a graph does.
func (s *store) query(expression string, from, to time.Time, step time.Duration) (promql.Matrix, error) {
	query, err := engine.NewRangeQuery(context.Background(), s, nil, expression, from, to, step)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", expression, err)
	}
	defer query.Close()
	result := query.Exec(context.Background())
	if result.Err != nil {
		return nil, fmt.Errorf("evaluating %s: %w", expression, result.Err)
	}
	if warnings := result.Warnings.AsErrors(); len(warnings) > 0 {
		return nil, fmt.Errorf("evaluating %s: %w", expression, warnings[0])
	}
	matrix, err := result.Matrix()
	if err != nil {
		return nil, fmt.Errorf("evaluating %s: %w", expression, err)
	}
	var copied promql.Matrix // the query's memory is reused
	for _, one := range matrix {
		copied = append(copied, promql.Series{Metric: one.Metric.Copy(), Floats: append([]promql.FPoint(nil), one.Floats...)})
	}
	return copied, nil
}

// metricsOf are the names of the metrics that an expression asks for.
func metricsOf(expression parser.Expr) []string {
	var found []string
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			found = append(found, selector.Name)
		}
		return nil
	})
	return found
}
