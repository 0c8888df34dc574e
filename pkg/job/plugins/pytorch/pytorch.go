// Package pytorch is the plugin that sets what torch.distributed reads from the environment.
package pytorch

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// Name of the plugin.
const Name = "pytorch"

const (
	defaultPort = 23456
	portName    = "pytorchjob-port"
)

type pytorch struct {
	master    *batchv1alpha1.TaskSpec
	worker    string
	port      int32
	worldSize int32
	address   string            // of the first master
	wait      *corev1.Container // makes workers wait for the master; nil if they need not
}

// New makes the plugin.
func New(r *plugin.Request) plugin.Plugin {
	master := r.Flags().String("master", "master", "the task of the master")
	worker := r.Flags().String("worker", "worker", "the task of the workers")
	port := r.Port("port", defaultPort, "the port that the master listens on")
	wait := declareWait(r)
	r.Parse()

	p := &pytorch{master: r.Task(*master), worker: *worker, port: *port}
	if p.master == nil {
		r.Note(plugin.ReasonNoEffect, "plugin pytorch has no effect: the Job has no task %q; name the master's task with --master", *master)
		return nil
	}
	p.address = plugin.PeerAt(r.Job, p.master, 0).Address()
	p.worldSize = p.master.Replicas
	if task := r.Task(*worker); task != nil && *worker != *master {
		p.worldSize += task.Replicas
	}
	if *wait.enabled {
		p.wait = wait.container(p.address, p.port)
	}
	return p
}

// MutatePod sets the variables in all containers and opens the port.
func (p *pytorch) MutatePod(pod *corev1.Pod, task *batchv1alpha1.TaskSpec, index int32) {
	plugin.OpenPort(&pod.Spec, portName, p.port)
	vars := []corev1.EnvVar{
		{Name: "MASTER_ADDR", Value: p.address},
		{Name: "MASTER_PORT", Value: strconv.Itoa(int(p.port))},
		{Name: "WORLD_SIZE", Value: strconv.Itoa(int(p.worldSize))},
	}
	if rank, ok := p.rank(task.Name, index); ok {
		vars = append(vars, corev1.EnvVar{Name: "RANK", Value: strconv.Itoa(int(rank))})
	}
	plugin.AddEnv(&pod.Spec, vars...)
	if p.wait != nil && task.Name == p.worker && task.Name != p.master.Name {
		addWait(&pod.Spec, p.wait)
	}
}

// rank returns the number of a pod among the masters and, after them, the workers. Other tasks' pods have none.
func (p *pytorch) rank(task string, index int32) (int32, bool) {
	switch task {
	case p.master.Name:
		return index, true
	case p.worker:
		return p.master.Replicas + index, true
	default:
		return 0, false
	}
}
