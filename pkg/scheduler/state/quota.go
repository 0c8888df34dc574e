package state

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// Quota answers for the quota of queues, and books what pods use of it.
type Quota struct {
	t *State
	*charges
}

// NewQuota makes the view of quota on a state.
func NewQuota(t *State) *Quota {
	q := &Quota{t, t.charges}
	t.Metrics.Exists = q.Ledger.Exists
	t.Waiting.Book.SetRatio(q.ratio)
	return q
}

// Waiting is the demand that waits in each queue.
func (q *Quota) Waiting() map[string]resources.Sums {
	waiting := map[string]resources.Sums{}
	add := func(account string, amount resources.List) {
		if queue := quota.QueueOf(account); queue != "" {
			resources.AddTo(waiting, queue, amount)
		}
	}
	for _, g := range q.t.Gangs {
		if g.PodGroup.Account != "" && g.Attempt == nil && g.CountWaiting() > 0 {
			add(g.PodGroup.Account, g.WaitingRequests())
		}
	}
	for _, pod := range q.Pods {
		if !gang.IsMember(pod) && q.t.Waiting.PodSeats[pod.UID] == nil { // a seat's quota is assumed
			add(q.Groups.AccountOf(pod), resources.PodRequests(pod))
		}
	}
	return waiting
}

// sharesNow are the shares of the queues, at most a tick old. They are nil if there are none, or it is not known what all nodes have.
func (q *Quota) sharesNow() quota.Shares {
	now := q.t.Clock.Now()
	if q.shares == nil || now.Sub(q.sharedAt) >= TickPeriod {
		total := q.Ledger.Nodes()
		if !q.Enforced || len(total) == 0 {
			return nil
		}
		q.shares, q.sharedAt = q.Ledger.ShareOut(total, q.Waiting()), now
	}
	return q.shares
}

// MayReclaim says of each claim whether it might have something evicted by shares if it waited. It takes the lock.
func (q *Quota) MayReclaim(claims []quota.Claim) []bool {
	may, total := make([]bool, len(claims)), q.Ledger.Nodes()
	if !q.Enforced || len(total) == 0 {
		return may
	}
	q.t.Lock()
	waiting := q.Waiting()
	q.t.Unlock()
	for i, c := range claims {
		with := maps.Clone(waiting)
		with[quota.QueueOf(c.Queue)] = with[quota.QueueOf(c.Queue)].Clone()
		resources.AddTo(with, quota.QueueOf(c.Queue), c.Want)
		may[i] = q.Ledger.MayReclaim(q.Ledger.ShareOut(total, with), c.Queue, c.Want)
	}
	return may
}

// ratio is how much of its share a queue uses.
func (q *Quota) ratio(queue string) quota.Ratio { return q.Ledger.Ratio(queue, q.sharesNow()) }

// IsChargedTo says whether a bound pod is charged to a queue. It may be called without the lock.
func (q *Quota) IsChargedTo(pod *corev1.Pod, queue string) bool {
	account, _, charged := q.Ledger.Charged(pod.UID)
	return charged && quota.QueueOf(account) == queue
}

// claimantOf is a single pod or surplus, or the gang that is to start with it. g is its gang, nil for none.
func (q *Quota) claimantOf(g *gang.Group, pod *corev1.Pod) claimant {
	switch {
	case g == nil:
		return claimant{LedgerKey(pod.UID), quota.Claim{Queue: q.Groups.AccountOf(pod), Want: resources.PodRequests(pod)}}
	case g.Seated():
		return claimant{LedgerKey(pod.UID), quota.Claim{Queue: g.PodGroup.Account, Want: resources.PodRequests(pod)}}
	}
	return claimsOf(g, gang.Requests(g.Choose()))
}

// mayTake says whether a claimant may take what is kept for a holder, as it is within its share.
func (q *Quota) mayTake(holder quota.Claim, to claimant) bool {
	if holder.Queue == "" || to.Queue == "" || quota.QueueOf(holder.Queue) == quota.QueueOf(to.Queue) {
		return false
	}
	shares := q.sharesNow()
	return shares != nil && q.Ledger.MayTake(shares, holder, to.key, to.Claim)
}

// AccountIn is the account that a bound pod is charged to. g is its gang, nil if it has none.
func (q *Quota) AccountIn(pod *corev1.Pod, g *gang.Group) string {
	accounts := ledger.Accounts{Named: q.Groups.AccountOf(pod)}
	if g != nil {
		accounts.HasGroup, accounts.Group = g.PodGroup.Exists, g.PodGroup.Account
		if q.Bound.Has(pod.UID) {
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
	q.t.Lock()
	defer q.t.Unlock()
	g, _ := q.t.Find(pod.UID)
	return g == nil || g.PodGroup.Named == ""
}

// NamedBy is the account that a pod names itself, "" for none. A pod whose account was written with its binding names none any more.
func (q *Quota) NamedBy(pod *corev1.Pod) string {
	if _, written := pod.Annotations[schedulingv1beta1.ChargedToAnnotation]; written && pod.Spec.NodeName != "" {
		return ""
	}
	return q.Groups.AccountOf(pod)
}

// HeldBy is the account that all charged members of a gang are charged to. If they differ, or there are none, it is the gang's own.
func (q *Quota) HeldBy(g *gang.Group) string {
	common, found := "", false
	for _, m := range g.Members() {
		account, _, charged := q.Ledger.Charged(m.UID)
		if charged && found && account != common {
			return g.PodGroup.Account
		}
		if charged {
			common, found = account, true
		}
	}
	if !found {
		return g.PodGroup.Account
	}
	return common
}

// ChargeBound books the use of a bound pod in its account. A pod without an account is charged nowhere. g is its gang, nil if it has none.
// requests are the pod's, or nil to compute them if needed.
func (q *Quota) ChargeBound(pod *corev1.Pod, g *gang.Group, requests resources.List) gang.Effects {
	if pod.Spec.NodeName == "" {
		return gang.Effects{}
	}
	account := q.AccountIn(pod, g)
	if account == "" {
		q.Bound.Delete(pod.UID)
		return gang.Freed(q.Ledger.Release(pod.UID))
	}
	q.Bound.Insert(pod.UID)
	if requests == nil {
		requests = resources.PodRequests(pod)
	}
	return gang.Freed(q.Ledger.Charge(pod.UID, account, requests))
}

// ChargeMembers charges a gang's members again. Members that were bound without an account are charged to the gang's present account.
func (q *Quota) ChargeMembers(g *gang.Group) (e gang.Effects) {
	for _, m := range g.Members() {
		e.Add(q.ChargeBound(m.Pod, g, m.Requests))
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

// Charge books the use of a pod that holds room on a node. It books nothing for surplus for which a queue has no room. The minimum of its
// gang was lowered since QuotaShortage was asked.
func (q *Quota) Charge(pod *corev1.Pod) (Charged, *quota.Shortage) {
	q.t.Lock()
	defer q.t.Unlock()
	delete(q.Pods, pod.UID)
	charged, requests := Charged{Account: q.Groups.AccountOf(pod)}, resources.List(nil)
	if g, m := q.t.Find(pod.UID); m != nil {
		if m.State == gang.Bound {
			return Charged{}, nil // it is charged
		}
		if shortage := q.ShortageOf(pod); shortage != nil {
			q.t.Apply(nil, q.WaitFor(shortage, pod))
			return Charged{}, shortage
		}
		requests = m.Requests
		charged = Charged{g.PodGroup.Account, g.PodGroup.UID} // the one that was checked: the scheduling queue may know another
	}
	if charged.Account == "" {
		return charged, nil
	}
	if requests == nil {
		requests = resources.PodRequests(pod)
	}
	q.Ledger.Charge(pod.UID, charged.Account, requests)
	q.Ledger.DropAssumed(LedgerKey(pod.UID)) // the charge replaces it
	return charged, nil
}

// Refund takes back the charge of a pod that has lost its room and is not bound.
func (q *Quota) Refund(pod *corev1.Pod) {
	q.t.Lock()
	defer q.t.Unlock()
	if q.Bound.Has(pod.UID) {
		return
	}
	if seat := q.t.Waiting.PodSeats[pod.UID]; seat != nil {
		q.AssumeSeat(seat)
	}
	q.t.Apply(nil, gang.Freed(q.Ledger.Release(pod.UID)))
}

// NodesChanged notes that nodes have come, changed or gone. It wakes pods and gangs that wait for quota, if guarantees depend on the nodes.
func (q *Quota) NodesChanged(guarantees bool) {
	q.t.Lock()
	defer q.t.Unlock()
	e := gang.Only(gang.SearchDiffers | gang.NodeFreed)
	e.Add(gang.Freed(guarantees))
	q.t.Apply(nil, e)
}

// QuotaFor says which queue is short of what the gang's members request in all, or nil.
func (q *Quota) QuotaFor(g *gang.Group, wants resources.List) *quota.Shortage {
	return q.Ledger.RoomFor(g.Key.String(), q.claimsBefore(g, nil, q.t.PriorityOf(g), claimsOf(g, wants)), g.PodGroup.Account, wants)
}

// Later counts the quota that comes free for the members of a gang that lacks it.
func (q *Quota) Later(g *gang.Group, wants resources.List, lacks *quota.Shortage) func() placement.Quota {
	ahead, account := q.claimsBefore(g, nil, q.t.PriorityOf(g), claimsOf(g, wants)), g.PodGroup.Account
	return func() placement.Quota {
		return &quotaLater{
			Charges: q.Ledger.Charges(), ahead: ahead, wants: quota.Claim{Queue: account, Want: wants}, own: quota.QueueOf(lacks.Queue) == quota.QueueOf(account),
		}
	}
}

// quotaLater implements placement.Quota on a copy of what queues use.
type quotaLater struct {
	ledger.Charges
	ahead []quota.Claim
	wants quota.Claim
	own   bool
}

// Suffices implements placement.Quota.
func (l *quotaLater) Suffices() bool {
	return l.Room(l.wants.Queue, l.wants.Want, l.ahead...) == nil
}

// IsOwn implements placement.Quota.
func (l *quotaLater) IsOwn() bool { return l.own }

// claimsBefore is the quota that is reserved against the minimum of a gang of the priority, or against a pod. The pod is surplus of the gang, or has
// no gang (nil). Gangs under repair have no claims before them. One within its share has none of a queue that would be beyond its own.
func (q *Quota) claimsBefore(g *gang.Group, pod *corev1.Pod, priority int32, to claimant) []quota.Claim {
	if upstream.IsCritical(priority) || g != nil && g.UnderRepair {
		return nil
	}
	key, surplus := Key{}, g != nil && pod != nil
	if g != nil && !surplus {
		key = g.Key
	}
	claims := q.t.Waiting.Book.Claims(key, priority, surplus)
	if g == nil || surplus {
		claims = append(claims, q.claimsOfStarted(g, priority)...)
	}
	end, known := q.t.endIfStarted(g, pod)
	claims = append(claims, q.t.Waiting.Book.ClaimsOfStarts(key, q.startNow(g, pod), end, known)...)
	return slices.DeleteFunc(claims, func(c quota.Claim) bool { return q.mayTake(c, to) })
}

// QuotaShortage says which queue has no room for a single pod: a pod without a gang, or surplus. A chosen pod has its quota assumed. The
// pod is activated when quota may have come free. A system-critical pod is charged, and never waits.
func (q *Quota) QuotaShortage(pod *corev1.Pod) *quota.Shortage {
	q.t.Lock()
	defer q.t.Unlock()
	shortage := q.ShortageOf(pod)
	q.t.Apply(nil, q.WaitFor(shortage, pod))
	return shortage
}

// WaitFor puts a pod on the list of pods that wait for quota, if it is short of some.
func (q *Quota) WaitFor(shortage *quota.Shortage, pod *corev1.Pod) (e gang.Effects) {
	if shortage == nil {
		return e
	}
	if _, known := q.Pods[pod.UID]; !known {
		e = gang.Only(gang.SearchDiffers) // more demand waits
	}
	q.Pods[pod.UID] = pod
	return e
}

// ShortageOf says which queue has no room for a single pod; see QuotaShortage.
func (q *Quota) ShortageOf(pod *corev1.Pod) *quota.Shortage {
	account, ahead, waits := q.claimsBeforePod(pod)
	if !waits || account == "" || upstream.IsCritical(corev1helpers.PodPriority(pod)) {
		return nil
	}
	return q.Ledger.RoomFor(LedgerKey(pod.UID), ahead, account, resources.PodRequests(pod))
}

// claimsBeforePod is the account of a single pod or surplus, and the quota that is reserved against it. Nothing is reserved against a
// pod with a seat. waits is false for a member whose gang is checked as a whole.
func (q *Quota) claimsBeforePod(pod *corev1.Pod) (account string, ahead []quota.Claim, waits bool) {
	account, priority := q.Groups.AccountOf(pod), corev1helpers.PodPriority(pod)
	g, m := q.t.Find(pod.UID)
	if m != nil {
		if !g.Seated() {
			return "", nil, false
		}
		account, priority = g.PodGroup.Account, q.t.PriorityOf(g)
	}
	if q.t.Waiting.PodSeats[pod.UID] == nil {
		ahead = q.claimsBefore(g, pod, priority, q.claimantOf(g, pod))
	}
	return account, ahead, true
}

// EvictionsCannotHelp says whether evictions cannot help a pod with a shortage, or nil. The pod asks for more than a whole limit. Or a claim before it
// would get the quota that comes free.
func (q *Quota) EvictionsCannotHelp(pod *corev1.Pod, shortage *quota.Shortage) bool {
	if shortage == nil {
		return false
	}
	_, ahead, _ := q.claimsBeforePod(pod)
	return shortage.IsForEver() || slices.ContainsFunc(ahead, func(c quota.Claim) bool { return slices.Contains(q.Ledger.Path(c.Queue), shortage.Queue) })
}

// StartOf is the start of a pod without a gang.
func (q *Quota) StartOf(pod *corev1.Pod) *reservations.Start {
	start := &reservations.Start{Rank: q.rankOf(pod)}
	if account := q.Groups.AccountOf(pod); account != "" {
		start.Path, start.Amount = q.Ledger.Path(account), resources.PodRequests(pod)
	}
	return start
}

// startNow is a start of a gang, or of a pod of it or of none, without what it uses.
func (q *Quota) startNow(g *gang.Group, pod *corev1.Pod) *reservations.Start {
	if g == nil {
		return &reservations.Start{Rank: q.rankOf(pod)}
	}
	return &reservations.Start{Rank: q.t.Rank(g), Surplus: g.Attempt == nil && g.Seated()}
}

// rankOf is the rank of a pod without a gang. It is queued after gangs of the same second.
func (q *Quota) rankOf(pod *corev1.Pod) reservations.Rank {
	return reservations.Rank{Priority: corev1helpers.PodPriority(pod), Since: pod.CreationTimestamp.Time, Seen: math.MaxInt64, Queue: q.QueueOf(q.Groups.AccountOf(pod))}
}

// StartOfGang is the start of the minimum of a gang, or of a member beyond it.
func (q *Quota) StartOfGang(g *gang.Group, members []*gang.Member, surplus bool) *reservations.Start {
	start := &reservations.Start{Rank: q.t.Rank(g), Surplus: surplus}
	if g.PodGroup.Account != "" {
		start.Path, start.Amount = q.Ledger.Path(g.PodGroup.Account), gang.Requests(members)
	}
	return start
}

// AssumeSeat assumes the quota of a seat. The pod is charged when it holds its room.
func (q *Quota) AssumeSeat(seat *PodSeat) {
	if seat.Account != "" {
		q.Ledger.Assume(LedgerKey(seat.Pod.UID), seat.Account, seat.Requests)
	}
}

// EnforceQuota makes gangs wait for the quota of their queue. The Capacity plugin calls it.
func (q *Quota) EnforceQuota() {
	q.t.Lock()
	defer q.t.Unlock()
	q.Enforced = true
}

// AccountOfPod is the account that a pod is charged to, with or without a gang; "" for none.
func (q *Quota) AccountOfPod(pod *corev1.Pod) string {
	if g, _ := q.t.Find(pod.UID); g != nil && pod.Spec.NodeName == "" && g.PodGroup.Account != "" {
		return g.PodGroup.Account
	}
	return q.AccountOf(pod)
}

// The controller keeps quota for further members of a started gang whose minResources include them, as Spark's executors. Admission counts
// it. Surplus and pods without a gang need no admission, so they are checked here.

// KeepFor notes whether quota is kept for further members of a gang. reserved is what was reserved for it before.
func (q *Quota) KeepFor(g *gang.Group, reserved resources.List) gang.Effects {
	if len(g.PodGroup.Reserved) > 0 {
		q.started[g.Key] = g
	} else {
		delete(q.started, g.Key)
	}
	return gang.Freed(!reserved.Equal(g.PodGroup.Reserved))
}

// claimsOfStarted is the quota that is kept for further members of started gangs, against a pod of the priority. For a member of one of
// them (nil for no gang) its own does not count.
func (q *Quota) claimsOfStarted(own *gang.Group, priority int32) []quota.Claim {
	var claims []quota.Claim
	for _, g := range q.started {
		if g == own || g.PodGroup.Account == "" || !g.Seated() || q.t.PriorityOf(g) < priority {
			continue
		}
		if kept := g.KeptForOthers(); !kept.IsZero() {
			claims = append(claims, quota.Claim{Queue: g.PodGroup.Account, Want: kept, Started: true})
		}
	}
	return claims
}

// NodeGroupsOf are the node groups of the queue of a pod and of its ancestors; nil if these name none. If the pod is tried with them, it is
// tried again when they change, unless it is bound by then.
func (q *Quota) NodeGroupsOf(pod *corev1.Pod, tried bool) (path quota.NodeGroupPath) {
	q.t.Lock()
	defer q.t.Unlock()
	if len(q.nodeGroups) == 0 {
		return nil
	}
	account := q.Groups.AccountOf(pod)
	if g, m := q.t.Find(pod.UID); m != nil && g.PodGroup.Account != "" {
		account = g.PodGroup.Account
	}
	if account == "" {
		return nil
	}
	for _, queue := range q.Ledger.Path(quota.QueueOf(account)) {
		if groups := q.nodeGroups[queue]; groups != nil {
			path = append(path, groups)
		}
	}
	if tried && len(path) > 0 {
		q.Grouped[pod.UID] = pod
	}
	return path
}

// SetNodeGroups takes over the node groups of a queue, nil for none. moved says that the queue may have another place in the tree. Pods and
// gangs are tried again that node groups have kept from nodes.
func (q *Quota) SetNodeGroups(queue string, groups *quota.NodeGroups, moved bool) gang.Effects {
	last := q.nodeGroups[queue]
	if groups == nil {
		delete(q.nodeGroups, queue)
	} else {
		q.nodeGroups[queue] = groups
	}
	if groups.Equal(last) && (!moved || len(q.nodeGroups) == 0) {
		return gang.Effects{}
	}
	for _, g := range q.t.Gangs {
		if g.Refusal != nil && g.Refusal.Rejectors.Has(quota.NodeGroupPlugin) {
			q.t.Apply(g, gang.Only(gang.ToWake))
		}
	}
	return gang.Only(gang.GroupsChanged)
}
