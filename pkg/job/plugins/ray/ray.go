// Package ray is the plugin that makes a Ray cluster of a Job. It starts the head and the workers, and gives the head
// a Service.
package ray

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// Name of the plugin.
const Name = "ray"

// port is one of the ports that the head listens on.
type port struct {
	name   string
	number int32
}

type ray struct {
	job             *batchv1alpha1.Job
	head            string // task
	headContainer   string
	headCommand     []string
	worker          string // task
	workerContainer string
	workerCommand   []string
	ports           []port
}

var _ plugin.ObjectMaker = &ray{}

// New makes the plugin.
func New(r *plugin.Request) plugin.Plugin {
	head := r.Flags().String("head", "head", "the task of the head")
	headContainer := r.Flags().String("headContainer", "head", "the container of the head")
	worker := r.Flags().String("worker", "worker", "the task of the workers")
	workerContainer := r.Flags().String("workerContainer", "worker", "the container of the workers")
	gcs := r.Port("port", 6379, "the port of the global control service")
	dashboard := r.Port("dashboardPort", 8265, "the port of the dashboard")
	client := r.Port("clientPort", 10001, "the port of the client server")
	r.Parse()

	headTask := r.Task(*head)
	if headTask == nil {
		r.Refuse("job %s doesn't have head task %s: name it with --head", r.Job.Name, *head)
		return nil
	}
	for _, problem := range validation.IsDNS1123Label(serviceName(r.Job)) {
		r.Refuse("the Service of the head, %q, cannot have that name: %s", serviceName(r.Job), problem)
	}
	noteMissing(r, headTask, "headContainer", *headContainer)
	if task := r.Task(*worker); task != nil {
		noteMissing(r, task, "workerContainer", *workerContainer)
	}
	address := plugin.PeerAt(r.Job, headTask, 0).Address()
	return &ray{
		job:           r.Job,
		head:          *head,
		headContainer: *headContainer,
		headCommand: shell("ray start --head --block --dashboard-host=0.0.0.0 --port=%d --dashboard-port=%d --ray-client-server-port=%d",
			*gcs, *dashboard, *client),
		worker:          *worker,
		workerContainer: *workerContainer,
		workerCommand:   shell("ray start --block --address=%s:%d", address, *gcs),
		ports:           []port{{"gcs", *gcs}, {"dashboard", *dashboard}, {"client-server", *client}},
	}
}

func shell(format string, args ...any) []string {
	return []string{"sh", "-c", fmt.Sprintf(format, args...)}
}

// noteMissing notes that a task has no container to start Ray in.
func noteMissing(r *plugin.Request, task *batchv1alpha1.TaskSpec, argument, container string) {
	named := func(c corev1.Container) bool { return c.Name == container }
	if !slices.ContainsFunc(task.Template.Spec.Containers, named) {
		r.Note(plugin.ReasonNoEffect, "plugin ray starts nothing in task %s: it has no container %q; name it with --%s",
			task.Name, container, argument)
	}
}

// Objects returns the Service of the head.
func (y *ray) Objects(plugin.Secrets) ([]plugin.Object, error) {
	selector := plugin.PodsOf(y.job)
	selector[batchv1alpha1.TaskSpecKey] = y.head
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName(y.job)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: selector},
	}
	for _, p := range y.ports {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: p.name, Port: p.number, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString(p.name),
		})
	}
	return []plugin.Object{service}, nil
}

// MutatePod gives the containers of head and workers the command that starts Ray.
func (y *ray) MutatePod(pod *corev1.Pod, task *batchv1alpha1.TaskSpec, _ int32) {
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		switch {
		case task.Name == y.head && container.Name == y.headContainer:
			container.Command = slices.Clone(y.headCommand)
			for _, p := range y.ports {
				plugin.NamePort(container, p.name, p.number)
			}
		case task.Name == y.worker && container.Name == y.workerContainer:
			container.Command = slices.Clone(y.workerCommand)
		}
	}
}

func serviceName(job *batchv1alpha1.Job) string { return job.Name + "-head-svc" }
