package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// changingJob has every field that is compared when a Job is updated, in forms that a Go client writes differently.
const changingJob = `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: changing}
spec:
  schedulerName: muster
  minAvailable: 3
  minSuccess: 1
  queue: default
  maxRetry: 0
  ttlSecondsAfterFinished: 60
  priorityClassName: high
  runningEstimate: 60m
  suspend: false
  activeDeadlineSeconds: 3600
  networkTopology: {mode: soft, highestTierAllowed: 2}
  plugins: {svc: [], env: ["--x=y"]}
  policies: [{event: PodFailed, action: RestartJob, timeout: 60s}, {events: [PodEvicted], action: RestartJob}]
  volumes:
  - {mountPath: /data, volumeClaimName: data}
  - {mountPath: /out, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}
  - {mountPath: /mine, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
  - {mountPath: /scratch}
  tasks:
  - name: main
    replicas: 4
    minAvailable: 2
    maxRetry: 3
    topologyPolicy: best-effort
    partitionPolicy: {totalPartitions: 2, partitionSize: 2, minPartitions: 1, networkTopology: {mode: hard, highestTierAllowed: 1}}
    dependsOn: {name: [first], iteration: any, condition: Ready}
    policies: [{event: PodPending, action: RestartTask, timeout: 5m}]
    template:
      metadata: {labels: {a: b}}
      spec:
        hostNetwork: false
        restartPolicy: Never
        initContainers: [{name: init, image: init, resources: {limits: {cpu: 1}}}]
        containers:
        - name: main
          image: main
          tty: false
          env: [{name: A, value: a}]
          ports: [{containerPort: 80}]
          resources: {requests: {cpu: 1, memory: 1024Mi}, limits: {cpu: 1500m}}
          volumeMounts: [{name: tmp, mountPath: /tmp}]
        volumes: [{name: tmp, emptyDir: {}}]
  - {name: first, replicas: 1, template: {spec: {containers: [{name: main, image: main, resources: {}}]}}}
`

const remedy = " immutable: job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`"

// update asks whether the API server would store a change of a Job. Lint has to agree.
func update(t *testing.T, object map[string]any) error {
	t.Helper()
	_, err := resource(jobs).Update(t.Context(), &unstructured.Unstructured{Object: object},
		metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	requireLintAgreesOnUpdate(t, jobs, object, err)
	return err
}

// createChangingJob stores a Job and waits until the API server guards its fields. It learns of policies a moment
// after they are stored.
func createChangingJob(t *testing.T, name string) map[string]any {
	t.Helper()
	created := create(t, jobs, merge(t, parse(t, changingJob), "metadata: {name: "+name+"}")).Object
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := resource(jobs).Update(t.Context(), &unstructured.Unstructured{Object: merge(t, created, "spec: {queue: other}")},
			metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		assert.ErrorContains(c, err, remedy)
	}, time.Minute, 50*time.Millisecond, "fields are not guarded")
	// A Job is created without the names of its claims, and the controller fills them in.
	named := set(t, created, "mine", path("spec.volumes.2.volumeClaimName")...)
	stored, err := resource(jobs).Update(t.Context(), &unstructured.Unstructured{Object: named}, metav1.UpdateOptions{})
	require.NoError(t, err)
	return stored.Object
}

// set changes one field of an object: the path is of names and indexes, and nil removes.
func set(t *testing.T, object map[string]any, value any, path ...any) map[string]any {
	t.Helper()
	if value != nil {
		return put(t, object, value, path...)
	}
	changed := runtime.DeepCopyJSON(object)
	delete(within(changed, path[:len(path)-1]...).(map[string]any), path[len(path)-1].(string))
	return changed
}

// put changes one field of an object, or one item of a list in it, also to null.
func put(t *testing.T, object map[string]any, value any, path ...any) map[string]any {
	t.Helper()
	changed := runtime.DeepCopyJSON(object)
	last := path[len(path)-1]
	switch at := within(changed, path[:len(path)-1]...).(type) {
	case map[string]any:
		at[last.(string)] = value
	case []any:
		at[last.(int)] = value
	}
	return changed
}

// within returns what is at a path of an object.
func within(at any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			at = at.(map[string]any)[step]
		case int:
			at = at.([]any)[step]
		}
	}
	return at
}

func path(text string) []any {
	var steps []any
	for _, step := range strings.Split(text, ".") {
		var index int
		if n, err := fmt.Sscanf(step, "%d", &index); n == 1 && err == nil {
			steps = append(steps, index)
			continue
		}
		steps = append(steps, step)
	}
	return steps
}

// fixed are changes that are refused: the name in the message, the field that is changed, and its new value.
var fixed = []struct {
	names, field string
	value        any
}{
	{"spec.schedulerName is", "schedulerName", "other"},
	{"spec.queue is", "queue", "other"},
	{"spec.maxRetry is", "maxRetry", int64(9)},
	{"spec.networkTopology is", "networkTopology", nil},
	{"spec.networkTopology is", "networkTopology.highestTierAllowed", int64(3)},
	{"spec.plugins is", "plugins", nil},
	{"spec.plugins is", "plugins.ssh", []any{}},
	{"spec.plugins is", "plugins.env", []any{}},
	{"spec.policies is", "policies", nil},
	{"spec.policies is", "policies.0.action", "AbortJob"},
	{"spec.policies is", "policies.0.timeout", "61s"},
	{"spec.policies is", "policies.1.events", []any{"PodEvicted", "TaskCompleted"}},
	{"spec.volumes is", "volumes", nil},
	{"spec.volumes is", "volumes.0.mountPath", "/other"},
	{"spec.volumes is", "volumes.0.volumeClaimName", "other"},
	{"spec.volumes is", "volumes.0.volumeClaimName", nil},
	{"spec.volumes is", "volumes.1.volumeClaim.resources.requests.storage", "2Gi"},
	{"spec.volumes is", "volumes.1.volumeClaim", nil},
	{"spec.volumes is", "volumes.3.volumeClaimName", "data"},
	{"spec.volumes[*].volumeClaimName is", "volumes.2.volumeClaimName", "yours"},
	{"spec.volumes[*].volumeClaimName is", "volumes.2.volumeClaimName", nil},
	{"spec.tasks[*].name is", "tasks.0.name", "other"},
	{"spec.tasks[*].maxRetry is", "tasks.0.maxRetry", int64(5)},
	{"spec.tasks[*].topologyPolicy is", "tasks.0.topologyPolicy", nil},
	{"spec.tasks[*].dependsOn is", "tasks.0.dependsOn", nil},
	{"spec.tasks[*].dependsOn is", "tasks.0.dependsOn.iteration", "all"},
	{"spec.tasks[*].partitionPolicy is", "tasks.0.partitionPolicy", nil},
	{"spec.tasks[*].partitionPolicy is", "tasks.0.partitionPolicy.networkTopology", nil},
	{"spec.tasks[*].policies is", "tasks.0.policies", nil},
	{"spec.tasks[*].policies is", "tasks.0.policies.0.timeout", "6m"},
	{"spec.tasks[*].template is", "tasks.0.template", nil},
	{"spec.tasks[*].template is", "tasks.0.template.metadata.labels.a", "c"},
	{"spec.tasks[*].template is", "tasks.0.template.metadata.annotations", map[string]any{"a": "b"}},
	{"spec.tasks[*].template is", "tasks.0.template.spec.restartPolicy", "OnFailure"},
	{"spec.tasks[*].template is", "tasks.0.template.spec.hostNetwork", true},
	{"spec.tasks[*].template is", "tasks.0.template.spec.automountServiceAccountToken", false},
	{"spec.tasks[*].template is", "tasks.0.template.spec.terminationGracePeriodSeconds", int64(0)},
	{"spec.tasks[*].template is", "tasks.0.template.spec.initContainers", nil},
	{"spec.tasks[*].template is", "tasks.0.template.spec.initContainers.0.image", "other"},
	{"spec.tasks[*].template is", "tasks.0.template.spec.containers.0.image", "other"},
	{"spec.tasks[*].template is", "tasks.0.template.spec.containers.0.tty", true},
	{"spec.tasks[*].template is", "tasks.0.template.spec.containers.0.env.0.value", "b"},
	{"spec.tasks[*].template is", "tasks.0.template.spec.containers.0.resources", nil},
	{"spec.tasks[*].template is", "tasks.0.template.spec.containers.0.resources.requests.cpu", int64(2)},
	{"spec.tasks[*].template is", "tasks.0.template.spec.containers.0.resources.limits.cpu", "1501m"},
	{"spec.tasks[*].template is", "tasks.1.template.spec.containers.0.resources.limits", map[string]any{"cpu": "1"}},
	{"spec.tasks[*].template is", "tasks.1.template.spec.containers.0.image", "other"},
}

func TestFixedFieldsOfAJob(t *testing.T) {
	created := createChangingJob(t, "fixed")
	for _, c := range fixed {
		t.Run(fmt.Sprintf("%s=%v", c.field, c.value), func(t *testing.T) {
			err := update(t, set(t, created, c.value, path("spec."+c.field)...))
			require.Contains(t, everythingSaid(err), c.names+remedy)
		})
	}
}

func TestAllFixedFieldsThatChangeAreNamed(t *testing.T) {
	created := createChangingJob(t, "several")
	changed := merge(t, set(t, created, "other", path("spec.tasks.0.template.spec.containers.0.image")...), "spec: {queue: other, minAvailable: 4}")
	require.ErrorContains(t, update(t, changed), "spec.queue, spec.tasks[*].template are"+remedy)
}

func TestWhatMayChangeOfAJob(t *testing.T) {
	created := createChangingJob(t, "may-change")
	for field, value := range map[string]any{
		"minAvailable":                       int64(1),
		"minSuccess":                         int64(2),
		"priorityClassName":                  "low",
		"suspend":                            true,
		"activeDeadlineSeconds":              int64(1),
		"ttlSecondsAfterFinished":            nil,
		"tasks.1.replicas":                   int64(7),
		"tasks.1.minAvailable":               int64(0),
		"volumes.1.volumeClaimName":          "may-change-pvc-0123456789ab",
		"maxRetry":                           nil, // the default is what 0 means
		"schedulerName":                      nil, // the default is what it was
		"tasks.0.maxRetry":                   int64(0),
		"policies.0.timeout":                 "1m",
		"runningEstimate":                    "61m",
		"tasks.0.template.spec.nodeSelector": map[string]any{},
		"tasks.0.template.spec.containers.0.resources.requests.cpu":    "1000m",
		"tasks.0.template.spec.containers.0.resources.requests.memory": "1Gi",
		"volumes.1.volumeClaim.resources.requests.storage":             "1Gi",
	} {
		t.Run(field, func(t *testing.T) {
			require.NoError(t, update(t, set(t, created, value, path("spec."+field)...)))
		})
	}
	t.Run("metadata", func(t *testing.T) {
		require.NoError(t, update(t, merge(t, created, "metadata: {labels: {a: b}, finalizers: [muster.sh/test]}")))
	})
	t.Run("partitions", func(t *testing.T) {
		changed := runtime.DeepCopyJSON(created)
		for field, value := range map[string]int64{"replicas": 6, "minAvailable": 4, "partitionPolicy.totalPartitions": 3, "partitionPolicy.minPartitions": 2} {
			changed = set(t, changed, value, path("spec.tasks.0."+field)...)
		}
		require.NoError(t, update(t, changed))
	})
	t.Run("the name of a claim that kubectl apply takes out", func(t *testing.T) {
		named := set(t, created, "may-change-pvc-0123456789ab", path("spec.volumes.1.volumeClaimName")...)
		stored, err := resource(jobs).Update(t.Context(), &unstructured.Unstructured{Object: named}, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.NoError(t, update(t, set(t, stored.Object, nil, path("spec.volumes.1.volumeClaimName")...)))
	})
}

// throughGo returns a Job as a Go client writes it that has read it into our types.
func throughGo(t *testing.T, object map[string]any, change func(*batchv1alpha1.Job)) map[string]any {
	t.Helper()
	job := &batchv1alpha1.Job{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object, job))
	change(job)
	back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	require.NoError(t, err)
	return back
}

func grow(job *batchv1alpha1.Job) { job.Spec.Tasks[len(job.Spec.Tasks)-1].Replicas++ }

// Jobs that kubectl has made, which Go clients write in another way, can be scaled by these.
func TestGoClientsScaleJobsThatKubectlMade(t *testing.T) {
	created := createChangingJob(t, "go-client")
	back := throughGo(t, created, grow)
	for _, field := range []string{"policies", "runningEstimate", "volumes", "tasks"} {
		require.NotEqual(t, created["spec"].(map[string]any)[field], back["spec"].(map[string]any)[field], "this writer is to have ways of its own")
	}
	require.NoError(t, update(t, back))

	files, err := filepath.Glob("testdata/volcano/*.yaml")
	require.NoError(t, err)
	examples, err := filepath.Glob("../../../manifests/examples/*.yaml")
	require.NoError(t, err)
	scaled := 0
	for _, file := range append(files, examples...) {
		for _, object := range jobsOf(t, file) {
			t.Run(filepath.Base(file)+"/"+object.GetName(), func(t *testing.T) {
				object.SetNamespace("")
				created := create(t, jobs, object.Object).Object
				require.NoError(t, update(t, throughGo(t, created, grow)))
			})
			scaled++
		}
	}
	require.Greater(t, scaled, 5)
}

// jobsOf reads the Jobs of a file.
func jobsOf(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var found []*unstructured.Unstructured
	for _, document := range strings.Split(string(text), "\n---") {
		object := &unstructured.Unstructured{Object: normal(t, parse(t, document))}
		if object.GroupVersionKind() == batchv1alpha1.SchemeGroupVersion.WithKind("Job") {
			found = append(found, object)
		}
	}
	return found
}

// The API server limits the cost of a comparison: it is enough for large Jobs.
func TestLargeJobsScale(t *testing.T) {
	createChangingJob(t, "guarded") // so that the policy is in force
	for name, c := range map[string]struct{ tasks, containers, variables int }{
		"many tasks":      {100, 3, 20},
		"many containers": {10, 100, 4},
		"many variables":  {10, 2, 600},
	} {
		t.Run(name, func(t *testing.T) {
			large := merge(t, parse(t, changingJob), "metadata: {name: large}\nspec: {minAvailable: 0, tasks: null}")
			var tasks []any
			for i := range c.tasks {
				task := runtime.DeepCopyJSONValue(normal(t, parse(t, changingJob))["spec"].(map[string]any)["tasks"].([]any)[0]).(map[string]any)
				task["name"] = fmt.Sprintf("task-%d", i)
				task["dependsOn"] = nil
				pod := task["template"].(map[string]any)["spec"].(map[string]any)
				pod["containers"] = containers(pod["containers"].([]any)[0].(map[string]any), c.containers, c.variables)
				tasks = append(tasks, task)
			}
			large["spec"].(map[string]any)["tasks"] = tasks
			created := create(t, jobs, large).Object
			require.Equal(t, false, created["spec"].(map[string]any)["suspend"])

			suspended := set(t, created, true, path("spec.suspend")...)
			require.NoError(t, update(t, suspended))
			require.NoError(t, update(t, throughGo(t, suspended, func(*batchv1alpha1.Job) {})))
			other := set(t, suspended, "other", path(fmt.Sprintf("spec.tasks.%d.template.spec.containers.0.image", c.tasks-1))...)
			require.ErrorContains(t, update(t, other), "spec.tasks[*].template is"+remedy)
		})
	}
}

// containers returns so many copies of a container, each with so many variables.
func containers(one map[string]any, count, variables int) []any {
	var all []any
	for i := range count {
		container := runtime.DeepCopyJSON(one)
		container["name"] = fmt.Sprintf("container-%d", i)
		var env []any
		for j := range variables {
			env = append(env, map[string]any{"name": fmt.Sprintf("VARIABLE_%d", j), "value": "some value of it"})
		}
		container["env"] = env
		all = append(all, container)
	}
	return all
}

// Each field of the schema is either guarded or may change. A new one has to be put on one side.
func TestEveryFieldOfAJobIsDecided(t *testing.T) {
	may := []string{"minAvailable", "minSuccess", "priorityClassName", "suspend", "activeDeadlineSeconds", "ttlSecondsAfterFinished",
		"runningEstimate", "tasks[*].replicas", "tasks[*].minAvailable"}
	decided := map[string]bool{}
	for _, field := range may {
		decided[field] = true
	}
	for _, c := range fixed {
		decided[strings.TrimSuffix(strings.TrimPrefix(c.names, "spec."), " is")] = true
	}
	for _, crd := range readCRDs(t) {
		if crd.Spec.Names.Plural != jobs.Resource {
			continue
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
		for field := range spec {
			assert.True(t, field == "tasks" || decided[field], "spec.%s: it is not decided whether it may change", field)
		}
		for field := range spec["tasks"].Items.Schema.Properties {
			assert.True(t, decided["tasks[*]."+field], "spec.tasks[*].%s: it is not decided whether it may change", field)
		}
	}
}
