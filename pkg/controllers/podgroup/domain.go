package podgroup

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/topology"
)

// place is the lowest domain of the network that has all members that run. The scheduler writes the path of each with its binding.
type place struct {
	known bool
	path  string         // empty for several domains of the highest tier
	tree  *topology.Tree // nil as long as the network has not been read
}

// Network is the domains of the cluster, as the controller of topologies knows them.
type Network interface {
	// Tree is nil as long as the domains have not been read.
	Tree() *topology.Tree
	// Watch has f called when the tree has changed.
	Watch(f func())
}

// add finds the domain that also has a pod.
func (p *place) add(pod *corev1.Pod) {
	path, written := pod.Annotations[schedulingv1beta1.TopologyPathAnnotation]
	switch {
	case !written:
		return
	case !p.known:
		p.known, p.path = true, path
		return
	}
	ours, theirs := strings.Split(p.path, "/"), strings.Split(path, "/")
	common := 0
	for common < min(len(ours), len(theirs)) && ours[common] == theirs[common] {
		common++
	}
	p.path = strings.Join(ours[:common], "/")
}

// text says in which domain the gang runs, and of which tier. It is "" if that is not known.
func (p *place) text() string {
	switch {
	case !p.known || p.tree == nil:
		return ""
	case p.path == "":
		return "the gang runs in several domains of the network"
	}
	text := fmt.Sprintf("the gang runs in domain %s of the network", p.path)
	domain, known := p.tree.OfPath(p.path)
	switch {
	case !known:
		return text
	case domain.TierName == "":
		return fmt.Sprintf("%s, tier %d", text, domain.Tier)
	}
	return fmt.Sprintf("%s, tier %d (%s)", text, domain.Tier, domain.TierName)
}
