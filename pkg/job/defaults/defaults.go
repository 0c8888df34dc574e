// Package defaults computes the defaults of a Job that its schema cannot express. The policy in manifests/admission/defaults.yaml writes
// the same into the object. Every reader still computes them: a Job may have been stored without the policy.
package defaults

import (
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// SchedulerName is the scheduler of Jobs that name none, unless the controller and the policies are told another.
const SchedulerName = "muster"

// MaxRetry is the default number of a Job's runs, and of a task's container restarts. 0 means the default, too.
const MaxRetry = 3

// Job returns the Job with the defaults of its spec filled in. The result is to be read only: it shares with the
// argument all that has no default. schedulerName is the scheduler of Jobs that name none; empty means SchedulerName.
func Job(job *batchv1alpha1.Job, schedulerName string) *batchv1alpha1.Job {
	filled := *job
	spec := &filled.Spec
	if spec.Queue == "" {
		spec.Queue = schedulingv1beta1.DefaultQueue
	}
	if spec.SchedulerName == "" {
		spec.SchedulerName = schedulerName
	}
	if spec.SchedulerName == "" {
		spec.SchedulerName = SchedulerName
	}
	if spec.MaxRetry == 0 {
		spec.MaxRetry = MaxRetry
	}
	spec.Tasks = slices.Clone(spec.Tasks)
	for i := range spec.Tasks {
		fillTask(&spec.Tasks[i], i)
	}
	if spec.MinAvailable == 0 {
		spec.MinAvailable = TasksMinAvailable(spec)
	}
	spec.Plugins = withImpliedPlugins(spec.Plugins)
	return &filled
}

func fillTask(task *batchv1alpha1.TaskSpec, index int) {
	if task.Name == "" {
		task.Name = batchv1alpha1.DefaultTaskSpec + strconv.Itoa(index)
	}
	if task.MaxRetry == 0 {
		task.MaxRetry = MaxRetry
	}
	if task.MinAvailable == nil {
		least := minAvailable(task)
		task.MinAvailable = &least
	}
	// A pod on the host's network resolves the cluster's names only if it asks for it.
	if task.Template.Spec.HostNetwork && task.Template.Spec.DNSPolicy == "" {
		task.Template.Spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
}

// minAvailable is the default of a task's minAvailable: its minimal partitions, or else all its replicas. It never
// exceeds the replicas, whatever the partition policy says.
func minAvailable(task *batchv1alpha1.TaskSpec) int32 {
	if p := task.PartitionPolicy; p != nil && p.MinPartitions > 0 {
		return int32(min(int64(p.MinPartitions)*int64(p.PartitionSize), int64(task.Replicas)))
	}
	return task.Replicas
}

// TasksMinAvailable returns the sum of the minAvailable of the tasks, defaults included. It is at most 2147483647.
func TasksMinAvailable(spec *batchv1alpha1.JobSpec) int32 {
	var sum int64
	for i := range spec.Tasks {
		if least := spec.Tasks[i].MinAvailable; least != nil {
			sum += int64(*least)
		} else {
			sum += int64(minAvailable(&spec.Tasks[i]))
		}
	}
	return int32(min(sum, math.MaxInt32))
}

// Replicas returns the number of pods of all tasks together. It is at most 2147483647.
func Replicas(spec *batchv1alpha1.JobSpec) int32 {
	var sum int64
	for i := range spec.Tasks {
		sum += int64(spec.Tasks[i].Replicas)
	}
	return int32(min(sum, math.MaxInt32))
}

// impliedBy lists, for each plugin, the plugins that it needs.
var impliedBy = map[string][]string{
	"mpi":        {"svc", "ssh"},
	"tensorflow": {"svc"},
	"pytorch":    {"svc"},
	"ray":        {"svc"},
}

// withImpliedPlugins returns the plugins together with the ones that they need. It leaves the argument as it is.
func withImpliedPlugins(plugins map[string][]string) map[string][]string {
	all := plugins
	for name, needed := range impliedBy {
		if _, asked := plugins[name]; !asked {
			continue
		}
		for _, implied := range needed {
			if _, given := all[implied]; given {
				continue
			}
			if len(all) == len(plugins) {
				all = maps.Clone(plugins)
			}
			all[implied] = []string{}
		}
	}
	return all
}
