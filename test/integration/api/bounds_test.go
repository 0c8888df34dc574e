package api_test

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/manifests"
)

// constraint is one thing that a CRD's schema says about a field.
type constraint struct {
	resource schema.GroupVersionResource
	// path of the field, such as "spec.tasks[].replicas"; "{}" stands for the values of a map.
	path string
	// keyword is minimum, maximum, minLength, maxLength, pattern, enum, minItems, maxItems, maxProperties or rule.
	keyword string
	limit   int64
	// message of a rule.
	message string
	// transition tells that a rule compares with the object before an update.
	transition bool
}

// dot stands for a dot within the name of a field.
const dot = "\x00"

// embedded are the fields whose schemas belong to Kubernetes' own types.
var embedded = []string{"template", "volumeClaim", "labelSelector", "labelMatch", "nodeSelector", "metadata"}

// constraints reads all constraints from the CRDs as they are shipped.
func constraints(t *testing.T) []constraint {
	t.Helper()
	var all []constraint
	for _, crd := range readCRDs(t) {
		gvr := schema.GroupVersionResource{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Resource: crd.Spec.Names.Plural}
		collect(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, "", func(c constraint) {
			c.resource = gvr
			all = append(all, c)
		})
	}
	require.NotEmpty(t, all)
	return all
}

func readCRDs(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := fs.Glob(manifests.FS, "crds/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 11)
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := manifests.FS.ReadFile(file)
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.UnmarshalStrict(text, crd), file)
		crds = append(crds, crd)
	}
	return crds
}

func collect(s *apiextensionsv1.JSONSchemaProps, path string, add func(constraint)) {
	number := func(keyword string, limit *int64) {
		if limit != nil {
			add(constraint{path: path, keyword: keyword, limit: *limit})
		}
	}
	float := func(keyword string, limit *float64) {
		if limit != nil {
			add(constraint{path: path, keyword: keyword, limit: int64(*limit)})
		}
	}
	float("minimum", s.Minimum)
	float("maximum", s.Maximum)
	number("minLength", s.MinLength)
	number("maxLength", s.MaxLength)
	if s.Items != nil { // any other value with such limits is not to be a list at all
		number("minItems", s.MinItems)
		number("maxItems", s.MaxItems)
	}
	number("maxProperties", s.MaxProperties)
	if s.Pattern != "" {
		add(constraint{path: path, keyword: "pattern"})
	}
	if len(s.Enum) > 0 {
		add(constraint{path: path, keyword: "enum"})
	}
	for _, rule := range s.XValidations {
		add(constraint{path: path, keyword: "rule", message: rule.Message, transition: strings.Contains(rule.Rule, "oldSelf")})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(embedded, name) {
			continue
		}
		property := s.Properties[name]
		collect(&property, strings.TrimPrefix(path+"."+strings.ReplaceAll(name, ".", dot), "."), add)
	}
	if s.Items != nil {
		collect(s.Items.Schema, path+"[]", add)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		collect(s.AdditionalProperties.Schema, path+"{}", add)
	}
}

const fullPhJobSpec = `{displayName: Test, userId: u, userName: jackpan, groupId: g, groupName: phusers, instanceType: cpu-tiny, image: base,
  command: echo start, cancel: false, requeueLimit: 3, activeDeadlineSeconds: 60, ttlSecondsAfterFinished: 60}`

// fullObjects have every field that a constraint is about, status included.
var fullObjects = map[schema.GroupVersionResource]string{
	jobs: `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: full-job}
spec:
  schedulerName: muster
  minAvailable: 4
  minSuccess: 1
  queue: default
  maxRetry: 3
  ttlSecondsAfterFinished: 60
  priorityClassName: high
  runningEstimate: 1h
  suspend: false
  activeDeadlineSeconds: 3600
  networkTopology: {mode: soft, highestTierAllowed: 2}
  plugins: {svc: [], env: ["--x=y"]}
  policies:
  - {event: PodFailed, action: RestartJob, timeout: 1m}
  - {events: [PodEvicted], action: RestartJob}
  - {exitCode: 3, action: AbortJob}
  volumes:
  - {mountPath: /data, volumeClaimName: data}
  - {mountPath: /scratch, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
  tasks:
  - name: main
    replicas: 4
    minAvailable: 4
    maxRetry: 3
    topologyPolicy: best-effort
    partitionPolicy: {totalPartitions: 2, partitionSize: 2, minPartitions: 2, networkTopology: {mode: hard, highestTierAllowed: 1}}
    dependsOn: {name: [first], iteration: any, condition: Ready}
    policies:
    - {event: TaskCompleted, action: CompleteJob, timeout: 1m}
    - {events: [PodEvicted], action: RestartTask}
    - {exitCode: 4, action: AbortJob}
    template: {spec: {containers: [{name: main, image: main, resources: {limits: {cpu: 1}}}]}}
  - {name: first, replicas: 1, template: {spec: {containers: [{name: main, image: main}]}}}
status:
  state: {phase: Running, reason: R, message: M, lastTransitionTime: "2026-01-01T00:00:00Z"}
  conditions: [{status: Pending, lastTransitionTime: "2026-01-01T00:00:00Z"}]
  delayed:
  - {event: PodEvicted, task: main, indexes: "0-1", since: "2026-01-01T00:00:00Z"}
  - {event: PodFailed, exitCode: 3, task: main, indexes: "0", since: "2026-01-01T00:00:00Z"}
  restartBackoff: {count: 2, generation: 3, succeeded: 1, last: "2026-01-01T00:00:00Z", until: "2026-01-01T00:00:10Z"}
  taskStatusCount: {main: {phase: {Running: 4}}}
  taskRecords: [{name: main, created: "0-1", replaced: [{generation: 2, indexes: "0"}]}]
  startTime: "2026-01-01T00:00:00Z"
  completionTime: "2026-01-01T00:01:00Z"
  runningDuration: 1m0s
  runningOfMinimum: 2/4
`,
	podGroups: `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: full-podgroup}
spec:
  minMember: 2
  minTaskMember: {main: 2}
  queue: default
  priorityClassName: high
  minResources: {cpu: "2", memory: 1Gi, nvidia.com/gpu: 1}
  networkTopology: {mode: hard, highestTierAllowed: 1}
  subGroupPolicy:
  - {name: a, subGroupSize: 2, minSubGroups: 1, matchLabelKeys: [part], labelSelector: {matchLabels: {a: b}}, networkTopology: {mode: hard, highestTierAllowed: 1}}
status:
  phase: Running
  conditions: [{type: Scheduled, status: "True", reason: tasks in gang are ready to be scheduled, transitionID: x, lastTransitionTime: "2026-01-01T00:00:00Z"}]
  running: 2
  reserved: {cpu: "3"}
  estimate: {runtime: 1h30m0s, source: History, limit: 2h0m0s, message: the mean of the last two runs of this kind}
  plan:
    position: 1
    expectedStart: {at: "2026-01-01T01:00:00Z", earliest: "2026-01-01T00:30:00Z", latest: "2026-01-01T02:00:00Z"}
    waitsFor: [train-7]
    waitsForOthers: 2
    message: "1st of all gangs that wait"
    computedAt: "2026-01-01T00:00:00Z"
  place:
    position: 1
    short: {queue: default, user: ann, resource: cpu, limit: "4", free: "1", asked: "2", missing: "1"}
    shares: [{resource: cpu, used: "3", share: "4", borrowedByOthers: "0"}]
    foundAt: "2026-01-01T00:00:00Z"
`,
	queues: `
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: full-queue}
spec:
  weight: 4
  capability: {cpu: "10", memory: 1Gi}
  deserved: {cpu: 5}
  guarantee: {resource: {cpu: 500m}}
  reclaimable: true
  extendClusters: [{name: other, weight: 1, capacity: {cpu: 1}}]
  affinity:
    nodeGroupAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [a], preferredDuringSchedulingIgnoredDuringExecution: [b]}
    nodeGroupAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [c], preferredDuringSchedulingIgnoredDuringExecution: [d]}
  type: team
  parent: root
  priority: 5
  dequeueStrategy: fifo
  muster:
    maxRunningJobs: 3
    defaultRuntime: 2h
    userQuota: {default: {cpu: 1}, users: [{name: ann, quota: {cpu: 2}}]}
status:
  state: Open
  allocated: {cpu: 1}
  reservation: {nodes: [node-0], resource: {cpu: 1}}
  conditions: [{type: Valid, status: "True", reason: Valid, message: "", observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}]
  muster:
    lastValid: {parent: root, guarantee: {cpu: 1}, deserved: {cpu: 1}, capability: {cpu: 1}}
    running: 5
    waiting: 6
    figures: {used: cpu 1/2, reserved: "1", share: "3", guarantee: "2", borrowed: "4"}
    deserved: {cpu: 1}
    users: [{name: ann, allocated: {cpu: 1}}]
    otherUsers: 1
`,
	commands: `
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {name: full-command}
action: AbortJob
target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: j, uid: u, controller: true}
reason: CommandIssued
message: because
`,
	phJobs: `
apiVersion: primehub.io/v1alpha1
kind: PhJob
metadata: {name: full-phjob}
spec: ` + fullPhJobSpec + `
status: {phase: Running, reason: PodRunning, message: Job is currently running, podName: p, startTime: "2026-01-01T00:00:00Z", finishTime: "2026-01-01T00:01:00Z", requeued: 2}
`,
	phSchedules: `
apiVersion: primehub.io/v1alpha1
kind: PhSchedule
metadata: {name: full-phschedule}
spec:
  recurrence: {type: custom, cron: 0 4 * * *}
  jobTemplate: {metadata: {labels: {a: b}}, spec: ` + fullPhJobSpec + `}
status: {invalid: true, nextRunTime: "2026-01-01T00:00:00Z", message: phSchedule recurrence format invalid}
`,
	images: `
apiVersion: primehub.io/v1alpha1
kind: Image
metadata: {name: full-image}
spec: {displayName: Base, description: a base, type: both, url: base, urlForGpu: base-gpu, pullSecret: pull, groupName: phusers, imageSpec: {baseImage: base}}
`,
	instanceTypes: `
apiVersion: primehub.io/v1alpha1
kind: InstanceType
metadata: {name: full-instance-type}
spec:
  displayName: Tiny
  description: a small one
  limits.cpu: 1
  limits.memory: 4G
  limits.gpu: 1
  limits.nvidia.com/gpu: 1
  requests.cpu: 1
  requests.memory: 1G
  gpuResourceName: amd.com/gpu
  nodeSelector: {a: b}
  tolerations: [{key: a, operator: Equal, value: b, effect: NoSchedule, tolerationSeconds: 5}]
  monitoring: {kept: true}
`,
	hyperNodes: `
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: full-hypernode}
spec:
  tier: 2
  tierName: spine
  members:
  - {type: HyperNode, selector: {exactMatch: {name: leaf-0}}}
  - {type: Node, selector: {regexMatch: {pattern: '^node-[0-9]+$'}}}
  - {type: Node, selector: {labelMatch: {matchLabels: {rack: r1}}}}
status:
  nodeCount: 3
  conditions: [{type: Valid, status: "True", reason: Valid, message: "", observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}]
`,
	networkTopologies: `
apiVersion: muster.sh/v1alpha1
kind: NetworkTopology
metadata: {name: full-topology}
spec:
  nodeSelector: {matchLabels: {a: b}}
  levels:
  - {nodeLabel: example.com/spine, tierName: spine, tier: 2}
  - {nodeLabel: example.com/leaf, tierName: leaf, tier: 1}
status:
  nodeCount: 3
  conditions: [{type: Valid, status: "True", reason: Valid, message: all is used, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}]
`,
	startReviews: `
apiVersion: muster.sh/v1alpha1
kind: StartReview
metadata: {name: full-question}
spec:
  job: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: a, labels: {muster.sh/user: ada}}, spec: {queue: q, tasks: [{replicas: 1}]}}
status:
  answer: Later
  message: expected to start about 12:00:00 UTC on January 1, when b ends
  nodeCount: 2
  runtime: 1h0m0s
  evicts: true
  delays: {names: [c], others: 2}
  plan:
    position: 3
    expectedStart: {at: "2026-01-01T12:00:00Z", earliest: "2026-01-01T11:00:00Z", latest: "2026-01-01T14:00:00Z"}
    waitsFor: [b]
    waitsForOthers: 1
    message: expected to start about 12:00:00 UTC on January 1, when b and 1 other end
    computedAt: "2026-01-01T10:00:00Z"
`,
}

func TestFullObjectsAreTaken(t *testing.T) {
	for gvr, text := range fullObjects {
		t.Run(gvr.Resource, func(t *testing.T) {
			full := normal(t, parse(t, text))
			created := create(t, gvr, full)
			require.Equal(t, full["spec"], withoutDefaults(t, created.Object["spec"], full["spec"]), "something was dropped or changed")

			if _, hasStatus := full["status"]; !hasStatus {
				return
			}
			created.Object["status"] = full["status"]
			updated, err := resource(gvr).UpdateStatus(t.Context(), created, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
			require.NoError(t, err)
			require.Equal(t, full["status"], updated.Object["status"])
		})
	}
}

// withoutDefaults returns of stored what was asked for, so that both can be compared.
func withoutDefaults(t *testing.T, stored, asked any) any {
	t.Helper()
	switch asked := asked.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name := range asked {
			kept[name] = withoutDefaults(t, stored.(map[string]any)[name], asked[name])
		}
		return kept
	case []any:
		require.Len(t, stored, len(asked))
		kept := []any{}
		for i := range asked {
			kept = append(kept, withoutDefaults(t, stored.([]any)[i], asked[i]))
		}
		return kept
	}
	return stored
}

// Each bound of the schemas, with a value that is just beyond it.
func TestBoundsRefuseWhatIsBeyondThem(t *testing.T) {
	stored := map[schema.GroupVersionResource]*unstructured.Unstructured{}
	for gvr, text := range fullObjects {
		stored[gvr] = create(t, gvr, merge(t, parse(t, text), "metadata: {name: bounds}"))
	}
	for _, c := range constraints(t) {
		if c.keyword == "rule" {
			continue
		}
		t.Run(fmt.Sprintf("%s/%s/%s", c.resource.Resource, c.path, c.keyword), func(t *testing.T) {
			object := normal(t, parse(t, fullObjects[c.resource]))
			field := replace(t, object, c.path, func(old any) any { return beyond(t, c, old) })

			var err error
			if strings.HasPrefix(c.path, "status.") {
				changed := stored[c.resource].DeepCopy()
				changed.Object["status"] = object["status"]
				_, err = resource(c.resource).UpdateStatus(t.Context(), changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			} else {
				err = tryCreate(t, c.resource, object)
			}
			requireRefused(t, err, field, complaint(c))
		})
	}
}

// beyond makes the value that breaks a constraint, given one that keeps it.
func beyond(t *testing.T, c constraint, old any) any {
	t.Helper()
	switch c.keyword {
	case "minimum":
		if c.path == "spec.weight" {
			return c.limit - 2 // 0 stands for the default
		}
		return c.limit - 1
	case "maximum":
		return c.limit + 1
	case "minLength":
		return ""
	case "maxLength":
		return strings.Repeat("n", int(c.limit)+1)
	case "pattern":
		return ":Not a name:"
	case "enum":
		return "NoSuchValue"
	case "minItems":
		return []any{}
	case "maxItems":
		return tooMany(old.([]any), c.limit)
	case "maxProperties":
		return tooManyNames(old.(map[string]any), c.limit)
	}
	require.Failf(t, "a keyword without a test", "%s of %s", c.keyword, c.path)
	return nil
}

func tooMany(old []any, limit int64) []any {
	many := []any{}
	for i := int64(0); i <= limit; i++ {
		many = append(many, runtime.DeepCopyJSONValue(old[0]))
	}
	return many
}

func tooManyNames(old map[string]any, limit int64) map[string]any {
	value := slices.Collect(maps.Values(old))[0]
	many := map[string]any{}
	for i := int64(0); i <= limit; i++ {
		many["name-"+strconv.FormatInt(i, 10)] = runtime.DeepCopyJSONValue(value)
	}
	return many
}

// complaint is how the API server words a broken constraint.
func complaint(c constraint) string {
	switch c.keyword {
	case "minimum":
		return fmt.Sprintf("should be greater than or equal to %d", c.limit)
	case "maximum":
		return fmt.Sprintf("should be less than or equal to %d", c.limit)
	case "minLength":
		return fmt.Sprintf("should be at least %d chars long", c.limit)
	case "maxLength":
		return fmt.Sprintf("may not be more than %d bytes", c.limit)
	case "pattern":
		return "should match"
	case "enum":
		return "supported values"
	case "minItems":
		return fmt.Sprintf("should have at least %d items", c.limit)
	default:
		return fmt.Sprintf("must have at most %d items", c.limit)
	}
}

// replace changes the value at a constraint's path, of the first item if there are several. It returns the path in the API server's form.
func replace(t *testing.T, object map[string]any, path string, change func(any) any) string {
	t.Helper()
	return replaceIn(t, object, strings.FieldsFunc(strings.NewReplacer("[]", ".[]", "{}", ".{}").Replace(path), func(r rune) bool { return r == '.' }), "", change)
}

func replaceIn(t *testing.T, container any, steps []string, at string, change func(any) any) string {
	t.Helper()
	step := strings.ReplaceAll(steps[0], dot, ".")
	switch step {
	case "[]":
		list := container.([]any)
		require.NotEmpty(t, list, "the full object has nothing at %s", at)
		for i := range list {
			if len(steps) == 1 {
				list[i] = change(list[i])
				return fmt.Sprintf("%s[%d]", at, i)
			}
			if leadsTo(list[i], steps[1:]) {
				return replaceIn(t, list[i], steps[1:], fmt.Sprintf("%s[%d]", at, i), change)
			}
		}
		require.Failf(t, "the full object lacks a field", "%s[].%s", at, steps[1])
		return ""
	case "{}":
		values := container.(map[string]any)
		step = slices.Sorted(maps.Keys(values))[0]
		if len(steps) > 1 {
			return replaceIn(t, values[step], steps[1:], at+"."+step, change)
		}
		values[step] = change(values[step])
		return at + "." + step
	}
	fields := container.(map[string]any)
	at = strings.TrimPrefix(at+"."+step, ".")
	if len(steps) == 1 {
		fields[step] = change(fields[step])
		return at
	}
	require.Contains(t, fields, step, "the full object lacks %s", at)
	return replaceIn(t, fields[step], steps[1:], at, change)
}

// leadsTo tells whether steps of fields lead from an item to the one before the last. Of lists and other maps only the first step is looked at.
func leadsTo(item any, steps []string) bool {
	fields, isMap := item.(map[string]any)
	return !isMap || steps[0] == "[]" || steps[0] == "{}" || fields[steps[0]] != nil && (len(steps) <= 2 || leadsTo(fields[steps[0]], steps[1:]))
}

// The API server gives the rules of one object a cost budget, which the largest object must not use up.
func TestTheLargestJobIsTaken(t *testing.T) {
	var policies []any
	for _, event := range []string{"PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "Unknown", "JobUpdated"} {
		policies = append(policies, map[string]any{"events": []any{event}, "action": "RestartJob"})
	}
	for code := int64(1); len(policies) < 20; code++ {
		policies = append(policies, map[string]any{"exitCode": code, "action": "AbortJob"})
	}
	var names, tasks, volumes []any
	for i := range 100 {
		names = append(names, fmt.Sprintf("task-%d-%s", i, strings.Repeat("n", 45)))
	}
	for i := range 100 {
		tasks = append(tasks, map[string]any{
			"name": names[i], "replicas": int64(2), "minAvailable": int64(2), "policies": policies,
			"dependsOn":       map[string]any{"name": names[:i]},
			"partitionPolicy": map[string]any{"totalPartitions": int64(2), "partitionSize": int64(1), "minPartitions": int64(2)},
		})
	}
	for i := range 64 {
		volumes = append(volumes, map[string]any{"mountPath": fmt.Sprintf("/%s/%d", strings.Repeat("p", 1000), i)})
	}
	job := normal(t, parse(t, smallJob))
	job["metadata"] = map[string]any{"name": "large"} // the names of its pods are nearly as long as they may be
	job["spec"] = map[string]any{"minAvailable": int64(200), "policies": policies, "volumes": volumes, "tasks": tasks}
	created := create(t, jobs, normal(t, job))

	created.Object["spec"].(map[string]any)["minAvailable"] = int64(100)
	_, err := resource(jobs).Update(t.Context(), created, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// A zone of 10,000 nodes that are named one by one is as large as a HyperNode may be.
func TestTheLargestHyperNodeIsTaken(t *testing.T) {
	var members []any
	for i := range 10_000 {
		members = append(members, map[string]any{"type": "Node", "selector": map[string]any{"exactMatch": map[string]any{"name": fmt.Sprintf("node-%d.%s", i, strings.Repeat("n", 40))}}})
	}
	zone := normal(t, parse(t, smallHyperNode))
	zone["metadata"] = map[string]any{"name": "large"}
	zone["spec"] = map[string]any{"tier": int64(1), "members": members}
	created := create(t, hyperNodes, zone)
	require.NoError(t, unstructured.SetNestedField(created.Object, "zone", "spec", "tierName"))
	_, err := resource(hyperNodes).Update(t.Context(), created, metav1.UpdateOptions{})
	require.NoError(t, err)
}
