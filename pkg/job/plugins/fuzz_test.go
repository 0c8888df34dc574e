package plugins_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plugins"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
	"github.com/muster-sched/muster/pkg/job/policy"
	"github.com/muster-sched/muster/pkg/job/validation"
)

// FuzzJob: the checks panic for no content of a Job, even if the API server would not store it. They use little memory. Its
// plugins make no object that is too large.
func FuzzJob(f *testing.F) {
	addJobs(f, filepath.Join("testdata", "*.job.yaml"))
	addJobs(f, filepath.Join("..", "..", "..", "manifests", "examples", "*job.yaml"))
	for _, text := range oddJobs {
		f.Add([]byte(text), []byte{})
		f.Add([]byte(text), []byte{3, 9, 20, 4})
	}
	f.Fuzz(judgeJob)
}

// oddJobs use what the golden Jobs do not.
var oddJobs = []string{
	`{"metadata":{"name":"j"},"spec":{"tasks":[{"name":"a","replicas":2147483647,"minAvailable":-1},{"replicas":-5}],"plugins":{"svc":[],"ssh":[],"mpi":[]}}}`,
	`{"metadata":{"name":"j"},"spec":{"tasks":[{"name":"a","replicas":4,"partitionPolicy":{"totalPartitions":2,"partitionSize":2,"minPartitions":1},
			"policies":[{"event":"PodFailed","action":"RestartPartition"},{"exitCode":3,"action":"AbortJob","timeout":"5s"}],
			"dependsOn":{"name":["b"],"iteration":"any"},"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c"}]}}},
			{"name":"b","replicas":1,"template":{"spec":{"hostname":"h","subdomain":"s","containers":[{"name":"c"}]}}}],
			"policies":[{"events":["*"],"action":"RestartTask"}],"plugins":{"tensorflow":["--worker=a","--ps=b"],"ray":["--head=b","--worker=a"]}}}`,
}

// TestEditedJobsAreJudged does what FuzzJob does, with edits that always leave a Job: the fuzzer rarely hits on one.
func TestEditedJobsAreJudged(t *testing.T) {
	texts := oddJobs
	files, err := filepath.Glob(filepath.Join("testdata", "*.job.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := json.Marshal(readJob(t, file))
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.SampledFrom(texts).Draw(r, "job")
		judgeJob(t, []byte(text), rapid.SliceOfN(rapid.Byte(), 2, 12).Draw(r, "edits"))
	})
}

// judgeJob judges a Job, its JSON edited, as the controller does before it acts.
func judgeJob(t *testing.T, text, edits []byte) {
	if len(text) > 64<<10 {
		return // it says no more
	}
	job := &batchv1alpha1.Job{}
	if json.Unmarshal(edited(text, edits), job) != nil {
		return
	}
	var set *plugins.Set
	valid := false
	bytes := allocated(func() {
		filled := defaults.Job(job, "")
		valid = len(validation.Job(filled)) == 0
		validation.NeverFires(filled)
		set, _ = plugins.For(job)
	})
	assert.Less(t, bytes, uint64(32<<20))
	if set != nil {
		fuzzSet(t, job, set)
	}
	if valid {
		fuzzPolicies(t, defaults.Job(job, ""))
	}
}

func addJobs(f *testing.F, pattern string) {
	files, err := filepath.Glob(pattern)
	require.NoError(f, err)
	require.NotEmpty(f, files, pattern)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		asJSON, err := yaml.YAMLToJSON(text)
		require.NoError(f, err)
		f.Add(asJSON, []byte{})
	}
}

// words are what values of a Job are replaced by. They are bounds, names that the seeds know, and values of other kinds.
var words = []any{
	-1, 0, 1, 2, 3, 4, 100, 150_000, 1 << 20, 1<<31 - 1, -1 << 31, "", "a", "b", "c", "h", "j", "master", "worker", "*", "PodFailed", "PodPending", "JobUpdated",
	"RestartPartition", "RestartPod", "ResumeJob", "Always", "Never", "0s", "-5s", "1h", "any", "all", "svc", "--worker=a", "--master=b", "--port=70000",
	"--ssh-key-file-path=/etc/volcano", "--ssh-private-key=x", "-", "--", "/etc/volcano", "/root/.ssh", strings.Repeat("n", 300), "ä<\"\n", nil, true,
	[]any{}, map[string]any{}, map[string]any{"totalPartitions": 2, "partitionSize": 2, "minPartitions": 2}, map[string]any{"name": []any{"a", "b"}},
	map[string]any{"svc": []any{}, "ssh": []any{}, "mpi": []any{}, "tensorflow": []any{}, "pytorch": []any{}, "ray": []any{}, "hcclrank": []any{}, "env": []any{}},
}

// edited returns the JSON with values replaced: each two bytes choose a value, and what comes in its place. It is the text itself
// if that is no JSON.
func edited(text, edits []byte) []byte {
	var tree any
	if len(edits) == 0 || json.Unmarshal(text, &tree) != nil {
		return text
	}
	for ; len(edits) > 1; edits = edits[2:] {
		places := placesIn(tree, nil)
		if len(places) == 0 {
			break
		}
		replace := places[int(edits[0])%len(places)]
		replace(copied(words[int(edits[1])%len(words)]))
	}
	changed, err := json.Marshal(tree)
	if err != nil || len(changed) > 64<<10 {
		return text
	}
	return changed
}

// copied returns a value that shares nothing with another, so that an edit changes one place only.
func copied(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // all words are JSON
	}
	var same any
	if err := json.Unmarshal(text, &same); err != nil {
		panic(err)
	}
	return same
}

// placesIn returns functions that replace the values in a tree, in an order that is always the same.
func placesIn(tree any, places []func(any)) []func(any) {
	switch tree := tree.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			places = append(places, func(value any) { tree[name] = value })
			places = placesIn(tree[name], places)
		}
	case []any:
		for i := range tree {
			places = append(places, func(value any) { tree[i] = value })
			places = placesIn(tree[i], places)
		}
	}
	return places
}

// fuzzSet makes all objects of a Job, and the first and last pod of each task.
func fuzzSet(t *testing.T, job *batchv1alpha1.Job, set *plugins.Set) {
	objects, err := set.Objects(keptKeys)
	require.NoError(t, err)
	for _, object := range objects {
		if hosts, ok := object.(*corev1.ConfigMap); ok {
			assert.LessOrEqual(t, sizeOf(hosts.Data), plugin.MaxObjectBytes)
		}
	}
	filled := defaults.Job(job, "")
	for i := range filled.Spec.Tasks {
		task := &filled.Spec.Tasks[i]
		for _, index := range []int32{0, task.Replicas - 1} {
			if index >= 0 && index < task.Replicas {
				set.MutatePod(podOf(filled, task, index), task, index)
			}
		}
	}
}

// fuzzPolicies asks the policies of a valid Job about each event of the Job and of each task's first pod.
func fuzzPolicies(t *testing.T, job *batchv1alpha1.Job) {
	whole := []policy.Event{{Type: busv1alpha1.JobUnknownEvent, Task: -1, Index: -1}, {Type: busv1alpha1.JobUpdatedEvent, Task: -1, Index: -1}}
	asked := [][]policy.Event{whole}
	for i := range job.Spec.Tasks {
		if job.Spec.Tasks[i].Replicas == 0 {
			continue
		}
		asked = append(asked, []policy.Event{
			{Type: busv1alpha1.PodFailedEvent, Task: i, ExitCode: 3}, {Type: busv1alpha1.PodEvictedEvent, Task: i}, {Type: busv1alpha1.PodPendingEvent, Task: i},
			{Type: busv1alpha1.TaskFailedEvent, Task: i, Index: -1}, {Type: busv1alpha1.TaskCompletedEvent, Task: i, Index: -1},
		})
	}
	for _, events := range asked {
		for i := range events {
			decision, _ := policy.Decide(&job.Spec, events[i:], time.Unix(1<<40, 0))
			if decision == nil {
				continue
			}
			assert.Contains(t, phase.Actions(), decision.Action)
			for position, indexes := range decision.Targets.Pods {
				for index := range indexes.All() {
					require.Less(t, index, job.Spec.Tasks[position].Replicas)
				}
			}
		}
	}
}
