package plan

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/timeline"
)

// mostGangs is how many waiting gangs a plan has: the first in line.
const mostGangs = 1000

// podsWithin is how long after its admission the pods of a gang are made, as a rule.
const podsWithin = time.Minute

// Snapshot is the cluster at one time, as a plan sees it.
type Snapshot struct {
	// Cluster has its nodes, what runs, and the gangs of Waiting, in this order.
	Cluster timeline.Cluster
	// Waiting are the gangs that wait, the first in line first.
	Waiting []Waiting
	// Runs says whose each run of the cluster is.
	Runs []Owner
}

// Waiting is a gang that waits.
type Waiting struct {
	// Key and UID of its PodGroup.
	Key state.Key
	UID types.UID
	// Queue of the gang, "" for none.
	Queue string
	// Created is when the PodGroup was created.
	Created time.Time
	// Written is the plan that the API has, nil for none.
	Written *schedulingv1beta1.PodGroupPlan

	rank     reservations.Rank
	members  []*gang.Member
	minimum  resources.List // of a gang without members
	count    int
	runs     time.Duration
	account  string
	reserved *state.Reserved
	since    time.Time // when it was found to lack room or quota
	position int32     // among those that wait
	asked    *question // by a StartReview; nil for a gang that waits
}

// Owner names what a run is of.
type Owner struct{ Namespace, Name string }

// survey makes snapshots.
type survey struct {
	tracker  *gangs.Tracker
	nodes    corelisters.NodeLister
	pods     corelisters.PodLister
	requests map[types.UID]asked // of pods, from snapshot to snapshot
}

// asked is what a pod requests, with the version that it was computed of.
type asked struct {
	version string
	amounts resources.List
}

func newSurvey(tracker *gangs.Tracker, nodes corelisters.NodeLister, pods corelisters.PodLister) *survey {
	return &survey{tracker: tracker, nodes: nodes, pods: pods, requests: map[types.UID]asked{}}
}

// waiting lists the gangs that wait, sorted by rank, with the gangs of StartReviews. It also lists the members that hold room and are not bound
// yet. It takes the lock once.
func (s *survey) waiting(asks []*question) (waiting []Waiting, starting []start) {
	t := s.tracker
	t.Lock()
	defer t.Unlock()
	for _, g := range t.Gangs {
		if g.CountIn(gang.Reserved)+g.CountIn(gang.Released) > 0 {
			starting = append(starting, startOf(t, g))
		}
		if w, ok := s.waits(g); ok {
			waiting = append(waiting, w)
		}
	}
	slices.SortFunc(waiting, func(a, b Waiting) int { return a.rank.Compare(b.rank) })
	hasAll := len(waiting) <= mostGangs
	waiting = waiting[:min(len(waiting), mostGangs)]
	for i := range waiting {
		w := &waiting[i]
		g := t.Gangs[w.Key]
		w.members = g.Choose()
		w.reserved, w.since = t.WaitList.Book.ReservedFor(w.Key), t.WaitList.Book.WaitsSince(w.Key)
	}
	return s.insert(waiting, asks, hasAll), starting
}

// waits describes a gang that waits for room or quota.
func (s *survey) waits(g *gang.Group) (Waiting, bool) {
	if !s.isWaiting(g) {
		return Waiting{}, false
	}
	t := s.tracker
	return Waiting{
		Key: g.Key, UID: g.PodGroup.UID, Queue: quota.QueueOf(g.PodGroup.Account), Created: g.PodGroup.Created, Written: g.PodGroup.Plan,
		rank: t.Rank(g), minimum: g.PodGroup.Minimum, count: g.MinMember, runs: t.EstimateOf(g).For, account: g.PodGroup.Account,
	}, true
}

// isWaiting says whether a gang waits for room or quota alone, so that a plan can say when it starts. A gang without pods waits for its owner:
// its Job is suspended, say. An admitted one may be without pods for a moment.
func (s *survey) isWaiting(g *gang.Group) bool {
	of := &g.PodGroup
	switch {
	case !of.Exists || g.Seated() || g.Attempt != nil || g.IsDisputed() || !s.mayTake(g):
		return false
	case g.Complete():
		return true
	case g.Len() > 0 || len(of.Minimum) == 0 || g.MinMember <= 0:
		return false
	case !of.Phase.Admitted():
		return true
	}
	return of.Phase == schedulingv1beta1.PodGroupInqueue && s.tracker.Clock.Since(of.Admitted) < podsWithin
}

// mayTake says whether the queue of a gang exists, and has admitted the gang or may do so.
func (s *survey) mayTake(g *gang.Group) bool {
	if s.tracker.Quota.LacksQueue(g) {
		return false
	}
	name := quota.QueueOf(g.PodGroup.Account)
	if name == "" || g.Key.Foreign || g.PodGroup.Phase.Admitted() {
		return true
	}
	queue, err := s.tracker.Feed.Queues.Get(name)
	return err != nil || queue.Labels[schedulingv1beta1.TakesNoJobsLabel] == ""
}

// start is a gang some of whose members hold room and are not bound yet.
type start struct {
	owner   Owner
	account string
	runs    time.Duration
	members []gang.Member // copies: the scheduling loop changes them
}

func startOf(t *gangs.Tracker, g *gang.Group) start {
	starting := start{owner: Owner{g.Key.Namespace, g.Key.Name}, account: g.PodGroup.Account, runs: t.EstimateOf(g).For}
	for _, m := range append(g.In(gang.Reserved), g.In(gang.Released)...) {
		starting.members = append(starting.members, *m)
	}
	return starting
}

// take makes a snapshot with the gangs that StartReviews ask about. It is nil if no gang waits, and none is asked about.
func (s *survey) take(now time.Time, asks []*question) *Snapshot {
	waiting, starting := s.waiting(asks)
	if len(waiting) == 0 {
		return nil
	}
	nodes, _ := s.nodes.List(labels.Everything())                                                  // listers never fail
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) }) // the same cluster has the same plan
	args := s.tracker.Settings.Args
	b := &builder{
		survey: s, Snapshot: &Snapshot{Cluster: timeline.Cluster{Now: now, Patience: args.MaxOvertakeTime.Duration, NoReservations: args.ReservationDepth == 0}, Waiting: waiting}, nodes: nodes, nodeAt: map[string]int{},
		queueAt: map[string]int{}, runAt: map[runKey]int{}, kindAt: map[string]int{}, seen: map[types.UID]asked{}, has: map[corev1.ResourceName]bool{},
	}
	b.addNodes()
	b.addRunning()
	for i := range starting {
		b.addStarting(&starting[i])
	}
	s.requests = b.seen
	for i := range waiting {
		b.Cluster.Gangs = append(b.Cluster.Gangs, b.gangOf(&waiting[i]))
	}
	return b.Snapshot
}

// ownerOf names a pod's Job, its PodGroup, or the pod.
func ownerOf(pod *corev1.Pod, key state.Key, inGang bool) Owner {
	name := pod.Name
	if job := pod.Labels[batchv1alpha1.JobNameKey]; job != "" {
		name = job
	} else if inGang {
		name = key.Name
	}
	return Owner{pod.Namespace, name}
}
