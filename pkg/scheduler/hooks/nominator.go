package hooks

import (
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/utils/lru"
)

// nominator hands out the pods that are nominated to a node with their requests added up. Upstream copies them for each node that it
// tries for each pod, and adds up the requests of every copy: where preemptors wait for their victims to go, one on each node, that is
// a third of what it takes to find that no node has room.
type nominator struct {
	fwk.PodNominator
	known *lru.Cache // UID -> fwk.PodInfo
}

// mostNominated is how many nominated pods are known, of a few kB each. Of more than that, each is added up anew, as the nodes are tried
// in turn.
const mostNominated = 8192

// InstallNominator puts a nominator between the profiles of a scheduler and its queue. No pod may be tried meanwhile.
func InstallNominator(s *scheduler.Scheduler) {
	n := &nominator{PodNominator: s.SchedulingQueue, known: lru.New(mostNominated)}
	for _, profile := range s.Profiles {
		profile.SetPodNominator(n)
	}
}

// NominatedPodsForNode returns the pods that are nominated to a node. Others have the same objects: they are only read.
func (n *nominator) NominatedPodsForNode(node string) []fwk.PodInfo {
	pods := n.PodNominator.NominatedPodsForNode(node)
	for i, pod := range pods {
		pods[i] = n.addedUp(pod)
	}
	return pods
}

// addedUp returns what is known of a pod, if it has not changed since.
func (n *nominator) addedUp(pod fwk.PodInfo) fwk.PodInfo {
	if found, ok := n.known.Get(pod.GetPod().UID); ok {
		if known, _ := found.(fwk.PodInfo); known.GetPod().ResourceVersion == pod.GetPod().ResourceVersion {
			return known
		}
	}
	pod.CalculateResource() // which it keeps
	n.known.Add(pod.GetPod().UID, pod)
	return pod
}
