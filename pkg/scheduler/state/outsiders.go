package state

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
)

// outsiders are pods that name a gang and are no members yet, as they wait for another component.
type outsiders struct {
	of    map[types.UID]outsider
	count map[outsider]int
}

// outsider is the gang that a pod names, and what keeps the pod out.
type outsider struct {
	key Key
	why string
}

// Why a pod is an outsider.
const (
	hasGates        = "pods of the gang have scheduling gates"
	namesNoneOfOurs = "pods of the gang name another scheduler"
)

// Set takes over that a pod is an outsider. It says whether that is a change.
func (o *outsiders) Set(pod *corev1.Pod, key Key) bool {
	now := outsider{key, namesNoneOfOurs}
	if len(pod.Spec.SchedulingGates) > 0 {
		now.why = hasGates
	}
	if o.of[pod.UID] == now {
		return false
	}
	o.Drop(pod.UID)
	o.of[pod.UID] = now
	o.count[now]++
	return true
}

// Drop takes over that a pod is no outsider.
func (o *outsiders) Drop(pod types.UID) {
	was, known := o.of[pod]
	if !known {
		return
	}
	delete(o.of, pod)
	if o.count[was]--; o.count[was] == 0 {
		delete(o.count, was)
	}
}

// WhyMissing says why pods of a gang are no members; "" if none is an outsider.
func (o *outsiders) WhyMissing(key Key) string {
	var reasons []string
	for _, why := range []string{hasGates, namesNoneOfOurs} {
		if o.count[outsider{key, why}] > 0 {
			reasons = append(reasons, why)
		}
	}
	return strings.Join(reasons, ", and ")
}

// Key names a gang: its PodGroup.
type Key = gang.Key

// NoUID stands for no particular pod.
const NoUID types.UID = ""
