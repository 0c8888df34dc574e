package plugin

import (
	"iter"
	"strings"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// Peer is a host of a Job, as its other pods find it.
type Peer struct {
	// Host is the pod's host name: the template's, or else the pod's name.
	Host string
	// Subdomain is the name of the headless Service that knows the host: the template's, or else the Job's name.
	Subdomain string
}

// Address is the name by which the Job's pods reach the host. The namespace and the cluster's domain are left to the
// resolver.
func (p Peer) Address() string { return p.Host + "." + p.Subdomain }

// PeerAt returns the host of the task's index.
func PeerAt(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec, index int32) Peer {
	peer := Peer{Host: task.Template.Spec.Hostname, Subdomain: Subdomain(job, task)}
	if peer.Host == "" {
		peer.Host = policy.PodName(job.Name, task.Name, index)
	}
	return peer
}

// Subdomain returns the subdomain of the task's pods.
func Subdomain(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec) string {
	if own := task.Template.Spec.Subdomain; own != "" {
		return own
	}
	return job.Name
}

// Hosts are the hosts of a task. There is one for each pod, or a single one if the template names the host. A name is built only when it is
// asked for. So a task of any size costs nothing until its names are known to fit.
type Hosts struct {
	job  *batchv1alpha1.Job
	task *batchv1alpha1.TaskSpec
}

// HostsOf returns the hosts of a task.
func HostsOf(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec) Hosts { return Hosts{job, task} }

// Count is the number of hosts.
func (h Hosts) Count() int {
	count := max(int(h.task.Replicas), 0)
	if h.task.Template.Spec.Hostname != "" {
		return min(count, 1)
	}
	return count
}

// All returns the hosts, by index.
func (h Hosts) All() iter.Seq[Peer] {
	return func(yield func(Peer) bool) {
		for index := range h.Count() {
			if !yield(PeerAt(h.job, h.task, int32(index))) {
				return
			}
		}
	}
}

// NameBytes is the length of all host names together.
func (h Hosts) NameBytes() int {
	count := h.Count()
	if count == 0 {
		return 0
	}
	first := len(PeerAt(h.job, h.task, 0).Host)
	if h.task.Template.Spec.Hostname != "" {
		return first
	}
	return count*(first-1) + digits(count)
}

// AddressBytes is the length of all addresses together.
func (h Hosts) AddressBytes() int {
	return h.NameBytes() + h.Count()*len("."+Subdomain(h.job, h.task))
}

// ListBytes is the length of what List returns.
func (h Hosts) ListBytes(separator string) int {
	return h.AddressBytes() + max(h.Count()-1, 0)*len(separator)
}

// List returns the addresses with a separator between each two.
func (h Hosts) List(separator string) string {
	var list strings.Builder
	list.Grow(h.ListBytes(separator))
	for peer := range h.All() {
		if list.Len() > 0 {
			list.WriteString(separator)
		}
		list.WriteString(peer.Address())
	}
	return list.String()
}

// digits is the number of digits of the numbers from 0 to count-1 together.
func digits(count int) int {
	sum := count
	for power := 10; power < count; power *= 10 {
		sum += count - power
	}
	return sum
}

// PodsOf returns the labels that all pods of the Job carry, and only they.
func PodsOf(job *batchv1alpha1.Job) map[string]string {
	return map[string]string{
		batchv1alpha1.JobNameKey:      job.Name,
		batchv1alpha1.JobNamespaceKey: job.Namespace,
	}
}
