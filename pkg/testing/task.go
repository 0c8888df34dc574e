package testing

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
)

// Annotations that tell simulated pods how to behave; manifests/stages reads them.
const (
	// SimExitAfter is how long after its start the pod ends, as a Go duration.
	SimExitAfter = "muster.sh/sim-exit-after"
	// SimExitCode is the exit code that the pod ends with; 0 when missing.
	SimExitCode = "muster.sh/sim-exit-code"
	// SimHang set to "true" keeps the pod from starting once it is bound.
	SimHang = "muster.sh/sim-hang"
)

// TaskWrapper builds a task of a Job.
type TaskWrapper struct {
	task batchv1alpha1.TaskSpec
}

// MakeTask starts a task of pods with one container that asks for nothing and is never started again. The task has no
// name if name is empty.
func MakeTask(name string, replicas int32) *TaskWrapper {
	return &TaskWrapper{batchv1alpha1.TaskSpec{
		Name:     name,
		Replicas: replicas,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "main", Image: "busybox"}},
		}},
	}}
}

// Obj returns the task. Each call returns a copy of its own.
func (w *TaskWrapper) Obj() *batchv1alpha1.TaskSpec { return w.task.DeepCopy() }

// MinAvailable sets how many pods of the task start with the Job.
func (w *TaskWrapper) MinAvailable(n int32) *TaskWrapper {
	w.task.MinAvailable = &n
	return w
}

// MaxRetry sets the number of container restarts that raises TaskFailed.
func (w *TaskWrapper) MaxRetry(n int32) *TaskWrapper {
	w.task.MaxRetry = n
	return w
}

// Requests sets what each pod asks for: Requests("cpu", "500m", "memory", "1Gi").
func (w *TaskWrapper) Requests(namesAndQuantities ...string) *TaskWrapper {
	w.task.Template.Spec.Containers[0].Resources.Requests = Resources(namesAndQuantities...)
	return w
}

// ExitAfter lets each simulated pod end a time after its start, with an exit code.
func (w *TaskWrapper) ExitAfter(d time.Duration, code int) *TaskWrapper {
	return w.Annotation(SimExitAfter, d.String()).Annotation(SimExitCode, strconv.Itoa(code))
}

// Hang keeps the task's simulated pods from ever starting once they are bound.
func (w *TaskWrapper) Hang() *TaskWrapper { return w.Annotation(SimHang, "true") }

// Annotation adds an annotation to the pod template.
func (w *TaskWrapper) Annotation(key, value string) *TaskWrapper {
	metav1.SetMetaDataAnnotation(&w.task.Template.ObjectMeta, key, value)
	return w
}

// Label adds a label to the pod template.
func (w *TaskWrapper) Label(key, value string) *TaskWrapper {
	metav1.SetMetaDataLabel(&w.task.Template.ObjectMeta, key, value)
	return w
}

// Command sets the container's command.
func (w *TaskWrapper) Command(command ...string) *TaskWrapper {
	w.task.Template.Spec.Containers[0].Command = command
	return w
}

// PriorityClass sets the priority class of the task's pods.
func (w *TaskWrapper) PriorityClass(name string) *TaskWrapper {
	w.task.Template.Spec.PriorityClassName = name
	return w
}

// SchedulerName sets the scheduler of the task's pods.
func (w *TaskWrapper) SchedulerName(name string) *TaskWrapper {
	w.task.Template.Spec.SchedulerName = name
	return w
}

// RestartPolicy sets the restart policy of the task's pods.
func (w *TaskWrapper) RestartPolicy(policy corev1.RestartPolicy) *TaskWrapper {
	w.task.Template.Spec.RestartPolicy = policy
	return w
}

// NodeSelector ties the task's pods to nodes with a label.
func (w *TaskWrapper) NodeSelector(key, value string) *TaskWrapper {
	if w.task.Template.Spec.NodeSelector == nil {
		w.task.Template.Spec.NodeSelector = map[string]string{}
	}
	w.task.Template.Spec.NodeSelector[key] = value
	return w
}

// DependsOn holds the task back until other tasks have come far enough.
func (w *TaskWrapper) DependsOn(names ...string) *TaskWrapper {
	w.task.DependsOn = &batchv1alpha1.DependsOn{Name: names}
	return w
}

// DependsOnAny lets the task wait for the first of the named tasks.
func (w *TaskWrapper) DependsOnAny(names ...string) *TaskWrapper {
	w.task.DependsOn = &batchv1alpha1.DependsOn{Name: names, Iteration: batchv1alpha1.IterationAny}
	return w
}

// DependsOnReady lets the task wait until the named tasks are ready.
func (w *TaskWrapper) DependsOnReady(names ...string) *TaskWrapper {
	w.task.DependsOn = &batchv1alpha1.DependsOn{Name: names, Condition: batchv1alpha1.DependencyReady}
	return w
}

// Policy adds a policy of the task for one event.
func (w *TaskWrapper) Policy(event busv1alpha1.Event, action busv1alpha1.Action) *TaskWrapper {
	return w.LifecyclePolicy(batchv1alpha1.LifecyclePolicy{Event: event, Action: action})
}

// LifecyclePolicy adds a policy of the task.
func (w *TaskWrapper) LifecyclePolicy(policy batchv1alpha1.LifecyclePolicy) *TaskWrapper {
	w.task.Policies = append(w.task.Policies, policy)
	return w
}

// Resources makes a list of resources from pairs of a name and a quantity. It panics on a quantity that does not
// parse and on a name without one: tests spell them out.
func Resources(namesAndQuantities ...string) corev1.ResourceList {
	if len(namesAndQuantities)%2 != 0 {
		panic("Resources needs pairs of a name and a quantity")
	}
	list := corev1.ResourceList{}
	for i := 0; i < len(namesAndQuantities); i += 2 {
		list[corev1.ResourceName(namesAndQuantities[i])] = resource.MustParse(namesAndQuantities[i+1])
	}
	return list
}

func uidOf(uid string) types.UID { return types.UID(uid) }

// Partitions divides the task into partitions of that size.
func (w *TaskWrapper) Partitions(total, size int32) *TaskWrapper {
	w.task.PartitionPolicy = &batchv1alpha1.PartitionPolicySpec{TotalPartitions: total, PartitionSize: size}
	return w
}
