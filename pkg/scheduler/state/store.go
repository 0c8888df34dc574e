// Package state is what Muster's scheduler plugins share: the gangs and their members, what was promised to them, and
// which of them are parked. There is one Store in a process; the plugins of all profiles use it, so that there is one truth.
//
// Locks: the scheduling queue calls into the Store while it holds its own lock (PreEnqueue, queueing hints). So the Store
// never calls the queue while it holds its own: it collects what to do and does it after unlocking, or hands it to the waker.
package state

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/util/workqueue"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	schedulingx "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/resources"
)

// Key names a gang: its PodGroup.
type Key struct {
	// Namespace and Name of the PodGroup.
	Namespace, Name string
	// Foreign says that the PodGroup is of the API of scheduler-plugins, not of ours.
	Foreign bool
}

// String is unique among keys.
func (k Key) String() string {
	if k.Foreign {
		return schedulingx.SchemeGroupVersion.Group + "/" + k.Namespace + "/" + k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Store is the shared state. Make it with New, start it with Start.
type Store struct {
	clock   clock.Clock
	args    config.CoschedulingArgs
	argsOf  map[string]config.CoschedulingArgs // by profile
	ledger  *ledger.Ledger
	metrics *gangMetrics

	connect   Connector
	startOnce sync.Once
	startErr  error
	handle    fwk.Handle
	waker     workqueue.TypedDelayingInterface[Key]
	reporter  workqueue.TypedDelayingInterface[Key]
	follows   atomic.Bool // another process may lead: nothing is written
	speaks    atomic.Bool // the scheduler leaves it to the Store to say why members of gangs wait
	classes   schedulinglisters.PriorityClassLister
	order     sync.Map // pod UID -> *OrderKey; read by QueueSort without the lock
	binding   bindings
	read      latch // opens when everything has been read, or when nothing will be any more

	mu            sync.Mutex
	synced        bool
	quotaOn       bool                      // the Capacity plugin is part of a profile
	schedulers    sets.Set[string]          // the profiles' names: whose waiting pods are ours
	gangs         map[Key]*group            //
	admitted      map[Key]*group            // those of them whose round is going on
	podGang       map[types.UID]*group      // pod -> its gang
	settled       sets.Set[types.UID]       // pods that are charged and, as the API says, bound: their charge stays until they are gone
	gone          recent                    // members that were deleted a short while ago
	quotaWaiters  map[types.UID]*corev1.Pod // single pods that wait for quota
	quotaParked   sets.Set[Key]             // gangs that wait for quota
	promiseParked sets.Set[Key]             // gangs that may only wait for what is promised to others
	toJudge       map[Key]time.Time         // gangs that something may have helped since then and that are not judged yet
	nominated     sets.Set[types.UID]       // waiting members that the scheduler keeps room on a node for
	yielded       map[types.UID]*corev1.Pod // surplus that stands back for those, and who has left its gang
	left          map[types.UID]*corev1.Pod // who has left its gang; the queue may not have heard of it
	strays        map[types.UID]Key         // those of them that hold room, and the gangs that they have left
	unasked       map[Key]*group            // gangs that are to be judged though nothing has happened that could help them
	crowd         int                       // how many pods are in parked gangs, as of the last look
	lostWakeups   int                       // gangs that nobody woke and that fitted
	roundsEnded   int                       // how many promises were given back
	claims        map[types.UID]claim       // members that are about to be evicted by preemption
	sacrifices    map[types.UID]sacrifice   // what was evicted for pods that are not bound yet
	asides        asides                    // what is set aside for a gang that has waited too long
	lines         map[string]*line          // queue -> the gangs that wait for its quota
	savedFor      []*group                  // those of them for which quota is set aside, in order
	asleep        sleep                     // who has left the scheduling queue
}

// New makes an empty Store. The arguments are those of the Coscheduling plugin.
func New(clock clock.Clock) *Store {
	return &Store{
		clock:         clock,
		connect:       connect,
		args:          config.CoschedulingArgs{Admission: config.AdmissionRequired},
		argsOf:        map[string]config.CoschedulingArgs{},
		ledger:        ledger.New(),
		metrics:       newGangMetrics(),
		waker:         newQueue(clock, "gang_wake"),
		reporter:      newQueue(clock, "gang_report"),
		binding:       newBindings(),
		read:          newLatch(),
		schedulers:    sets.New[string](),
		gangs:         map[Key]*group{},
		admitted:      map[Key]*group{},
		podGang:       map[types.UID]*group{},
		settled:       sets.New[types.UID](),
		quotaWaiters:  map[types.UID]*corev1.Pod{},
		quotaParked:   sets.New[Key](),
		promiseParked: sets.New[Key](),
		toJudge:       map[Key]time.Time{},
		unasked:       map[Key]*group{},
		nominated:     sets.New[types.UID](),
		yielded:       map[types.UID]*corev1.Pod{},
		left:          map[types.UID]*corev1.Pod{},
		strays:        map[types.UID]Key{},
		claims:        map[types.UID]claim{},
		sacrifices:    map[types.UID]sacrifice{},
		asides:        asides{waiters: map[types.UID]*corev1.Pod{}, broken: map[Key]*group{}},
		lines:         map[string]*line{},
		asleep:        sleep{pods: map[types.UID]Key{}, behind: map[string]map[Key]*group{}, hints: map[string][]Hint{}},
	}
}

func newQueue(clock clock.Clock, name string) workqueue.TypedDelayingInterface[Key] {
	return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{Clock: delayClock(clock), Name: name})
}

// delayClock is the clock as the work queue wants it, or the real one.
func delayClock(c clock.Clock) clock.WithTicker {
	if ticker, ok := c.(clock.WithTicker); ok {
		return ticker
	}
	return clock.RealClock{}
}

// EnforceQuota makes gangs wait for the quota of their queue. The Capacity plugin calls it.
func (s *Store) EnforceQuota() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quotaOn = true
}

// Serve counts the waiting pods of a scheduler name as ours.
func (s *Store) Serve(schedulerName string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedulers.Insert(schedulerName)
}

// Ledger is the ledger of charges and promises.
func (s *Store) Ledger() *ledger.Ledger { return s.ledger }

// groupOf finds the gang that a pod names, by our annotation or by the label of scheduler-plugins; false for a pod without
// a gang.
func groupOf(pod *corev1.Pod) (Key, bool) {
	if pod.Spec.SchedulingGroup != nil {
		return Key{}, false // the native gang plugin's
	}
	if name := pod.Annotations[schedulingv1beta1.GroupNameAnnotation]; name != "" {
		return Key{Namespace: pod.Namespace, Name: name}, true
	}
	if name := pod.Labels[schedulingx.PodGroupLabel]; name != "" {
		return Key{Namespace: pod.Namespace, Name: name, Foreign: true}, true
	}
	return Key{}, false
}

// IsMember says whether a pod names a gang.
func IsMember(pod *corev1.Pod) bool {
	_, member := groupOf(pod)
	return member
}

// setPhase begins or ends a gang's round.
func (s *Store) setPhase(g *group, p phase) {
	g.phase = p
	if p == admitted {
		s.admitted[g.key] = g
	} else {
		delete(s.admitted, g.key)
	}
}

func (s *Store) group(key Key) *group {
	g, ok := s.gangs[key]
	if !ok {
		g = &group{key: key, since: s.clock.Now(), bound: -1, allowed: sets.New[types.UID]()}
		s.gangs[key] = g
	}
	return g
}

// dropIfEmpty forgets a gang of which nothing is left.
func (s *Store) dropIfEmpty(g *group) {
	if !g.known && g.Len() == 0 {
		s.ledger.DropPromise(g.key.String())
		s.endShortage(g)
		delete(s.toJudge, g.key)
		delete(s.unasked, g.key)
		delete(s.asides.broken, g.key)
		s.quotaParked.Delete(g.key)
		s.promiseParked.Delete(g.key)
		s.asleep.forget(g.key)
		delete(s.gangs, g.key)
	}
}

// SetPod takes over what a pod looks like now. It may be called for the same pod any number of times, as its informer tells.
func (s *Store) SetPod(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone.forget(pod.UID)
	if pod.Spec.NodeName != "" {
		s.useEvictions(pod)
	}
	s.setPod(pod)
}

func (s *Store) setPod(pod *corev1.Pod) *group {
	key, ok := groupOf(pod)
	s.leaveUnless(key, pod)
	s.noteWhereabouts(pod, ok)
	if !ok || s.notOurs(pod) {
		s.charge(pod, "", nil)
		return nil
	}
	g := s.group(key)
	if old := g.Member(pod.UID); old == nil || old.Pod != pod { // else the gate has seen it first
		s.setMember(g, old, member(pod, old))
	}
	return g
}

// setMember takes over what a member is like now. old is what it was like, nil if it is new.
func (s *Store) setMember(g *group, old, m *gang.Member) {
	incarnation := g.Version()
	s.book(g, old, m)
	switch {
	case standsAs(old, m):
		if m.State != gang.Bound && mayFitNow(old.Pod, m.Pod) {
			s.changed(g)
			s.waker.Add(g.key)
		}
		return
	case g.phase == admitted && (g.Version() != incarnation || m.Terminating && s.isMissed(g, m)):
		s.letGo(g, "")
	case g.phase == admitted && m.State == gang.Bound:
		s.foundBound(g, m)
	case g.scout == m.UID && (m.Terminating || m.State == gang.Bound):
		g.scout = ""
	}
	s.changed(g)
	g.forgetBindFailures()
	s.reachBinding(g)
	s.promiseBroken(g)
	switch {
	case old != nil || m.State != gang.Waiting:
		s.waker.Add(g.key)
	case g.scout != "":
		s.unpark(g)
		s.judgeSoon(g) // the gate is closed to who comes behind the scout, and the scout may be parked, or asleep
	} // else a new waiting pod is on its way through the gate by itself
}

// book writes down what a member is like now.
func (s *Store) book(g *group, old, m *gang.Member) {
	incarnation := g.Version()
	g.share(m)
	g.Put(m)
	s.vouch(g, m)
	if old == nil {
		g.joined, g.reportWhole = s.clock.Now(), false
	}
	if g.Version() > incarnation {
		g.beginIncarnation()
	}
	if m.State == gang.Bound {
		g.allowed.Delete(m.UID)
	}
	s.podGang[m.UID] = g
	s.noteNomination(m)
	s.charge(m.Pod, g.queue, m.Requests)
}

// standsAs says whether a member counts as it did.
func standsAs(old, m *gang.Member) bool {
	return old != nil && old.State == m.State && old.Terminating == m.Terminating && old.Version == m.Version && old.Task == m.Task
}

// beginIncarnation forgets what holds for earlier incarnations of the gang only: this one has yet to be bound.
func (g *group) beginIncarnation() {
	g.reached = g.bound >= g.Version()
	g.brokenSince, g.hearsUntil = time.Time{}, time.Time{}
}

// noteWhereabouts forgets what a pod has gone away from that is back, or has a node.
func (s *Store) noteWhereabouts(pod *corev1.Pod, member bool) {
	assigned := pod.Spec.NodeName != ""
	if member || assigned {
		delete(s.left, pod.UID)
	}
	if assigned {
		delete(s.strays, pod.UID)
		delete(s.asleep.pods, pod.UID)
	}
}

// changed ends what a judgement of a gang has found: the gang, or a member, is not what was judged.
func (s *Store) changed(g *group) {
	g.parked = false
	delete(s.unasked, g.key)
	g.changes++
}

// mayFitNow says whether a change of a waiting pod may let it onto a node that it had no place on. The queue tells the plugins
// of it when they rejected this very pod; but a gang is parked under the name of its scout.
func mayFitNow(old, pod *corev1.Pod) bool {
	return slices.ContainsFunc(framework.PodSchedulingPropertiesChange(pod, old, true), func(e fwk.ClusterEvent) bool {
		return e.ActionType != fwk.Update // which stands for changes that upstream's plugins do not look at
	})
}

// leaveUnless takes a pod out of its gang if it names another now, or none. The gate may have been closed to it for the gang's sake.
func (s *Store) leaveUnless(key Key, pod *corev1.Pod) {
	if g, m := s.find(pod.UID); m != nil && g.key != key {
		if m.State == gang.Reserved {
			s.strays[m.UID] = g.key // in Permit it waits for a gang that is its own no more
		}
		s.leave(g, m)
		if pod.Spec.NodeName == "" {
			s.left[pod.UID], s.yielded[pod.UID] = pod, pod
		}
	}
}

// noteNomination remembers which waiting members the scheduler keeps room for.
func (s *Store) noteNomination(m *gang.Member) {
	s.nominated.Delete(m.UID)
	if m.State == gang.Waiting && m.Pod.Status.NominatedNodeName != "" {
		s.nominated.Insert(m.UID)
	}
}

// foundBound ends the promise to a member that was bound although the answer said that it was not, or by somebody else.
func (s *Store) foundBound(g *group, m *gang.Member) {
	s.takePlace(g, m)
	s.endIfSeated(g)
}

// endIfSeated ends a round whose gang became seated without a cycle of its own. Members may be in Permit's waiting room.
func (s *Store) endIfSeated(g *group) {
	if g.phase == admitted && g.staysSeated() {
		s.endRound(g)
		g.sweep = true
	}
}

// notOurs says whether a pod waits for something that is not ours to give: another scheduler, or whoever set its
// scheduling gates. It becomes a member when it has a node or the gates are gone.
func (s *Store) notOurs(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && (len(pod.Spec.SchedulingGates) > 0 || !s.schedulers.Has(pod.Spec.SchedulerName))
}

// toCome are the members that were chosen and hold no room yet.
func (s *Store) toCome(g *group) []*gang.Member {
	var members []*gang.Member
	for uid := range g.chosen {
		if m := g.Member(uid); m != nil {
			members = append(members, m)
		}
	}
	return members
}

// isMissed says whether a round cannot do without a member that goes: it is part of it, or it was bound before and the
// minimum needs it.
func (s *Store) isMissed(g *group, m *gang.Member) bool {
	return s.comes(g, m) || !g.SeatedWith(s.toCome(g))
}

// comes says whether a member is part of the round that is going on: chosen, or reserved already. Who is being bound is of an earlier one.
func (s *Store) comes(g *group, m *gang.Member) bool {
	_, chosen := g.chosen[m.UID]
	return chosen || m.State == gang.Reserved && !g.allowed.Has(m.UID)
}

// DeletePod forgets a pod and takes its charge back.
func (s *Store) DeletePod(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order.Delete(pod.UID)
	s.useEvictions(pod)
	delete(s.quotaWaiters, pod.UID)
	delete(s.yielded, pod.UID)
	delete(s.left, pod.UID)
	delete(s.strays, pod.UID)
	delete(s.asides.waiters, pod.UID)
	delete(s.asleep.pods, pod.UID)
	s.nominated.Delete(pod.UID)
	s.settled.Delete(pod.UID)
	if s.ledger.Release(pod.UID) {
		s.wakeQuotaWaiters()
	}
	if _, member := groupOf(pod); member {
		s.gone.note(pod.UID, s.clock.Now())
	}
	if g, m := s.find(pod.UID); m != nil {
		s.listen(g, m, pod)
		s.leave(g, m)
	}
}

// listen has a gang wait for a moment when a bound member is gone that nobody has told to go: it has ended, and only the PodGroup's status
// says whether it has succeeded, and counts. (The scheduler does not see pods that have.) Until then a replacement, or surplus, would be
// taken for what the minimum lacks, and go before everybody.
func (s *Store) listen(g *group, m *gang.Member, last *corev1.Pod) {
	if g.known && m.State == gang.Bound && g.Counts(m) && last.DeletionTimestamp == nil && !g.hears(s.clock.Now()) {
		g.hearsUntil = s.clock.Now().Add(hearFor)
	}
}

// hearFor is how long a gang waits to hear how its members have ended. Nobody may ever say.
const hearFor = 500 * time.Millisecond

// hears says whether a gang that was bound waits to hear how its members have ended.
func (g *group) hears(now time.Time) bool { return now.Before(g.hearsUntil) && g.reached }

// leave takes a pod out of its gang.
func (s *Store) leave(g *group, m *gang.Member) {
	delete(s.podGang, m.UID)
	delete(s.asleep.pods, m.UID)
	if g.Remove(m.UID); g.Len() == 0 {
		g.requests = nil
	}
	g.allowed.Delete(m.UID)
	if g.scout == m.UID {
		g.scout = ""
	}
	if g.phase == admitted && s.isMissed(g, m) {
		s.letGo(g, "")
	}
	s.changed(g)
	s.promiseBroken(g)
	s.waker.Add(g.key)
	s.reportLater(g)
	s.dropIfEmpty(g)
}

// find returns a pod's gang and its member there, or nil.
func (s *Store) find(uid types.UID) (*group, *gang.Member) {
	g := s.podGang[uid]
	if g == nil {
		return nil, nil
	}
	return g, g.Member(uid)
}

// charge books what a bound pod uses of its queue. A pod that names no queue is charged nowhere. What it was charged before,
// while it was reserved and its gang was in another queue, may be what others wait for. The requests are the pod's, or nil: then
// they are counted if they are needed.
func (s *Store) charge(pod *corev1.Pod, queue string, requests resources.List) {
	if queue == "" {
		queue = pod.Annotations[schedulingv1beta1.QueueNameAnnotation]
	}
	if pod.Spec.NodeName == "" {
		return
	}
	var freed bool
	if queue == "" {
		s.settled.Delete(pod.UID)
		freed = s.ledger.Release(pod.UID)
	} else {
		s.settled.Insert(pod.UID)
		if requests == nil {
			requests = resources.PodRequests(pod)
		}
		freed = s.ledger.Charge(pod.UID, queue, requests)
	}
	if freed {
		s.wakeQuotaWaiters()
	}
}

// moveCharges books what the members of a gang use where it belongs now, and wakes those who wait for what that frees.
func (s *Store) moveCharges(g *group) {
	for _, m := range g.Members() {
		s.charge(m.Pod, g.queue, m.Requests)
	}
}

// SetPodGroup takes over what a PodGroup asks for.
func (s *Store) SetPodGroup(pg *schedulingv1beta1.PodGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setPodGroup(Key{Namespace: pg.Namespace, Name: pg.Name}, pg)
}

func (s *Store) setPodGroup(key Key, pg *schedulingv1beta1.PodGroup) {
	g := s.group(key)
	if !g.known || g.uid != pg.UID {
		s.letGo(g, "")
		s.endShortage(g)
		g.since, g.priority, g.reached, g.milestones = pg.CreationTimestamp.Time, nil, false, milestones{}
		g.hearsUntil = time.Time{}
		g.told, g.announced = "", verdict{} // nobody has been told of this one
		g.vouched = false
	}
	moved := g.queue != pg.Spec.Queue
	if moved {
		s.letGo(g, "") // what it was promised is of the quota of another queue
		s.endQuotaShortage(g)
	}
	if g.Succeeded != int(pg.Status.Succeeded) || g.failed != pg.Status.Failed {
		g.hearsUntil = time.Time{}
	}
	g.known, g.uid, g.version, g.pgPhase = true, pg.UID, pg.ResourceVersion, pg.Status.Phase
	g.queue, g.class, g.job = pg.Spec.Queue, pg.Spec.PriorityClassName, jobOf(pg)
	g.bound, g.failed = boundOnce(pg), pg.Status.Failed
	g.reached = g.reached || g.bound >= g.Version()
	g.Spec = gang.Spec{
		MinMember: int(pg.Spec.MinMember), MinTaskMember: map[string]int{},
		Succeeded: int(pg.Status.Succeeded), SucceededOf: saidOf(pg),
	}
	for task, n := range pg.Spec.MinTaskMember {
		g.MinTaskMember[task] = int(n)
	}
	if !g.pgPhase.Admitted() {
		for _, m := range g.Members() {
			s.vouch(g, m)
		}
	}
	if moved {
		s.moveCharges(g)
		s.wakeQuotaWaiters() // of its own waiting members too
	}
	s.changed(g)
	s.endIfSeated(g) // the minimum was lowered to what is reserved already
	if g.phase == admitted && !g.SeatedWith(s.toCome(g)) {
		s.letGo(g, "") // the minimum was raised above those that were chosen
	}
	s.promiseBroken(g)
	s.waker.Add(g.key)
	s.reportLater(g)
}

// saidOf is the incarnation that a PodGroup's status is about. One that does not say so is believed of any.
func saidOf(pg *schedulingv1beta1.PodGroup) int64 {
	if pg.Status.JobVersion == nil {
		return math.MaxInt64
	}
	return int64(*pg.Status.JobVersion)
}

// boundOnce is the last incarnation of a gang whose minimum was bound at some time, -1 if none was. While a Job restarts, the phase is
// still that of the pods that go.
func boundOnce(pg *schedulingv1beta1.PodGroup) int64 {
	version, begunAnew := saidOf(pg), ptr.Deref(pg.Status.JobVersion, 0) > 0
	switch pg.Status.Phase {
	case schedulingv1beta1.PodGroupRunning, schedulingv1beta1.PodGroupCompleted, schedulingv1beta1.PodGroupUnknown:
		if !begunAnew {
			return version
		}
	}
	for _, condition := range pg.Status.Conditions {
		if condition.Type == schedulingv1beta1.PodGroupScheduled {
			return version
		}
	}
	return -1
}

// DeletePodGroup forgets a PodGroup. Its members wait for another of the same name.
func (s *Store) DeletePodGroup(pg *schedulingv1beta1.PodGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deletePodGroup(Key{Namespace: pg.Namespace, Name: pg.Name}, pg.UID)
}

func (s *Store) deletePodGroup(key Key, uid types.UID) {
	g, ok := s.gangs[key]
	if !ok || g.known && g.uid != uid {
		return
	}
	s.letGo(g, "")
	s.endShortage(g)
	g.known, g.reached, g.bound, g.priority, g.queue = false, false, -1, nil, ""
	s.moveCharges(g)
	s.promiseBroken(g)
	s.reportLater(g)
	s.dropIfEmpty(g)
}

// SetQueue takes over the parent and the capability of a queue, and wakes what may have been waiting for that.
func (s *Store) SetQueue(queue *schedulingv1beta1.Queue) {
	s.ledger.SetQueue(queue)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeQuotaWaiters()
}

// DeleteQueue forgets a queue.
func (s *Store) DeleteQueue(queue *schedulingv1beta1.Queue) {
	s.ledger.DeleteQueue(queue.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeQuotaWaiters()
}

// promiseBroken sets the quota aside that a gang found bound below its minimum lacks: it must be able to complete. What it does
// not lack any more others may have. One that has reached its minimum is remembered: what becomes of it later is not the
// scheduler's to decide.
func (s *Store) promiseBroken(g *group) {
	g.reached = g.reached || g.known && g.Started()
	s.noteBroken(g)
	if g.phase == admitted {
		return
	}
	lacks := resources.List{}
	if g.known && g.queue != "" && g.Broken() {
		lacks = requests(g.Choose())
		if g.brokenSince.IsZero() {
			g.brokenSince = s.clock.Now()
		}
	} else {
		g.brokenSince = time.Time{}
	}
	if s.ledger.Promise(g.key.String(), g.queue, lacks) {
		s.wakeQuotaWaiters()
	}
}

func requests(members []*gang.Member) resources.List {
	sum := resources.List{}
	for _, m := range members {
		sum.Add(m.Requests)
	}
	return sum
}

// member reads a pod. old is what the member was like, nil if it is new.
func member(pod *corev1.Pod, old *gang.Member) *gang.Member {
	m := &gang.Member{
		UID:         pod.UID,
		Pod:         pod,
		Task:        pod.Annotations[batchv1alpha1.TaskSpecKey],
		Priority:    corev1helpers.PodPriority(pod),
		Requests:    requestsOf(pod, old),
		Terminating: pod.DeletionTimestamp != nil,
	}
	if index, err := strconv.Atoi(pod.Annotations[batchv1alpha1.TaskIndexKey]); err == nil {
		m.Index = index
	}
	if version, err := strconv.ParseInt(pod.Annotations[batchv1alpha1.JobVersionKey], 10, 64); err == nil {
		m.Version = version
	}
	if pod.Spec.NodeName != "" {
		m.State = gang.Bound
	}
	return m
}

// requestsOf is what a pod requests, which only a change of its spec changes. Most changes are of its status.
func requestsOf(pod *corev1.Pod, old *gang.Member) resources.List {
	if old != nil && pod.Generation > 0 && pod.Generation == old.Pod.Generation {
		return old.Requests
	}
	return resources.PodRequests(pod)
}

// gangPriority is the value of the PodGroup's class, or the highest priority among the members. It is fixed when the gate
// opens first, because it orders the gang in a heap.
func (s *Store) gangPriority(g *group) int32 {
	if g.priority != nil {
		return *g.priority
	}
	priority, ok := s.classValue(g.class)
	if !ok {
		for i, m := range g.Members() {
			if i == 0 || m.Priority > priority {
				priority = m.Priority
			}
		}
	}
	g.priority = &priority
	return priority
}

func (s *Store) classValue(name string) (int32, bool) {
	if name == "" || s.classes == nil {
		return 0, false
	}
	class, err := s.classes.Get(name)
	if err != nil {
		return 0, false
	}
	return class.Value, true
}
