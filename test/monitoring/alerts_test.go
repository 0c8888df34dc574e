// Package monitoring tests the metrics, dashboards and alerts with Prometheus' own engine.
package monitoring

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const rulesFile = "../../manifests/monitoring/muster.rules"

type promqlSeries = promql.Series

// evaluation is how often an alert is evaluated, as Prometheus does unless told otherwise.
const evaluation = time.Minute

func readAlerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, language, slog.Default())
	require.Empty(t, errs)
	require.Len(t, groups.Groups, 1)
	return groups.Groups[0].Rules
}

// fires returns the labels of the alerts that fire at a time. The expression has had a value since as long as the rule wants.
func (s *store) fires(t *testing.T, rule rulefmt.Rule, at time.Time) []map[string]string {
	t.Helper()
	since := at.Add(-time.Duration(rule.For))
	result, err := s.query(rule.Expr, since, at, evaluation)
	require.NoError(t, err)
	fired := []map[string]string{}
	for _, one := range result {
		if len(one.Floats) == int(at.Sub(since)/evaluation)+1 {
			fired = append(fired, one.Metric.Map())
		}
	}
	return fired
}

// alertCase is a test of an alert, in the format of `promtool test rules`.
type alertCase struct {
	Name     string `json:"name"`
	Interval string `json:"interval"`
	Input    []struct {
		Series string `json:"series"`
		Values string `json:"values"`
	} `json:"input_series"`
	Tests []struct {
		At       string `json:"eval_time"`
		Alert    string `json:"alertname"`
		Expected []struct {
			Labels map[string]string `json:"exp_labels"`
		} `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

func readCases(t *testing.T) []alertCase {
	t.Helper()
	text, err := os.ReadFile("testdata/alerts.yaml")
	require.NoError(t, err)
	var file struct {
		RuleFiles  []string    `json:"rule_files"`
		Evaluation string      `json:"evaluation_interval"`
		Tests      []alertCase `json:"tests"`
	}
	require.NoError(t, yaml.UnmarshalStrict(text, &file))
	require.Equal(t, []string{"../" + rulesFile}, file.RuleFiles)
	require.Equal(t, evaluation, duration(t, file.Evaluation))
	return file.Tests
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	parsed, err := model.ParseDuration(text)
	require.NoError(t, err)
	return time.Duration(parsed)
}

// TestAlerts: each alert fires, and does not fire, in the cases that are made for it.
func TestAlerts(t *testing.T) {
	fired, silent := map[string]bool{}, map[string]bool{}
	rules := map[string]rulefmt.Rule{}
	for _, rule := range readAlerts(t) {
		rules[rule.Alert] = rule
	}
	for _, test := range readCases(t) {
		t.Run(test.Name, func(t *testing.T) {
			samples := &store{interval: duration(t, test.Interval)}
			for _, input := range test.Input {
				samples.add(t, input.Series, input.Values)
			}
			for _, check := range test.Tests {
				rule, known := rules[check.Alert]
				require.True(t, known, check.Alert)
				expected := []map[string]string{}
				for _, alert := range check.Expected {
					delete(alert.Labels, "severity") // the rule adds it
					expected = append(expected, alert.Labels)
				}
				assert.ElementsMatch(t, expected, samples.fires(t, rule, origin.Add(duration(t, check.At))), "%s after %s", check.Alert, check.At)
				if len(expected) > 0 {
					fired[check.Alert] = true
				} else {
					silent[check.Alert] = true
				}
			}
		})
	}
	for name := range rules {
		assert.True(t, fired[name], "no case in which %s fires", name)
		assert.True(t, silent[name], "no case in which %s does not fire", name)
	}
}

// TestNoAlertOnAHealthyCluster evaluates the alerts on what was recorded. Nothing was broken then, but two Jobs were there that never
// start. After half an hour of that one alert is right. Each query finds the metrics that it asks for, so no alert is silent because a
// name is wrong.
func TestNoAlertOnAHealthyCluster(t *testing.T) {
	samples := readStore(t, samplesFile, recordedInterval)
	for _, rule := range readAlerts(t) {
		result, err := samples.query(rule.Expr, origin, samples.end, recordedInterval)
		require.NoError(t, err)
		assert.Equal(t, rule.Alert == "MusterQueueAdmitsNothing", len(result) > 0, "%s: %v", rule.Alert, result)
		expression, err := language.ParseExpr(rule.Expr)
		require.NoError(t, err)
		for _, metric := range metricsOf(expression) {
			found, err := samples.query(metric, origin, samples.end, recordedInterval)
			require.NoError(t, err)
			assert.NotEmpty(t, found, "%s: nothing was recorded of %s", rule.Alert, metric)
		}
	}
}

// TestThePrometheusRuleIsTheSame compares the file for the operator with the rules.
func TestThePrometheusRuleIsTheSame(t *testing.T) {
	read := func(path string) map[string]any {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		values := map[string]any{}
		require.NoError(t, yaml.UnmarshalStrict(text, &values))
		return values
	}
	rule := read("../../manifests/monitoring/prometheusrule.yaml")
	assert.Equal(t, read(rulesFile), rule["spec"], "copy the groups of muster.rules to prometheusrule.yaml, indented by two")
}

// TestEachAlertIsDocumented: the page says under each alert's name what to do.
func TestEachAlertIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/monitoring.md")
	require.NoError(t, err)
	for _, rule := range readAlerts(t) {
		assert.Contains(t, string(page), "\n### "+rule.Alert+"\n")
		assert.NotEmpty(t, rule.Annotations["summary"])
		assert.NotEmpty(t, rule.Annotations["description"])
	}
}
