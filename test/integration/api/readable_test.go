package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned/scheme"
)

// The tests of this file are about one property: our programs can read whatever the API server stores. If they cannot read one object, no
// list and no watch of its kind works. Then nothing is done for all other objects.

// readTypes are what Go clients read the objects into.
var readTypes = map[schema.GroupVersionResource]reflect.Type{
	jobs:      reflect.TypeFor[batchv1alpha1.Job](),
	podGroups: reflect.TypeFor[schedulingv1beta1.PodGroup](),
	queues:    reflect.TypeFor[schedulingv1beta1.Queue](),
	commands:  reflect.TypeFor[busv1alpha1.Command](),

	phJobs:        reflect.TypeFor[primehubv1alpha1.PhJob](),
	phSchedules:   reflect.TypeFor[primehubv1alpha1.PhSchedule](),
	images:        reflect.TypeFor[primehubv1alpha1.Image](),
	instanceTypes: reflect.TypeFor[primehubv1alpha1.InstanceType](),

	hyperNodes:        reflect.TypeFor[topologyv1alpha1.HyperNode](),
	networkTopologies: reflect.TypeFor[musterv1alpha1.NetworkTopology](),
	startReviews:      reflect.TypeFor[musterv1alpha1.StartReview](),
}

// richTemplate is a pod template with fields of each type that templates have.
const richTemplate = `
metadata: {labels: {a: b}, annotations: {c: d}, finalizers: [muster.sh/x]}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 30
  priority: 1
  hostNetwork: false
  nodeSelector: {a: b}
  tolerations: [{key: a, operator: Exists, tolerationSeconds: 5}]
  securityContext: {runAsUser: 1, supplementalGroups: [1]}
  overhead: {cpu: 1m}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}}
  volumes:
  - {name: a, emptyDir: {sizeLimit: 1Gi}}
  - {name: b, secret: {secretName: b, defaultMode: 420}}
  - {name: c, ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {resources: {requests: {storage: 1Gi}}}}}}
  - {name: d, downwardAPI: {items: [{path: a, resourceFieldRef: {resource: limits.cpu, divisor: 1m}}]}}
  containers:
  - name: main
    image: main
    command: [main]
    stdin: true
    env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    ports: [{containerPort: 80}]
    resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: "1.5"}}
    livenessProbe: {httpGet: {port: http, httpHeaders: [{name: A, value: a}]}, periodSeconds: 10}
    lifecycle: {preStop: {sleep: {seconds: 1}}}
`

// richObject returns the full object of a kind, with a rich pod template if it is a Job.
func richObject(t *testing.T, gvr schema.GroupVersionResource) map[string]any {
	t.Helper()
	object := normal(t, parse(t, fullObjects[gvr]))
	if gvr == jobs {
		return set(t, object, normal(t, parse(t, richTemplate)), path("spec.tasks.0.template")...)
	}
	return object
}

// Schemas and types are compared field by field: embedded types have too many fields to try all.
func TestSchemasTakeOnlyWhatTheirTypesCanRead(t *testing.T) {
	for _, crd := range readCRDs(t) {
		gvr := schema.GroupVersionResource{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Resource: crd.Spec.Names.Plural}
		compare(t, crd.Spec.Versions[0].Schema.OpenAPIV3Schema, readTypes[gvr], crd.Spec.Names.Plural)
	}
}

// compare checks that Go reads into the type whatever the schema takes. The schemas are the ones that hack/crdtrim and the rules of API
// types make.
func compare(t *testing.T, s *apiextensionsv1.JSONSchemaProps, goType reflect.Type, at string) {
	t.Helper()
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	if goType == reflect.TypeFor[runtime.RawExtension]() { // it keeps the text of any object
		assert.Equal(t, "object", s.Type, at)
		return
	}
	// Fields of an object that its type does not have do not matter: Go leaves them out.
	assert.True(t, s.XPreserveUnknownFields == nil || s.Type == "object" && goType.Kind() == reflect.Struct, "%s takes anything", at)
	assert.False(t, s.XEmbeddedResource, "%s takes anything", at)
	_, readsItself := reflect.New(goType).Interface().(json.Unmarshaler)
	switch {
	case goType == reflect.TypeFor[metav1.Time]():
		assert.True(t, s.Format == "date-time" && strings.HasPrefix(s.Pattern, "^[0-9]{4}-[0-9]{2}-[0-9]{2}T"), "%s takes more than times", at)
		assert.True(t, s.MinItems != nil && s.MaxItems != nil && *s.MinItems > *s.MaxItems, "%s takes lists", at)
	case goType == reflect.TypeFor[metav1.Duration]():
		assert.True(t, slices.ContainsFunc(s.XValidations, func(r apiextensionsv1.ValidationRule) bool {
			return strings.Contains(r.Rule, "duration(self)")
		}), "%s takes more than durations: give it the rule of the policies' timeouts", at)
	case goType == reflect.TypeFor[apiresource.Quantity]():
		assert.True(t, s.XIntOrString && strings.HasSuffix(s.Pattern, "([eE](\\+|-)?[0-9]{1,3}))?$"), "%s takes more than quantities", at)
	case goType == reflect.TypeFor[intstr.IntOrString]():
		assert.True(t, s.XIntOrString && s.Minimum != nil && *s.Minimum == math.MinInt32 && s.Maximum != nil && *s.Maximum == math.MaxInt32,
			"%s takes more than 32 bits", at)
	case readsItself:
		assert.Failf(t, "a type that reads in a way of its own", "%s is a %s: say here what its schema has to refuse", at, goType)
	default:
		compareKind(t, s, goType, at)
	}
}

func compareKind(t *testing.T, s *apiextensionsv1.JSONSchemaProps, goType reflect.Type, at string) {
	t.Helper()
	jsonTypes := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int32: "integer", reflect.Int64: "integer", reflect.Int: "integer", reflect.Float64: "number",
		reflect.Slice: "array", reflect.Map: "object", reflect.Struct: "object",
	}
	if !assert.Equal(t, jsonTypes[goType.Kind()], s.Type, "%s is a %s", at, goType) {
		return
	}
	switch goType.Kind() {
	case reflect.String:
		assert.Empty(t, s.Format, "%s takes lists: API servers do where strings have formats", at)
	case reflect.Int32:
		// The format is for clients: API servers of 1.35 do not check it.
		assert.True(t, s.Format == "int32" && s.Minimum != nil && *s.Minimum >= math.MinInt32 && s.Maximum != nil && *s.Maximum <= math.MaxInt32,
			"%s takes more than 32 bits", at)
	case reflect.Slice:
		compare(t, s.Items.Schema, goType.Elem(), at+"[]")
	case reflect.Map:
		assert.Equal(t, reflect.String, goType.Key().Kind(), at)
		if assert.NotNil(t, s.AdditionalProperties, at) && assert.NotNil(t, s.AdditionalProperties.Schema, "%s takes anything", at) {
			compare(t, s.AdditionalProperties.Schema, goType.Elem(), at+"{}")
		}
	case reflect.Struct:
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			property := s.Properties[name]
			if field, found := fieldOf(goType, name); assert.True(t, found, "%s has no %s", goType, name) {
				compare(t, &property, field.Type, at+"."+name)
			}
		}
	}
}

// fieldOf returns the field of a struct that a JSON name stands for.
func fieldOf(goType reflect.Type, name string) (reflect.StructField, bool) {
	for _, field := range reflect.VisibleFields(goType) {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag == name {
			return field, true
		}
	}
	return reflect.StructField{}, false
}

const firstContainer = "spec.tasks.0.template.spec.containers.0"

// unreadable are values that Go cannot read, in place of good ones in a rich object. Each has the words of its refusal. Where numbers are
// of the wrong type the API server names the {field} only there.
var unreadable = []struct {
	resource schema.GroupVersionResource
	field    string
	values   []any
	text     string
}{
	{jobs, "spec.policies.0.timeout", []any{"", "1d", "90", "1h 30m", "1 week", "1.2.3s", "-5m", "2562048h", "9999999999h"},
		"invalid duration: use a Go duration like 90s, 5m or 1h30m"},
	{jobs, "spec.policies.0.timeout", []any{int64(90)}, "must be of type string"},
	{jobs, "spec.tasks.0.policies.0.timeout", []any{"1d"}, "invalid duration: use a Go duration like 90s, 5m or 1h30m"},
	{jobs, "spec.runningEstimate", []any{"1d", "-1h", "9999999999h"}, "invalid duration: use a Go duration like 90s, 5m or 1h30m"},
	{jobs, "status.runningDuration", []any{"1d", "9999999999h"}, "invalid duration: use a Go duration like 90s, 5m or 1h30m"},
	{podGroups, "status.estimate.runtime", []any{"1d", "9999999999h"}, "invalid duration: use a Go duration like 90s, 5m or 1h30m"},
	{podGroups, "status.estimate.limit", []any{"soon", ""}, "invalid duration: use a Go duration like 90s, 5m or 1h30m"},
	{queues, "spec.muster.defaultRuntime", []any{"1d", "2562048h", ""}, "defaultRuntime"},
	{jobs, "spec.activeDeadlineSeconds", []any{int64(math.MaxInt32 + 1), int64(math.MaxInt64)}, "less than or equal to 2147483647"},
	{jobs, "spec.ttlSecondsAfterFinished", []any{int64(math.MaxInt32 + 1), 60.00000001}, "format int32 in {field}"},
	{jobs, "spec.policies.2.exitCode", []any{int64(math.MaxInt32 + 1), int64(math.MinInt32 - 1), 3.000000001}, "format int32 in {field}"},
	{jobs, "spec.networkTopology.highestTierAllowed", []any{2.000000001}, "type integer (default format) in {field}"},
	{jobs, "spec.plugins.svc", []any{"x"}, "must be of type array"},
	{jobs, "spec.plugins.env.0", []any{int64(1)}, "must be of type string"},
	{jobs, "spec.volumes.1.volumeClaim.resources.requests.storage", []any{"1e-999999999", "1e1.5"}, "should match"},
	{jobs, "spec.tasks.0.template.metadata.labels.a", []any{int64(1)}, "must be of type string"},
	{jobs, "spec.tasks.0.template.spec.containers", []any{"x"}, "must be of type array"},
	{jobs, firstContainer + ".resources.requests.cpu", []any{"lots", "1e-999999999", "1e1.5"}, "should match"},
	{jobs, firstContainer + ".ports.0.containerPort", []any{int64(math.MaxInt32 + 1)}, "format int32 in {field}"},
	{jobs, firstContainer + ".livenessProbe.httpGet.port", []any{int64(math.MaxInt32 + 1)}, "less than or equal to 2147483647"},
	{jobs, firstContainer + ".livenessProbe.httpGet.port", []any{int64(math.MinInt32 - 1)}, "greater than or equal to -2147483648"},
	{jobs, firstContainer + ".livenessProbe.httpGet.port", []any{8080.000001}, `"{field}" must validate at least one schema`},
	{jobs, "status.startTime", []any{"2026-01-31t00:00:00Z", "2026-01-31T00:00:00+99:00"}, "should match"},
	{jobs, "status.startTime", []any{"2026-02-31T00:00:00Z"}, "must be of type date-time"},
	{jobs, "status.startTime", []any{[]any{}}, "at least 1 items"},
	{jobs, "status.startTime", []any{[]any{"2026-01-31T00:00:00Z"}}, "at most 0 items"},
	{podGroups, "spec.minResources.cpu", []any{"1e-999999999", "1e1.5"}, "should match"},
	{podGroups, "spec.minTaskMember.main", []any{int64(math.MaxInt32 + 1)}, "format int32 in {field}"},
	{queues, "spec.capability.cpu", []any{"1e-999999999", "1e1.5"}, "should match"},
	{queues, "spec.extendClusters.0.weight", []any{int64(math.MaxInt32 + 1)}, "format int32 in {field}"},
	{commands, "target.controller", []any{"yes"}, "must be of type boolean"},
}

func TestWhatGoCannotReadIsRefused(t *testing.T) {
	stored := storeRichObjects(t, "unreadable")
	for _, c := range unreadable {
		field := regexp.MustCompile(`\.([0-9]+)`).ReplaceAllString(c.field, "[$1]")
		named, text := field, c.text
		if strings.Contains(text, "{field}") {
			named, text = "<nil>", strings.Replace(text, "{field}", field, 1)
		}
		for _, value := range c.values {
			t.Run(fmt.Sprintf("%s/%s=%v", c.resource.Resource, c.field, value), func(t *testing.T) {
				if strings.HasPrefix(c.field, "status.") {
					_, err := tryStatus(t, c.resource, set(t, stored[c.resource], value, path(c.field)...))
					requireRefused(t, err, named, text)
					return
				}
				requireRefused(t, tryCreate(t, c.resource, set(t, richObject(t, c.resource), value, path(c.field)...)), named, text)
				changed := &unstructured.Unstructured{Object: set(t, stored[c.resource], value, path(c.field)...)}
				_, err := resource(c.resource).Update(t.Context(), changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
				requireRefused(t, err, named, text)
			})
		}
	}
}

// storeRichObjects stores an object of each kind and returns them, with a status that they may be given.
func storeRichObjects(t *testing.T, name string) map[schema.GroupVersionResource]map[string]any {
	t.Helper()
	stored := map[schema.GroupVersionResource]map[string]any{}
	for gvr := range fullObjects {
		rich := merge(t, richObject(t, gvr), "metadata: {name: "+name+"}")
		stored[gvr] = create(t, gvr, rich).Object
		if status, has := rich["status"]; has {
			stored[gvr]["status"] = status
		}
	}
	return stored
}

// tryStatus asks whether the API server would store an object's status.
func tryStatus(t *testing.T, gvr schema.GroupVersionResource, object map[string]any) (*unstructured.Unstructured, error) {
	t.Helper()
	changed := &unstructured.Unstructured{Object: object}
	return resource(gvr).UpdateStatus(t.Context(), changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
}

// oddValues are what a user may write, or generate, into any field.
var oddValues = []any{
	nil, "", "1d", "1e1.5", "1e-9999", "2026-01-31t00:00:00z", true, int64(-1), int64(math.MaxInt32 + 1), int64(math.MaxInt64),
	2.000000001, 1e300, []any{}, []any{"x"}, map[string]any{}, map[string]any{"x": "y"}, map[string]any{"x": nil},
}

// Each field of the objects gets each of the odd values. Values that the API server would store must be readable.
func TestWhatIsTakenCanBeRead(t *testing.T) {
	for gvr, stored := range storeRichObjects(t, "readable") {
		taken := &atomic.Int64{}
		for _, place := range places(stored) {
			if place[0] == "apiVersion" || place[0] == "kind" || place[0] == "metadata" {
				continue
			}
			t.Run(fmt.Sprint(gvr.Resource, place), func(t *testing.T) {
				t.Parallel()
				for _, odd := range oddValues {
					answer, err := tryOdd(t, gvr, stored, odd, place)
					if err != nil {
						require.True(t, apierrors.IsInvalid(err) || apierrors.IsBadRequest(err), "%v: %v", odd, err)
						continue
					}
					text, err := answer.MarshalJSON()
					require.NoError(t, err)
					_, _, err = scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
					require.NoError(t, err, "%v is taken, and cannot be read", odd)
					taken.Add(1)
				}
			})
		}
		t.Cleanup(func() { assert.Positive(t, taken.Load(), "no odd value of %s was taken", gvr.Resource) })
	}
}

// places returns the paths of all that an object consists of.
func places(value any, above ...any) [][]any {
	var all [][]any
	visit := func(step, below any) {
		place := append(slices.Clone(above), step)
		all = append(append(all, place), places(below, place...)...)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			visit(name, value[name])
		}
	case []any:
		for i := range value {
			visit(i, value[i])
		}
	}
	return all
}

// tryOdd asks whether the API server would store a rich object with an odd value somewhere.
func tryOdd(t *testing.T, gvr schema.GroupVersionResource, stored map[string]any, odd any, place []any) (*unstructured.Unstructured, error) {
	t.Helper()
	if place[0] == "status" {
		return tryStatus(t, gvr, put(t, stored, odd, place...))
	}
	object := &unstructured.Unstructured{Object: put(t, stored, odd, place...)}
	object.SetResourceVersion("")
	object.SetName("odd")
	return resource(gvr).Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// oddButGood are values that look odd where a full object has plain ones, and are stored.
var oddButGood = []struct {
	resource schema.GroupVersionResource
	field    string
	values   []any
}{
	{jobs, "spec.policies.0.timeout", []any{"0", "+5m", ".5h", "1.5h", "1h1h", "5µs", "5μs", "2562047h"}},
	{jobs, "spec.activeDeadlineSeconds", []any{int64(math.MaxInt32), 60.0}},
	{jobs, "spec.policies.2.exitCode", []any{int64(math.MinInt32)}},
	{jobs, firstContainer + ".resources.requests.cpu", []any{"+1", ".5", "5.", "1e3", "1E", "1e-999", "1e999", 2.0}},
	{jobs, firstContainer + ".livenessProbe.httpGet.port", []any{int64(math.MaxInt32), int64(math.MinInt32), ""}},
	{podGroups, "spec.minResources.cpu", []any{"1e999", int64(math.MaxInt64)}},
	{queues, "spec.capability.cpu", []any{"1e999", int64(math.MaxInt64)}},
	{commands, "target.uid", []any{"not a uid"}},
}

func TestListsWithOddValuesCanBeRead(t *testing.T) {
	stored := 0
	for _, c := range oddButGood {
		for _, value := range c.values {
			stored++
			odd := set(t, richObject(t, c.resource), value, path(c.field)...)
			if c.resource == jobs { // any amount of cores, and no limit that it must keep to
				odd = set(t, odd, "none", path("spec.tasks.0.topologyPolicy")...)
				odd = set(t, odd, nil, path(firstContainer+".resources.limits")...)
			}
			create(t, c.resource, put(t, odd, fmt.Sprintf("odd-%d", stored), "metadata", "name"))
		}
	}
	muster := versioned.NewForConfigOrDie(config)
	all := metav1.ListOptions{}
	jobList, err := muster.BatchV1alpha1().Jobs("").List(t.Context(), all)
	require.NoError(t, err)
	groupList, err := muster.SchedulingV1beta1().PodGroups("").List(t.Context(), all)
	require.NoError(t, err)
	queueList, err := muster.SchedulingV1beta1().Queues().List(t.Context(), all)
	require.NoError(t, err)
	commandList, err := muster.BusV1alpha1().Commands("").List(t.Context(), all)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(jobList.Items)+len(groupList.Items)+len(queueList.Items)+len(commandList.Items), stored)
}
