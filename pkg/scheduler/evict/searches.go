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

// podSearches says when victims are searched for single pods and surplus. Thousands of similar pods may wait, so they share the record of
// searches that failed.
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
	gang.FailedSearch
	pods  map[types.UID]waitingPod
	wants resources.List // of each pod
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
		p.Pending = true
	case now.Before(p.At):
		p.Pending = p.Pending || !retried // else the search for another pod has answered for it
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

// failed notes that a search found nothing. The next search for such pods is delayed for longer after a long search.
func (s *podSearches) failed(search *PodSearch, now time.Time) {
	search.backoff.Failed(search.begun, search.Again, now)
	if at := now.Add(state.SearchPause * now.Sub(search.begun)); at.After(search.backoff.At) {
		search.backoff.At = at
	}
}

// succeeded notes that a search has found victims. A search may find victims for equal pods, too.
func (s *podSearches) succeeded(search *PodSearch) {
	search.backoff.Count, search.backoff.At, search.backoff.Pending = 0, time.Time{}, true
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
		if now.Before(p.At) || !p.MayDiffer(changedAt, now) {
			continue
		}
		if asked++; asked > most {
			return pods // the rest is searched for in the next tick: the order differs each time
		}
		if !p.IsDue(now) && !mayReclaim(p.account, p.wants) {
			p.Failed(now, p.Again, now)
			continue
		}
		some := p.waiting(now)
		p.Pending = len(some) == 0 // all wait for their delay
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
