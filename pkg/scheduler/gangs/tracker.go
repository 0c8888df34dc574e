// Package gangs has the scheduler's state of gangs, and decides their next steps. There is one Tracker in a process; the plugins of all
// profiles share it.
//
// Three loops use it. Informers tell it of pods, PodGroups and queues (SetPod and the like). A scheduling cycle of a gang's scout takes a
// Snapshot, has package placement decide, and calls Commit; the cycles of the members that start then call Reserve and Permit. The
// dispatcher asks for the actions of each gang that has changed (nextActions), and carries them out.
//
// Locks: the scheduling queue calls the Tracker while it holds its own lock (PreEnqueue, queueing hints). So the Tracker never calls the
// queue while it is locked: it marks the gang (apply), and the dispatcher acts.
package gangs

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/reservations"
)

// Tracker is what all plugins share. Make it with New, start it with Feed.Start. It has one part for each of its users. The parts share its
// lock.
type Tracker struct {
	// Feed tells the tracker what is in the API.
	Feed *Feed
	// Leadership is whether this process runs scheduling cycles.
	Leadership *Leadership
	// Order has the sort keys of pods.
	Order *Order
	// Decisions are the steps of a scout's cycle.
	Decisions *Decisions
	// WaitList is the book of waiting gangs.
	WaitList *WaitList
	// Quota has the charges of pods.
	Quota *Quota
	// Hints are the tracker's answers to queueing hints.
	Hints *Hints
	// Reports are the reporter's view of gangs.
	Reports *Reports
	// Victims is preemption's view of gangs.
	Victims *Victims
	// Evictions counts wasted evictions.
	Evictions *Evictions
	// Binds bounds how many members are bound at the same time.
	Binds *BindLimiter

	clock     clock.Clock
	metrics   *gangMetrics
	dirty     workqueue.TypedDelayingInterface[Key] // gangs to be looked at by the dispatcher
	classes   schedulinglisters.PriorityClassLister
	podLister corelisters.PodLister                        // nil before the start
	repairs   workqueue.TypedRateLimitingInterface[repair] // writes that are due

	podGroupRequired sync.Map // profiles whose pods wait until they have a PodGroup; the gate reads it without the lock

	mu         sync.Mutex
	settings   settings
	synced     bool // everything has been read
	gangs      map[Key]*group
	attempting map[Key]*group            // the ones whose attempt goes on
	members    map[types.UID]*group      // pod -> its gang
	detached   map[types.UID]*corev1.Pod // pods that have left their gang, until the queue knows
	outsiders  outsiders                 // pods that name a gang and wait for another component
	leaving    sets.Set[types.UID]       // pods that have left their gang, or are gone, and hold room that they are to give back
	unseen     map[types.UID]*corev1.Pod // pods that the gate held because the tracker had not seen them
	woken      sets.Set[Key]             // gangs that are to be decided again and that the dispatcher has not looked at since
	seen       int64                     // gangs seen so far
}

// settings are the arguments of the Coscheduling plugin.
type settings struct {
	args     config.CoschedulingArgs
	of       map[string]config.CoschedulingArgs // by profile
	profiles sets.Set[string]                   // the profiles whose waiting pods are ours
}

// held is the set of pods and gangs that wait for room that other gangs hold.
type held struct {
	gangs    sets.Set[Key]             // unschedulable gangs that may fit when assumed or reserved room is given back
	pods     map[types.UID]*corev1.Pod // pods that found no node because room is reserved, or needed by waiting gangs
	taken    bool                      // room was taken since the last tick: the pods may not block a gang any more where less is left
	retry    int                       // how many of these pods are still to be tried again
	returned int                       // how often held room or quota has been given back
	freed    int                       // how often a reservation of nodes, or a need on them, has ended
}

// New makes an empty tracker.
func New(c clock.Clock) *Tracker {
	t := &Tracker{
		clock:   c,
		metrics: newGangMetrics(),
		dirty:   newQueue(c, "gang_actions"),
		repairs: newRepairQueue(),
		settings: settings{
			args: config.CoschedulingArgs{Admission: config.AdmissionRequired}, of: map[string]config.CoschedulingArgs{}, profiles: sets.New[string](),
		},
		gangs:      map[Key]*group{},
		attempting: map[Key]*group{},
		members:    map[types.UID]*group{},
		detached:   map[types.UID]*corev1.Pod{},
		outsiders:  outsiders{of: map[types.UID]outsider{}, count: map[outsider]int{}},
		leaving:    sets.New[types.UID](),
		unseen:     map[types.UID]*corev1.Pod{},
		woken:      sets.New[Key](),
		Binds:      NewBindLimiter(),
	}
	t.Evictions = &Evictions{clock: c, made: map[types.UID]eviction{}, wasted: t.metrics.wasted}
	t.Feed, t.Quota = newFeed(t), newQuota(t)
	t.metrics.exists = t.Quota.Ledger.Exists
	t.Leadership, t.Order, t.Decisions, t.Hints = &Leadership{t: t}, &Order{t: t}, &Decisions{t}, &Hints{t}
	t.Reports = &Reports{t: t, queue: newQueue(c, "gang_reports")}
	t.Victims = &Victims{
		t: t, claims: map[types.UID]claim{}, claimOn: map[*group]int{}, searches: podSearches{paces: map[likeness]*pace{}, of: map[types.UID]*pace{}},
	}
	t.WaitList = &WaitList{
		t: t, book: reservations.New[Key](), seats: map[Key]*group{}, podSeats: map[types.UID]*podSeat{}, ready: map[types.UID]*corev1.Pod{},
		held: held{gangs: sets.New[Key](), pods: map[types.UID]*corev1.Pod{}}, sharing: newSharing(),
	}
	t.WaitList.book.SetRatio(t.Quota.ratio)
	return t
}

func newQueue(c clock.Clock, name string) workqueue.TypedDelayingInterface[Key] {
	config := workqueue.TypedDelayingQueueConfig[Key]{Name: name}
	if ticker, ok := c.(clock.WithTicker); ok {
		config.Clock = ticker
	}
	return workqueue.NewTypedDelayingQueueWithConfig(config)
}

// Configure takes over the arguments of the Coscheduling plugin in a profile. All profiles share one tracker, because a gang may have
// pods of several: it is an error if their arguments differ.
func (t *Tracker) Configure(profile string, args config.CoschedulingArgs) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range slices.Sorted(maps.Keys(t.settings.of)) {
		if field := differing(t.settings.of[other], args); other != profile && field != "" {
			return fmt.Errorf("%s has another value in profile %q than in profile %q: a gang may have pods of both, so give it the same value in all profiles",
				field, profile, other)
		}
	}
	t.settings.of[profile], t.settings.args = args, args
	t.settings.profiles.Insert(profile)
	if args.RequirePodGroup {
		t.podGroupRequired.Store(profile, true)
	}
	t.WaitList.book.SetBounds(reservations.Bounds{Bypasses: int(args.MaxOvertakes), Age: args.MaxOvertakeTime.Duration})
	return nil
}

// differing names the first argument, as written in a configuration, whose values differ between two profiles; "" if none. RequirePodGroup
// may differ: it is about single pods.
func differing(a, b config.CoschedulingArgs) string {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		name := x.Type().Field(i).Name
		if name != "TypeMeta" && name != "RequirePodGroup" && !x.Field(i).Equal(y.Field(i)) {
			return strings.ToLower(name[:1]) + name[1:]
		}
	}
	return ""
}

// EnforceQuota makes gangs wait for the quota of their queue. The Capacity plugin calls it.
func (q *Quota) EnforceQuota() {
	q.t.mu.Lock()
	defer q.t.mu.Unlock()
	q.enforced = true
}

func (t *Tracker) group(key Key) *group {
	g, ok := t.gangs[key]
	if !ok {
		t.seen++
		g = &group{key: key, seen: t.seen, podGroup: podGroup{created: t.clock.Now(), bound: -1}}
		t.gangs[key] = g
	}
	return g
}

// find returns a pod's gang and its member there, or nil.
func (t *Tracker) find(uid types.UID) (*group, *gang.Member) {
	g := t.members[uid]
	if g == nil {
		return nil, nil
	}
	return g, g.Member(uid)
}

const (
	wakeDelay = 2 * time.Millisecond
	// decisionPause is the least time between two decisions on a gang that does not fit: on a busy cluster every pod that goes is an event.
	decisionPause = 50 * time.Millisecond
	// searchPause is the pause after a search that failed, as a multiple of the search's own duration. It keeps searches a small part of
	// the scheduler's time.
	searchPause = 20
)

// endAttempt ends the attempt of a gang and gives back what was assumed for its members.
func (t *Tracker) endAttempt(g *group) gang.Effects {
	e := t.WaitList.endSeat(g)
	g.attempt = nil
	delete(t.attempting, g.key)
	e.Add(gang.Freed(t.Quota.Ledger.DropAssumed(g.key.String())))
	e.Add(gang.Only(gang.RoomFreed))
	return e
}
