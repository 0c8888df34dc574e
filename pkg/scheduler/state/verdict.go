package state

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
)

// The reasons of the condition PodScheduled=False of a member. Cluster autoscalers make nodes for pods whose reason is
// Unschedulable, and only for them: a gang has it where nodes would help.
const (
	// ReasonUnschedulable: the gang was judged, and lacks room or places that its members may go to.
	ReasonUnschedulable = corev1.PodReasonUnschedulable
	// ReasonWaitingForPodGroup: the PodGroup that the pod names does not exist.
	ReasonWaitingForPodGroup = "WaitingForPodGroup"
	// ReasonWaitingForAdmission: the queue has not admitted the PodGroup. The PodGroup says why.
	ReasonWaitingForAdmission = "WaitingForAdmission"
	// ReasonWaitingForQuota: the capability of the queue, or of an ancestor, has no room.
	ReasonWaitingForQuota = "WaitingForQuota"
	// ReasonNotEnoughPods: fewer members exist than the minimum.
	ReasonNotEnoughPods = schedulingv1beta1.NotEnoughPodsReason
	// ReasonNotEnoughPodsOfTask: fewer members of a task exist than its minimum.
	ReasonNotEnoughPodsOfTask = schedulingv1beta1.NotEnoughPodsOfTaskReason
)

const couldNotBePlaced = "the gang was found to fit, yet its members could not be placed together; it is tried again"

// verdict is why all members of a gang wait. The zero value says that there is nothing to say.
type verdict struct {
	reason, message string
}

// verdictOf says why a gang waits. It costs the same whatever the size of the gang.
func (s *Store) verdictOf(g *group) verdict {
	switch {
	case !s.synced || g.Len() == 0:
		return verdict{}
	case !g.known:
		return verdict{ReasonWaitingForPodGroup, noPodGroup}
	case g.phase == admitted || g.Seated():
		return verdict{}
	case s.mustBeAdmitted(g):
		return verdict{ReasonWaitingForAdmission, notAdmitted}
	case !g.Complete():
		return missingMembers(g)
	case g.told != "":
		return verdict{g.toldReason, g.told}
	case g.failures > 0:
		return verdict{ReasonUnschedulable, couldNotBePlaced}
	}
	return verdict{} // about to be judged
}

// missingMembers says what is asked for, and not what is there: that changes with every pod that is created.
func missingMembers(g *group) verdict {
	if task, minimum := g.ShortTask(); task != "" {
		return verdict{ReasonNotEnoughPodsOfTask,
			fmt.Sprintf("waiting for members: fewer pods of task %q exist than the %d that its minimum asks for", task, minimum)}
	}
	return verdict{ReasonNotEnoughPods, fmt.Sprintf("waiting for members: fewer pods exist than the %d that start together", g.MinMember)}
}

// isTransient says whether a verdict is what every gang goes through on its way: its pods, its PodGroup and its admission
// come one after the other.
func (v verdict) isTransient() bool {
	switch v.reason {
	case ReasonUnschedulable, ReasonWaitingForQuota:
		return false
	}
	return true
}

// hasEvent says whether the scheduler tells about the verdict on the PodGroup. Who decides tells: for the admission that is
// the podgroup controller.
func (v verdict) hasEvent() bool {
	return v.reason != ReasonWaitingForAdmission && v.reason != ReasonWaitingForPodGroup
}

// How long a verdict must have stood before it is written. Gangs that start promptly cost no writes.
const (
	verdictGrace = time.Second
	// transientGrace is counted from the last member that came.
	transientGrace = 3 * time.Second
)

// rewordPause is the least time between two texts for one reason: they name nodes and amounts, which change with every pod
// that goes. The more pods wait in all, the less often each gang changes its text, so that many gangs together cost a busy cluster
// no more than a few.
func (s *Store) rewordPause() time.Duration {
	return max(reportPause, time.Duration(s.crowd)*rewordPausePerMember)
}

const (
	// reportPause is how long a report of a waiting gang stands at least before another text takes its place.
	reportPause = 5 * time.Second
	// rewordPausePerMember bounds the writes for changed texts to ten a second.
	rewordPausePerMember = 100 * time.Millisecond
)

// countTheCrowd takes note of how many pods are in parked gangs.
func (s *Store) countTheCrowd() {
	s.crowd = 0
	for _, g := range s.gangs {
		if g.parked {
			s.crowd += g.Len()
		}
	}
}

// report is what is to be written for a gang.
type report struct {
	verdict verdict
	group   *corev1.ObjectReference // the PodGroup; nil while there is none
	news    bool                    // no event tells of the verdict yet
	members []waitingMember
}

// waitingMember is a pod that waits.
type waitingMember struct {
	uid             types.UID
	namespace, name string
}

// reportLater has the reporter look at a gang in a moment. It is called wherever a member is held, so it costs next to nothing.
func (s *Store) reportLater(g *group) {
	if !g.lookedFor {
		g.lookedFor = true
		s.reporter.AddAfter(g.key, reportDelay)
	}
}

// reportDelay lets the members of a gang gather that are held at the same time.
const reportDelay = 100 * time.Millisecond

// reportFor says what is to be written for a gang now; if nothing is yet, when to look again (0 = when something changes).
func (s *Store) reportFor(key Key) (out *report, again time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gangs[key]
	if g == nil {
		return nil, 0
	}
	g.lookedFor = false
	now, v := s.clock.Now(), s.verdictOf(g)
	if v != g.verdict {
		g.verdict, g.verdictSince = v, now
	}
	if v == (verdict{}) || v == g.reported && g.reportWhole {
		return nil, 0
	}
	if wait := s.due(g).Sub(now); wait > 0 {
		g.lookedFor = true
		return nil, min(wait, reportPause) // by then the reason may be another, or fewer pods may wait
	}
	if v != g.reported {
		g.reported, g.reportedAt = v, now
	}
	g.reportWhole = true // until somebody joins, or the reporter says otherwise
	out = &report{verdict: v, group: reference(g), news: g.isNews(v, now)}
	for _, m := range g.Waiting() {
		out.members = append(out.members, waitingMember{uid: m.UID, namespace: m.Pod.Namespace, name: m.Pod.Name})
	}
	return out, 0
}

// isNews says whether an event is to tell of a verdict: if the reason is another than the last event's, or if that one is old and its text
// does not hold any more.
func (g *group) isNews(v verdict, now time.Time) bool {
	return v.hasEvent() && (v.reason != g.announced.reason || v != g.announced && now.Sub(g.announcedAt) >= eventPause)
}

// eventPause is the least time between two events of a gang for the same reason: amounts change with every pod that goes, and the
// members' conditions say what they are.
const eventPause = 5 * time.Minute

// due is when the verdict on a gang may be written.
func (s *Store) due(g *group) time.Time {
	v := g.verdict
	switch {
	case v == g.reported:
		return g.verdictSince // members that came later hear it at once
	case v.isTransient() && g.joined.After(g.verdictSince):
		return g.joined.Add(transientGrace)
	case v.isTransient():
		return g.verdictSince.Add(transientGrace)
	}
	due := g.verdictSince.Add(verdictGrace)
	if reworded := g.reportedAt.Add(s.rewordPause()); v.reason == g.reported.reason && reworded.After(due) {
		return reworded
	}
	return due
}

// stillWaits says whether a verdict still holds for a member.
func (s *Store) stillWaits(key Key, uid types.UID, v verdict) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gangs[key]
	if g == nil || s.verdictOf(g) != v {
		return false
	}
	m := g.Member(uid)
	return g.Counts(m) && m.State == gang.Waiting
}

// reportAgain says that not all members carry the verdict yet.
func (s *Store) reportAgain(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.gangs[key]; g != nil {
		g.reportWhole = false
	}
}

// announced remembers that an event tells of a verdict.
func (s *Store) announced(key Key, v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.gangs[key]; g != nil {
		g.announced, g.announcedAt = v, s.clock.Now()
	}
}
