package state

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// Why the gate is closed to a pod. Constant texts: they may end up where changes are counted.
const (
	notSynced       = "waiting until the scheduler has read the PodGroups"
	noPodGroup      = "waiting for the pod's PodGroup to be created"
	notAdmitted     = "waiting for the PodGroup to be admitted by its queue"
	oldIncarnation  = "the pod is of an earlier incarnation of its gang"
	terminating     = "the pod is being deleted"
	notComplete     = "waiting for the minimum of the gang's pods to be created"
	backingOff      = "the gang could not be placed and backs off"
	behindScout     = "another pod of the gang is tried on behalf of all"
	behindTheChosen = "waiting until the minimum of the gang has started"
)

// Gate says why a pod may not be tried now, or "" when it may. Of a gang whose minimum exists it lets exactly one pass,
// the scout, until the gang is judged; then the chosen ones; and once these hold their room, the rest. Pods without a gang
// pass. It runs under the scheduling queue's lock.
func (s *Store) Gate(pod *corev1.Pod) string {
	key, ok := groupOf(pod)
	if !ok {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.synced {
		s.waker.Add(key)
		return notSynced
	}
	g := s.setPod(pod)
	if g == nil {
		return ""
	}
	reason := s.gate(g, pod)
	if reason == "" {
		s.freezeOrder(g, g.Member(pod.UID))
	}
	return reason
}

func (s *Store) gate(g *group, pod *corev1.Pod) string {
	m := g.Member(pod.UID)
	_, chosen := g.chosen[pod.UID]
	switch {
	case m.Terminating:
		return terminating
	case !g.known:
		return noPodGroup
	case s.mustBeAdmitted(g):
		return notAdmitted
	case !g.Counts(m):
		return oldIncarnation
	case g.Seated():
		return ""
	case g.phase == admitted && chosen:
		return ""
	case g.phase == admitted:
		return behindTheChosen
	case !g.Complete():
		return notComplete
	case s.clock.Now().Before(g.notBefore):
		return backingOff
	case g.scout != "" && g.scout != pod.UID:
		return behindScout
	}
	g.scout = pod.UID
	return ""
}

// mustBeAdmitted says whether a gang waits for its queue. Nobody admits the PodGroups of scheduler-plugins.
func (s *Store) mustBeAdmitted(g *group) bool {
	pending := g.pgPhase == "" || g.pgPhase == schedulingv1beta1.PodGroupPending
	return pending && !g.key.Foreign && s.args.Admission == config.AdmissionRequired
}
