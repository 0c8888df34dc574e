package defaults

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/manifests"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestJobFillsInWhatIsMissing(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("", 2)).Task(mustertesting.MakeTask("w", 3).MinAvailable(1)).
		Task(mustertesting.MakeTask("", 1)).Obj()
	job.Spec.Tasks[2].Template.Spec.HostNetwork = true
	before := job.DeepCopy()
	spec := Job(job, "").Spec

	assert.Equal(t, before, job, "the argument is left alone")
	assert.Equal(t, "default", spec.Queue)
	assert.Equal(t, "muster", spec.SchedulerName)
	assert.Equal(t, int32(3), spec.MaxRetry)
	assert.Equal(t, int32(4), spec.MinAvailable)
	assert.Equal(t, []string{"default0", "w", "default2"}, []string{spec.Tasks[0].Name, spec.Tasks[1].Name, spec.Tasks[2].Name})
	assert.Equal(t, []int32{2, 1, 1}, []int32{*spec.Tasks[0].MinAvailable, *spec.Tasks[1].MinAvailable, *spec.Tasks[2].MinAvailable})
	assert.Equal(t, int32(3), spec.Tasks[0].MaxRetry)
	assert.Equal(t, corev1.DNSClusterFirstWithHostNet, spec.Tasks[2].Template.Spec.DNSPolicy)
	assert.Empty(t, spec.Tasks[0].Template.Spec.DNSPolicy)
	assert.Equal(t, int32(6), Replicas(&spec))
	assert.Nil(t, spec.Plugins)
}

func TestJobKeepsWhatIsThere(t *testing.T) {
	job := mustertesting.MakeJob("j").MinAvailable(2).MaxRetry(7).Queue("q").SchedulerName("volcano").
		Task(mustertesting.MakeTask("a", 4).MinAvailable(0).MaxRetry(9)).Obj()
	job.Spec.Tasks[0].Template.Spec.HostNetwork = true
	job.Spec.Tasks[0].Template.Spec.DNSPolicy = corev1.DNSNone
	assert.Equal(t, job, Job(job, "muster"))
}

func TestMinAvailableOfPartitions(t *testing.T) {
	for name, c := range map[string]struct {
		policy batchv1alpha1.PartitionPolicySpec
		want   int32
	}{
		"minimal partitions":          {batchv1alpha1.PartitionPolicySpec{TotalPartitions: 4, PartitionSize: 2, MinPartitions: 3}, 6},
		"none given":                  {batchv1alpha1.PartitionPolicySpec{TotalPartitions: 4, PartitionSize: 2}, 8},
		"more than the replicas":      {batchv1alpha1.PartitionPolicySpec{TotalPartitions: 4, PartitionSize: 2, MinPartitions: 9}, 8},
		"more than an int32 can hold": {batchv1alpha1.PartitionPolicySpec{TotalPartitions: 4, PartitionSize: 2, MinPartitions: 1 << 30}, 8},
	} {
		job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 8)).Obj()
		job.Spec.Tasks[0].PartitionPolicy = &c.policy
		assert.Equal(t, c.want, Job(job, "").Spec.MinAvailable, name)
	}
}

// The sums decide what is refused, so they must not wrap around into what is not.
func TestSumsOfTasksDoNotWrap(t *testing.T) {
	job := mustertesting.MakeJob("j").Obj()
	for range 4 {
		job.Spec.Tasks = append(job.Spec.Tasks, *mustertesting.MakeTask("", 1<<30).Obj())
	}
	assert.Equal(t, int32(1<<31-1), Replicas(&job.Spec))
	assert.Equal(t, int32(1<<31-1), TasksMinAvailable(&job.Spec))
}

func TestImpliedPlugins(t *testing.T) {
	for given, want := range map[string][]string{
		"mpi":        {"mpi", "ssh", "svc"},
		"tensorflow": {"svc", "tensorflow"},
		"pytorch":    {"pytorch", "svc"},
		"ray":        {"ray", "svc"},
		"env":        {"env"},
		"hcclrank":   {"hcclrank"},
	} {
		job := mustertesting.MakeJob("j").Plugin(given, "--x=1").Obj()
		plugins := Job(job, "").Spec.Plugins
		assert.Equal(t, want, slices.Sorted(maps.Keys(plugins)))
		assert.Equal(t, []string{"--x=1"}, plugins[given])
		assert.Len(t, job.Spec.Plugins, 1, "the argument is left alone")
	}
	both := mustertesting.MakeJob("j").Plugin("mpi").Plugin("svc", "--publish-not-ready-addresses=true").Obj()
	assert.Equal(t, []string{"--publish-not-ready-addresses=true"}, Job(both, "").Spec.Plugins["svc"])
}

// The policies write and compare the values that readers compute. A test with an API server shows that all else agrees:
// test/integration/api.
func TestPoliciesKnowTheSchedulerName(t *testing.T) {
	for _, file := range []string{"defaults.yaml", "jobs.yaml"} {
		text, err := manifests.FS.ReadFile("admission/" + file)
		require.NoError(t, err)
		document, _, _ := strings.Cut(string(text), "\n---\n")
		var policy struct {
			Spec struct {
				Variables []struct{ Name, Expression string }
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(document), &policy))
		first := policy.Spec.Variables[0]
		assert.Equal(t, "schedulerName", first.Name, file)
		assert.Equal(t, `params.?data.default.orValue("`+SchedulerName+`")`, first.Expression, "%s: the default without the ConfigMap", file)
	}
}
