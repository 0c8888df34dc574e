package kube

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterscheme "github.com/muster-sched/muster/pkg/client/clientset/versioned/scheme"
)

// Scheme knows the types of Kubernetes and those of Muster.
var Scheme = func() *runtime.Scheme {
	known := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(known))
	utilruntime.Must(musterscheme.AddToScheme(known))
	return known
}()

// Simple is a Job that a few flags describe. All its tasks run the same.
type Simple struct {
	Name, Queue, Image, Scheduler, PriorityClass, User string
	Replicas, Min                                      int32
	Requests, Limits, Env                              map[string]string
	GPUs                                               int64
	// Time is how long the Job may run; 0 means for ever.
	Time time.Duration
	// Tasks are written NAME=REPLICAS, Plugins NAME or NAME=ARGUMENTS. Without tasks there is one, of Replicas pods.
	Tasks, Plugins []string
	Command        []string
}

// AddFlags adds those of `muster job run`.
func (s *Simple) AddFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&s.Queue, "queue", "q", "", "queue that the Job waits and runs in (default: that of the namespace)")
	flags.StringVarP(&s.Image, "image", "i", "busybox", "image of the container")
	flags.StringVar(&s.Scheduler, "scheduler", "", "scheduler of the pods (default: that of muster-controller)")
	flags.StringVar(&s.PriorityClass, "priority-class", "", "PriorityClass of the Job")
	flags.Int32VarP(&s.Replicas, "replicas", "r", 1, "number of pods")
	flags.Int32VarP(&s.Min, "min", "m", 0, "number of pods that start together (default: all)")
	flags.StringToStringVarP(&s.Requests, "requests", "R", map[string]string{"cpu": "1", "memory": "100Mi"}, "what each pod requests")
	flags.StringToStringVarP(&s.Limits, "limits", "L", nil, "what each pod may use at most (default: no limit)")
	flags.Int64Var(&s.GPUs, "gpus", 0, "GPUs of each pod (nvidia.com/gpu)")
	flags.StringToStringVarP(&s.Env, "env", "e", nil, "environment variables of the container, NAME=VALUE")
	flags.DurationVarP(&s.Time, "time", "t", 0, "how long the Job may run, for example 2h30m (default: for ever)")
	flags.StringArrayVar(&s.Tasks, "task", nil, "a task and its number of pods, NAME=REPLICAS, once for each task (default: one task of --replicas)")
	flags.StringArrayVar(&s.Plugins, "plugin", nil, "a job plugin, such as svc or mpi=--master=master, once for each")
	flags.StringVar(&s.User, "user", "", "user of the queue whose quota counts (label muster.sh/user)")
}

// gpu is the resource that --gpus asks for.
const gpu corev1.ResourceName = "nvidia.com/gpu"

// Job is the Job that is described.
func (s *Simple) Job() (*batchv1alpha1.Job, error) {
	container, err := s.container()
	if err != nil {
		return nil, err
	}
	job := &batchv1alpha1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Spec:       batchv1alpha1.JobSpec{Queue: s.Queue, SchedulerName: s.Scheduler, PriorityClassName: s.PriorityClass, MinAvailable: s.Min},
	}
	if s.User != "" {
		job.Labels = map[string]string{schedulingv1beta1.UserLabel: s.User}
	}
	if job.Spec.Plugins, err = pluginsOf(s.Plugins); err != nil {
		return nil, err
	}
	if job.Spec.ActiveDeadlineSeconds, err = Seconds("time", s.Time); err != nil {
		return nil, err
	}
	tasks, err := s.tasks()
	if err != nil {
		return nil, err
	}
	for i := range tasks {
		tasks[i].Template = corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"job.volcano.sh": s.Name}},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{*container.DeepCopy()}},
		}
		if s.Min == 0 {
			job.Spec.MinAvailable += tasks[i].Replicas
		}
	}
	job.Spec.Tasks = tasks
	return job, nil
}

// container is that of each pod.
func (s *Simple) container() (*corev1.Container, error) {
	requests, err := Quantities("requests", s.Requests)
	if err != nil {
		return nil, err
	}
	limits, err := Quantities("limits", s.Limits)
	if err != nil {
		return nil, err
	}
	if s.GPUs < 0 {
		return nil, fmt.Errorf("--gpus %d: give 0 or more", s.GPUs)
	}
	if s.GPUs > 0 { // the API wants request and limit of a device to be equal
		requests[gpu], limits[gpu] = *resource.NewQuantity(s.GPUs, resource.DecimalSI), *resource.NewQuantity(s.GPUs, resource.DecimalSI)
	}
	container := &corev1.Container{
		Name: s.Name, Image: s.Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: s.Command,
		Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: s.Env[name]})
	}
	return container, nil
}

// tasks are those of the flag, or one without a name.
func (s *Simple) tasks() ([]batchv1alpha1.TaskSpec, error) {
	if len(s.Tasks) == 0 {
		return []batchv1alpha1.TaskSpec{{Replicas: s.Replicas}}, nil
	}
	tasks := make([]batchv1alpha1.TaskSpec, 0, len(s.Tasks))
	for _, written := range s.Tasks {
		name, replicas, err := TaskReplicas(written)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, batchv1alpha1.TaskSpec{Name: name, Replicas: replicas})
	}
	return tasks, nil
}

// TaskReplicas reads NAME=REPLICAS.
func TaskReplicas(written string) (name string, replicas int32, err error) {
	name, number, found := strings.Cut(written, "=")
	count, err := strconv.ParseInt(number, 10, 32)
	if !found || err != nil || count < 0 || name == "" {
		return "", 0, fmt.Errorf("--task %s: write the name of the task and its number of pods, such as worker=4", written)
	}
	return name, int32(count), nil
}

// pluginsOf reads NAME or NAME=ARGUMENTS of each plugin.
func pluginsOf(written []string) (map[string][]string, error) {
	if len(written) == 0 {
		return nil, nil
	}
	plugins := map[string][]string{}
	for _, one := range written {
		name, text, _ := strings.Cut(one, "=")
		arguments, err := Words(text)
		if err != nil {
			return nil, fmt.Errorf("--plugin %s: %w", one, err)
		}
		plugins[name] = append([]string{}, arguments...)
	}
	return plugins, nil
}

// Seconds is what a flag says of a limit in whole seconds; nil for 0, which is none.
func Seconds(flag string, limit time.Duration) (*int64, error) {
	switch {
	case limit == 0:
		return nil, nil
	case limit < time.Second:
		return nil, fmt.Errorf("--%s %s: give a second or more", flag, limit)
	}
	return ptr.To(int64(limit.Round(time.Second) / time.Second)), nil
}

// Quantities reads what a flag says of resources.
func Quantities(flag string, written map[string]string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for name, text := range written {
		quantity, err := resource.ParseQuantity(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("--%s %s=%s: write an amount like 2, 500m or 1Gi", flag, name, text)
		}
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}
