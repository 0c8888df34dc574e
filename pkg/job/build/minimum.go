package build

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/job/order"
)

// Share is a number of pods of one task.
type Share struct {
	// Pod is the first of them, with the defaults of the API server and its priority.
	Pod *corev1.Pod
	// Count of pods.
	Count int
}

// Minimum are the pods that start together when a new Job starts. Tasks that wait for others have none. The Job has its defaults filled
// in. Tasks of a higher priority come first.
func Minimum(job *batchv1alpha1.Job, priorityOf PriorityFunc) (shares []Share) {
	spec := &FirstStage(job).Spec
	positions := order.ByPriority(order.Priorities(spec, priorityOf))
	for n, count := range order.Minimum(spec, positions) {
		if count == 0 {
			continue
		}
		task := &spec.Tasks[positions[n]]
		pod := Pod(job, task, 0)
		corev1defaults.SetObjectDefaults_Pod(pod)
		priority := priorityOf(cmp.Or(task.Template.Spec.PriorityClassName, spec.PriorityClassName))
		pod.Spec.Priority = &priority
		shares = append(shares, Share{pod, int(count)})
	}
	return shares
}

// FirstStage is the part of a new Job that may run at once, in the form for its gang.
func FirstStage(job *batchv1alpha1.Job) *batchv1alpha1.Job {
	return GangOf(job, dependency.StageOf(&job.Spec, make([]dependency.Task, len(job.Spec.Tasks)), batchv1alpha1.DependencyReady))
}
