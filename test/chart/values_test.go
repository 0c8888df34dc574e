package chart_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// change is what a value changes: by kind and name of an object, what is at its paths. Null is an object that is not there.
type change map[string]map[string]any

// apply makes the change. A path of one word adds to an object that the chart does not have otherwise.
func (c change) apply(t *testing.T, all objects) {
	t.Helper()
	for key, fields := range c {
		if fields == nil {
			require.Contains(t, all, key)
			delete(all, key)
			continue
		}
		if all[key] == nil {
			all[key] = map[string]any{}
		}
		for path, value := range fields {
			set(t, all[key], path, value)
		}
	}
}

// set writes a value to a path below an object or a list.
func set(t *testing.T, in any, path string, value any) {
	t.Helper()
	name, rest, found := strings.Cut(path, "/")
	switch at := in.(type) {
	case map[string]any:
		if !found {
			at[name] = value
			return
		}
		require.Contains(t, at, name)
		set(t, at[name], rest, value)
	case []any:
		index, err := strconv.Atoi(name)
		require.NoError(t, err)
		require.Less(t, index, len(at))
		set(t, at[index], rest, value)
	default:
		require.Fail(t, "there is no such field", path)
	}
}

// normal are objects as YAML writes them, so that all numbers are of one type.
func normal(t *testing.T, all objects) objects {
	t.Helper()
	text, err := yaml.Marshal(all)
	require.NoError(t, err)
	var read objects
	require.NoError(t, yaml.Unmarshal(text, &read))
	return read
}

// Each value changes what it says and nothing else.
func TestAValueChangesWhatItSays(t *testing.T) {
	text, err := os.ReadFile("testdata/changes.yaml")
	require.NoError(t, err)
	var cases []struct {
		Values  map[string]any `json:"values"`
		Changes change         `json:"changes"`
	}
	require.NoError(t, yaml.UnmarshalStrict(text, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		values, err := yaml.Marshal(c.Values)
		require.NoError(t, err)
		t.Run(string(values), func(t *testing.T) {
			require.NotEmpty(t, c.Changes)
			want := rendered(t, "{}")
			c.Changes.apply(t, want)
			requireSame(t, normal(t, want), normal(t, rendered(t, string(values))))
		})
	}
}

// The CRDs are upgraded with the release. They can be left in the cluster when it goes, or out of it altogether.
func TestCRDs(t *testing.T) {
	const kind, keep = "CustomResourceDefinition/", "helm.sh/resource-policy"
	for values, want := range map[string]struct {
		found int
		kept  bool
	}{
		"{}":                       {11, true},
		"{crds: {keep: false}}":    {11, false},
		"{crds: {install: false}}": {0, false},
	} {
		found := 0
		for key, object := range rendered(t, values) {
			policy, ok := unstructuredOf(object).GetAnnotations()[keep]
			if !strings.HasPrefix(key, kind) {
				assert.False(t, ok, key)
				continue
			}
			found++
			assert.Equal(t, want.kept, policy == "keep", "%s: %s", values, key)
		}
		assert.Equal(t, want.found, found, values)
	}
}

func TestPrometheusFindsMonitorsAndRulesByLabels(t *testing.T) {
	all := rendered(t, "{monitoring: {serviceMonitor: true, prometheusRule: true, labels: {release: prometheus}}}")
	for _, key := range []string{"ServiceMonitor/muster", "PrometheusRule/muster"} {
		require.Contains(t, all, key)
		assert.Equal(t, map[string]string{"app.kubernetes.io/name": "muster", "release": "prometheus"}, unstructuredOf(all[key]).GetLabels())
	}
}

// A value that is wrong is an error that names it.
func TestWrongValues(t *testing.T) {
	for values, message := range map[string]string{
		"{replicas: 2}":                                            "additional properties 'replicas' not allowed",
		"{scheduler: {replica: 2}}":                                "'replica' not allowed",
		"{scheduler: {replicas: two}}":                             "at '/scheduler/replicas': got string, want integer",
		"{controller: {replicas: -1}}":                             "at '/controller/replicas': minimum: got -1, want 0",
		"{controller: {pluginArguments: {}}}":                      "'pluginArguments' not allowed",
		"{pluginArguments: {Gangs: {}}}":                           "additional properties 'Gangs' not allowed",
		"{scheduler: {featureGates: {A: 'yes'}}}":                  "at '/scheduler/featureGates/A': got string, want boolean",
		"{scheduler: {env: {GOGC: 50}}}":                           "at '/scheduler/env/GOGC': got number, want string",
		"{controller: {extraArgs: [v]}}":                           "at '/controller/extraArgs/0': 'v' does not match pattern",
		"{controller: {podDisruptionBudget: {maxUnavailable: x}}}": "at '/controller/podDisruptionBudget/maxUnavailable': 'x' does not match pattern",
		"{image: {digest: abc}}":                                   "at '/image/digest': 'abc' does not match pattern",
		"{image: {pullPolicy: Sometimes}}":                         "at '/image/pullPolicy': value must be one of '', 'Always', 'IfNotPresent', 'Never'",
		"{schedulerNames: []}":                                     "at '/schedulerNames': minItems: got 0, want 1",
		"{schedulerNames: [default-scheduler]}":                    "at '/schedulerNames/0': 'not' failed",
		"{schedulerNames: [Muster]}":                               "at '/schedulerNames/0': 'Muster' does not match pattern",
		"{phjobs: {config: {jobSubmission: {workdirSize: 5Gi}}}}":  "additional properties 'workdirSize' not allowed",
		"{phjobs: {config: {jobSubmission: {jobLimit: -1}}}}":      "at '/phjobs/config/jobSubmission/jobLimit': minimum: got -1, want 0",
		"{phjobs: {config: {phfsEnabled: true}}}":                  "missing property 'phfsPVC'",
		"{tenancy: 'on'}":                                          "at '/tenancy': got string, want boolean",
	} {
		_, err := render(t, namespace, values)
		assert.ErrorContains(t, err, message, values)
	}
}

// Each value has a type and a description, so that the page about them and values.yaml say what it means.
func TestEachValueIsDescribed(t *testing.T) {
	text, err := os.ReadFile(folder + "/values.schema.json")
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, yaml.UnmarshalStrict(text, &schema))
	count := describedValues(t, schema, "")
	for name, shared := range schema["$defs"].(map[string]any) {
		count += describedValues(t, shared, name)
	}
	assert.Greater(t, count, 50)
}

// describedValues counts the values of a schema.
func describedValues(t *testing.T, schema any, path string) int {
	t.Helper()
	properties, _ := schema.(map[string]any)["properties"].(map[string]any)
	count := len(properties)
	for name, value := range properties {
		property, name := value.(map[string]any), path+"/"+name
		assert.NotEmpty(t, property["description"], name)
		assert.True(t, property["type"] != nil || property["$ref"] != nil, name)
		count += describedValues(t, property, name)
	}
	return count
}
