// Package state has all gangs and their members, charges, and lists of what waits, behind one lock. Apply is the only function that passes
// consequences on. The package knows no informer, no plugin and no client.
//
// Locks: the scheduling queue calls the tracker while it holds its own lock (PreEnqueue, queueing hints). So nothing here calls the queue.
// Apply marks the gang, and package dispatch acts without the lock. Verbs that plugins call take the lock. All others expect it to be held.
package state

import (
	"slices"
	"sync"
	"time"

	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
)

// State is what is known of all gangs, with its lock. It has the verbs that all others use. It knows none of them.
type State struct {
	Clock     clock.Clock
	Metrics   *gangmetrics.Metrics
	Dirty     workqueue.TypedDelayingInterface[Key] // gangs to be looked at by the dispatcher
	Reports   workqueue.TypedDelayingInterface[Key] // gangs that the reporter should look at
	Classes   schedulinglisters.PriorityClassLister
	PodLister corelisters.PodLister // nil before the start

	PodGroupRequired sync.Map // profiles whose pods wait until they have a PodGroup; the gate reads it without the lock

	sync.Mutex
	Settings   settings
	Synced     bool // everything has been read
	Gangs      map[Key]*gang.Group
	Attempting map[Key]*gang.Group       // the ones whose attempt goes on
	Members    map[types.UID]*gang.Group // pod -> its gang
	Detached   map[types.UID]*corev1.Pod // pods that have left their gang, until the queue knows
	Outsiders  outsiders                 // pods that name a gang and wait for another component
	Leaving    sets.Set[types.UID]       // pods that have left their gang, or are gone, and hold room that they are to give back
	Unseen     map[types.UID]*corev1.Pod // pods that the gate held because the tracker had not seen them
	Woken      sets.Set[Key]             // gangs that are to be decided again and that the dispatcher has not looked at since
	seen       int64                     // gangs seen so far

	charges *charges
	Waiting *waiting
	Claims  *Claims
	Changes int64 // of what searches for victims depend on, without those of the ledger
}

// New makes an empty state.
func New(c clock.Clock) *State {
	return &State{
		Clock:   c,
		Metrics: gangmetrics.New(),
		Dirty:   newQueue(c, "gang_actions"),
		Reports: newQueue(c, "gang_reports"),
		Settings: settings{
			Args: config.CoschedulingArgs{Admission: config.AdmissionRequired}, Of: map[string]config.CoschedulingArgs{}, Profiles: sets.New[string](),
		},
		Gangs:      map[Key]*gang.Group{},
		Attempting: map[Key]*gang.Group{},
		Members:    map[types.UID]*gang.Group{},
		Detached:   map[types.UID]*corev1.Pod{},
		Outsiders:  outsiders{of: map[types.UID]outsider{}, count: map[outsider]int{}},
		Leaving:    sets.New[types.UID](),
		Unseen:     map[types.UID]*corev1.Pod{},
		Woken:      sets.New[Key](),
		charges:    newCharges(),
		Waiting:    newWaiting(),
		Claims:     &Claims{clock: c, Of: map[types.UID]Claim{}, OnGang: map[*gang.Group]int{}},
	}
}

// settings are the arguments of the Coscheduling plugin.
type settings struct {
	Args     config.CoschedulingArgs
	Of       map[string]config.CoschedulingArgs // by profile
	Profiles sets.Set[string]                   // the profiles whose waiting pods are ours
}

func newQueue(c clock.Clock, name string) workqueue.TypedDelayingInterface[Key] {
	config := workqueue.TypedDelayingQueueConfig[Key]{Name: name}
	if ticker, ok := c.(clock.WithTicker); ok {
		config.Clock = ticker
	}
	return workqueue.NewTypedDelayingQueueWithConfig(config)
}

// Group returns a gang, which it makes if needed.
func (t *State) Group(key Key) *gang.Group {
	g, ok := t.Gangs[key]
	if !ok {
		t.seen++
		g = &gang.Group{Key: key, Seen: t.seen, PodGroup: gang.PodGroup{Created: t.Clock.Now(), Bound: -1}}
		t.Gangs[key] = g
	}
	return g
}

// Find returns a pod's gang and its member there, or nil.
func (t *State) Find(uid types.UID) (*gang.Group, *gang.Member) {
	g := t.Members[uid]
	if g == nil {
		return nil, nil
	}
	return g, g.Member(uid)
}

const (
	// WakeDelay gathers all gangs that one event may help, so that they are tried in order.
	WakeDelay = 2 * time.Millisecond
	// DecisionPause is the least time between two decisions on a gang that does not fit. On a busy cluster every pod that goes is an event.
	DecisionPause = 50 * time.Millisecond
	// SearchPause is the pause after a search that failed, as a multiple of the search's own duration. It keeps searches a small part of
	// the scheduler's time.
	SearchPause = 20
)

// IsSingle says whether a pod is a single pod or surplus. A pod may cease to be one while it waits. It is given a PodGroup, or its
// gang has lost members. Then only events that help its gang may have it tried.
func (t *State) IsSingle(pod *corev1.Pod) bool {
	g, m := t.Find(pod.UID)
	return m == nil || g.Seated()
}

// TakeSingles empties a set of waiting pods. It returns the pods that are single or surplus still.
func (t *State) TakeSingles(waiting map[types.UID]*corev1.Pod) []*corev1.Pod {
	return t.OnlySingles(TakeAll(waiting))
}

// OnlySingles drops members of gangs that do not run.
func (t *State) OnlySingles(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !t.IsSingle(pod) })
}

// TakeAll empties a set of waiting pods.
func TakeAll(waiting map[types.UID]*corev1.Pod) []*corev1.Pod {
	all := make([]*corev1.Pod, 0, len(waiting))
	for uid, pod := range waiting {
		all = append(all, pod)
		delete(waiting, uid)
	}
	return all
}

// TickPeriod is how often gangs that are not at rest are looked at again, for actions that came too early.
const TickPeriod = time.Second

// Status computes the phase of the gang.
func (t *State) Status(g *gang.Group) gang.Status {
	return g.Status(t.IsAdmitted(g), g.Seated() && t.Claims.isPreempted(g), t.Clock.Now())
}

// IsRepairOver says whether the time is over in which a gang that is bound below its minimum goes first.
func (t *State) IsRepairOver(g *gang.Group, now time.Time) bool {
	return !g.PartialSince.IsZero() && now.Sub(g.PartialSince) > t.Settings.Args.PartialGangTimeout.Duration
}

// KeyOf returns the gang of a pod. A pod that must have a PodGroup and names none is a gang of its own, whose PodGroup is missing.
func (t *State) KeyOf(pod *corev1.Pod) (Key, bool) {
	if key, ok := gang.KeyOf(pod); ok {
		return key, true
	}
	if _, required := t.PodGroupRequired.Load(pod.Spec.SchedulerName); required && awaitsPodGroup(pod) {
		return gang.AwaitingKey(pod), true
	}
	return Key{}, false
}

// awaitsPodGroup says whether a pod waits until muster-controller has given it a PodGroup. Scheduling gates hold a pod by themselves.
func awaitsPodGroup(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 && gang.LacksPodGroup(pod)
}

// IsOfOthers says whether a pod waits for another component: another scheduler, or the removal of its scheduling gates. It becomes a member
// when it has a node or the gates are gone.
func (t *State) IsOfOthers(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && (len(pod.Spec.SchedulingGates) > 0 || !t.Settings.Profiles.Has(pod.Spec.SchedulerName))
}

// IsAdmitted says whether a gang need not wait for its queue. PodGroups of scheduler-plugins never do, unless their members name different
// queues.
func (t *State) IsAdmitted(g *gang.Group) bool {
	if g.IsDisputed() {
		return false
	}
	if g.Key.Foreign || t.Settings.Args.Admission != config.AdmissionRequired {
		return true
	}
	return g.PodGroup.Phase.Admitted() && !t.charges.LacksQueue(g)
}

// settleRepair finds out whether a gang is under repair. It keeps quota assumed for the missing members, if the queue has so much. The gang
// must be able to complete. It releases quota that the gang does not lack any more.
func (t *State) settleRepair(g *gang.Group) gang.Effects {
	g.MinimumBound = g.MinimumBound || g.PodGroup.Exists && (g.Started() || g.PodGroup.Bound >= g.Version())
	if g.FixedPriority != nil {
		t.Waiting.Book.Rerank(g.Key, t.Rank(g))
	}
	if g.Attempt != nil {
		return gang.Effects{}
	}
	lacks := gang.Requests(nil)
	if g.UnderRepair = false; !g.PodGroup.Exists || !g.Partial() {
		g.PartialSince = time.Time{}
	} else {
		if g.PartialSince.IsZero() {
			g.PartialSince = t.Clock.Now()
		}
		missing := g.Choose()
		g.UnderRepair = !t.IsRepairOver(g, t.Clock.Now()) && (!g.MinimumBound || g.Replace(missing))
		lacks = gang.Requests(missing)
	}
	account := g.PodGroup.Account
	if !g.UnderRepair || account == "" || t.charges.Ledger.RoomFor(g.Key.String(), nil, account, lacks) != nil {
		lacks = nil
	}
	return gang.Freed(t.charges.Ledger.Assume(g.Key.String(), account, lacks))
}

// Rank orders the gang among the waiting gangs.
func (t *State) Rank(g *gang.Group) reservations.Rank {
	return reservations.Rank{Repair: g.NeedsRepair(), Priority: t.PriorityOf(g), Since: g.PodGroup.Created, Seen: g.Seen, Queue: t.charges.QueueOf(g.PodGroup.Account)}
}

// PriorityOf is the priority of the whole gang. The class of a PodGroup without pods gives it none.
func (t *State) PriorityOf(g *gang.Group) int32 {
	if g.FixedPriority != nil {
		return *g.FixedPriority
	}
	priority := g.Priority(t.ClassValue(g.PodGroup.Class))
	if g.Len() == 0 {
		return min(0, priority)
	}
	return priority
}

// FixPriority has the priority of a gang stay as it is. It is called when the gang is decided, or a member passes the gate.
func (t *State) FixPriority(g *gang.Group) {
	if g.FixedPriority == nil {
		g.FixedPriority = ptr.To(t.PriorityOf(g))
	}
}

// ClassValue is the value of a PriorityClass, nil if it does not exist.
func (t *State) ClassValue(name string) *int32 {
	if name == "" || t.Classes == nil {
		return nil
	}
	class, err := t.Classes.Get(name)
	if err != nil {
		return nil
	}
	return &class.Value
}

// TryAgain has a single pod or surplus activated after a while.
func (t *State) TryAgain(pod *corev1.Pod, after time.Duration) gang.Effects {
	if !t.IsSingle(pod) {
		return gang.Effects{}
	}
	t.Waiting.Ready[pod.UID] = pod
	return gang.TriedIn(after)
}

// Known returns a pod as the informer has it, nil if it is gone there. The end of a pod that it has is still to be reported by DeletePod.
func (t *State) Known(pod *corev1.Pod) *corev1.Pod {
	if t.PodLister == nil {
		return pod
	}
	if known, err := t.PodLister.Pods(pod.Namespace).Get(pod.Name); err == nil && known.UID == pod.UID {
		return known
	}
	return nil
}
