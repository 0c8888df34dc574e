package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// typed reads a Job as our programs do.
func typed(t testing.TB, object map[string]any) *batchv1alpha1.Job {
	t.Helper()
	job := &batchv1alpha1.Job{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object, job))
	return job
}

// anyJob makes Jobs that are valid, and that leave out any part of what has a default. An empty text is as good as none.
var anyJob = rapid.Custom(func(t *rapid.T) map[string]any {
	spec := map[string]any{}
	maybe(t, spec, "schedulerName", "", "volcano", "muster")
	maybe(t, spec, "queue", "", "default", "research")
	maybe(t, spec, "maxRetry", int64(0), int64(1), int64(7))
	plugins := map[string]any{}
	for _, name := range []string{"mpi", "tensorflow", "pytorch", "ray", "svc", "ssh", "env"} {
		maybe(t, plugins, name, []any{}, []any{"--x=y"}, nil, nil)
	}
	if len(plugins) > 0 {
		spec["plugins"] = plugins
	}
	var tasks []any
	var sum int64
	for i := range rapid.IntRange(1, 5).Draw(t, "tasks") {
		task, replicas := anyTask(t, i)
		tasks, sum = append(tasks, task), sum+replicas
	}
	spec["tasks"] = tasks
	if _, has := plugins["mpi"]; has {
		plugins["mpi"] = []any{"--master=" + nameOf(tasks[0])}
	}
	maybe(t, spec, "minAvailable", int64(0), sum/2, sum)
	return map[string]any{
		"apiVersion": batchv1alpha1.SchemeGroupVersion.String(), "kind": "Job",
		"metadata": map[string]any{"name": "any", "namespace": metav1.NamespaceDefault}, "spec": spec,
	}
})

// nameOf is the name of the first task, or the one that it is given.
func nameOf(first any) string {
	if name, _ := first.(map[string]any)["name"].(string); name != "" {
		return name
	}
	return "default0"
}

// maybe gives a field one of the values, or none.
func maybe(t *rapid.T, of map[string]any, field string, values ...any) {
	if value := rapid.SampledFrom(append(values, nil)).Draw(t, field); value != nil {
		of[field] = value
	}
}

// anyTask draws a task, and says how many replicas it has.
func anyTask(t *rapid.T, index int) (task map[string]any, replicas int64) {
	task = map[string]any{}
	maybe(t, task, "name", "", fmt.Sprintf("task-%d", index))
	maybe(t, task, "maxRetry", int64(0), int64(2))
	replicas = rapid.Int64Range(0, 5).Draw(t, "replicas")
	maybe(t, task, "minAvailable", int64(0), replicas/2, replicas)
	if rapid.Bool().Draw(t, "partitions") {
		total, size := rapid.Int64Range(1, 3).Draw(t, "total"), rapid.Int64Range(1, 3).Draw(t, "size")
		replicas = total * size
		least := rapid.Int64Range(0, total).Draw(t, "least")
		task["partitionPolicy"] = map[string]any{"totalPartitions": total, "partitionSize": size, "minPartitions": least}
		if delete(task, "minAvailable"); least > 0 {
			maybe(t, task, "minAvailable", least*size)
		}
	}
	if replicas > 0 || rapid.Bool().Draw(t, "zero") {
		task["replicas"] = replicas
	}
	pod := map[string]any{"containers": []any{map[string]any{"name": "main", "image": "main"}}}
	maybe(t, pod, "hostNetwork", true, false)
	maybe(t, pod, "dnsPolicy", "", "None", "ClusterFirst", "ClusterFirstWithHostNet")
	task["template"] = map[string]any{"spec": pod}
	return task, replicas
}

// TestWrittenDefaultsAreThoseInMemory: both give a reader the same values.
func TestWrittenDefaultsAreThoseInMemory(t *testing.T) {
	for seed := range 250 {
		asked := anyJob.Example(seed)
		stored, err := resource(jobs).Create(t.Context(), &unstructured.Unstructured{Object: asked}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err, "%v", asked)
		written := typed(t, stored.Object)
		require.Equal(t, defaults.Job(typed(t, asked), "").Spec, written.Spec, "%v", asked)
		require.Equal(t, defaults.Job(written, ""), written, "nothing is left to fill in: %v", asked)
	}
}

// TestTheSameJobAgainChangesNothing: a field that a client leaves out again is filled in again.
func TestTheSameJobAgainChangesNothing(t *testing.T) {
	for seed := range 25 {
		asked := merge(t, anyJob.Example(seed), fmt.Sprintf("metadata: {name: again-%d}", seed))
		created := create(t, jobs, asked)
		asked["metadata"].(map[string]any)["resourceVersion"] = created.GetResourceVersion()
		replaced, err := resource(jobs).Update(t.Context(), &unstructured.Unstructured{Object: asked}, metav1.UpdateOptions{})
		require.NoError(t, err, "%v", asked)
		require.Equal(t, created.Object["spec"], replaced.Object["spec"])
		require.Equal(t, created.GetGeneration(), replaced.GetGeneration())
	}
}

// TestApplyingTheSameFileAgainChangesNothing: for each way of kubectl, with files that name few defaults.
func TestApplyingTheSameFileAgainChangesNothing(t *testing.T) {
	for name, args := range map[string][]string{"client-side": {"apply"}, "server-side": {"apply", "--server-side"}} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "objects.yaml")
			require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: same-`+name+`}
spec:
  plugins: {mpi: [--master=b]}
  tasks:
  - {replicas: 2, template: {spec: {hostNetwork: true, containers: [{name: main, image: main}]}}}
  - {name: b, replicas: 1, template: {spec: {containers: [{name: main, image: main}]}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: same-`+name+`, annotations: {volcano.sh/hierarchy: a/b, volcano.sh/hierarchy-weights: 1/2}}
`), 0o600))
			out, err := kubectl(t, append(args, "-f", file)...)
			require.NoError(t, err, out)
			before := stored(t, "same-"+name)
			for range 2 {
				out, err := kubectl(t, append(args, "-f", file)...)
				require.NoError(t, err, out)
				assert.Equal(t, before, stored(t, "same-"+name))
			}
			out, err = kubectl(t, append([]string{"diff"}, append(args[1:], "-f", file)...)...)
			assert.NoError(t, err, "no difference is shown: %s", out)
			require.NoError(t, resource(jobs).Delete(t.Context(), "same-"+name, metav1.DeleteOptions{}))
			require.NoError(t, resource(queues).Delete(t.Context(), "same-"+name, metav1.DeleteOptions{}))
		})
	}
}

// stored returns the resource versions of a Job and of the queue of the same name.
func stored(t *testing.T, name string) []string {
	t.Helper()
	job, err := resource(jobs).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	queue, err := resource(queues).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return []string{job.GetResourceVersion(), queue.GetResourceVersion()}
}

// TestDefaultsOfQueues: as Volcano's webhook writes them.
func TestDefaultsOfQueues(t *testing.T) {
	for name, c := range map[string]struct{ patch, spec, annotations string }{
		"nothing is said": {`{}`, `{weight: 1, reclaimable: true, parent: root, dequeueStrategy: traverse}`, `{}`},
		"an empty spec":   {`spec: {}`, `{weight: 1, reclaimable: true, parent: root, dequeueStrategy: traverse}`, `{}`},
		"a weight of 0":   {`spec: {weight: 0, parent: ""}`, `{weight: 1, reclaimable: true, parent: root, dequeueStrategy: traverse}`, `{}`},
		"all is said": {`spec: {weight: 2, reclaimable: false, parent: up, dequeueStrategy: fifo}`,
			`{weight: 2, reclaimable: false, parent: up, dequeueStrategy: fifo}`, `{}`},
		"a name that is generated": {`metadata: {name: null, generateName: q-}`, `{weight: 1, reclaimable: true, parent: root, dequeueStrategy: traverse}`, `{}`},
		"a path below root": {`metadata: {annotations: {volcano.sh/hierarchy: d/e, volcano.sh/hierarchy-weights: 2/3}}`,
			`{weight: 1, reclaimable: true, parent: root, dequeueStrategy: traverse}`, `{volcano.sh/hierarchy: root/d/e, volcano.sh/hierarchy-weights: 1/2/3}`},
		"a path from root": {`metadata: {annotations: {volcano.sh/hierarchy: root/c, volcano.sh/hierarchy-weights: 1/3}}`,
			`{weight: 1, reclaimable: true, parent: root, dequeueStrategy: traverse}`, `{volcano.sh/hierarchy: root/c, volcano.sh/hierarchy-weights: 1/3}`},
	} {
		t.Run(name, func(t *testing.T) {
			object := merge(t, merge(t, parse(t, smallQueue), "metadata: {name: defaults-of-queues}"), c.patch)
			queue, err := resource(queues).Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			assert.Equal(t, normal(t, parse(t, c.spec)), queue.Object["spec"])
			want := map[string]string{}
			require.NoError(t, yaml.Unmarshal([]byte(c.annotations), &want))
			if len(want) == 0 {
				want = nil
			}
			assert.Equal(t, want, queue.GetAnnotations())
		})
	}
}

// TestRootGetsNoParent: all other queues get one.
func TestRootGetsNoParent(t *testing.T) {
	root := &unstructured.Unstructured{Object: normal(t, merge(t, parse(t, smallQueue), "metadata: {name: root}"))}
	_, err := resource(queues).Create(t.Context(), root, metav1.CreateOptions{})
	require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	stored, err := resource(queues).Get(t.Context(), "root", metav1.GetOptions{})
	require.NoError(t, err)
	unstructured.RemoveNestedField(stored.Object, "spec", "weight")
	unstructured.RemoveNestedField(stored.Object, "spec", "parent")
	updated, err := resource(queues).Update(t.Context(), stored, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	assert.Nil(t, within(updated.Object, "spec", "parent"))
	assert.EqualValues(t, 1, within(updated.Object, "spec", "weight"), "all other defaults are written")
}

// namespaceWithQueue makes a namespace whose annotation names the queue team, and waits until the API server knows it.
func namespaceWithQueue(t *testing.T) string {
	t.Helper()
	namespace, err := admin(t).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "team-", Annotations: map[string]string{schedulingv1beta1.QueueNameAnnotation: "team"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, admin(t).CoreV1().Namespaces().Delete(context.Background(), namespace.Name, metav1.DeleteOptions{}))
	})
	return namespace.Name
}

// TestTheQueueOfTheNamespace is that of Jobs and PodGroups that name none, or the one that is the default of the schema.
func TestTheQueueOfTheNamespace(t *testing.T) {
	namespace := namespaceWithQueue(t)
	ofJob := `metadata: {ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: j, uid: u, controller: true}]}`
	ofPod := `metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, controller: true}]}`
	for name, c := range map[string]struct{ base, patch, queue string }{
		"Job":                              {smallJob, `{}`, "team"},
		"Job, default":                     {smallJob, `spec: {queue: default}`, "team"},
		"Job, empty":                       {smallJob, `spec: {queue: ""}`, "team"},
		"Job, another queue":               {smallJob, `spec: {queue: other}`, "other"},
		"PodGroup":                         {smallPodGroup, `{}`, "team"},
		"PodGroup, default":                {smallPodGroup, `spec: {queue: default}`, "team"},
		"PodGroup, another queue":          {smallPodGroup, `spec: {queue: other}`, "other"},
		"PodGroup of a pod":                {smallPodGroup, ofPod, "team"},
		"PodGroup of a Job in its default": {smallPodGroup, ofJob + "\nspec: {queue: default}", "default"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: merge(t, merge(t, parse(t, c.base), c.patch), "metadata: {namespace: "+namespace+"}")}
			stored, err := client.Resource(resourceOf(object.Object)).Namespace(namespace).
				Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			queue, _, err := unstructured.NestedString(stored.Object, "spec", "queue")
			require.NoError(t, err)
			assert.Equal(t, c.queue, queue)
		})
	}
}

// TestTheQueueOfANamespaceThatIsAnnotatedLater is not that of the Jobs that are there already: they stay where they are.
func TestTheQueueOfANamespaceThatIsAnnotatedLater(t *testing.T) {
	namespace := namespaceWithQueue(t)
	in := client.Resource(jobs).Namespace(namespace)
	annotate := func(queue string) {
		_, err := admin(t).CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType,
			[]byte(`{"metadata": {"annotations": {"`+schedulingv1beta1.QueueNameAnnotation+`": "`+queue+`"}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		eventually(t, "the annotation counts", func() bool {
			probe, err := in.Create(t.Context(), &unstructured.Unstructured{Object: parse(t, smallJob)}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			return within(probe.Object, "spec", "queue") == queue
		})
	}
	for _, queue := range []string{"default", "team"} {
		annotate(queue)
		object := merge(t, parse(t, smallJob), "metadata: {name: in-"+queue+"}")
		created, err := in.Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		require.NoError(t, err)
		if queue == "default" {
			annotate("team")
		}
		for _, patch := range []string{`{"metadata": {"labels": {"a": "b"}}}`, `{"spec": {"queue": null}}`} {
			changed, err := in.Patch(t.Context(), created.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			require.NoError(t, err)
			assert.Equal(t, queue, within(changed.Object, "spec", "queue"), patch)
		}
	}
}

// switchDefaults stores or removes the binding of the policy that fills in defaults of Jobs, and waits until that counts.
func switchDefaults(t testing.TB, on bool) {
	t.Helper()
	ctx := context.Background()
	bindings := admin(t).AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	const name = "muster-job-defaults"
	if on {
		_, err := bindings.Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	} else {
		require.NoError(t, bindings.Delete(ctx, name, metav1.DeleteOptions{}))
	}
	require.Eventually(t, func() bool {
		probe, err := resource(jobs).Create(ctx, &unstructured.Unstructured{Object: parse(t, smallJob)}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err)
		return (within(probe.Object, "spec", "schedulerName") != nil) == on
	}, time.Minute, 50*time.Millisecond, "the policy does not follow its binding")
}

// TestAJobThatWasStoredBeforeItsDefaults gets them with its first change, which is not refused for them, and means what it meant.
func TestAJobThatWasStoredBeforeItsDefaults(t *testing.T) {
	const count = 25
	switchDefaults(t, false)
	restored := false
	t.Cleanup(func() {
		if !restored {
			switchDefaults(t, true)
		}
	})
	var old []*unstructured.Unstructured
	for seed := range count {
		asked := merge(t, anyJob.Example(seed), fmt.Sprintf("metadata: {name: before-%d}", seed))
		for _, task := range within(asked, "spec", "tasks").([]any) {
			if task.(map[string]any)["name"] == "" {
				delete(task.(map[string]any), "name") // the schema alone refuses an empty one
			}
		}
		if asked["spec"].(map[string]any)["queue"] == "" {
			delete(asked["spec"].(map[string]any), "queue")
		}
		old = append(old, create(t, jobs, asked))
	}
	switchDefaults(t, true)
	restored = true
	for _, job := range old {
		means := defaults.Job(typed(t, job.Object), "").Spec
		requireFieldsFixed(t, job.Object)
		changed, err := resource(jobs).Patch(t.Context(), job.GetName(), types.MergePatchType, []byte(`{"metadata": {"labels": {"a": "b"}}}`), metav1.PatchOptions{})
		require.NoError(t, err, "%v", job.Object)
		require.Equal(t, means, typed(t, changed.Object).Spec)
		requireFieldsFixed(t, changed.Object)
	}
}

// requireFieldsFixed tries to change fields of a stored Job that have a default.
func requireFieldsFixed(t *testing.T, stored map[string]any) {
	t.Helper()
	for field, other := range map[string]any{"schedulerName": "other", "queue": "other", "maxRetry": int64(9)} {
		require.ErrorContains(t, update(t, set(t, stored, other, "spec", field)), "spec."+field+" is"+remedy)
	}
}

// TestDefaultsHideNoMessage: where a default cannot be computed, the user reads what the schema says.
func TestDefaultsHideNoMessage(t *testing.T) {
	for name, c := range map[string]struct{ patch, field, message string }{
		"no tasks":             {`spec: {tasks: null}`, "spec.tasks", "No task specified"},
		"no spec":              {`spec: null`, "spec.tasks", "No task specified"},
		"tasks are no list":    {`spec: {tasks: x}`, "spec.tasks", "must be of type array"},
		"a task is no object":  {`spec: {tasks: [x]}`, "spec.tasks[0]", "must be of type object"},
		"replicas are a word":  {`spec: {tasks: [{replicas: x}]}`, "spec.tasks[0].replicas", "must be of type integer"},
		"plugins are a list":   {`spec: {plugins: [mpi]}`, "spec.plugins", "must be of type object"},
		"more than there are":  {`spec: {minAvailable: 3}`, "spec.minAvailable", "should not be greater than total replicas"},
		"a bad name of a task": {`spec: {tasks: [{name: A}, {}]}`, "spec.tasks[0].name", "should match"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resource(jobs).Create(t.Context(), &unstructured.Unstructured{Object: merge(t, parse(t, smallJob), c.patch)},
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			requireRefused(t, err, c.field, c.message)
		})
	}
}

// TestMinimumsOfAJobThatIsScaled: a minimum on the object is a field like any other, in whatever way it came there. Only
// the Job's follows the tasks' while no client has set it.
func TestMinimumsOfAJobThatIsScaled(t *testing.T) {
	const toZero = `[{"op": "remove", "path": "/spec/tasks/0/replicas"}, {"op": "remove", "path": "/spec/tasks/0/minAvailable"},
		{"op": "remove", "path": "/spec/tasks/1/replicas"}, {"op": "remove", "path": "/spec/tasks/1/minAvailable"}]`
	const unnamed, named = `{tasks: [{name: a, replicas: 4}, {name: b, replicas: 1}]}`, `{minAvailable: 5, tasks: [{name: a, replicas: 4}, {name: b, replicas: 1}]}`
	for i, c := range []struct {
		name, spec, patch string
		minimum           int64   // of the Job
		minimums          []int64 // of its tasks
		refused           string
	}{
		{"up", unnamed, `[{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 9}]`, 5, []int64{4, 1}, ""},
		{"up, with its minimum", unnamed, `[{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 9}, {"op": "replace", "path": "/spec/tasks/0/minAvailable", "value": 9}]`, 10, []int64{9, 1}, ""},
		{"up, and the minimum computed anew", unnamed, `[{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 9}, {"op": "remove", "path": "/spec/tasks/0/minAvailable"}]`, 10, []int64{9, 1}, ""},
		{"down", unnamed, `[{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 2}]`, 0, nil, "spec.tasks[0].minAvailable"},
		{"down, with its minimum", unnamed, `[{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 2}, {"op": "replace", "path": "/spec/tasks/0/minAvailable", "value": 2}]`, 3, []int64{2, 1}, ""},
		{"to zero", unnamed, toZero, 0, []int64{0, 0}, ""},
		{"named, up, with the minimum of the task", named, `[{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 9}, {"op": "remove", "path": "/spec/tasks/0/minAvailable"}]`, 5, []int64{9, 1}, ""},
		{"named, down, with the minimum of the task", named, `[{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 2}, {"op": "remove", "path": "/spec/tasks/0/minAvailable"}]`, 0, nil, "spec.minAvailable"},
		{"named, down, with both", named, `[{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 2}, {"op": "remove", "path": "/spec/tasks/0/minAvailable"}, {"op": "replace", "path": "/spec/minAvailable", "value": 3}]`, 3, []int64{2, 1}, ""},
		{"named, down, computed anew", named, `[{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 2}, {"op": "remove", "path": "/spec/tasks/0/minAvailable"}, {"op": "remove", "path": "/spec/minAvailable"}]`, 3, []int64{2, 1}, ""},
		{"named by a change", unnamed, `[{"op": "replace", "path": "/spec/minAvailable", "value": 4}]`, 4, []int64{4, 1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := fmt.Sprintf("scaled-%d", i)
			create(t, jobs, merge(t, parse(t, smallJob), "metadata: {name: "+name+"}\nspec: "+c.spec))
			changed, err := resource(jobs).Patch(t.Context(), name, types.JSONPatchType, []byte(c.patch), metav1.PatchOptions{})
			if c.refused != "" {
				requireRefused(t, err, c.refused, "lower it, or raise the replicas")
				return
			}
			require.NoError(t, err)
			job := typed(t, changed.Object)
			assert.EqualValues(t, c.minimum, job.Spec.MinAvailable)
			var minimums []int64
			for _, task := range job.Spec.Tasks {
				minimums = append(minimums, int64(*task.MinAvailable))
			}
			assert.Equal(t, c.minimums, minimums)
		})
	}
}

// TestAFileWithoutMinimumsMeansAllReplicas: however it is applied, and whatever it said before.
func TestAFileWithoutMinimumsMeansAllReplicas(t *testing.T) {
	for _, way := range [][]string{{"apply"}, {"apply", "--server-side"}} {
		t.Run(fmt.Sprint(way), func(t *testing.T) {
			name := fmt.Sprintf("all-replicas-%d", len(way))
			for _, replicas := range []int{4, 9, 2, 0, 3} {
				object := merge(t, parse(t, smallJob), fmt.Sprintf(
					"metadata: {name: %s}\nspec: {tasks: [{name: a, replicas: %d}, {name: b, replicas: 1}]}", name, replicas))
				text, err := json.Marshal(withTemplates(object).Object)
				require.NoError(t, err)
				file := filepath.Join(t.TempDir(), "job.json")
				require.NoError(t, os.WriteFile(file, text, 0o600))
				out, err := kubectl(t, append(way, "-f", file)...)
				require.NoError(t, err, out)
				got, err := resource(jobs).Get(t.Context(), name, metav1.GetOptions{})
				require.NoError(t, err)
				assert.EqualValues(t, replicas, within(got.Object, "spec", "tasks", 0, "minAvailable"))
				assert.EqualValues(t, replicas+1, within(got.Object, "spec", "minAvailable"))
			}
			require.NoError(t, resource(jobs).Delete(t.Context(), name, metav1.DeleteOptions{}))
		})
	}
}

// hundredTasks is a Job of as many tasks and policies as a Job may have, which names no default.
func hundredTasks(t testing.TB) map[string]any {
	t.Helper()
	job := mustertesting.MakeJob("hundred")
	for range 100 {
		job.Task(mustertesting.MakeTask("", 3))
	}
	for i := range job.Obj().Spec.Tasks {
		task := &job.Obj().Spec.Tasks[i]
		task.Template.Spec.HostNetwork = true
		for code := range int32(20) {
			code++
			task.Policies = append(task.Policies, batchv1alpha1.LifecyclePolicy{Action: "RestartTask", ExitCode: &code})
		}
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job.Obj())
	require.NoError(t, err)
	object["apiVersion"], object["kind"] = batchv1alpha1.SchemeGroupVersion.String(), "Job"
	object["metadata"] = map[string]any{"name": "hundred"}
	delete(object, "status")
	return object
}

// TestTheLargestJobGetsItsDefaults: the API server's budget for expressions is enough. An error would leave them out.
func TestTheLargestJobGetsItsDefaults(t *testing.T) {
	asked := hundredTasks(t)
	created := create(t, jobs, asked)
	assert.Equal(t, defaults.Job(typed(t, asked), "").Spec, typed(t, created.Object).Spec)
	scaled := set(t, created.Object, int64(4), path("spec.tasks.99.replicas")...)
	require.NoError(t, update(t, scaled))
	require.ErrorContains(t, update(t, set(t, scaled, "other", path("spec.schedulerName")...)), "spec.schedulerName is"+remedy)
}
