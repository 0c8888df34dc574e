package kube

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	musterscheme "github.com/muster-sched/muster/pkg/client/clientset/versioned/scheme"
)

// Scheme knows the types of Kubernetes and those of Muster.
var Scheme = func() *runtime.Scheme {
	known := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(known))
	utilruntime.Must(musterscheme.AddToScheme(known))
	return known
}()

// Simple is a Job of one task that a few flags describe.
type Simple struct {
	Name, Queue, Image, Scheduler, PriorityClass string
	Replicas, Min                                int32
	Requests, Limits                             map[string]string
	Command                                      []string
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
}

// Job is the Job that is described.
func (s *Simple) Job() (*batchv1alpha1.Job, error) {
	requests, err := Quantities("requests", s.Requests)
	if err != nil {
		return nil, err
	}
	limits, err := Quantities("limits", s.Limits)
	if err != nil {
		return nil, err
	}
	least := s.Min
	if least == 0 {
		least = s.Replicas
	}
	return &batchv1alpha1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Spec: batchv1alpha1.JobSpec{
			Queue: s.Queue, SchedulerName: s.Scheduler, PriorityClassName: s.PriorityClass, MinAvailable: least,
			Tasks: []batchv1alpha1.TaskSpec{{
				Replicas: s.Replicas,
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"job.volcano.sh": s.Name}},
					Spec: corev1.PodSpec{
						RestartPolicy: corev1.RestartPolicyNever,
						Containers: []corev1.Container{{
							Name: s.Name, Image: s.Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: s.Command,
							Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
						}},
					},
				},
			}},
		},
	}, nil
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
