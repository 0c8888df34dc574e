package generated_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/manifests"
)

// bases are objects that use much of their API. A generated object differs from one of them in some fields.
var bases = map[string][]string{
	"Job": {`
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: some}
spec:
  tasks:
  - {name: main, replicas: 2, template: {spec: {restartPolicy: Never, containers: [{name: main, image: main, resources: {requests: {cpu: 1}}}]}}}
`, `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: some, labels: {a: b}, annotations: {a: b}}
spec:
  schedulerName: default-scheduler
  minAvailable: 2
  minSuccess: 1
  maxRetry: 3
  queue: default
  ttlSecondsAfterFinished: 3600
  activeDeadlineSeconds: 3600
  runningEstimate: 1h
  plugins: {env: [], svc: []}
  networkTopology: {mode: soft, highestTierAllowed: 2}
  policies: [{event: PodFailed, action: RestartJob, timeout: 60s}, {exitCode: 3, action: AbortJob}]
  volumes: [{mountPath: /scratch}, {mountPath: /out, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
  tasks:
  - name: a
    replicas: 4
    minAvailable: 2
    partitionPolicy: {totalPartitions: 2, partitionSize: 2, minPartitions: 1}
    policies: [{event: PodPending, action: RestartTask, timeout: 5m}]
    template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: main, image: main}]}}
  - name: b
    replicas: 1
    dependsOn: {name: [a], iteration: any, condition: Ready}
    template: {spec: {restartPolicy: OnFailure, containers: [{name: main, image: main}]}}
`},
	"Queue": {`
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: some}
`, `
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: some, annotations: {a: b}}
spec:
  weight: 2
  reclaimable: true
  parent: root
  capability: {cpu: 4, memory: 8Gi}
  deserved: {cpu: 2}
  guarantee: {resource: {cpu: 1}}
  priority: 3
  muster: {minRuntime: 5m, defaultRuntime: 2h, maxRunningJobs: 4, userQuota: {default: {cpu: 1}, users: [{name: ann, quota: {cpu: 2}}]}}
`},
	"PodGroup": {`
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: some}
`, `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: some, annotations: {a: b}}
spec:
  minMember: 3
  minTaskMember: {a: 1, b: 2}
  minResources: {cpu: 3, memory: 1Gi}
  queue: default
  priorityClassName: system-cluster-critical
  networkTopology: {mode: hard, highestTierAllowed: 1}
  subGroupPolicy: [{name: a, subGroupSize: 2, minSubGroups: 1, matchLabelKeys: [a]}]
`},
}

// kinds of objects that are generated.
var kinds = []string{"Job", "PodGroup", "Queue"}

// spot is a field of a kind. A number in its path is the position in a list, and "*" any key of a map.
type spot struct {
	path   []any
	schema *apiextensionsv1.JSONSchemaProps
}

// spots are the fields of each kind that users write, parents before children.
var spots = func() map[string][]spot {
	all := map[string][]spot{}
	files, err := fs.Glob(manifests.FS, "crds/*.yaml")
	must(err)
	for _, file := range files {
		text, err := manifests.FS.ReadFile(file)
		must(err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		must(yaml.Unmarshal(text, crd))
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		text2 := apiextensionsv1.JSONSchemaProps{Type: "string"}
		found := []spot{{[]any{"metadata", "name"}, &text2}, {[]any{"metadata", "annotations", "*"}, &text2}, {[]any{"metadata", "labels", "*"}, &text2}}
		collect(&found, []any{"spec"}, &spec)
		all[crd.Spec.Names.Kind] = found
	}
	return all
}()

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// collect appends a field and all below it, in templates of pods not too deep.
func collect(found *[]spot, path []any, schema *apiextensionsv1.JSONSchemaProps) {
	*found = append(*found, spot{slices.Clone(path), schema})
	if len(path) > 8 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		collect(found, append(slices.Clone(path), name), &field)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		collect(found, append(slices.Clone(path), 0), schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		collect(found, append(slices.Clone(path), "*"), schema.AdditionalProperties.Schema)
	}
}

// Values that mean something to a rule, or to none.
var (
	texts = []string{"", "a", "b", "default", "root", "some", "*", "Any", "PodFailed", "TaskCompleted", "RestartTask", "RestartPartition", "5m", "0s", "-1s", "1d",
		"1h1m1.5s", "1", "-1", "500m", "1Ki", "1.5", "1e400", "svc", "ssh", "mpi", "nothing-like-it", "../../etc", "a/b", "/a", "/scratch", "a:b", "A", "ä", "名",
		"a b", "a\nb", "%s", "{{.}}", "true", "null"}
	numbers = []int64{-1, 0, 1, 2, 3, 4, 5, 7, 100, 1 << 31, 1<<31 - 1, -1 << 31, 1<<63 - 1}
)

// draw makes an object of a kind: a base with up to three changes.
func draw(random *rand.Rand, kind string) map[string]any {
	object := map[string]any{}
	must(yaml.Unmarshal([]byte(pick(random, bases[kind])), &object))
	object = jsonOf(object)
	for range random.IntN(4) {
		change(random, object, pick(random, spots[kind]))
	}
	return jsonOf(object)
}

// pick returns one of a list.
func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// jsonOf returns a copy with the types that a decoder gives numbers.
func jsonOf(object map[string]any) map[string]any {
	text, err := json.Marshal(object)
	must(err)
	copied := map[string]any{}
	must(json.Unmarshal(text, &copied))
	return copied
}

// change gives a field another value, and makes what it is part of if need be.
func change(random *rand.Rand, object map[string]any, at spot) {
	value := drawValue(random, at.schema)
	var parent any = object
	for i, step := range at.path {
		last := i == len(at.path)-1
		switch into := parent.(type) {
		case map[string]any:
			name, _ := step.(string)
			if name == "*" {
				name = pick(random, []string{"a", "b", "cpu", "memory", "example.com/gpu", "svc", "ssh", "ä", ""})
			}
			if last {
				into[name] = value
				return
			}
			if into[name] == nil {
				into[name] = map[string]any{}
				if _, isIndex := at.path[i+1].(int); isIndex {
					into[name] = []any{map[string]any{}}
				}
			}
			parent = into[name]
		case []any:
			if len(into) == 0 {
				return
			}
			if last {
				into[0] = value
				return
			}
			parent = pick(random, into)
		default: // an earlier change put something else there
			return
		}
	}
}

// drawValue makes a value: one that fits the schema, one near its bounds, or one of another type.
func drawValue(random *rand.Rand, schema *apiextensionsv1.JSONSchemaProps) any {
	var values []any
	for _, value := range schema.Enum {
		var text string
		if json.Unmarshal(value.Raw, &text) == nil {
			values = append(values, text)
		}
	}
	switch schema.Type {
	case "integer", "number":
		for _, number := range numbers {
			values = append(values, number)
		}
		for _, bound := range []*float64{schema.Minimum, schema.Maximum} {
			if bound != nil {
				values = append(values, int64(*bound)-1, int64(*bound), int64(*bound)+1)
			}
		}
	case "boolean":
		values = append(values, true, false)
	case "array":
		values = append(values, []any{}, []any{map[string]any{}}, []any{"a", "a"}, many(schema.MaxItems, "a"), many(schema.MaxItems, map[string]any{"name": "a"}))
	case "object":
		values = append(values, map[string]any{}, map[string]any{"unknown": "x"}, map[string]any{"name": "a"})
	default:
		for _, text := range texts {
			values = append(values, text)
		}
		if schema.MaxLength != nil {
			values = append(values, strings.Repeat("a", int(*schema.MaxLength)), strings.Repeat("a", int(*schema.MaxLength)+1))
		}
	}
	if random.IntN(10) == 0 {
		values = []any{nil, "x", int64(7), 0.5, true, []any{}, map[string]any{}, strings.Repeat("x", 70000)}
	}
	return runtime.DeepCopyJSONValue(pick(random, values))
}

// many is a list that is longer than the most that is taken. It is short where that is not said.
func many(most *int64, item any) []any {
	count := int64(3)
	if most != nil {
		count = min(*most, 2000) + 1
	}
	list := make([]any, count)
	for i := range list {
		list[i] = runtime.DeepCopyJSONValue(item)
		if object, ok := list[i].(map[string]any); ok {
			object["name"] = fmt.Sprintf("a%d", i)
		}
	}
	return list
}
