package plugins_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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

// FuzzJob: whatever a Job says, also what the API server would not store, it is judged without a panic, in little memory, and
// its plugins make nothing that is larger than an object may be.
func FuzzJob(f *testing.F) {
	addJobs(f, filepath.Join("testdata", "*.job.yaml"))
	addJobs(f, filepath.Join("..", "..", "..", "manifests", "examples", "*job.yaml"))
	for _, seed := range []string{
		`{"metadata":{"name":"j"},"spec":{"tasks":[{"name":"a","replicas":2147483647,"minAvailable":-1},{"replicas":-5}],"plugins":{"svc":[],"ssh":[],"mpi":[]}}}`,
		`{"metadata":{"name":"j"},"spec":{"tasks":[{"name":"a","replicas":4,"partitionPolicy":{"totalPartitions":2,"partitionSize":2,"minPartitions":1},
			"policies":[{"event":"PodFailed","action":"RestartPartition"},{"exitCode":3,"action":"AbortJob","timeout":"5s"}],
			"dependsOn":{"name":["b"],"iteration":"any"},"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c"}]}}},
			{"name":"b","replicas":1,"template":{"spec":{"hostname":"h","subdomain":"s","containers":[{"name":"c"}]}}}],
			"policies":[{"events":["*"],"action":"RestartTask"}],"plugins":{"tensorflow":["--worker=a","--ps=b"],"ray":["--head=b","--worker=a"]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 64<<10 {
			t.Skip("longer ones say no more")
		}
		job := &batchv1alpha1.Job{}
		if json.Unmarshal(text, job) != nil {
			return
		}
		var set *plugins.Set
		valid := false
		bytes := allocated(func() {
			filled := defaults.Job(job, "")
			valid = len(validation.Job(filled)) == 0
			validation.Unsupported(filled)
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
	})
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
		f.Add(asJSON)
	}
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

// fuzzPolicies asks the policies of a valid Job about each event, of the Job as a whole and of the first pod of each task.
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
