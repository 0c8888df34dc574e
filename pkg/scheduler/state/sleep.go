package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-sched/muster/pkg/resources"
)

// sleepAfter is how long a gang is parked in the scheduling queue before it goes to sleep. On a busy cluster most parked gangs are
// woken sooner.
const sleepAfter = time.Second

// Queue is what the Store needs of the scheduling queue for gangs that sleep: their members leave it until they are activated. A
// pod in the queue costs something at every event, and most events can help few of those who wait.
type Queue interface {
	// Dismiss takes waiting pods out of the queue. The Store must not be locked.
	Dismiss(pods []*corev1.Pod)
}

// sleep is what the Store knows of gangs that sleep.
type sleep struct {
	queue Queue // nil where nobody can leave the queue: then no gang sleeps
	// pods have left the queue, or are about to, for their gang's sake. The gate is closed to them: those who are activated
	// together come back first and are sorted then.
	pods map[types.UID]Key
	// behind has the gangs that sleep by the plugins that stood in their way; and some that sleep no more.
	behind map[string]map[Key]*group
	hints  map[string][]Hint // by profile
}

// Hint is what to ask about an event for a gang that a plugin stood in the way of.
type Hint struct {
	// Plugin that stood in the way.
	Plugin string
	// Event that the plugin waits for.
	Event fwk.ClusterEvent
	// Ask wakes the gang of a scout if the event may help it.
	Ask fwk.QueueingHintFn
	// Frees says how much room comes free by the event, on a node or with a node: then the name is "". Gangs for which it is too little are
	// not asked about. nil, or false, if that is not known.
	Frees func(oldObj, newObj any) (node string, amount resources.List, known bool)
}

// Sleep has gangs that are parked for long leave the queue. Whoever calls it has the Store hear of every event: see Happened.
func (s *Store) Sleep(queue Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asleep.queue = queue
}

// Listen takes over what a profile's plugins wait for.
func (s *Store) Listen(profile string, hints []Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var unrolled []Hint
	for _, h := range hints {
		if h.Event.Resource != fwk.Pod {
			unrolled = append(unrolled, h)
			continue
		}
		for _, event := range framework.UnrollPodEvent(h.Event) { // as the queue does with the hints that it asks
			unrolled = append(unrolled, Hint{h.Plugin, event, h.Ask, h.Frees})
		}
	}
	s.asleep.hints[profile] = unrolled
}

// forget forgets a gang that is gone. In a cluster where nothing happens to the nodes no event may come that tells of it.
func (s *sleep) forget(key Key) {
	for _, gangs := range s.behind {
		delete(gangs, key)
	}
}

// goToSleep returns the members of a parked gang that leave the queue now. From here on Happened asks about the gang; until they
// have left, the queue does, too.
func (s *Store) goToSleep(g *group) []*corev1.Pod {
	if s.asleep.queue == nil {
		return nil
	}
	if left := sleepAfter - s.clock.Since(g.judged); left > 0 {
		s.waker.AddAfter(g.key, left)
		return nil
	}
	var leaving []*corev1.Pod
	for _, m := range g.Waiting() {
		// The scheduler keeps room for who is nominated, and forgets that when the pod leaves.
		if _, sleeps := s.asleep.pods[m.UID]; !sleeps && m.Pod.Status.NominatedNodeName == "" {
			s.asleep.pods[m.UID] = g.key
			// It may have waited for itself before it was of this gang. Now it is called with the gang.
			delete(s.quotaWaiters, m.UID)
			delete(s.asides.waiters, m.UID)
			leaving = append(leaving, m.Pod)
		}
	}
	for plugin := range g.rejectors {
		if s.asleep.behind[plugin] == nil {
			s.asleep.behind[plugin] = map[Key]*group{}
		}
		s.asleep.behind[plugin][g.key] = g
	}
	return leaving
}

// Sleeps says whether a pod is to stay out of the queue until it is activated. It is not if it has left the gang for whose sake it
// has gone.
func (s *Store) Sleeps(pod *corev1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sleeps(pod)
}

func (s *Store) sleeps(pod *corev1.Pod) bool {
	sleptFor, sleeps := s.asleep.pods[pod.UID]
	key, member := groupOf(pod)
	return sleeps && member && sleptFor == key
}

// Awake opens the gate to pods that are back in the queue and about to be activated.
func (s *Store) Awake(pods map[string]*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range pods {
		delete(s.asleep.pods, pod.UID)
	}
}

// Happened puts an event to the hints of those plugins that stood in the way of gangs that sleep, as the queue does for the pods that
// are in it. The arguments are those of the queue's MoveAllToActiveOrBackoffQueue.
func (s *Store) Happened(logger klog.Logger, event fwk.ClusterEvent, oldObj, newObj any, concerns func(*corev1.Pod) bool) {
	for _, w := range s.sleepersFor(event, oldObj, newObj) {
		for _, scout := range w.scouts {
			if concerns == nil || concerns(scout) {
				_, _ = w.ask(logger, scout, oldObj, newObj) // it wakes by itself whom the event may help, also where it fails
			}
		}
	}
}

// waiters are the scouts of gangs that sleep and wait for an event, with what to ask about it.
type waiters struct {
	ask    fwk.QueueingHintFn
	scouts []*corev1.Pod
}

func (s *Store) sleepersFor(event fwk.ClusterEvent, oldObj, newObj any) []waiters {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.excuseUnasked(event) // once more: some may have been called since it happened
	if len(s.asleep.pods) == 0 {
		return nil
	}
	var all []waiters
	for profile, hints := range s.asleep.hints {
		for _, h := range hints {
			if len(s.asleep.behind[h.Plugin]) == 0 || !framework.MatchClusterEvents(h.Event, event) {
				continue
			}
			if scouts := s.scoutsAsleep(profile, h.Plugin, h.tooLittleFor(s, oldObj, newObj)); len(scouts) > 0 {
				all = append(all, waiters{h.Ask, scouts})
			}
		}
	}
	return all
}

// tooLittleFor says of which gangs it is certain that they still lack room after an event. It is to be asked once for each gang: what has
// come free adds up. Hundreds may wait while thousands of pods end, so that this comes before all other questions.
func (h *Hint) tooLittleFor(s *Store, oldObj, newObj any) func(*group) bool {
	if h.Frees != nil {
		if node, amount, known := h.Frees(oldObj, newObj); known {
			return func(g *group) bool { return g.parked && !s.mayBeEnough(g, node, amount) }
		}
	}
	return func(*group) bool { return false }
}

// scoutsAsleep are the scouts of a profile's gangs that sleep behind a plugin, without those that need not be asked. It forgets those of
// whom that is not true any more.
func (s *Store) scoutsAsleep(profile, plugin string, needless func(*group) bool) []*corev1.Pod {
	var scouts []*corev1.Pod
	for key, g := range s.asleep.behind[plugin] {
		m := g.Member(g.scout)
		if m != nil && m.Pod.Spec.SchedulerName != profile {
			continue
		}
		switch _, sleeps := s.asleep.pods[g.scout]; {
		case sleeps && needless(g):
		case m == nil || !s.sleeps(m.Pod):
			delete(s.asleep.behind[plugin], key)
		default:
			scouts = append(scouts, m.Pod)
		}
	}
	return scouts
}
