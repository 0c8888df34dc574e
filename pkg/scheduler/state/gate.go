package state

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
)

// Why the gate is closed to a pod. Constant texts: they may end up where changes are counted.
const (
	notSynced       = "waiting until the scheduler has read the PodGroups"
	noPodGroup      = "waiting for the pod's PodGroup to be created"
	notCaughtUp     = "waiting until the scheduler has read the PodGroup as it was when the pod was created"
	notAdmitted     = "waiting for the PodGroup to be admitted by its queue"
	oldIncarnation  = "the pod is of an earlier incarnation of its gang"
	terminating     = "the pod is being deleted"
	alreadyBound    = "the pod is bound already"
	notComplete     = "waiting for the minimum of the gang's pods to be created"
	notHeard        = "waiting to hear how a member of the gang has ended"
	notGivenBack    = "waiting until the gang has given back the room of its last attempt"
	backingOff      = "the gang could not be placed and backs off"
	behindScout     = "another pod of the gang is tried on behalf of all"
	hasLeft         = "the pod has left the gang"
	asleep          = "the gang waits outside the scheduling queue until it is called"
	behindTheChosen = "waiting until the minimum of the gang has started"
	behindFellow    = "waiting until a member that must be placed before has its room"
)

// Gate says why a pod may not be tried now, or "" when it may. Of a gang whose minimum exists it lets exactly one pass,
// the scout, until the gang is judged; then the chosen ones; and once these hold their room, the rest. Pods without a gang
// pass. It runs under the scheduling queue's lock.
//
// What the queue has of a pod may be older than what the Store was told: of a pod that is bound, going or gone by now the queue
// may not have heard. So the gate learns nothing from it but that there is a pod which is not known yet.
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
	g, m := s.find(pod.UID)
	if m == nil {
		if s.gone.has(pod.UID) {
			return terminating
		}
		if now := s.left[pod.UID]; now != nil {
			s.yielded[pod.UID] = now
			s.waker.AddAfter(key, yieldFor)
			return hasLeft
		}
		if g = s.setPod(pod); g == nil {
			return ""
		}
	}
	if s.sleeps(pod) {
		return asleep
	}
	reason := s.gate(g, pod)
	if reason == "" {
		s.freezeOrder(g, g.Member(pod.UID))
	} else {
		s.reportLater(g)
	}
	return reason
}

// gate is Gate for a member, and takes note of whom it turns away.
func (s *Store) gate(g *group, pod *corev1.Pod) string {
	reason := s.closedTo(g, pod)
	g.turnedAway = g.turnedAway || reason != ""
	return reason
}

func (s *Store) closedTo(g *group, pod *corev1.Pod) string {
	m := g.Member(pod.UID)
	switch {
	case m.Terminating:
		return terminating
	case m.State == gang.Bound:
		return alreadyBound
	case !g.known:
		return noPodGroup
	case g.lagsBehind(pod):
		return notCaughtUp
	case s.mustBeAdmitted(g):
		return notAdmitted
	case !g.Counts(m):
		return oldIncarnation
	case g.Seated() && s.beingEvicted(g):
		return beingPreempted
	case g.Seated():
		return ""
	case g.phase == admitted:
		return s.closedInRound(g, pod.UID)
	case g.givesBack():
		return notGivenBack
	case g.hears(s.clock.Now()):
		return notHeard
	case !g.Complete():
		return notComplete
	case g.backsOff(s.clock.Now()):
		return backingOff
	case g.scout != "" && g.scout != pod.UID:
		return behindScout
	}
	g.scout = pod.UID
	s.scoutIsCalled(g)
	s.reachQuorum(g)
	return ""
}

// closedInRound is closedTo while the chosen members of a gang are on their way.
func (s *Store) closedInRound(g *group, uid types.UID) string {
	_, chosen := g.chosen[uid]
	switch {
	case !chosen:
		return behindTheChosen
	case g.backsOff(s.clock.Now()):
		return backingOff
	case !g.hasTurn(uid):
		return behindFellow
	}
	return ""
}

// lagsBehind says whether what is known of the PodGroup is older than what the pod was created for.
func (g *group) lagsBehind(pod *corev1.Pod) bool {
	want := pod.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation]
	if want == "" || g.key.Foreign {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(g.version, want)
	return err == nil && order < 0
}

// mustBeAdmitted says whether a gang waits for its queue. Nobody admits the PodGroups of scheduler-plugins.
func (s *Store) mustBeAdmitted(g *group) bool {
	return !g.pgPhase.Admitted() && !g.vouched && !g.key.Foreign && s.args.Admission == config.AdmissionRequired
}

// vouch notes that a member shows its PodGroup to be admitted. While the API server is busy the status says so later: it is
// not what a Job's pods wait for.
func (s *Store) vouch(g *group, m *gang.Member) {
	if g.known && !g.pgPhase.Admitted() && !g.vouched && gang.Vouches(m.Pod, g.job) {
		g.vouched = true
		s.waker.Add(g.key) // others may have been turned away
	}
}

// jobOf is the UID of the Job that a PodGroup is of; "" if it is of none.
func jobOf(pg *schedulingv1beta1.PodGroup) types.UID {
	if owner := batchv1alpha1.JobOf(pg); owner != nil {
		return owner.UID
	}
	return ""
}
