package podgroup

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/admission"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	schedulingv1beta1listers "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

const (
	// allCandidates is the key of the admission loop under which it decides.
	allCandidates = "all"
	// allPlaces is the key under which places are found.
	allPlaces = "places"

	// Bounds of the pause before a round, in which more changes may come. Between them it follows the length of the last round, so that
	// thousands of waiting PodGroups keep no core busy.
	minPause = 5 * time.Millisecond
	maxPause = 200 * time.Millisecond
)

// admissions has rounds of admission made, one after another, and keeps the decisions. It writes no status: Reconciler workers do, many at a
// time.
type admissions struct {
	tracker    *usage.Tracker
	groups     cache.Store
	queues     schedulingv1beta1listers.QueueLister
	priorities schedulinglisters.PriorityClassLister
	cluster    *ledger.Nodes
	factor     float64
	// overtakeTime is how long other PodGroups may be admitted past one that lacks room; 0 means for ever.
	overtakeTime time.Duration
	clock        clock.Clock
	decided      func(key string, v admission.Decision) // called for each new decision
	placed       func(key string)                       // called for each new place
	phJobs       PhJobs                                 // nil if there are none
	loop         *worker.Worker

	// known are the candidates of the last round; only the rounds touch them. A PodGroup that has not changed since is not computed anew.
	known map[string]*admission.Candidate // "<namespace>/<name>" -> candidate
	// seen are the PodGroups that findPlaces saw last, by the same keys. Only the loop touches them.
	seen map[string]*admission.Candidate

	mu        sync.Mutex
	waiting   map[string]types.UID          // "<namespace>/<name>" -> UID of a PodGroup that is not admitted yet, in its status or by a decision
	decisions map[string]admission.Decision // "<namespace>/<name>" -> decision
	lastRound time.Duration
	places    map[string]admission.Place // "<namespace>/<name>" -> place of a PodGroup that waits
}

// PhJobs is admission's view of PhJobs.
type PhJobs interface {
	// JobOf returns the PhJob that a PodGroup is for. It is nil if it is for none, or for one that has ended.
	JobOf(group *schedulingv1beta1.PodGroup) *primehubv1alpha1.PhJob
	// IsBehind says whether an earlier PhJob of the same group waits whose PodGroup is not known.
	IsBehind(job *primehubv1alpha1.PhJob, known func(namespace, podGroup string) bool) bool
	// Watch has f called when a PhJob does not wait for its PodGroup any more.
	Watch(f func())
}

// wake asks for a round.
func (a *admissions) wake() {
	a.mu.Lock()
	pause := min(max(2*a.lastRound, minPause), maxPause)
	a.mu.Unlock()
	a.loop.EnqueueAfter(allCandidates, pause)
}

// observe takes over a PodGroup's present state. It asks for a round if the PodGroup waits, or has finished and counts no more.
func (a *admissions) observe(group *schedulingv1beta1.PodGroup) {
	if a.takeOver(group) || group.Status.Phase == schedulingv1beta1.PodGroupCompleted {
		a.wake()
	}
}

// takeOver says whether a PodGroup waits.
func (a *admissions) takeOver(group *schedulingv1beta1.PodGroup) bool {
	key := group.Namespace + "/" + group.Name
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.decisions[key]; group.Status.Phase.Admitted() || v.UID == group.UID && v.Admitted {
		delete(a.waiting, key)
		return false
	}
	a.waiting[key] = group.UID
	return true
}

// lose notes that a PodGroup is gone. It may have blocked its queue.
func (a *admissions) lose(key string) {
	a.mu.Lock()
	delete(a.waiting, key)
	delete(a.decisions, key)
	a.mu.Unlock()
	a.wake()
}

// keep keeps a decision on a PodGroup that waits, and says whether it does. A PodGroup that is gone, or has been admitted meanwhile, needs
// none. The lock is held.
func (a *admissions) keep(key string, v admission.Decision) bool {
	if a.waiting[key] != v.UID {
		return false
	}
	a.decisions[key] = v
	if v.Admitted {
		delete(a.waiting, key)
	}
	return true
}

// decision is the last decision on a PodGroup. A decision on a deleted PodGroup of the same name does not count.
func (a *admissions) decision(key string, uid types.UID) admission.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.decisions[key]; v.UID == uid {
		return v
	}
	return admission.Decision{}
}

// forget drops the decision on a PodGroup whose admission stands in its status.
func (a *admissions) forget(key string, uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.decisions[key].UID == uid {
		delete(a.decisions, key)
	}
}

// Sync is one round: it decides about all candidates in turn. Or it finds the places of all that wait.
func (a *admissions) Sync(ctx context.Context, key string) (time.Duration, error) {
	if key == allPlaces {
		a.findPlaces()
		return admission.PlacesPeriod, nil
	}
	start := a.clock.Now()
	candidates, round := a.round()
	again := time.Duration(0) // when a decision may change by time alone. It is 0 if none may
	for _, d := range round.Decide(candidates) {
		a.commit(d)
		if soon := d.Again(start); soon > 0 && (again == 0 || soon < again) {
			again = soon
		}
	}
	took := a.clock.Since(start)
	a.mu.Lock()
	a.lastRound = took
	a.mu.Unlock()
	klog.FromContext(ctx).V(4).Info("Admission round", "candidates", len(candidates), "duration", took)
	return again, nil
}

// commit carries a decision out. A PodGroup is not admitted if the room that the round found is gone since the round began.
func (a *admissions) commit(d admission.Decided) {
	if d.Admitted {
		if d.HasRoom && a.tracker.Ledger().Room(d.Account, d.Lacks) != nil {
			a.wake()
			return
		}
		a.tracker.Grant(d.Group, d.Want)
	}
	if a.record(d) {
		a.decided(d.Key, d.Decision)
	} else if obj, exists, _ := a.groups.GetByKey(d.Key); d.Admitted && (!exists || obj.(*schedulingv1beta1.PodGroup).UID != d.Group.UID) {
		a.tracker.ReleaseHold(d.Group.Namespace, d.Group.Name, d.Group.UID) // its end may have been handled before the grant
	}
}

// record keeps a decision and says whether to report it.
func (a *admissions) record(d admission.Decided) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	v, report := d.Tell(a.decisions[d.Key], a.clock.Now())
	return report && a.keep(d.Key, v)
}

// round is what a round is made on, with its candidates.
func (a *admissions) round() ([]*admission.Candidate, *admission.Round) {
	classes := a.classes()
	candidates := a.candidates(classes)
	for _, c := range candidates {
		c.Lacks = a.tracker.Lacking(c.Group, c.Want)
	}
	queues, _ := a.queues.List(labels.Everything()) // a lister never fails
	books, total := a.tracker.Ledger(), a.cluster.Allocatable()
	r := &admission.Round{
		Now: a.clock.Now(), Queues: admission.QueuesOf(queues), Shares: books.ShareOut(total, admission.WaitingIn(candidates)), Tree: books.Snapshot(),
		Nodes: total, Overcommit: a.factor, Units: sync.OnceValue(func() []admission.Evictable { return a.load(classes).Evictables() }),
	}
	if r.Queues.LimitRunning() {
		r.Running = a.countRunning()
	}
	return candidates, r
}

// Shares computes the present share of each queue; the share of the root is the whole cluster.
func (c *Controller) Shares() quota.Shares {
	return c.usage.Ledger().ShareOut(c.admission.cluster.Allocatable(), c.Waiting())
}

// Waiting is the sum of the minimums that wait to be admitted, by queue.
func (c *Controller) Waiting() map[string]resources.Sums {
	var waiting []*admission.Candidate
	for _, group := range c.admission.waitingGroups() {
		waiting = append(waiting, admission.NewCandidate(group))
	}
	return admission.WaitingIn(waiting)
}

// load is what may have to go for a PodGroup.
func (a *admissions) load(classes admission.Classes) *admission.Load {
	return &admission.Load{
		Groups: a.allGroups(), Pods: a.tracker.Pods(), Charged: a.tracker.Ledger().Charged, Unclaimed: a.tracker.Unclaimed(), Classes: classes,
	}
}

// candidates are the PodGroups that wait, in no particular order.
func (a *admissions) candidates(classes admission.Classes) []*admission.Candidate {
	waiting := a.waitingGroups()
	now := a.clock.Now()
	known := make(map[string]*admission.Candidate, len(waiting))
	for _, group := range waiting {
		key := group.Namespace + "/" + group.Name
		if known[key] = a.known[key]; known[key] == nil || known[key].Group != group {
			known[key] = admission.NewCandidate(group)
		}
	}
	a.known = known
	candidates := make([]*admission.Candidate, 0, len(waiting))
	for key, c := range known {
		if c.Group.DeletionTimestamp != nil {
			continue
		}
		members := a.tracker.Members(c.Group.Namespace, c.Group.Name)
		c.Look(members, classes)
		c.Purpose = admission.PurposeOf(c.Group, members, a.tracker.RequestsOf)
		if since := admission.LackingSince(c.Group, a.decision(key, c.Group.UID)); !since.IsZero() {
			c.Turn = quota.TurnLeft(a.overtakeTime, now.Sub(since))
		}
		a.takePlaceOfJob(c)
		candidates = append(candidates, c)
	}
	return candidates
}

// takePlaceOfJob gives a candidate the place of the PhJob that it is for, if it is for one.
func (a *admissions) takePlaceOfJob(c *admission.Candidate) {
	if job := a.phJobOf(c.Group); job != nil {
		c.TakePlaceOf(job.CreationTimestamp.Time, job.Name)
		c.IsEarly = a.phJobs.IsBehind(job, a.isKnown)
	}
}

// phJobOf is the PhJob that a PodGroup is for, nil if there is none.
func (a *admissions) phJobOf(group *schedulingv1beta1.PodGroup) *primehubv1alpha1.PhJob {
	if a.phJobs == nil {
		return nil
	}
	return a.phJobs.JobOf(group)
}

// isKnown says whether a PodGroup is a candidate of this round, or was admitted before.
func (a *admissions) isKnown(namespace, name string) bool {
	key := namespace + "/" + name
	if a.known[key] != nil {
		return true
	}
	obj, exists, _ := a.groups.GetByKey(key) // a store never fails
	if !exists {
		return false
	}
	group := obj.(*schedulingv1beta1.PodGroup)
	return group.Status.Phase.Admitted() || a.decision(key, group.UID).Admitted
}

// waitingGroups are the PodGroups that wait, in no particular order.
func (a *admissions) waitingGroups() []*schedulingv1beta1.PodGroup {
	a.mu.Lock()
	waiting := maps.Clone(a.waiting)
	a.mu.Unlock()
	groups := make([]*schedulingv1beta1.PodGroup, 0, len(waiting))
	for key, uid := range waiting {
		obj, exists, _ := a.groups.GetByKey(key) // a store never fails
		if !exists {
			continue // the event of its deletion, or of another PodGroup, is about to come
		}
		if group := obj.(*schedulingv1beta1.PodGroup); group.UID == uid && !group.Status.Phase.Admitted() {
			groups = append(groups, group)
		}
	}
	return groups
}

// countRunning counts the PodGroups of each queue and its descendants that are admitted and have not finished.
func (a *admissions) countRunning() map[string]int32 {
	running := map[string]int32{}
	for _, group := range a.allGroups() {
		isIn := group.Status.Phase.Admitted() || a.decision(group.Namespace+"/"+group.Name, group.UID).Admitted
		if !isIn || group.Status.Phase == schedulingv1beta1.PodGroupCompleted {
			continue
		}
		for _, queue := range a.tracker.Ledger().Path(admission.QueueOf(group)) {
			running[queue]++
		}
	}
	return running
}

// allGroups are all PodGroups.
func (a *admissions) allGroups() []*schedulingv1beta1.PodGroup {
	return worker.All[*schedulingv1beta1.PodGroup](a.groups.List())
}

// classes are all PriorityClasses.
func (a *admissions) classes() admission.Classes {
	classes, _ := a.priorities.List(labels.Everything()) // a lister never fails
	return admission.NewClasses(classes)
}

// findPlaces finds the places of all waiting PodGroups, and enqueues the PodGroups whose status is out of date.
func (a *admissions) findPlaces() {
	found, changed := admission.FindPlaces(a.allWaiting(), a.placeOf, a.amounts(), a.clock.Now())
	a.mu.Lock()
	a.places = found
	a.mu.Unlock()
	for _, key := range changed {
		a.placed(key)
	}
}

// amounts returns what a place says of amounts. Shares are computed at its first use.
func (a *admissions) amounts() func(c *admission.Candidate) schedulingv1beta1.PodGroupPlace {
	books := a.tracker.Ledger()
	shares := sync.OnceValue(func() quota.Shares {
		var pending []*admission.Candidate
		for _, c := range a.seen {
			if !c.Group.Status.Phase.Admitted() {
				pending = append(pending, c)
			}
		}
		return books.ShareOut(a.cluster.Allocatable(), admission.WaitingIn(pending))
	})
	borrowed := sync.OnceValue(func() map[string]resources.List { return books.BorrowedByOthers(shares()) })
	return func(c *admission.Candidate) schedulingv1beta1.PodGroupPlace {
		lacks := a.tracker.Lacking(c.Group, c.Want)
		return schedulingv1beta1.PodGroupPlace{
			Short:  admission.ShortageOf(books.RoomFor(c.Key, nil, c.Account, lacks)),
			Shares: admission.SharesOf(lacks, books.Used(c.Queue), shares()[c.Queue], borrowed()[c.Queue]),
		}
	}
}

// allWaiting are the PodGroups that wait to be admitted or to start, with what orders them.
func (a *admissions) allWaiting() (waiting []*admission.Candidate) {
	classes, seen := a.classes(), map[string]*admission.Candidate{}
	for _, group := range a.allGroups() {
		if group.DeletionTimestamp != nil || !admission.WaitsForStart(group.Status.Phase) {
			continue
		}
		key := group.Namespace + "/" + group.Name
		c := cmp.Or(a.known[key], a.seen[key])
		if c == nil || c.Group != group {
			c = admission.NewCandidate(group)
		}
		c.Look(a.tracker.Members(group.Namespace, group.Name), classes)
		a.takePlaceOfJob(c)
		seen[key] = c
		waiting = append(waiting, c)
	}
	a.seen = seen
	return waiting
}

// placeOf is the place of a PodGroup that was found last. Another process may have found it, so that it stands in the status only. It is nil
// if there is none.
func (a *admissions) placeOf(c *admission.Candidate) *admission.Place {
	if found := a.place(c.Key, c.Group.UID); found != nil {
		return found
	}
	return admission.PlaceIn(c.Group)
}

// place is the place that was found last for a PodGroup; nil if none was.
func (a *admissions) place(key string, uid types.UID) *admission.Place {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found, isFound := a.places[key]; isFound && found.UID == uid {
		return &found
	}
	return nil
}
