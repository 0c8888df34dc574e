package state

import (
	"time"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// charges has the charges of pods, and the pods and gangs that wait for quota.
type charges struct {
	// Ledger of charges and of assumed quota.
	Ledger *ledger.Ledger
	// Groups are the queues that are groups of PrimeHub.
	Groups   ledger.Groups
	Enforced bool                      // the Capacity plugin is part of a profile
	Bound    sets.Set[types.UID]       // pods that are charged and bound by the API: their charge stays until they are gone
	Pods     map[types.UID]*corev1.Pod // single pods and surplus that wait for quota
	Gangs    sets.Set[Key]             // gangs that wait for quota
	Terms    map[string]QueueTerms     // by queue; queues without one are missing
	started  map[Key]*gang.Group       // gangs for whose further members quota may be kept

	shares   quota.Shares // as of sharedAt
	sharedAt time.Time

	Queues     sets.Set[string]             // that exist
	nodeGroups map[string]*quota.NodeGroups // by queue; queues that name none are missing
	Grouped    map[types.UID]*corev1.Pod    // pods that were tried in a queue with node groups: they are tried again when these change
}

func newCharges() *charges {
	return &charges{Ledger: ledger.New(), Bound: sets.New[types.UID](), Pods: map[types.UID]*corev1.Pod{}, Gangs: sets.New[Key](), Terms: map[string]QueueTerms{},
		Queues: sets.New[string](), nodeGroups: map[string]*quota.NodeGroups{}, Grouped: map[types.UID]*corev1.Pod{}, started: map[Key]*gang.Group{}}
}

// QueueTerms are a queue's settings for evictions.
type QueueTerms struct {
	MinRuntime      time.Duration // its pods are not evicted before they have run so long
	PreemptionDelay time.Duration // nothing is evicted for its gangs before they have waited so long
}

// QueueOf is the queue of an account. It is "" where no quota is enforced.
func (q *charges) QueueOf(account string) string {
	if !q.Enforced {
		return ""
	}
	return quota.QueueOf(account)
}

// TermsOf are the terms of the queue of an account.
func (q *charges) TermsOf(account string) QueueTerms { return q.Terms[quota.QueueOf(account)] }

// claimant is who asks for room or quota.
type claimant struct {
	key string // under which it assumes quota
	quota.Claim
}

// claimsOf is the gang as one that asks for an amount.
func claimsOf(g *gang.Group, want resources.List) claimant {
	return claimant{g.Key.String(), quota.Claim{Queue: g.PodGroup.Account, Want: want}}
}

// Forget drops a pod that is gone.
func (q *charges) Forget(pod types.UID) {
	delete(q.Pods, pod)
	delete(q.Grouped, pod)
	q.Bound.Delete(pod)
}

// LacksQueue says whether the queue of a gang was deleted after it had admitted the PodGroup. Nothing would limit the gang then, so it waits.
// The queue default is made by muster-controller, and cannot be deleted.
func (q *charges) LacksQueue(g *gang.Group) bool {
	queue := quota.QueueOf(g.PodGroup.Account)
	return q.Enforced && queue != "" && queue != schedulingv1beta1.DefaultQueue && !q.Queues.Has(queue)
}
