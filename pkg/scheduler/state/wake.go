package state

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
)

// PluginName is the name under which members wait in Permit.
const PluginName = "Coscheduling"

const queueNameAnnotation = schedulingv1beta1.QueueNameAnnotation

// quotaKey in the waker stands for the single pods that wait for quota.
var quotaKey = Key{}

func setOf(names []string) sets.Set[string] { return sets.New(names...) }

// deeds are what the waker found to do, outside the lock.
type deeds struct {
	activate []*corev1.Pod
	allow    []types.UID
	reject   []types.UID
}

// runWaker acts on gangs that have changed, one after the other, until the context ends. What it does follows from the state of
// the gang alone, so that it does not matter how often or why it is asked.
func (s *Store) runWaker(ctx context.Context) {
	go func() {
		<-ctx.Done()
		s.waker.ShutDown()
	}()
	for {
		key, shutdown := s.waker.Get()
		if shutdown {
			return
		}
		s.do(ctx, s.next(key))
		s.waker.Done(key)
	}
}

// next decides what a gang needs now.
func (s *Store) next(key Key) deeds {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key == quotaKey {
		return s.quotaWaitersToWake()
	}
	g := s.gangs[key]
	if g == nil || !s.synced {
		return deeds{}
	}
	s.expire(g)
	var d deeds
	reserved, seated := g.Reserved(), g.Seated()
	switch {
	case g.phase == admitted:
		for _, m := range g.Waiting() {
			if _, chosen := g.chosen[m.UID]; chosen {
				d.activate = append(d.activate, m.Pod)
			}
		}
	case seated:
		// A member may have slipped into Permit's waiting room behind the release.
		d.allow = uids(reserved)
		if !g.wasSeated {
			d.activate = pods(g.Waiting()) // the surplus may come now
		}
	case len(reserved) > 0:
		d.reject = uids(reserved)
	case !g.parked && g.known && g.Complete() && !s.clock.Now().Before(g.notBefore):
		d.activate = s.callScout(g)
	}
	g.wasSeated = seated && g.phase == idle
	return d
}

// expire ends a round whose members have not come in time.
func (s *Store) expire(g *group) {
	if g.phase == admitted && !s.clock.Now().Before(g.deadline) {
		late := types.UID("")
		for _, m := range g.Waiting() {
			if _, chosen := g.chosen[m.UID]; chosen {
				late = m.UID
				break
			}
		}
		s.letGo(g, late)
	}
}

// callScout returns the scout's pod; the first of the waiting members becomes it if there is none.
func (s *Store) callScout(g *group) []*corev1.Pod {
	if m := g.Member(g.scout); m != nil && m.State == gang.Waiting && g.Counts(m) {
		return []*corev1.Pod{m.Pod}
	}
	g.scout = ""
	for _, m := range g.Waiting() {
		g.scout = m.UID
		return []*corev1.Pod{m.Pod}
	}
	return nil
}

// do carries the deeds out. It takes the scheduling queue's lock, so it must not hold the Store's.
func (s *Store) do(ctx context.Context, d deeds) {
	for _, uid := range d.allow {
		if waiting := s.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Allow(PluginName)
		}
	}
	for _, uid := range d.reject {
		if waiting := s.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Reject(PluginName, "the gang's minimum could not be placed together")
		}
	}
	if len(d.activate) > 0 {
		byName := make(map[string]*corev1.Pod, len(d.activate))
		for _, pod := range d.activate {
			byName[pod.Namespace+"/"+pod.Name] = pod
		}
		s.handle.Activate(klog.FromContext(ctx), byName)
	}
}

// wakeQuotaWaiters lets everything that waits for quota try again.
func (s *Store) wakeQuotaWaiters() {
	s.wakeParked(s.quotaParked)
	if len(s.quotaWaiters) > 0 {
		s.waker.Add(quotaKey)
	}
}

// wakeParked has the gangs of a set judged again, and empties it.
func (s *Store) wakeParked(gangs sets.Set[Key]) {
	for key := range gangs {
		if g := s.gangs[key]; g != nil {
			g.parked = false
			s.waker.Add(key)
		}
	}
	gangs.Clear()
}

func (s *Store) quotaWaitersToWake() deeds {
	var d deeds
	for uid, pod := range s.quotaWaiters {
		d.activate = append(d.activate, pod)
		delete(s.quotaWaiters, uid)
	}
	return d
}

// HelpedBy says whether an event may help the gang for which a pod is parked, and with which pod to ask the plugin that
// stood in the way. Events of the gang's own pods count too: room that its members gave up may be seen only after the
// gang was judged again.
func (s *Store) HelpedBy(pod *corev1.Pod, plugin string) (rejected *corev1.Pod, ask bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, m := s.find(pod.UID)
	if m == nil || !g.parked || g.scout != pod.UID || !g.rejectors.Has(plugin) {
		return nil, false
	}
	return g.rejected, true
}

func uids(members []*gang.Member) []types.UID {
	out := make([]types.UID, 0, len(members))
	for _, m := range members {
		out = append(out, m.UID)
	}
	return out
}

func pods(members []*gang.Member) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(members))
	for _, m := range members {
		out = append(out, m.Pod)
	}
	return out
}
