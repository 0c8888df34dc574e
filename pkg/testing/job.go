package testing

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
)

// JobWrapper builds a Job.
type JobWrapper struct {
	job batchv1alpha1.Job
}

// MakeJob starts a Job without tasks in the namespace "default".
func MakeJob(name string) *JobWrapper {
	return &JobWrapper{batchv1alpha1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}}
}

// Obj returns the Job. Each call returns a copy of its own.
func (w *JobWrapper) Obj() *batchv1alpha1.Job { return w.job.DeepCopy() }

// Namespace sets the Job's namespace.
func (w *JobWrapper) Namespace(namespace string) *JobWrapper {
	w.job.Namespace = namespace
	return w
}

// UID sets the Job's UID; the API server ignores it.
func (w *JobWrapper) UID(uid string) *JobWrapper {
	w.job.UID = uidOf(uid)
	return w
}

// Label adds a label to the Job.
func (w *JobWrapper) Label(key, value string) *JobWrapper {
	metav1.SetMetaDataLabel(&w.job.ObjectMeta, key, value)
	return w
}

// Annotation adds an annotation to the Job.
func (w *JobWrapper) Annotation(key, value string) *JobWrapper {
	metav1.SetMetaDataAnnotation(&w.job.ObjectMeta, key, value)
	return w
}

// MinAvailable sets how many pods start together.
func (w *JobWrapper) MinAvailable(n int32) *JobWrapper {
	w.job.Spec.MinAvailable = n
	return w
}

// RunningEstimate sets how long the Job is expected to run.
func (w *JobWrapper) RunningEstimate(d time.Duration) *JobWrapper {
	w.job.Spec.RunningEstimate = &metav1.Duration{Duration: d}
	return w
}

// MinSuccess sets how many succeeded pods complete the Job.
func (w *JobWrapper) MinSuccess(n int32) *JobWrapper {
	w.job.Spec.MinSuccess = &n
	return w
}

// MaxRetry sets how often the Job runs in all.
func (w *JobWrapper) MaxRetry(n int32) *JobWrapper {
	w.job.Spec.MaxRetry = n
	return w
}

// Queue sets the Job's queue.
func (w *JobWrapper) Queue(queue string) *JobWrapper {
	w.job.Spec.Queue = queue
	return w
}

// SchedulerName sets the scheduler of the Job's pods.
func (w *JobWrapper) SchedulerName(name string) *JobWrapper {
	w.job.Spec.SchedulerName = name
	return w
}

// PriorityClass sets the priority class of the Job.
func (w *JobWrapper) PriorityClass(name string) *JobWrapper {
	w.job.Spec.PriorityClassName = name
	return w
}

// Plugin asks for a job plugin.
func (w *JobWrapper) Plugin(name string, args ...string) *JobWrapper {
	if w.job.Spec.Plugins == nil {
		w.job.Spec.Plugins = map[string][]string{}
	}
	w.job.Spec.Plugins[name] = append([]string{}, args...)
	return w
}

// Policy adds a policy of the Job for one event.
func (w *JobWrapper) Policy(event busv1alpha1.Event, action busv1alpha1.Action) *JobWrapper {
	return w.LifecyclePolicy(batchv1alpha1.LifecyclePolicy{Event: event, Action: action})
}

// LifecyclePolicy adds a policy of the Job.
func (w *JobWrapper) LifecyclePolicy(policy batchv1alpha1.LifecyclePolicy) *JobWrapper {
	w.job.Spec.Policies = append(w.job.Spec.Policies, policy)
	return w
}

// Volume adds a volume of the Job.
func (w *JobWrapper) Volume(volume batchv1alpha1.VolumeSpec) *JobWrapper {
	w.job.Spec.Volumes = append(w.job.Spec.Volumes, volume)
	return w
}

// TTL sets how long after its end the Job is deleted.
func (w *JobWrapper) TTL(seconds int32) *JobWrapper {
	w.job.Spec.TTLSecondsAfterFinished = &seconds
	return w
}

// Suspend sets whether the Job is suspended.
func (w *JobWrapper) Suspend(suspend bool) *JobWrapper {
	w.job.Spec.Suspend = &suspend
	return w
}

// NetworkTopology asks for the Job's pods to be near each other.
func (w *JobWrapper) NetworkTopology(topology batchv1alpha1.NetworkTopologySpec) *JobWrapper {
	w.job.Spec.NetworkTopology = &topology
	return w
}

// Task adds a task.
func (w *JobWrapper) Task(task *TaskWrapper) *JobWrapper {
	w.job.Spec.Tasks = append(w.job.Spec.Tasks, *task.Obj())
	return w
}

// Status sets the Job's status.
func (w *JobWrapper) Status(status batchv1alpha1.JobStatus) *JobWrapper {
	w.job.Status = status
	return w
}
