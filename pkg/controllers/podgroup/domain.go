package podgroup

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// place is the lowest domain of the network that has all members that run. The scheduler writes the path of each with its binding.
type place struct {
	known bool
	path  string // empty for several domains of the highest tier
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

// text says in which domain the gang runs, "" if that is not known.
func (p *place) text() string {
	switch {
	case !p.known:
		return ""
	case p.path == "":
		return "the gang runs in several domains of the network"
	}
	return fmt.Sprintf("the gang runs in domain %s of the network", p.path)
}
