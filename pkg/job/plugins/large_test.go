package plugins_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plugins"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
	mt "github.com/muster-sched/muster/pkg/testing"
)

// largeJob is a Job with one master and many workers.
func largeJob(name string, workers int32) *mt.JobWrapper {
	return mt.MakeJob(name).Task(mt.MakeTask("master", 1)).Task(mt.MakeTask("worker", workers))
}

func objectsOf(t *testing.T, set *plugins.Set) map[string]plugin.Object {
	t.Helper()
	objects, err := set.Objects(keptKeys)
	require.NoError(t, err)
	named := map[string]plugin.Object{}
	for _, object := range objects {
		named[fmt.Sprintf("%T %s", object, object.GetName())] = object
	}
	return named
}

// mutated returns the pod of the task at that position.
func mutated(job *batchv1alpha1.Job, set *plugins.Set, task int, index int32) *corev1.Pod {
	filled := defaults.Job(job, "")
	pod := podOf(filled, &filled.Spec.Tasks[task], index)
	set.MutatePod(pod, &filled.Spec.Tasks[task], index)
	return pod
}

func envOf(pod *corev1.Pod, name string) *corev1.EnvVar {
	for i := range pod.Spec.Containers[0].Env {
		if v := &pod.Spec.Containers[0].Env[i]; v.Name == name {
			return v
		}
	}
	return nil
}

func reasonsOf(set *plugins.Set) []string {
	var reasons []string
	for _, note := range set.Notes() {
		reasons = append(reasons, note.Reason)
	}
	return reasons
}

// A thousand pods: every list stands in one shared object, and no pod has more of it than a reference.
func TestPodsOfALargeJobReferToSharedLists(t *testing.T) {
	job := largeJob("train", 999).Plugin("mpi").Plugin("tensorflow", "--chief=master").Obj()
	set, errs := plugins.For(job)
	require.Empty(t, errs)
	assert.Empty(t, set.Notes())
	objects := objectsOf(t, set)

	master := mutated(job, set, 0, 0)
	host := envOf(master, "MPI_HOST")
	require.NotNil(t, host)
	reference := host.ValueFrom.ConfigMapKeyRef
	list := objects["*v1.ConfigMap "+reference.Name].(*corev1.ConfigMap).Data[reference.Key]
	assert.Len(t, strings.Split(list, ","), 999)

	worker := mutated(job, set, 1, 998)
	expectSmall(t, worker)
	expectSmall(t, master)
	var config struct {
		Cluster map[string][]string
		Task    struct {
			Type  string
			Index int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(expanded(t, objects, worker, "TF_CONFIG")), &config))
	assert.Len(t, config.Cluster["worker"], 999)
	assert.Equal(t, []string{"train-master-0.train:2222"}, config.Cluster["chief"])
	assert.Equal(t, "worker", config.Task.Type)
	assert.Equal(t, 998, config.Task.Index)
}

// expanded returns the value of a variable as kubelet makes it: with the variables before it put in.
func expanded(t *testing.T, objects map[string]plugin.Object, pod *corev1.Pod, name string) string {
	t.Helper()
	known := map[string]string{}
	for _, v := range pod.Spec.Containers[0].Env {
		value := v.Value
		if v.ValueFrom != nil {
			reference := v.ValueFrom.ConfigMapKeyRef
			value = objects["*v1.ConfigMap "+reference.Name].(*corev1.ConfigMap).Data[reference.Key]
		}
		for other, content := range known {
			value = strings.ReplaceAll(value, "$("+other+")", content)
		}
		known[v.Name] = value
	}
	require.Contains(t, known, name)
	return known[name]
}

// expectSmall: the plugins' additions must not grow with the Job.
func expectSmall(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	content, err := pod.Marshal()
	require.NoError(t, err)
	assert.Less(t, len(content), 8<<10)
}

func TestTenThousandPods(t *testing.T) {
	job := largeJob("distributed-training", 9999).Plugin("env").Plugin("mpi").Plugin("tensorflow").Plugin("pytorch").Plugin("hcclrank").Obj()
	set, errs := plugins.For(job)
	require.Empty(t, errs)

	// The lists that are too long for a variable are left out, and people are told.
	assert.Equal(t, []string{"PluginValueTooLong", "PluginValueTooLong", "PluginValueTooLong", "PluginValueTooLong"}, reasonsOf(set))
	for i, named := range []string{"VC_WORKER_HOSTS", "Secret distributed-training-ssh", "TF_CONFIG", "MPI_HOST"} {
		assert.Contains(t, set.Notes()[i].Message, named)
	}

	// The objects fit, and all hosts are in the list.
	objects := objectsOf(t, set)
	hosts := objects["*v1.ConfigMap distributed-training-svc"].(*corev1.ConfigMap).Data
	assert.Len(t, strings.Split(hosts["worker.host"], "\n"), 9999)
	assert.Equal(t, "9999", hosts["VC_WORKER_NUM"])
	assert.NotContains(t, hosts, "VC_WORKER_HOSTS")
	assert.LessOrEqual(t, sizeOf(hosts), plugin.MaxObjectBytes)
	config := string(objects["*v1.Secret distributed-training-ssh"].(*corev1.Secret).Data["config"])
	assert.Equal(t, `StrictHostKeyChecking no
UserKnownHostsFile /dev/null
Host distributed-training-master-*
  HostName %h.distributed-training
  Port 22
Host distributed-training-worker-*
  HostName %h.distributed-training
  Port 22
`, config)

	ranks := map[string]bool{}
	for index := range int32(9999) {
		pod := mutated(job, set, 1, index)
		ranks[envOf(pod, "RANK").Value] = true
		if index%3333 == 0 {
			expectSmall(t, pod)
			for _, gone := range []string{"VC_WORKER_HOSTS", "TF_CONFIG", "MUSTER_TF_CLUSTER", "MPI_HOST"} {
				assert.Nil(t, envOf(pod, gone))
			}
		}
	}
	assert.Len(t, ranks, 9999)
	assert.NotContains(t, ranks, "0")
}

func sizeOf(data map[string]string) int {
	var sum int
	for _, value := range data {
		sum += len(value)
	}
	return sum
}

func TestAJobThatIsTooLargeIsToldWhy(t *testing.T) {
	long := strings.Repeat("x", 48)
	set, errs := plugins.For(largeJob(long, 12000).Plugin("svc").Obj())
	assert.Nil(t, set)
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0].Error(), "spec.plugins[svc]")
	assert.Contains(t, errs[0].Error(), "ConfigMap "+long+"-svc would have")
	assert.Contains(t, errs[0].Error(), "lower the replicas")
}

// The first entry of ssh's configuration that matches a host counts, so longer names come first.
func TestSSHPatternsOfNamesThatBeginAlike(t *testing.T) {
	job := mt.MakeJob("j").Task(mt.MakeTask("a", 12000)).Task(mt.MakeTask("a-b", 12000)).Plugin("ssh").Obj()
	job.Spec.Tasks[1].Template.Spec.Subdomain = "other"
	job.Spec.Tasks = append(job.Spec.Tasks, *mt.MakeTask("boss", 3).Obj())
	job.Spec.Tasks[2].Template.Spec.Hostname = "boss"
	set, errs := plugins.For(job)
	require.Empty(t, errs)
	config := string(objectsOf(t, set)["*v1.Secret j-ssh"].(*corev1.Secret).Data["config"])
	assert.Equal(t, []string{"Host boss", "  HostName boss.j", "Host j-a-b-*", "  HostName %h.other", "Host j-a-*", "  HostName %h.j"}, linesWith(config, "Host"))
}

func linesWith(text, part string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) && !strings.Contains(line, "StrictHostKey") && !strings.Contains(line, "UserKnownHosts") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// Scaling up refreshes the shared lists and leaves the key alone.
func TestScaling(t *testing.T) {
	job := largeJob("j", 2).Plugin("mpi").Obj()
	before, errs := plugins.For(job)
	require.Empty(t, errs)
	job = largeJob("j", 3).Plugin("mpi").Obj()
	after, errs := plugins.For(job)
	require.Empty(t, errs)
	was, is := objectsOf(t, before), objectsOf(t, after)
	for name := range is {
		changed, err := plugins.Refresh(was[name], is[name])
		require.NoError(t, err)
		switch name {
		case "*v1.ConfigMap j-svc":
			assert.Equal(t, "j-worker-0.j\nj-worker-1.j\nj-worker-2.j", changed.(*corev1.ConfigMap).Data["worker.host"])
		case "*v1.Secret j-ssh":
			secret := changed.(*corev1.Secret)
			assert.Contains(t, string(secret.Data["config"]), "Host j-worker-2\n  HostName j-worker-2.j\n  Port 22\n")
			assert.Equal(t, "PRIVATE", string(secret.Data["id_rsa"]))
		default:
			assert.Nil(t, changed, name)
		}
	}
}

func BenchmarkFor(b *testing.B) {
	for _, pods := range []int32{100, 1000, 10000} {
		b.Run(strconv.Itoa(int(pods)), func(b *testing.B) {
			job := largeJob("train", pods).Plugin("env").Plugin("mpi").Plugin("tensorflow").Plugin("pytorch").Obj()
			for b.Loop() {
				if _, errs := plugins.For(job); len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
	}
}

// BenchmarkMutatePod shows that a pod costs the same in Jobs of all sizes.
func BenchmarkMutatePod(b *testing.B) {
	for _, pods := range []int32{10, 1000, 10000} {
		b.Run(strconv.Itoa(int(pods)), func(b *testing.B) {
			job := defaults.Job(largeJob("train", pods).Plugin("env").Plugin("mpi").Plugin("tensorflow").Plugin("pytorch").Obj(), "")
			set, errs := plugins.For(job)
			if len(errs) > 0 {
				b.Fatal(errs)
			}
			task := &job.Spec.Tasks[1]
			b.ReportAllocs()
			for b.Loop() {
				set.MutatePod(podOf(job, task, pods-1), task, pods-1)
			}
		})
	}
}
