package podgroup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	schedulingv1beta1listers "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

const (
	// allCandidates is the only key of the admission loop.
	allCandidates = "all"

	// Bounds of the pause before a round, in which more changes may come. Between them it follows the length of the last round, so that
	// thousands of waiting PodGroups keep no core busy.
	minPause = 5 * time.Millisecond
	maxPause = 200 * time.Millisecond
	// messageAge is how long a message stays that is wrong only in its numbers: each costs a status write. It says when they were found.
	messageAge = time.Minute
	// openingTime is how long the queue controller may take to open a new queue before a message says so. The members of a new PodGroup may
	// take as long to come, where that matters.
	openingTime = 10 * time.Second
)

// admission decides which PodGroups may leave Pending. It writes only its decisions: Reconciler workers write the statuses, many at a time.
// The decisions are made here, one round after another.
type admission struct {
	tracker    *usage.Tracker
	groups     cache.Store
	queues     schedulingv1beta1listers.QueueLister
	priorities schedulinglisters.PriorityClassLister
	cluster    *ledger.Nodes
	factor     float64
	// overtakeTime is how long other PodGroups may be admitted past one that lacks room; 0 means for ever.
	overtakeTime time.Duration
	clock        clock.Clock
	decided      func(key string, v decision) // called for each new decision
	phJobs       PhJobs
	loop         *worker.Worker

	// known are the candidates of the last round; only the rounds touch them. A PodGroup that has not changed since is not computed anew.
	known map[string]*candidate // "<namespace>/<name>" -> candidate

	mu        sync.Mutex
	waiting   map[string]types.UID // "<namespace>/<name>" -> UID of a PodGroup that is not admitted yet, in its status or by a decision
	decisions map[string]decision  // "<namespace>/<name>" -> decision
	lastRound time.Duration
}

// wake asks for a round.
func (a *admission) wake() {
	a.mu.Lock()
	pause := min(max(2*a.lastRound, minPause), maxPause)
	a.mu.Unlock()
	a.loop.EnqueueAfter(allCandidates, pause)
}

// notice takes over a PodGroup's present state. It asks for a round if the PodGroup waits, or has finished and counts no more.
func (a *admission) notice(group *schedulingv1beta1.PodGroup) {
	if a.takeOver(group) || group.Status.Phase == schedulingv1beta1.PodGroupCompleted {
		a.wake()
	}
}

// takeOver says whether a PodGroup waits.
func (a *admission) takeOver(group *schedulingv1beta1.PodGroup) bool {
	key := group.Namespace + "/" + group.Name
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.decisions[key]; group.Status.Phase.Admitted() || v.uid == group.UID && v.admitted {
		delete(a.waiting, key)
		return false
	}
	a.waiting[key] = group.UID
	return true
}

// lose notes that a PodGroup is gone. It may have blocked its queue.
func (a *admission) lose(key string) {
	a.mu.Lock()
	delete(a.waiting, key)
	delete(a.decisions, key)
	a.mu.Unlock()
	a.wake()
}

// keep keeps a decision on a PodGroup that waits, and says whether it does. A PodGroup that is gone, or has been admitted meanwhile, needs
// none. The lock is held.
func (a *admission) keep(key string, v decision) bool {
	if a.waiting[key] != v.uid {
		return false
	}
	a.decisions[key] = v
	if v.admitted {
		delete(a.waiting, key)
	}
	return true
}

// decision is the last decision on a PodGroup. A decision on a deleted PodGroup of the same name does not count.
func (a *admission) decision(key string, uid types.UID) decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.decisions[key]; v.uid == uid {
		return v
	}
	return decision{}
}

// forget drops the decision on a PodGroup whose admission stands in its status.
func (a *admission) forget(key string, uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.decisions[key].uid == uid {
		delete(a.decisions, key)
	}
}

// Sync is one round: it decides about all candidates in turn.
func (a *admission) Sync(ctx context.Context, _ string) (time.Duration, error) {
	start := a.clock.Now()
	classes := a.classes()
	candidates := a.candidates(classes)
	for _, c := range candidates {
		c.lacks = a.tracker.Lacking(c.group, c.want)
	}
	shares := a.tracker.Ledger().ShareOut(a.cluster.Allocatable(), waitingIn(candidates))
	line := a.line(candidates, shares)
	again := time.Duration(0) // when the first turn or waiting time ends, or the time that a queue has to be opened. It is 0 if there is none
	soonest := func(end time.Duration) {
		if again == 0 || end < again {
			again = end
		}
	}
	for _, d := range decide(line.next, a.rules(line, classes, shares)) {
		if a.record(d.candidate, d.decision) {
			a.decided(d.key, d.decision)
		}
		if d.keeps {
			soonest(d.turn)
		}
		if d.undecided {
			soonest(openingTime)
		}
		if d.awaitsMembers {
			soonest(time.Second)
		}
		if left := d.untilOverdue(start); left > 0 && !d.admitted {
			soonest(left)
		}
	}
	took := a.clock.Since(start)
	a.mu.Lock()
	a.lastRound = took
	a.mu.Unlock()
	klog.FromContext(ctx).V(4).Info("Admission round", "candidates", len(candidates), "duration", took)
	return again, nil
}

// record keeps a decision and says whether to report it. A message is written anew only for another obstacle, or when its numbers have been
// wrong for a while.
func (a *admission) record(c *candidate, v decision) bool {
	if v.undecided {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.decisions[c.key]
	now := a.clock.Now()
	if v.lacksRoom() {
		if v.lacking = lackingSince(c.group, last); v.lacking.IsZero() {
			v.lacking = now
		}
	}
	if v.blocked() {
		same := last.uid == c.group.UID && last.blocked() && last.obstacle.kind == v.obstacle.kind
		if same && now.Sub(last.since) < messageAge {
			return false
		}
		v.message = c.messageFor(v.obstacle, last, now)
		if same && last.message == v.message {
			return false
		}
	}
	v.uid, v.since = c.group.UID, now
	return a.keep(c.key, v)
}

// lackingSince is since when a queue has had no room for a PodGroup. It is zero if the last decision did not find that. Decisions of
// another process stand in the status, which says only since when the PodGroup waits.
func lackingSince(group *schedulingv1beta1.PodGroup, last decision) time.Time {
	if last.uid == group.UID {
		return last.lacking
	}
	return waitingSince(&group.Status)
}

// waitingIn is the waiting demand of each queue.
func waitingIn(candidates []*candidate) map[string]resources.Sums {
	waiting := map[string]resources.Sums{}
	for _, c := range candidates {
		if waiting[c.queue] == nil {
			waiting[c.queue] = resources.Sums{}
		}
		waiting[c.queue].Add(c.lacks)
	}
	return waiting
}

// line puts the candidates in the order of decisions.
func (a *admission) line(candidates []*candidate, shares quota.Shares) *line {
	books := a.tracker.Ledger()
	path := func(queue string) []string {
		if _, err := a.queues.Get(queue); err != nil {
			return []string{quota.Root}
		}
		return books.Path(queue)
	}
	return newLine(candidates, path, a.queuePriority, func(queue string) quota.Ratio { return books.Ratio(queue, shares) })
}

// candidates are the PodGroups that wait, in no particular order.
func (a *admission) candidates(classes map[string]int32) []*candidate {
	waiting := a.waitingGroups()
	now := a.clock.Now()
	known := make(map[string]*candidate, len(waiting))
	candidates := make([]*candidate, 0, len(waiting))
	for _, group := range waiting {
		c := a.known[group.Namespace+"/"+group.Name]
		if c == nil || c.group != group {
			c = newCandidate(group)
		}
		known[c.key] = c
		if group.DeletionTimestamp != nil {
			continue
		}
		last := a.decision(c.key, group.UID)
		c.turn = 0
		if since := lackingSince(group, last); !since.IsZero() {
			c.turn = quota.TurnLeft(a.overtakeTime, now.Sub(since))
		}
		c.overdue = c.waitingTime > 0 && c.untilOverdue(now) == 0
		c.takePlaceOf(a.phJobs.JobOf(group))
		c.priority = a.priorityOf(group, classes)
		candidates = append(candidates, c)
	}
	a.known = known
	for _, c := range candidates {
		c.isEarly = c.byQuotaAlone() && a.phJobs.IsBehind(c.phJob, a.isKnown)
	}
	return candidates
}

// isKnown says whether a PodGroup is a candidate of this round, or was admitted before.
func (a *admission) isKnown(namespace, name string) bool {
	key := namespace + "/" + name
	if a.known[key] != nil {
		return true
	}
	obj, exists, _ := a.groups.GetByKey(key) // a store never fails
	if !exists {
		return false
	}
	group := obj.(*schedulingv1beta1.PodGroup)
	return group.Status.Phase.Admitted() || a.decision(key, group.UID).admitted
}

// waitingGroups are the PodGroups that wait, in no particular order.
func (a *admission) waitingGroups() []*schedulingv1beta1.PodGroup {
	a.mu.Lock()
	waiting := maps.Clone(a.waiting)
	a.mu.Unlock()
	groups := make([]*schedulingv1beta1.PodGroup, 0, len(waiting))
	for key, uid := range waiting {
		obj, exists, _ := a.groups.GetByKey(key) // a store never fails
		if !exists {
			continue // its deletion is about to be noticed, or that another PodGroup is there
		}
		if group := obj.(*schedulingv1beta1.PodGroup); group.UID == uid && !group.Status.Phase.Admitted() {
			groups = append(groups, group)
		}
	}
	return groups
}

// rules are the rules of a round. It computes what could be evicted at the first use.
func (a *admission) rules(line *line, classes map[string]int32, shares quota.Shares) rules {
	evictions := map[bool]*quota.Evictions{} // by whether nothing that runs may be evicted
	units := sync.OnceValue(func() []evictable { return a.evictables(classes) })
	total := a.cluster.Allocatable()
	books := a.tracker.Ledger()
	notOpen := map[string]string{} // queue -> why it takes no work, computed once a round
	running := a.countRunning()
	return rules{
		opening: a.opening,
		notOpen: func(name string) string {
			reason, asked := notOpen[name]
			if !asked {
				reason = a.notOpen(name)
				notOpen[name] = reason
			}
			return reason
		},
		tooMany: func(name string) string { return a.tooMany(running, books.Path(name)) },
		fifo: func(name string) bool {
			queue, err := a.queues.Get(name)
			return err == nil && queue.Spec.DequeueStrategy == schedulingv1beta1.DequeueStrategyFIFO
		},
		beyond:      func(c *candidate) (*excess, bool) { return a.beyond(c, total, shares, units) },
		room:        books.RoomBesideReserved,
		addReserved: books.AddReserved,
		mayTake: func(c *candidate) func(quota.Claim) bool {
			if !books.MayReclaim(shares, c.account, c.lacks) {
				return nil
			}
			return func(from quota.Claim) bool {
				return books.MayTake(shares, from, "", quota.Claim{Queue: c.account, Want: c.lacks})
			}
		},
		exceeds: books.Exceeds,
		couldReclaim: func(c *candidate, reserved quota.Reserved) bool {
			never := a.neverPreempts(c)
			if evictions[never] == nil {
				evictions[never] = books.Evictions(shares, unitsOf(units(), never))
			}
			return evictions[never].CanMakeRoom(reserved, c.account, c.priority, c.lacks)
		},
		hold: func(c *candidate) {
			a.tracker.Grant(c.group, c.want)
			for _, e := range evictions {
				e.Add(c.account, c.lacks)
			}
			line.admitted(c)
			for _, queue := range books.Path(c.queue) {
				running[queue]++
			}
		},
	}
}

// beyond says why the cluster is too small for a candidate. If its queue has a factor of its own, all use counts, and all room that is
// kept. The same holds if it asks for more than its minimum, which is of no use without the rest. Otherwise only its own amount counts. It
// is undecided as long as members are about to come that tell what it asks for.
func (a *admission) beyond(c *candidate, total resources.List, shares quota.Shares, units func() []evictable) (e *excess, undecided bool) {
	books := a.tracker.Ledger()
	if queue, err := a.queues.Get(c.queue); err == nil {
		if factor, _ := usage.OvercommitFactor(queue); factor > 0 { // the queue controller reports an invalid one
			_, all := books.Totals(quota.Root)
			return beyondCluster(c.lacks, all, total, factor), false
		}
	}
	isFor := purposeOf(c.group, a.tracker.Members(c.group.Namespace, c.group.Name), a.tracker.RequestsOf)
	if e := beyondCluster(c.want, nil, total, a.factor); e != nil || isFor == forMinimum || books.MayReclaim(shares, c.account, c.lacks) {
		return e, false
	}
	_, all := books.Totals(quota.Root)
	if e = beyondCluster(c.lacks, all, total, a.factor); e != nil && !a.neverPreempts(c) {
		for _, unit := range units() {
			if unit.Priority < c.priority && !unit.AsksToStay {
				all.Sub(unit.Requests) // it goes first
			}
		}
		e = beyondCluster(c.lacks, all, total, a.factor)
	}
	if isFor == notKnown {
		return nil, e != nil && a.clock.Since(c.group.CreationTimestamp.Time) < openingTime
	}
	if e != nil {
		e.more = true
	}
	return e, false
}

// countRunning counts the PodGroups of each queue and its descendants that are admitted and have not finished. It counts nothing if no queue
// limits them.
func (a *admission) countRunning() map[string]int32 {
	running := map[string]int32{}
	queues, _ := a.queues.List(labels.Everything()) // a lister never fails
	if !slices.ContainsFunc(queues, func(queue *schedulingv1beta1.Queue) bool { return maxRunning(queue) != nil }) {
		return running
	}
	for _, obj := range a.groups.List() {
		group := obj.(*schedulingv1beta1.PodGroup)
		isIn := group.Status.Phase.Admitted() || a.decision(group.Namespace+"/"+group.Name, group.UID).admitted
		if !isIn || group.Status.Phase == schedulingv1beta1.PodGroupCompleted {
			continue
		}
		for _, queue := range a.tracker.Ledger().Path(usage.QueueOf(group)) {
			running[queue]++
		}
	}
	return running
}

// maxRunning is how many PodGroups of a queue may run at the same time; nil for any number.
func maxRunning(queue *schedulingv1beta1.Queue) *int32 {
	if queue.Spec.Muster == nil {
		return nil
	}
	return queue.Spec.Muster.MaxRunningJobs
}

// tooMany names the queue on the path to the root that has its maximum of running PodGroups. It is "" if there is none.
func (a *admission) tooMany(running map[string]int32, path []string) string {
	for _, name := range path {
		queue, err := a.queues.Get(name)
		if err != nil {
			continue
		}
		if most := maxRunning(queue); most != nil && running[name] >= *most {
			return fmt.Sprintf("running jobs of %s: %d, its maxRunningJobs is %d", quoted(name), running[name], *most)
		}
	}
	return ""
}

// opening says whether a queue is new, and the queue controller is about to open it.
func (a *admission) opening(name string) bool {
	queue, err := a.queues.Get(name)
	return err == nil && queue.Status.State == "" && a.clock.Since(queue.CreationTimestamp.Time) < openingTime
}

// notOpen says why a queue takes no work. The queue, or one of its ancestors, does not exist or is not open.
func (a *admission) notOpen(name string) string {
	queue, err := a.queues.Get(name)
	if apierrors.IsNotFound(err) {
		return quoted(name) + " does not exist"
	}
	if err != nil || queue.Status.State != schedulingv1beta1.QueueStateOpen {
		return quoted(name) + " is " + stateWord(queue)
	}
	for _, ancestor := range a.tracker.Ledger().Path(name)[1:] {
		parent, err := a.queues.Get(ancestor)
		if err == nil && parent.Status.State.IsShut() {
			return quoted(ancestor) + ", above " + quoted(name) + ", is " + stateWord(parent)
		}
	}
	return ""
}

func quoted(queue string) string { return `queue "` + queue + `"` }

func stateWord(queue *schedulingv1beta1.Queue) string {
	if queue == nil || queue.Status.State == "" {
		return "not open yet"
	}
	return string(queue.Status.State)
}

// queuePriority is the priority of a queue among its siblings.
func (a *admission) queuePriority(name string) int32 {
	queue, err := a.queues.Get(name)
	if err != nil {
		return 0
	}
	return queue.Spec.Priority
}

// classes maps the names of PriorityClasses to their values, and "" to the value of the global default. A class that is not in it counts as
// 0.
func (a *admission) classes() map[string]int32 {
	classes, _ := a.priorities.List(labels.Everything()) // a lister never fails
	values := make(map[string]int32, len(classes)+1)
	for _, class := range classes {
		values[class.Name] = class.Value
		if class.GlobalDefault {
			values[""] = max(values[""], class.Value)
		}
	}
	return values
}
