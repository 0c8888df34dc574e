package gangs

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
)

// PodSearch is the input of a search for victims for one pod: a single pod, or surplus, that is charged to a queue. It is a gang of one.
type PodSearch struct {
	// Claimant is the pod.
	Claimant Claimant
	// Problem is to find a place for it.
	Problem placement.Problem
	// Again is when more pods may be evicted than in this search, zero if there is no such time. The search sets it.
	Again time.Time

	pod   *corev1.Pod
	pace  *pace
	begun time.Time
}

// SearchesFor says whether victims for a pod are searched as for a gang: by shares and by priority, for room and for quota. For a pod that no
// queue is charged for, pods are evicted by priority alone, and on one node.
func (v *Victims) SearchesFor(pod *corev1.Pod) bool {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	return v.enabled && v.t.Quota.enforced && v.accountOf(pod) != ""
}

// SearchFor begins a search for a pod that found no room, or lacks quota. It returns nil if nothing may be evicted for the pod now. waits
// says that its victims have not gone yet: then its nomination must stay.
func (v *Victims) SearchFor(pod *corev1.Pod) (s *PodSearch, waits bool) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	now := v.t.clock.Now()
	if waits, tooEarly := v.t.WaitList.awaitsSeat(pod.UID, now); waits {
		if tooEarly {
			v.t.apply(nil, v.t.WaitList.tryAgain(pod, tooEarlyPause))
		}
		return nil, true
	}
	v.t.apply(nil, v.t.WaitList.endPodSeat(pod.UID))
	if gang.NeverPreempts(pod) {
		return nil, false
	}
	shortage := v.t.Quota.shortageOf(pod)
	v.t.apply(nil, v.t.Quota.waitFor(shortage, pod))
	if v.t.Quota.standsBack(pod, shortage) {
		return nil, false
	}
	s = &PodSearch{Claimant: v.claimantOf(pod), pod: pod, begun: now}
	if s.pace = v.searches.begin(pod, &s.Claimant, v.t.Quota.termsOf(s.Claimant.Account).preemptionDelay, v.budget.restIn(now), now); s.pace == nil {
		return nil, false
	}
	s.Problem = placement.Problem{
		Members: []*gang.Member{gang.MemberOf(pod, s.Claimant.Wants)},
		SameGang: func(other *corev1.Pod) bool {
			key, ok := gang.KeyOf(other)
			return other.UID == pod.UID || ok && key == s.Claimant.Gang
		},
		InGang:   gang.IsMember,
		Priority: s.Claimant.Priority,
		Held:     v.t.Decisions.assumedByOthers(nil, s.Claimant.Priority),
	}
	return s, false
}

// claimantOf is the claimant of victims for a pod that stands for itself.
func (v *Victims) claimantOf(pod *corev1.Pod) Claimant {
	c := Claimant{
		Account: v.accountOf(pod), Priority: corev1helpers.PodPriority(pod), Wants: resources.PodRequests(pod),
		uid: pod.UID, who: fmt.Sprintf("pod %s/%s", pod.Namespace, pod.Name), ledgerKey: ledgerKey(pod.UID),
	}
	if g, _ := v.t.find(pod.UID); g != nil {
		c.Gang, c.surplus = g.key, true
	} else if _, waits := v.t.Quota.pods[pod.UID]; !waits {
		c.uncounted = true
	}
	return c
}

// podSearches says when victims are searched for single pods and surplus. Thousands of pods that are alike may wait: they share the pauses.
type podSearches struct {
	paces map[likeness]*pace
	of    map[types.UID]*pace // of each pod that waits for its next search
}

// likeness is what makes pods alike: a search for one of them answers for all.
type likeness struct {
	account, owner string
	priority       int32
	demand         string // what filters read of a pod
}

// pace is when the next search for pods that are alike is made.
type pace struct {
	likeness
	pods     map[types.UID]waitingPod
	wants    resources.List // of each pod
	searches int            // in a row that found nothing
	at       time.Time      // the next is not made before
	owed     bool           // a pod came during the pause
	last     failedSearch
}

// waitingPod is a pod that waits for a search.
type waitingPod struct {
	pod     *corev1.Pod
	at      time.Time // nothing is evicted for it before
	retried bool      // it is tried again for a search, not because of an event
}

// retriedAlike is how many pods that are alike a tick has tried again: all are tried when the searches for them find something.
const retriedAlike = 10

// begin returns the pace of a pod if victims may be searched for it now, else nil. The pod must have waited for delay. rest is how long no search
// is made at all.
func (s *podSearches) begin(pod *corev1.Pod, c *Claimant, delay, rest time.Duration, now time.Time) *pace {
	p := s.paceOf(pod, c)
	waits, known := p.pods[pod.UID]
	if !known {
		waits = waitingPod{pod: pod, at: now.Add(delay)}
	}
	retried := waits.retried
	waits.retried = false
	p.pods[pod.UID], s.of[pod.UID] = waits, p
	switch {
	case rest > 0 || now.Before(waits.at):
		p.owed = true
	case now.Before(p.at):
		p.owed = p.owed || !retried // else the search for another pod has answered for it
	default:
		return p
	}
	return nil
}

// paceOf is the pace of the pods that are like a pod.
func (s *podSearches) paceOf(pod *corev1.Pod, c *Claimant) *pace {
	if p := s.of[pod.UID]; p != nil {
		return p
	}
	key := likeness{account: c.Account, owner: fmt.Sprint(pod.Namespace, pod.Labels), priority: c.Priority, demand: placement.DemandOf(&pod.Spec)}
	if c.Gang != (Key{}) {
		key.owner = c.Gang.String()
	} else if owner := metav1.GetControllerOf(pod); owner != nil {
		key.owner = string(owner.UID)
	}
	if s.paces[key] == nil {
		s.paces[key] = &pace{likeness: key, pods: map[types.UID]waitingPod{}, wants: c.Wants}
	}
	return s.paces[key]
}

// inVain notes that a search found nothing. The next search for such pods is delayed: twice as long each time, and longer after a long
// search.
func (s *podSearches) inVain(search *PodSearch, now time.Time) {
	search.pace.pause(now)
	search.pace.last, search.pace.owed = failedSearch{begun: search.begun, again: search.Again}, false
	if at := now.Add(searchPause * now.Sub(search.begun)); at.After(search.pace.at) {
		search.pace.at = at
	}
}

func (p *pace) pause(now time.Time) {
	p.at = now.Add(min(longestSearchPause, firstSearchPause<<min(p.searches, 10)))
	p.searches++
}

// succeeded notes that a search has found victims. A search may find victims for equal pods, too.
func (s *podSearches) succeeded(search *PodSearch) {
	search.pace.searches, search.pace.at, search.pace.owed = 0, time.Time{}, true
	s.forget(search.pod.UID)
}

// forget drops a pod that waits for no search any more.
func (s *podSearches) forget(pod types.UID) {
	p := s.of[pod]
	if p == nil {
		return
	}
	delete(s.of, pod)
	if delete(p.pods, pod); len(p.pods) == 0 {
		delete(s.paces, p.likeness)
	}
}

// retryable are pods that should be tried again: a search for them is still to be made, or a queue uses more than its share. It asks about most
// kinds of pods.
func (s *podSearches) retryable(changedAt, now time.Time, most int, isOwed func(account string, wants resources.List) bool) (pods []*corev1.Pod) {
	asked := 0
	for _, p := range s.paces {
		if now.Before(p.at) || !p.owed && !p.last.mayDiffer(changedAt, now) {
			continue
		}
		if asked++; asked > most {
			return pods // the rest is searched for in the next tick: the order differs each time
		}
		if !p.owed && !p.last.isDue(now) && !isOwed(p.account, p.wants) {
			p.last.begun = now
			p.pause(now)
			continue
		}
		some := p.waiting(now)
		p.owed = len(some) == 0 // all wait for their delay
		pods = append(pods, some...)
	}
	return pods
}

// waiting are some of the pods for which something may be evicted by now.
func (p *pace) waiting(now time.Time) (pods []*corev1.Pod) {
	for uid, w := range p.pods {
		if len(pods) < retriedAlike && !now.Before(w.at) {
			w.retried = true
			p.pods[uid] = w
			pods = append(pods, w.pod)
		}
	}
	return pods
}
