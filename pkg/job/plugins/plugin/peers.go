package plugin

import (
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

// PeersOf returns the hosts of a task: one for each pod, or a single one if the template names the host.
func PeersOf(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec) []Peer {
	hosts := task.Replicas
	if task.Template.Spec.Hostname != "" {
		hosts = min(hosts, 1)
	}
	peers := make([]Peer, 0, hosts)
	for index := range hosts {
		peers = append(peers, PeerAt(job, task, index))
	}
	return peers
}

// AddressesOf returns the addresses of the hosts of a task.
func AddressesOf(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec) []string {
	peers := PeersOf(job, task)
	addresses := make([]string, len(peers))
	for i, peer := range peers {
		addresses[i] = peer.Address()
	}
	return addresses
}

// PodsOf returns the labels that all pods of the Job carry, and no others.
func PodsOf(job *batchv1alpha1.Job) map[string]string {
	return map[string]string{
		batchv1alpha1.JobNameKey:      job.Name,
		batchv1alpha1.JobNamespaceKey: job.Namespace,
	}
}
