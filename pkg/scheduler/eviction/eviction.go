// Package eviction finds pods whose eviction makes room for a gang, or for a single pod. It reads the scheduler's snapshot. The tracker
// says which pods gangs can spare, and the rules of the queues say which pods may be evicted. Package placement searches among them. It
// evicts nothing: the tracker does when the decision is committed. lowered.go finds the pods of queues that use more than their capability.
package eviction

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"

	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// Search finds victims for the gangs of one scheduling profile.
type Search struct {
	victims *evict.Victims
	handle  fwk.Handle
	planner *placement.Planner
}

// ForProfile makes a Search for a plugin of a profile.
func ForProfile(victims *evict.Victims, handle fwk.Handle) (*Search, error) {
	profile, ok := handle.(framework.Framework)
	if !ok {
		return nil, fmt.Errorf("the scheduler's framework is needed, got %T", handle)
	}
	return New(victims, profile, placement.NewPlanner(profile)), nil
}

// New makes a Search. The planner must be that of the profile.
func New(victims *evict.Victims, handle fwk.Handle, planner *placement.Planner) *Search {
	return &Search{victims: victims, handle: handle, planner: planner}
}

// SeatFor finds the fewest pods whose eviction seats all members of a problem. The problem is that of a gang or of a single pod. It returns
// nil if there are none, and when the answer may change by time alone. Pods that are about to go are counted as gone, and the seat says which of
// them it needs.
func (s *Search) SeatFor(ctx context.Context, claimant *evict.Claimant, problem *placement.Problem, nodes []fwk.NodeInfo) (seat *placement.Seat, again time.Time) {
	begun := time.Now()
	defer func() { s.victims.Searched(time.Since(begun), seat != nil) }()
	all, err := s.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, time.Time{} // the snapshot is in memory and does not fail
	}
	c := s.census(all, claimant)
	rules := s.victims.Rules(claimant, c.total, c.leavingUIDs())
	candidates := s.candidates(c, rules, time.Now())
	if len(candidates) == 0 {
		return nil, c.again
	}
	ranked := placement.RankForRoom(candidates, s.budgets(), rules.Excess)
	seat = s.planner.MakeRoomWithin(ctx, problem, nodes, append(c.leaving, ranked...), rules)
	if seat == nil || !slices.ContainsFunc(seat.Victims, func(v *placement.Victim) bool { return v.Rule != quota.NotAllowed }) {
		return nil, c.again // what goes by itself is enough
	}
	return seat, time.Time{}
}

// census is what runs in the cluster, and may be evicted as far as it says itself.
type census struct {
	victims *evict.Victims
	own     state.Key      // the claimant's gang, of which nothing goes
	total   resources.List // what all nodes have
	leaving []*placement.Victim
	singles []fwk.PodInfo
	gangs   map[state.Key]*placement.GangVictims // nil for a gang that needs no care
	order   []*placement.GangVictims             // as first seen
	again   time.Time                            // the first time when a pod may be evicted that must stay now; zero for none
	// byPriority: it is for a pod without a queue, see priority.go.
	byPriority  bool
	minRuntimes map[string]time.Duration // by account
}

// mayChangeAt notes a time when the census changes. A pod has run long enough then, or is not expected to go any more.
func (c *census) mayChangeAt(at time.Time) {
	if c.again.IsZero() || at.Before(c.again) {
		c.again = at
	}
}

// census looks at all pods. Where priority alone decides, it leaves out pods whose priority is not lower: most searches end there.
func (s *Search) census(nodes []fwk.NodeInfo, claimant *evict.Claimant) *census {
	c := newCensus(s.victims, claimant.Gang)
	going := s.victims.Leaving()
	for _, node := range nodes {
		c.total.Add(placement.AllocatableOn(node))
		for _, info := range node.GetPods() {
			pod := info.GetPod()
			switch {
			case isGoing(pod) || going.Has(pod.UID) && !gang.Lingers(pod):
				c.leaving = append(c.leaving, leaver(info))
				if pod.DeletionTimestamp != nil {
					c.mayChangeAt(pod.DeletionTimestamp.Add(stuckAfter))
				}
			case claimant.Account == "" && corev1helpers.PodPriority(pod) >= claimant.Priority:
			default:
				c.add(info)
			}
		}
	}
	return c
}

func newCensus(victims *evict.Victims, own state.Key) *census {
	return &census{victims: victims, own: own, total: resources.List{}, gangs: map[state.Key]*placement.GangVictims{}, minRuntimes: map[string]time.Duration{}}
}

// add counts a pod if it may be evicted.
func (c *census) add(info fwk.PodInfo) {
	pod := info.GetPod()
	key, inGang := gang.KeyOf(pod)
	switch {
	case !gang.MayBeEvicted(pod):
	case !inGang || gang.Lingers(pod): // no gang needs one that lingers
		c.singles = append(c.singles, info)
	case key == c.own:
	default:
		if g := c.gang(key); g != nil {
			g.Pods[pod.UID] = info
		} else {
			c.singles = append(c.singles, info)
		}
	}
}

// gang is a gang as it stood when it was first asked for; nil if it needs no pod.
func (c *census) gang(key state.Key) *placement.GangVictims {
	g, known := c.gangs[key]
	if !known {
		g = c.victims.Standing(key)
		c.gangs[key] = g
		if g != nil {
			g.Pods = map[types.UID]fwk.PodInfo{}
			c.order = append(c.order, g)
		}
	}
	return g
}

// stuckAfter is a time after the grace period of a pod that is being deleted. A pod that is still there then is expected to stay.
const stuckAfter = 30 * time.Second

// isGoing says whether a pod is being deleted, and may be expected to be gone soon.
func isGoing(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && !gang.Lingers(pod) && time.Since(pod.DeletionTimestamp.Time) < stuckAfter
}

// leaver is a pod that goes without being evicted for the gang.
func leaver(info fwk.PodInfo) *placement.Victim {
	return &placement.Victim{Victim: preemption.NewPodVictim(info, nil, nil), Kind: gang.SinglePod, Rule: quota.NotAllowed}
}

func (c *census) leavingUIDs() []types.UID {
	uids := make([]types.UID, len(c.leaving))
	for i, v := range c.leaving {
		uids[i] = v.AllPods()[0].UID
	}
	return uids
}

// judge says which candidates may be evicted.
type judge interface {
	// Below is the priority below which units of an account may go.
	Below(account string) int32
	// Judged is a candidate with the rule by which it may go, nil if there is none. A candidate may ask to stay.
	Judged(v *placement.Victim) *placement.Victim
}

// candidates are what may be evicted, each by itself, but for the members of a gang.
func (s *Search) candidates(c *census, rules judge, now time.Time) []*placement.Victim {
	candidates := s.singles(c.singles, c, rules, now)
	for _, g := range c.order {
		candidates = append(candidates, parts(g, c, rules, now)...)
	}
	return candidates
}

// singles are the pods that no gang needs and that may be evicted.
func (s *Search) singles(infos []fwk.PodInfo, c *census, rules judge, now time.Time) (candidates []*placement.Victim) {
	for _, info := range infos {
		pod := info.GetPod()
		account, requests, charged := s.victims.Quota.Ledger.Charged(pod.UID)
		if !charged {
			account = s.victims.Quota.AccountOf(pod)
		}
		if !charged && !c.byPriority {
			requests = resources.PodRequests(pod)
		}
		if c.isNew(pod, account, now) {
			continue
		}
		v := &placement.Victim{
			Victim: preemption.NewPodVictim(info, nil, nil), Kind: gang.SinglePod, Account: account, Requests: requests, Since: gang.StartOf(pod).Time,
			AsksToStay: c.asksToStay(pod, now),
		}
		if rules.Judged(v) != nil {
			candidates = append(candidates, v)
		}
	}
	return candidates
}

// parts are what may be evicted of a gang: its surplus members, and the rest as a whole.
func parts(g *placement.GangVictims, c *census, rules judge, now time.Time) []*placement.Victim {
	var movable []*gang.Member
	for _, m := range g.Holding {
		if m.State == gang.Bound && g.Pods[m.UID] != nil && !c.isNew(m.Pod, g.Account, now) {
			movable = append(movable, m)
		}
	}
	asks := func(pod *corev1.Pod) bool { return c.asksToStay(pod, now) }
	return slices.DeleteFunc(g.Candidates(movable, rules.Below(g.Account), gang.WillingFirst(asks), asks), func(v *placement.Victim) bool {
		return v.Kind == gang.WholeGang && len(movable) < len(g.Holding) || rules.Judged(v) == nil
	})
}

// isNew says whether a pod has run for less than its queue's minimum runtime, and notes until when. It is not evicted at all before.
func (c *census) isNew(pod *corev1.Pod, account string, now time.Time) bool {
	least, known := c.minRuntimes[account]
	if !known {
		least = c.victims.MinRuntime(account)
		c.minRuntimes[account] = least
	}
	return least > 0 && c.isBefore(now, gang.StartOf(pod).Add(least))
}

// asksToStay says whether a pod asks not to be evicted, and notes until when.
func (c *census) asksToStay(pod *corev1.Pod, now time.Time) bool {
	says := gang.AsksToStay
	if c.byPriority {
		says = saysToStay
	}
	return says(pod) || c.isBefore(now, coolUntil(pod))
}

func (c *census) isBefore(now, until time.Time) bool {
	if now.Before(until) {
		c.mayChangeAt(until)
		return true
	}
	return false
}

// saysToStay says whether a pod says in words that it must not be evicted.
func saysToStay(pod *corev1.Pod) bool {
	return gang.AnnotationOrLabel(pod, batchv1alpha1.PodPreemptableKey) == "false"
}

// AsksToStay says whether a pod must not be evicted by priority. A DaemonSet's pod may go: so upstream's preemption has it.
func AsksToStay(pod *corev1.Pod, now time.Time) bool {
	return saysToStay(pod) || now.Before(coolUntil(pod))
}

// coolUntil is when a pod has run for its own minimum runtime, zero if it has none.
func coolUntil(pod *corev1.Pod) time.Time {
	text := gang.AnnotationOrLabel(pod, batchv1alpha1.CooldownTimeKey)
	if text == "" {
		return time.Time{} // most pods have none, and an error is costly
	}
	cooldown, err := time.ParseDuration(text)
	if err != nil {
		return time.Time{}
	}
	return gang.StartOf(pod).Add(cooldown)
}

// budgets are all disruption budgets.
func (s *Search) budgets() []*policyv1.PodDisruptionBudget {
	budgets, err := s.handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return nil // the informer is in memory and does not fail
	}
	return budgets
}
