package evict

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// PodSearch is the input of a search for victims for one pod. This is a single pod, or surplus, that is charged to a queue. It is a gang of
// one.
type PodSearch struct {
	// Claimant is the pod.
	Claimant Claimant
	// Problem is to find a place for it.
	Problem placement.Problem
	// Again is when more pods may be evicted than in this search, zero if there is no such time. The search sets it.
	Again time.Time

	pod     *corev1.Pod
	backoff *searchBackoff
	begun   time.Time
}

// podSearches says when victims are searched for single pods and surplus. Thousands of similar pods may wait, so they share the pauses.
type podSearches struct {
	Backoffs map[similarPods]*searchBackoff
	Of       map[types.UID]*searchBackoff // of each pod that waits for its next search
}

// similarPods is what similar pods have in common. A search for one of them answers for all.
type similarPods struct {
	account, owner string
	priority       int32
	demand         string // what filters read of a pod
}

// searchBackoff is when the next search for similar pods is made.
type searchBackoff struct {
	similarPods
	pods     map[types.UID]waitingPod
	wants    resources.List // of each pod
	searches int            // in a row that found nothing
	at       time.Time      // the next is not made before
	pending  bool           // a pod came during the pause
	last     gang.FailedSearch
}

// waitingPod is a pod that waits for a search.
type waitingPod struct {
	pod     *corev1.Pod
	at      time.Time // nothing is evicted for it before
	retried bool      // it is tried again for a search, not because of an event
}

// RetriedSimilar is how many similar pods a tick has tried again. All are tried when the searches for them find something.
const RetriedSimilar = 10

// Begin returns the back-off of a pod if victims may be searched for it now, else nil. The pod must have waited for delay. rest is how long no search
// is made at all.
func (s *podSearches) Begin(pod *corev1.Pod, c *Claimant, delay, rest time.Duration, now time.Time) *searchBackoff {
	p := s.backoffOf(pod, c)
	waits, known := p.pods[pod.UID]
	if !known {
		waits = waitingPod{pod: pod, at: now.Add(delay)}
	}
	retried := waits.retried
	waits.retried = false
	p.pods[pod.UID], s.Of[pod.UID] = waits, p
	switch {
	case rest > 0 || now.Before(waits.at):
		p.pending = true
	case now.Before(p.at):
		p.pending = p.pending || !retried // else the search for another pod has answered for it
	default:
		return p
	}
	return nil
}

// backoffOf is the back-off of the pods that are similar to a pod.
func (s *podSearches) backoffOf(pod *corev1.Pod, c *Claimant) *searchBackoff {
	if p := s.Of[pod.UID]; p != nil {
		return p
	}
	key := similarPods{account: c.Account, owner: fmt.Sprint(pod.Namespace, pod.Labels), priority: c.Priority, demand: placement.DemandOf(&pod.Spec)}
	if c.Gang != (state.Key{}) {
		key.owner = c.Gang.String()
	} else if owner := metav1.GetControllerOf(pod); owner != nil {
		key.owner = string(owner.UID)
	}
	if s.Backoffs[key] == nil {
		s.Backoffs[key] = &searchBackoff{similarPods: key, pods: map[types.UID]waitingPod{}, wants: c.Wants}
	}
	return s.Backoffs[key]
}

// failed notes that a search found nothing. The next search for such pods is delayed: twice as long each time, and longer after a long
// search.
func (s *podSearches) failed(search *PodSearch, now time.Time) {
	search.backoff.pause(now)
	search.backoff.last, search.backoff.pending = gang.FailedSearch{Begun: search.begun, Again: search.Again}, false
	if at := now.Add(state.SearchPause * now.Sub(search.begun)); at.After(search.backoff.at) {
		search.backoff.at = at
	}
}

func (p *searchBackoff) pause(now time.Time) {
	p.at = now.Add(min(LongestSearchPause, FirstSearchPause<<min(p.searches, 10)))
	p.searches++
}

// succeeded notes that a search has found victims. A search may find victims for equal pods, too.
func (s *podSearches) succeeded(search *PodSearch) {
	search.backoff.searches, search.backoff.at, search.backoff.pending = 0, time.Time{}, true
	s.Forget(search.pod.UID)
}

// Forget drops a pod that waits for no search any more.
func (s *podSearches) Forget(pod types.UID) {
	p := s.Of[pod]
	if p == nil {
		return
	}
	delete(s.Of, pod)
	if delete(p.pods, pod); len(p.pods) == 0 {
		delete(s.Backoffs, p.similarPods)
	}
}

// retryable are pods that should be tried again. A search for them is still to be made, or a queue uses more than its share. It asks about
// most kinds of pods.
func (s *podSearches) retryable(changedAt, now time.Time, most int, mayReclaim func(account string, wants resources.List) bool) (pods []*corev1.Pod) {
	asked := 0
	for _, p := range s.Backoffs {
		if now.Before(p.at) || !p.pending && !p.last.MayDiffer(changedAt, now) {
			continue
		}
		if asked++; asked > most {
			return pods // the rest is searched for in the next tick: the order differs each time
		}
		if !p.pending && !p.last.IsDue(now) && !mayReclaim(p.account, p.wants) {
			p.last.Begun = now
			p.pause(now)
			continue
		}
		some := p.waiting(now)
		p.pending = len(some) == 0 // all wait for their delay
		pods = append(pods, some...)
	}
	return pods
}

// waiting are some of the pods for which something may be evicted by now.
func (p *searchBackoff) waiting(now time.Time) (pods []*corev1.Pod) {
	for uid, w := range p.pods {
		if len(pods) < RetriedSimilar && !now.Before(w.at) {
			w.retried = true
			p.pods[uid] = w
			pods = append(pods, w.pod)
		}
	}
	return pods
}

const (
	// FirstSearchPause is the pause after a search that found no victims; the pause doubles up to longestSearchPause. A queue may come
	// above its share without any event that helps a waiting gang.
	FirstSearchPause = time.Second
	// LongestSearchPause is the end of the doubling.
	LongestSearchPause = 30 * time.Second
	// AskedAtOnce is how many gangs a tick checks for possible victims: thousands may wait.
	AskedAtOnce = 200
	// askedIfScarce is the same when searches have taken most of their time: the others would be tried for nothing.
	askedIfScarce = 10
)

const (
	// SearchPart is the part of the scheduling loop's time that searches for victims may take: one fifth.
	SearchPart = 5
	// SearchBurst is how long searches may take in a row before that bound holds.
	SearchBurst = 500 * time.Millisecond
)

// SearchBudget bounds the time that all searches for victims take of the scheduling loop. Each backs off by itself, but hundreds of gangs
// and pods may come at once. It is what has been spent and is not earned back yet.
type SearchBudget struct {
	spent time.Duration
	at    time.Time // when spent was this
}

// Spend notes that a search took a time.
func (b *SearchBudget) Spend(took time.Duration, now time.Time) {
	b.spent, b.at = b.left(now)+took, now
}

// left is how much is not earned back yet.
func (b *SearchBudget) left(now time.Time) time.Duration {
	return max(0, b.spent-now.Sub(b.at)/SearchPart)
}

// RestIn is how long no search is made; 0 if one may be made now.
func (b *SearchBudget) RestIn(now time.Time) time.Duration {
	return max(0, b.left(now)-SearchBurst) * SearchPart
}

// isScarce says whether few searches can be made before the bound holds.
func (b *SearchBudget) isScarce(now time.Time) bool { return b.left(now) > SearchBurst/2 }
