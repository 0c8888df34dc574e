package gangs

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// Quota has the charges of pods, and the pods and gangs that wait for quota.
type Quota struct {
	t *Tracker
	// Ledger of charges and of assumed quota.
	Ledger *ledger.Ledger
	// Groups are the queues that are groups of PrimeHub.
	Groups   ledger.Groups
	enforced bool                      // the Capacity plugin is part of a profile
	bound    sets.Set[types.UID]       // pods that are charged and bound by the API: their charge stays until they are gone
	pods     map[types.UID]*corev1.Pod // single pods and surplus that wait for quota
	gangs    sets.Set[Key]             // gangs that wait for quota
	terms    map[string]queueTerms     // by queue; queues without one are missing
	started  map[Key]*group            // gangs for whose further members quota may be kept

	shares   quota.Shares // as of sharedAt
	sharedAt time.Time

	queues     sets.Set[string]             // that exist
	nodeGroups map[string]*quota.NodeGroups // by queue; queues that name none are missing
	grouped    map[types.UID]*corev1.Pod    // pods that were tried in a queue with node groups: they are tried again when these change
}

// queueTerms are a queue's settings for evictions.
type queueTerms struct {
	minRuntime      time.Duration // its pods are not evicted before they have run so long
	preemptionDelay time.Duration // nothing is evicted for its gangs before they have waited so long
}

// queueOf is the queue of an account. It is "" where no quota is enforced.
func (q *Quota) queueOf(account string) string {
	if !q.enforced {
		return ""
	}
	return quota.QueueOf(account)
}

// termsOf are the terms of the queue of an account.
func (q *Quota) termsOf(account string) queueTerms { return q.terms[quota.QueueOf(account)] }

// waiting is the demand that waits in each queue.
func (q *Quota) waiting() map[string]resources.Sums {
	waiting := map[string]resources.Sums{}
	add := func(account string, amount resources.List) {
		queue := quota.QueueOf(account)
		if queue == "" {
			return
		}
		if waiting[queue] == nil {
			waiting[queue] = resources.Sums{}
		}
		waiting[queue].Add(amount)
	}
	for _, g := range q.t.gangs {
		if g.podGroup.account != "" && g.attempt == nil && g.CountWaiting() > 0 {
			add(g.podGroup.account, g.waitingRequests())
		}
	}
	for _, pod := range q.pods {
		if !gang.IsMember(pod) && q.t.WaitList.podSeats[pod.UID] == nil { // a seat's quota is assumed
			add(q.Groups.AccountOf(pod), resources.PodRequests(pod))
		}
	}
	return waiting
}

// sharesNow are the shares of the queues, at most a tick old. They are nil if there are none, or it is not known what all nodes have.
func (q *Quota) sharesNow() quota.Shares {
	now := q.t.clock.Now()
	if q.shares == nil || now.Sub(q.sharedAt) >= tickPeriod {
		total := q.Ledger.Nodes()
		if !q.enforced || len(total) == 0 {
			return nil
		}
		q.shares, q.sharedAt = q.Ledger.ShareOut(total, q.waiting()), now
	}
	return q.shares
}

// ratio is how much of its share a queue uses.
func (q *Quota) ratio(queue string) quota.Ratio { return q.Ledger.Ratio(queue, q.sharesNow()) }

// isChargedTo says whether a bound pod is charged to a queue. It may be called without the lock.
func (q *Quota) isChargedTo(pod *corev1.Pod, queue string) bool {
	account, _, charged := q.Ledger.Charged(pod.UID)
	return charged && quota.QueueOf(account) == queue
}

// claimant is who asks for room or quota.
type claimant struct {
	key string // under which it assumes quota
	quota.Claim
}

// claimantOf is a pod that stands for itself, or the gang that is to start with it. g is its gang, nil for none.
func (q *Quota) claimantOf(g *group, pod *corev1.Pod) claimant {
	switch {
	case g == nil:
		return claimant{ledgerKey(pod.UID), quota.Claim{Queue: q.Groups.AccountOf(pod), Want: resources.PodRequests(pod)}}
	case g.Seated():
		return claimant{ledgerKey(pod.UID), quota.Claim{Queue: g.podGroup.account, Want: resources.PodRequests(pod)}}
	}
	return g.claims(requests(g.Choose()))
}

// claims is the gang as one that asks for an amount.
func (g *group) claims(want resources.List) claimant {
	return claimant{g.key.String(), quota.Claim{Queue: g.podGroup.account, Want: want}}
}

// mayTake says whether a claimant may take what is kept for a holder, as it is within its share.
func (q *Quota) mayTake(holder quota.Claim, to claimant) bool {
	if holder.Queue == "" || to.Queue == "" || quota.QueueOf(holder.Queue) == quota.QueueOf(to.Queue) {
		return false
	}
	shares := q.sharesNow()
	return shares != nil && q.Ledger.MayTake(shares, holder, to.key, to.Claim)
}

func newQuota(t *Tracker) *Quota {
	return &Quota{t: t, Ledger: ledger.New(), bound: sets.New[types.UID](), pods: map[types.UID]*corev1.Pod{}, gangs: sets.New[Key](), terms: map[string]queueTerms{},
		queues: sets.New[string](), nodeGroups: map[string]*quota.NodeGroups{}, grouped: map[types.UID]*corev1.Pod{}, started: map[Key]*group{}}
}

func (q *Quota) forget(pod types.UID) {
	delete(q.pods, pod)
	delete(q.grouped, pod)
	q.bound.Delete(pod)
}

// accountOf is the account that a bound pod is charged to. g is its gang, nil if it has none.
func (q *Quota) accountOf(pod *corev1.Pod, g *group) string {
	accounts := ledger.Accounts{Named: q.Groups.AccountOf(pod)}
	if g != nil {
		accounts.HasGroup, accounts.Group = g.podGroup.exists, g.podGroup.account
		if q.bound.Has(pod.UID) {
			accounts.Last, _, _ = q.Ledger.Charged(pod.UID)
		}
	}
	return ledger.ChargedTo(pod, accounts)
}

// AccountOf is the account that a pod is charged to. A pod that is not charged yet has the account that it names. It is "" for none.
func (q *Quota) AccountOf(pod *corev1.Pod) string {
	if account, _, charged := q.Ledger.Charged(pod.UID); charged {
		return account
	}
	if pod.Spec.NodeName == "" {
		return q.Groups.AccountOf(pod)
	}
	return ledger.ChargedTo(pod, ledger.Accounts{Named: q.Groups.AccountOf(pod)})
}

// IsChargedByLabel says whether only PrimeHub's label charges a pod, which no scheduler of ours has bound. Any user may write the label on any
// pod. So the pod counts against the quota of the group, and nothing of the group is evicted for it.
func (q *Quota) IsChargedByLabel(pod *corev1.Pod) bool {
	_, written := pod.Annotations[schedulingv1beta1.ChargedToAnnotation]
	if written || pod.Annotations[schedulingv1beta1.QueueNameAnnotation] != "" || ledger.PrimeHubGroupOf(pod) == "" {
		return false
	}
	q.t.mu.Lock()
	defer q.t.mu.Unlock()
	g, _ := q.t.find(pod.UID)
	return g == nil || g.podGroup.named == ""
}

// namedBy is the account that a pod names itself, "" for none. A pod whose account was written with its binding names none any more.
func (q *Quota) namedBy(pod *corev1.Pod) string {
	if _, written := pod.Annotations[schedulingv1beta1.ChargedToAnnotation]; written && pod.Spec.NodeName != "" {
		return ""
	}
	return q.Groups.AccountOf(pod)
}

// heldBy is the account that all charged members of a gang are charged to. If they differ, or there are none, it is the gang's own.
func (q *Quota) heldBy(g *group) string {
	common, found := "", false
	for _, m := range g.Members() {
		account, _, charged := q.Ledger.Charged(m.UID)
		if charged && found && account != common {
			return g.podGroup.account
		}
		if charged {
			common, found = account, true
		}
	}
	if !found {
		return g.podGroup.account
	}
	return common
}

// charge books the use of a bound pod in its account. A pod without an account is charged nowhere. g is its gang, nil if it has none.
// requests are the pod's, or nil to compute them if needed.
func (q *Quota) charge(pod *corev1.Pod, g *group, requests resources.List) gang.Effects {
	if pod.Spec.NodeName == "" {
		return gang.Effects{}
	}
	account := q.accountOf(pod, g)
	if account == "" {
		q.bound.Delete(pod.UID)
		return gang.Freed(q.Ledger.Release(pod.UID))
	}
	q.bound.Insert(pod.UID)
	if requests == nil {
		requests = resources.PodRequests(pod)
	}
	return gang.Freed(q.Ledger.Charge(pod.UID, account, requests))
}

// chargeMembers charges a gang's members again. Members that were bound without an account are charged to the gang's present account.
func (q *Quota) chargeMembers(g *group) (e gang.Effects) {
	for _, m := range g.Members() {
		e.Add(q.charge(m.Pod, g, m.Requests))
	}
	return e
}

// Charged is what a pod was charged to when it got its room, and for which PodGroup.
type Charged struct {
	// Account is the queue, or a user of it; "" for none.
	Account string
	// PodGroup is the UID of the pod's PodGroup, "" for a pod without a gang.
	PodGroup types.UID
}

// Annotations are what the pod's binding writes on the pod. They replace what another client has written. A pod without an account stays
// without, whatever its user writes on it before the binding or later. But a group of PrimeHub may get its queue later.
func (c Charged) Annotations(pod *corev1.Pod) map[string]string {
	annotations := map[string]string{}
	if _, forged := pod.Annotations[schedulingv1beta1.ChargedToAnnotation]; forged || c != (Charged{}) || ledger.PrimeHubGroupOf(pod) == "" {
		annotations[schedulingv1beta1.ChargedToAnnotation] = c.Account
	}
	if _, forged := pod.Annotations[schedulingv1beta1.BoundForAnnotation]; forged || c.PodGroup != "" {
		annotations[schedulingv1beta1.BoundForAnnotation] = string(c.PodGroup)
	}
	return annotations
}

// Charge books the use of a pod that holds room on a node. It books nothing for surplus for which a queue has no room: the minimum of its
// gang was lowered since QuotaShortage was asked.
func (q *Quota) Charge(pod *corev1.Pod) (Charged, *quota.Shortage) {
	q.t.mu.Lock()
	defer q.t.mu.Unlock()
	delete(q.pods, pod.UID)
	charged, requests := Charged{Account: q.Groups.AccountOf(pod)}, resources.List(nil)
	if g, m := q.t.find(pod.UID); m != nil {
		if m.State == gang.Bound {
			return Charged{}, nil // it is charged
		}
		if shortage := q.shortageOf(pod); shortage != nil {
			q.t.apply(nil, q.waitFor(shortage, pod))
			return Charged{}, shortage
		}
		requests = m.Requests
		charged = Charged{g.podGroup.account, g.podGroup.uid} // the one that was checked: the scheduling queue may know another
	}
	if charged.Account == "" {
		return charged, nil
	}
	if requests == nil {
		requests = resources.PodRequests(pod)
	}
	q.Ledger.Charge(pod.UID, charged.Account, requests)
	q.Ledger.DropAssumed(ledgerKey(pod.UID)) // the charge replaces it
	return charged, nil
}

// Refund takes back the charge of a pod that has lost its room and is not bound.
func (q *Quota) Refund(pod *corev1.Pod) {
	q.t.mu.Lock()
	defer q.t.mu.Unlock()
	if q.bound.Has(pod.UID) {
		return
	}
	if seat := q.t.WaitList.podSeats[pod.UID]; seat != nil {
		q.assumeSeat(seat)
	}
	q.t.apply(nil, gang.Freed(q.Ledger.Release(pod.UID)))
}

// SetQueue takes over the parent and the capability of a queue.
func (q *Quota) SetQueue(queue *schedulingv1beta1.Queue) {
	changed := q.Ledger.SetQueue(queue)
	q.t.mu.Lock()
	defer q.t.mu.Unlock()
	delete(q.terms, queue.Name)
	if own := queue.Spec.Muster; own != nil && (own.MinRuntime != nil || own.PreemptionDelay != nil) {
		q.terms[queue.Name] = queueTerms{ptr.Deref(own.MinRuntime, metav1.Duration{}).Duration, ptr.Deref(own.PreemptionDelay, metav1.Duration{}).Duration}
	}
	e := q.setNodeGroups(queue.Name, quota.NodeGroupsOf(queue), changed)
	e.Add(gang.Only(gang.SearchDiffers))
	if !q.queues.Has(queue.Name) {
		q.queues.Insert(queue.Name)
		q.queueCameOrWent(queue.Name)
	}
	groups := q.Groups.Set(queue)
	e.Add(q.chargeGroups(groups))
	e.Add(gang.Freed(changed || len(groups) > 0))
	q.t.apply(nil, e)
}

// nodesChanged notes that nodes have come, changed or gone. It wakes pods and gangs that wait for quota, if guarantees depend on the nodes.
func (q *Quota) nodesChanged(guarantees bool) {
	q.t.mu.Lock()
	defer q.t.mu.Unlock()
	e := gang.Only(gang.SearchDiffers | gang.NodeFreed)
	e.Add(gang.Freed(guarantees))
	q.t.apply(nil, e)
}

// DeleteQueue forgets a queue.
func (q *Quota) DeleteQueue(queue *schedulingv1beta1.Queue) {
	q.Ledger.DeleteQueue(queue.Name)
	q.t.mu.Lock()
	defer q.t.mu.Unlock()
	delete(q.terms, queue.Name)
	e := q.setNodeGroups(queue.Name, nil, true)
	q.t.metrics.dropQueue(queue.Name)
	q.queues.Delete(queue.Name)
	q.queueCameOrWent(queue.Name)
	e.Add(q.chargeGroups(q.Groups.Delete(queue.Name)))
	e.Add(gang.Only(gang.SearchDiffers | gang.QuotaFreed))
	q.t.apply(nil, e)
}

// lacksQueue says whether the queue of a gang was deleted after it had admitted the PodGroup. Nothing would limit the gang then, so it waits.
// The queue default is made by muster-controller, and cannot be deleted.
func (q *Quota) lacksQueue(g *group) bool {
	queue := quota.QueueOf(g.podGroup.account)
	return q.enforced && queue != "" && queue != schedulingv1beta1.DefaultQueue && !q.queues.Has(queue)
}

// queueCameOrWent looks again at the gangs of a queue that is new or gone. Attempts without a queue end.
func (q *Quota) queueCameOrWent(queue string) {
	for _, g := range q.t.gangs {
		if quota.QueueOf(g.podGroup.account) != queue {
			continue
		}
		e := g.change()
		if !q.t.isAdmitted(g) {
			e.Add(q.t.rollBack(g, ""))
		}
		q.t.apply(g, e)
	}
}

// chargeGroups books the use of pods in PrimeHub's groups again. The pods are listed under the lock: a pod that is deleted
// meanwhile is still to be reported, and loses its charge then.
func (q *Quota) chargeGroups(groups []string) (e gang.Effects) {
	if len(groups) == 0 || q.t.podLister == nil {
		return e
	}
	pods, _ := q.t.podLister.List(labels.Everything()) // a lister never fails
	for _, pod := range pods {
		if _, isMember := gang.KeyOf(pod); (!isMember || q.t.isOfOthers(pod)) && slices.Contains(groups, ledger.PrimeHubGroupOf(pod)) {
			e.Add(q.charge(pod, nil, nil))
		}
	}
	for _, g := range q.t.gangs {
		q.t.apply(g, q.nameMembers(g))
	}
	return e
}

// nameMembers finds again which accounts the members of a gang name.
func (q *Quota) nameMembers(g *group) gang.Effects {
	for _, m := range g.Members() {
		g.countNamed(m, -1)
		m.Account = q.namedBy(m.Pod)
		g.countNamed(m, 1)
	}
	e := q.t.settleAccount(g)
	e.Add(q.chargeMembers(g))
	return e
}

// quotaFor says which queue is short of what the gang's members request in all, or nil.
func (q *Quota) quotaFor(g *group, wants resources.List) *quota.Shortage {
	return q.Ledger.RoomFor(g.key.String(), q.claimsBefore(g, q.t.priorityOf(g), false, g.claims(wants)), g.podGroup.account, wants)
}

// claimsBefore is the quota that is reserved against a gang of the priority, or a pod without a gang (nil). Gangs under repair have no
// claims before them. One within its share has none of a queue that would be beyond its own.
func (q *Quota) claimsBefore(g *group, priority int32, surplus bool, to claimant) []quota.Claim {
	if upstream.IsCritical(priority) || g != nil && g.underRepair {
		return nil
	}
	key := Key{}
	if g != nil && !surplus {
		key = g.key
	}
	claims := q.t.WaitList.book.Claims(key, priority, surplus)
	if g == nil || surplus {
		claims = append(claims, q.claimsOfStarted(g, priority)...)
	}
	return slices.DeleteFunc(claims, func(c quota.Claim) bool { return q.mayTake(c, to) })
}

// QuotaShortage says which queue has no room for a single pod: a pod without a gang, or surplus. A chosen pod has its quota assumed. The
// pod is activated when quota may have come free. A system-critical pod is charged, and never waits.
func (q *Quota) QuotaShortage(pod *corev1.Pod) *quota.Shortage {
	q.t.mu.Lock()
	defer q.t.mu.Unlock()
	shortage := q.shortageOf(pod)
	q.t.apply(nil, q.waitFor(shortage, pod))
	return shortage
}

// waitFor puts a pod on the list of pods that wait for quota, if it is short of some.
func (q *Quota) waitFor(shortage *quota.Shortage, pod *corev1.Pod) (e gang.Effects) {
	if shortage == nil {
		return e
	}
	if _, known := q.pods[pod.UID]; !known {
		e = gang.Only(gang.SearchDiffers) // more demand waits
	}
	q.pods[pod.UID] = pod
	return e
}

// shortageOf says which queue has no room for a single pod; see QuotaShortage.
func (q *Quota) shortageOf(pod *corev1.Pod) *quota.Shortage {
	account, ahead, waits := q.claimsBeforePod(pod)
	if !waits || account == "" || upstream.IsCritical(corev1helpers.PodPriority(pod)) {
		return nil
	}
	return q.Ledger.RoomFor(ledgerKey(pod.UID), ahead, account, resources.PodRequests(pod))
}

// claimsBeforePod is the account of a pod that stands for itself, and the quota that is reserved against it. Nothing is reserved against a
// pod with a seat. waits is false for a member whose gang is checked as a whole.
func (q *Quota) claimsBeforePod(pod *corev1.Pod) (account string, ahead []quota.Claim, waits bool) {
	account, priority := q.Groups.AccountOf(pod), corev1helpers.PodPriority(pod)
	g, m := q.t.find(pod.UID)
	if m != nil {
		if !g.Seated() {
			return "", nil, false
		}
		account, priority = g.podGroup.account, q.t.priorityOf(g)
	}
	if q.t.WaitList.podSeats[pod.UID] == nil {
		ahead = q.claimsBefore(g, priority, m != nil, q.claimantOf(g, pod))
	}
	return account, ahead, true
}

// standsBack says whether evictions cannot help a pod with a shortage, or nil. The pod asks for more than a whole limit. Or a claim before it
// would get the quota that comes free.
func (q *Quota) standsBack(pod *corev1.Pod, shortage *quota.Shortage) bool {
	if shortage == nil {
		return false
	}
	_, ahead, _ := q.claimsBeforePod(pod)
	return shortage.IsForEver() || slices.ContainsFunc(ahead, func(c quota.Claim) bool { return slices.Contains(q.Ledger.Path(c.Queue), shortage.Queue) })
}

// startOf is the start of a pod without a gang.
func (q *Quota) startOf(pod *corev1.Pod) *reservations.Start {
	rank := reservations.Rank{Priority: corev1helpers.PodPriority(pod), Since: pod.CreationTimestamp.Time, Seen: math.MaxInt64} // it is queued later
	start := &reservations.Start{Rank: rank}
	if account := q.Groups.AccountOf(pod); account != "" {
		start.Rank.Queue = q.queueOf(account)
		start.Path, start.Amount = q.Ledger.Path(account), resources.PodRequests(pod)
	}
	return start
}

// startOfGang is the start of the minimum of a gang, or of a member beyond it.
func (q *Quota) startOfGang(g *group, members []*gang.Member, surplus bool) *reservations.Start {
	start := &reservations.Start{Rank: q.t.rank(g), Surplus: surplus}
	if g.podGroup.account != "" {
		start.Path, start.Amount = q.Ledger.Path(g.podGroup.account), requests(members)
	}
	return start
}
