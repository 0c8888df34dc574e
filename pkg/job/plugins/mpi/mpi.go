// Package mpi is the plugin that tells the master of an MPI Job where its workers are. The plugins svc and ssh come
// with it.
package mpi

import (
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
	"github.com/muster-sched/muster/pkg/job/plugins/svc"
)

// Name of the plugin.
const Name = "mpi"

const (
	defaultPort = 22
	portName    = "mpijob-port"
	hostsVar    = "MPI_HOST"
)

type mpi struct {
	master    string
	hasWorker bool
	port      int32
	hosts     []corev1.EnvVar // the variable of the master; none if it would be too long
}

// New makes the plugin.
func New(r *plugin.Request) plugin.Plugin {
	master := r.Flags().String("master", "master", "the task that starts mpirun")
	worker := r.Flags().String("worker", "worker", "the task of the workers")
	port := r.Port("port", defaultPort, "the port of sshd")
	r.Parse()

	if r.Task(*master) == nil {
		r.Refuse("The specified mpi master task was not found: the Job has no task %q; name it with --master", *master)
	}
	m := &mpi{master: *master, port: *port}
	task := r.Task(*worker)
	if task == nil {
		r.Note(plugin.ReasonNoEffect, "plugin mpi tells the master of no workers: the Job has no task %q; name it with --worker", *worker)
		return m
	}
	m.hasWorker = true
	m.hosts = hostsOf(r, task)
	return m
}

// hostsOf returns the variable with the addresses of the workers. A long list is the one that the svc plugin keeps
// for all pods.
func hostsOf(r *plugin.Request, worker *batchv1alpha1.TaskSpec) []corev1.EnvVar {
	hosts := plugin.HostsOf(r.Job, worker)
	size := hosts.ListBytes(",")
	switch {
	case size <= plugin.MaxInlineBytes:
		return []corev1.EnvVar{{Name: hostsVar, Value: hosts.List(",")}}
	case plugin.FitsEnv(svc.HostsKey(worker.Name), size) && plugin.FitsEnv(hostsVar, size):
		return []corev1.EnvVar{{Name: hostsVar, ValueFrom: svc.HostsReference(r.Job, worker.Name)}}
	default:
		r.Note(plugin.ReasonTooLong, "%s is left out: %d bytes are more than a variable may have; the file %s of the svc plugin has the same hosts",
			hostsVar, size, svc.FileKey(worker.Name))
		return nil
	}
}

// MutatePod opens sshd's port, and sets the variable in all containers and init containers of the master.
func (m *mpi) MutatePod(pod *corev1.Pod, task *batchv1alpha1.TaskSpec, _ int32) {
	isMaster := task.Name == m.master
	if isMaster && !m.hasWorker {
		return
	}
	plugin.OpenPortEverywhere(&pod.Spec, portName, m.port)
	if isMaster {
		plugin.AddEnvEverywhere(&pod.Spec, m.hosts...)
	}
}
