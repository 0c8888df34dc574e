// Package usage keeps the controllers' ledger in line with the API. It charges bound pods to the accounts that stand on them. It keeps room
// for pods of admitted PodGroups that are still to come.
package usage

import (
	"fmt"
	"slices"
	"sync"

	"github.com/muster-sched/muster/pkg/admission"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Names of the indexes that the Tracker adds to the shared informers.
const (
	// membersIndex maps "<namespace>/<PodGroup>" to the pods that name the PodGroup.
	membersIndex = "muster-podgroup"
	// queueIndex maps a queue to the PodGroups that name it.
	queueIndex = "muster-queue"
)

// Watcher is told that the usage of a queue has changed. freed says that there may be more room than before. It is
// called with the Tracker's lock held: it must be quick and must not call the Tracker.
type Watcher func(queue string, freed bool)

// Tracker feeds a ledger from the informers. It reads amounts from the informers' stores at the moment of booking, under one lock. So no
// order of events, and no race between events of two kinds, leaves a wrong charge.
type Tracker struct {
	ledger    *ledger.Ledger
	groups    ledger.Groups // of PrimeHub
	pods      cache.SharedIndexInformer
	podGroups cache.SharedIndexInformer
	queues    cache.SharedIndexInformer
	synced    []cache.InformerSynced
	drift     *metrics.Gauge

	mu       sync.Mutex
	seats    map[types.UID]seat        // pod -> how it is counted; pods that count for nothing are not in it
	taken    map[string]resources.Sums // group -> sum of the amounts of its members in seats
	charged  map[string]resources.Sums // group -> sum of the amounts of its members that are charged
	holds    map[string]hold           // group -> room that is kept until its members take it
	watchers []Watcher
}

// seat is how one pod is counted.
type seat struct {
	group   string // "<namespace>/<PodGroup>", or "" for a pod without a PodGroup
	account string // what is charged: a queue, or a user of one; "" for a pod without a queue
	amount  resources.List
	charged bool // false once the pod has succeeded: it uses nothing, but has had its part of the minimum
}

// hold is an admitted PodGroup's claim to its minimum.
type hold struct {
	uid     types.UID
	account string
	want    resources.List
	// resting says that the minimum runs, so no room is kept. want is the members' present charges. If one is lost, its part of want is
	// kept for its replacement.
	resting bool
}

// New makes a Tracker on the shared informers of both factories, which must not have been started.
func New(kube informers.SharedInformerFactory, muster musterinformers.SharedInformerFactory) (*Tracker, error) {
	scheduling := muster.Scheduling().V1beta1()
	t := &Tracker{
		ledger:    ledger.New(),
		pods:      kube.Core().V1().Pods().Informer(),
		podGroups: scheduling.PodGroups().Informer(),
		queues:    scheduling.Queues().Informer(),
		drift:     newDrift(),
		seats:     map[types.UID]seat{},
		taken:     map[string]resources.Sums{},
		charged:   map[string]resources.Sums{},
		holds:     map[string]hold{},
	}
	if err := t.pods.AddIndexers(cache.Indexers{membersIndex: indexByGroup}); err != nil {
		return nil, fmt.Errorf("indexing pods by PodGroup: %w", err)
	}
	if err := t.podGroups.AddIndexers(cache.Indexers{queueIndex: indexByQueue}); err != nil {
		return nil, fmt.Errorf("indexing PodGroups by queue: %w", err)
	}
	if err := t.listen(); err != nil {
		return nil, err
	}
	return t, nil
}

// Ledger has the Tracker's books. Other packages may read it; they must not write.
func (t *Tracker) Ledger() *ledger.Ledger { return t.ledger }

// HasSynced says whether all objects that existed at the start are booked.
func (t *Tracker) HasSynced() bool {
	return !slices.ContainsFunc(t.synced, func(synced cache.InformerSynced) bool { return !synced() })
}

// Watch adds a watcher. It must be called before the informers start.
func (t *Tracker) Watch(w Watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers = append(t.watchers, w)
}

// Members lists the pods that name a PodGroup, in no particular order. They are shared: do not change them.
func (t *Tracker) Members(namespace, podGroup string) []*corev1.Pod {
	found, _ := t.pods.GetIndexer().ByIndex(membersIndex, groupKey(namespace, podGroup)) // fails only for an unknown index
	return worker.All[*corev1.Pod](found)
}

// Pods lists all pods, in no particular order. They are shared: do not change them.
func (t *Tracker) Pods() []*corev1.Pod { return worker.All[*corev1.Pod](t.pods.GetStore().List()) }

// PodGroups lists the PodGroups that name a queue, in no particular order. They are shared: do not change them.
func (t *Tracker) PodGroups(queue string) []*schedulingv1beta1.PodGroup {
	found, _ := t.podGroups.GetIndexer().ByIndex(queueIndex, queue) // fails only for an unknown index
	return worker.All[*schedulingv1beta1.PodGroup](found)
}

// Lacking is the part of an amount that the members of a PodGroup do not have yet. Members have it that are bound and have not failed, or have
// succeeded.
func (t *Tracker) Lacking(group *schedulingv1beta1.PodGroup, want resources.List) resources.List {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken, some := t.taken[groupKey(group.Namespace, group.Name)]
	if !some {
		return want
	}
	return taken.Rest(want)
}

// Grant keeps room for the minimum of an admitted PodGroup, whatever room there is: admission has found it. The amounts of members that are
// bound, or have succeeded, are taken off the hold. An amount that no cluster can have holds nothing.
func (t *Tracker) Grant(group *schedulingv1beta1.PodGroup, want resources.List) {
	if want.Validate() != nil {
		want = nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hold(groupKey(group.Namespace, group.Name), hold{uid: group.UID, account: admission.AccountOf(group), want: want})
}

// Hold sets the hold of an admitted PodGroup to the larger of its minimum's demand and its members' requests.
//
// Users can raise these amounts after admission, and a larger hold could take the whole queue. So a hold shrinks at once. It grows, or
// moves to another queue, only if the queue has room for it. Amounts that members were charged while the minimum ran need no new room: it
// came free when they were lost. An amount that no cluster can have holds nothing.
func (t *Tracker) Hold(group *schedulingv1beta1.PodGroup, want, asked resources.List) {
	if want.Validate() != nil {
		want = nil
	}
	most := want.Most(asked)
	if most.Validate() != nil {
		most = want
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := groupKey(group.Namespace, group.Name)
	next := hold{uid: group.UID, account: admission.AccountOf(group)}
	if last := t.holds[key]; last.uid == next.uid && last.account == next.account {
		next.want = most.Least(last.want)
	}
	t.hold(key, next)
	if !t.raise(key, most) {
		t.raise(key, next.want.Most(want))
	}
}

// Held is the whole amount that is held for a PodGroup; nil if nothing is. moved says that its account has changed since.
func (t *Tracker) Held(group *schedulingv1beta1.PodGroup) (want resources.List, moved bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, held := t.holds[groupKey(group.Namespace, group.Name)]
	if !held || h.uid != group.UID {
		return nil, false
	}
	if h.account != admission.AccountOf(group) || h.resting {
		return nil, h.account != admission.AccountOf(group)
	}
	return h.want, false
}

// Rest keeps no room for an admitted PodGroup whose minimum runs. Its members' charges are remembered: if one is lost, Hold keeps its part
// for the pod that replaces it.
func (t *Tracker) Rest(group *schedulingv1beta1.PodGroup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := groupKey(group.Namespace, group.Name)
	t.hold(key, hold{uid: group.UID, account: admission.AccountOf(group), want: t.charged[key].List(), resting: true})
}

// raise makes a hold larger, or leaves it as it is, and says whether there was room for the increase.
func (t *Tracker) raise(key string, want resources.List) bool {
	h, taken := t.holds[key], t.taken[key]
	if h.want.Equal(want) {
		return true
	}
	more := taken.Rest(want)
	more.Sub(taken.Rest(h.want))
	if t.ledger.Room(h.account, more) != nil {
		return false
	}
	h.want = want
	t.holds[key] = h
	t.assumeRest(key)
	return true
}

// hold replaces the hold of a PodGroup. Watchers are notified if it differs, because the new hold may be smaller and leave room for others.
func (t *Tracker) hold(key string, next hold) {
	last, held := t.holds[key]
	if held && last.equal(next) {
		return
	}
	t.holds[key] = next
	t.assumeRest(key)
	if held && !last.resting {
		t.notify(last.account, true)
	}
}

func (h hold) equal(other hold) bool {
	return h.uid == other.uid && h.account == other.account && h.resting == other.resting && h.want.Equal(other.want)
}

// Unclaimed is the part of each hold that the members have not taken up yet, by "<namespace>/<name>" of the PodGroup.
func (t *Tracker) Unclaimed() map[string]resources.List {
	t.mu.Lock()
	defer t.mu.Unlock()
	unclaimed := map[string]resources.List{}
	for group, h := range t.holds {
		if rest := t.taken[group].Rest(h.want); !h.resting && !rest.IsZero() {
			unclaimed[group] = rest
		}
	}
	return unclaimed
}

// RequestsOf is a pod's requests. It is shared: do not change it.
func (t *Tracker) RequestsOf(pod *corev1.Pod) resources.List {
	t.mu.Lock()
	s, seated := t.seats[pod.UID]
	t.mu.Unlock()
	if seated {
		return s.amount
	}
	return resources.PodRequests(pod)
}

// ReleaseHold ends the hold of a PodGroup, if it has one.
func (t *Tracker) ReleaseHold(namespace, name string, uid types.UID) {
	t.drop(namespace, name, func(of types.UID) bool { return of == uid })
}

// ReleaseOtherHolds ends a hold under the name of a PodGroup that is not this one's. A deleted PodGroup of the same name has left
// it.
func (t *Tracker) ReleaseOtherHolds(namespace, name string, uid types.UID) {
	t.drop(namespace, name, func(of types.UID) bool { return of != uid })
}

// drop ends the hold under a name if it is of a certain PodGroup.
func (t *Tracker) drop(namespace, name string, isOf func(uid types.UID) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := groupKey(namespace, name)
	last, held := t.holds[key]
	if !held || !isOf(last.uid) {
		return
	}
	delete(t.holds, key)
	t.ledger.DropAssumed(key)
	if !last.resting {
		t.notify(last.account, true)
	}
}

// settlePod books the pod of a key in its stored state.
func (t *Tracker) settlePod(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	obj, exists, err := t.pods.GetIndexer().GetByKey(key)
	if err != nil || !exists {
		return // its deletion is reported separately, with the UID to forget
	}
	t.settle(obj.(*corev1.Pod))
}

// settleMembers books the members of a group again, because the group's queue has changed.
func (t *Tracker) settleMembers(namespace, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pod := range t.Members(namespace, name) {
		t.settle(pod)
	}
}

func (t *Tracker) forgetPod(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unseat(uid)
}

func (t *Tracker) settle(pod *corev1.Pod) {
	if !TakesSeat(pod) {
		t.unseat(pod.UID)
		return
	}
	last, seated := t.seats[pod.UID]
	next := t.seatOf(pod, last)
	if seated && last.equal(next) {
		return
	}
	// The new charge is made before the hold shrinks, so that the sum is never too small.
	t.seats[pod.UID] = next
	if next.isCharged() {
		t.ledger.Charge(pod.UID, next.account, next.amount)
	} else {
		t.ledger.Release(pod.UID)
	}
	if seated {
		t.count(last, false)
	}
	t.count(next, true)
	if seated && last.account != next.account {
		t.notify(last.account, true)
	}
	t.notify(next.account, seated)
}

// seatOf is the new count of a pod that takes a seat, after its last one.
func (t *Tracker) seatOf(pod *corev1.Pod, last seat) seat {
	group := admission.PodGroupOf(pod)
	return seat{
		group:   group,
		account: t.accountOf(pod, group, last),
		amount:  resources.PodRequests(pod),
		charged: pod.Status.Phase != corev1.PodSucceeded,
	}
}

func (s seat) equal(other seat) bool {
	return s.group == other.group && s.account == other.account && s.charged == other.charged && s.amount.Equal(other.amount)
}

// isCharged says whether the pod is charged to a queue.
func (s seat) isCharged() bool { return s.charged && s.account != "" }

func (t *Tracker) unseat(uid types.UID) {
	last, seated := t.seats[uid]
	if !seated {
		return
	}
	delete(t.seats, uid)
	t.count(last, false)
	t.ledger.Release(uid)
	t.notify(last.account, true)
}

// count counts the part of its group's hold that a member takes or gives back.
func (t *Tracker) count(s seat, taken bool) {
	if s.group == "" {
		return
	}
	countIn(t.taken, s, taken)
	if s.charged {
		countIn(t.charged, s, taken)
	}
	t.assumeRest(s.group)
}

// countIn adds the amount of a member to the sum of its group, or subtracts it.
func countIn(sums map[string]resources.Sums, s seat, added bool) {
	sum := sums[s.group]
	if sum == nil {
		sum = resources.Sums{}
		sums[s.group] = sum
	}
	if added {
		sum.Add(s.amount)
	} else {
		sum.Sub(s.amount)
	}
	if sum.IsZero() {
		delete(sums, s.group)
	}
}

// assumeRest writes what is left of a group's hold to the ledger.
func (t *Tracker) assumeRest(group string) {
	h, held := t.holds[group]
	switch {
	case !held:
	case h.resting:
		t.ledger.DropAssumed(group)
	default:
		t.ledger.Assume(group, h.account, t.taken[group].Rest(h.want))
	}
}

func (t *Tracker) notify(account string, freed bool) {
	queue := quota.QueueOf(account)
	if queue == "" {
		return
	}
	for _, watcher := range t.watchers {
		watcher(queue, freed)
	}
}

// accountOf is the account that a pod is charged to, by the rule that the scheduler follows, too (ledger.ChargedTo).
func (t *Tracker) accountOf(pod *corev1.Pod, group string, last seat) string {
	accounts := ledger.Accounts{Named: t.groups.AccountOf(pod)}
	if group == "" {
		return ledger.ChargedTo(pod, accounts)
	}
	if obj, exists, err := t.podGroups.GetIndexer().GetByKey(group); err == nil && exists {
		named := obj.(*schedulingv1beta1.PodGroup)
		accounts.HasGroup = true
		if named.Spec.Queue != "" || accounts.Named == "" {
			accounts.Group = admission.AccountOf(named)
		}
	} else if last.group == group {
		accounts.Last = last.account
	}
	return ledger.ChargedTo(pod, accounts)
}

// TakesSeat says whether a pod takes up a part of its group's minimum. It is bound and has not failed, or has succeeded. A pod that was created
// with a node takes none before its kubelet has taken it.
func TakesSeat(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return true
	case corev1.PodFailed:
		return false
	}
	return pod.Spec.NodeName != "" && !ledger.AwaitsKubelet(pod)
}

func groupKey(namespace, name string) string { return namespace + "/" + name }
