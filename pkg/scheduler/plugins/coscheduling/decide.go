package coscheduling

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/text"
)

const (
	hasChanged    = "the gang has changed"
	behindMinimum = "waiting until the minimum of the gang has started"
	// capacityPlugin is the plugin that quota is enforced by.
	capacityPlugin = "Capacity"
)

// decide decides on the whole gang of a scout. It returns what the scout itself is then, or why it must wait.
func (c *Coscheduling) decide(ctx context.Context, cycle fwk.CycleState, scout *corev1.Pod, nodes []fwk.NodeInfo) (entry state.Entry, message string) {
	snapshot := c.tracker.Decisions.Snapshot(scout)
	if snapshot == nil {
		return entry, hasChanged
	}
	decision := asksTooMuch(snapshot)
	if decision == nil {
		if decision = lacksQuota(snapshot, scout); decision != nil && snapshot.Problem.Quota != nil {
			decision.Reserve = c.planner.StartOf(ctx, &snapshot.Problem, nodes)
		}
	}
	if decision == nil {
		decision = lacksTopology(snapshot)
	}
	if decision == nil {
		decision = c.planner.DecideWithin(ctx, &snapshot.Problem, nodes)
	}
	if snapshot.MayEvict && decision.Feasibility == placement.Impossible && !decision.TooLarge {
		begun := time.Now()
		decision.Seat, decision.SearchAgain = c.victims.SeatFor(ctx, snapshot.Claimant(), &snapshot.Problem, nodes)
		decision.SearchTime += time.Since(begun)
	}
	activate, ok := c.tracker.Decisions.Commit(snapshot, decision)
	switch {
	case !ok:
		return entry, hasChanged
	case decision.Feasibility == placement.Impossible:
		return entry, decision.Message
	}
	activateWith(cycle, scout, activate)
	if entry = c.tracker.Enter(scout); entry.Scout || entry.Reason != "" { // if others have seated the gang meanwhile, it goes on as surplus
		return entry, behindMinimum
	}
	return entry, ""
}

// placeGroup finds places for the rest of a surplus group, which starts whole. The pod goes to its place, and the others are tried next. It
// says why there are no places.
func (c *Coscheduling) placeGroup(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, entry *state.Entry, nodes []fwk.NodeInfo) (message string) {
	decision := c.planner.DecideWithin(ctx, entry.Together, nodes)
	if decision.Feasibility == placement.Impossible {
		return fmt.Sprintf("the %d pods of its sub group that start together find no room: %s", len(entry.Together.Members), decision.Message)
	}
	entry.Node = decision.Places[pod.UID]
	activateWith(cycle, pod, gang.Pods(entry.Together.Members))
	return ""
}

// asksTooMuch is the decision on a gang that no cluster could hold, or nil. Nothing but a change of the gang helps it.
func asksTooMuch(s *gangs.Snapshot) *placement.Decision {
	if s.TooMuch == nil {
		return nil
	}
	return &placement.Decision{
		Feasibility: placement.Impossible, Members: s.Problem.Members, TooLarge: true,
		Message: "the gang " + s.TooMuch.Error(),
	}
}

// lacksTopology is the decision on a gang that asks for a topology that is not known, or nil. A change of the topology helps it.
func lacksTopology(s *gangs.Snapshot) *placement.Decision {
	if s.NoTopology == "" {
		return nil
	}
	return &placement.Decision{Feasibility: placement.Impossible, Members: s.Problem.Members, TooLarge: true, Message: s.NoTopology}
}

// lacksQuota is the decision on a gang that lacks quota, or nil.
func lacksQuota(s *gangs.Snapshot, scout *corev1.Pod) *placement.Decision {
	if s.Lacks == nil {
		return nil
	}
	outlook := ""
	switch {
	case s.ExceedsCapability:
		outlook = "; no quota is reserved for it: " + text.AboveCapability
	case s.QuotaReserved:
		outlook = "; quota is being reserved for it"
	}
	return &placement.Decision{
		Feasibility: placement.Impossible,
		Members:     s.Problem.Members,
		Message:     fmt.Sprintf("the gang's %d members wait for quota: %v%s", len(s.Problem.Members), s.Lacks, outlook),
		Rejectors:   sets.New(capacityPlugin),
		Rejected:    []*corev1.Pod{scout},
	}
}

// activateWith hands pods to the scheduler, which moves them to the front when the cycle of a pod has succeeded.
func activateWith(cycle fwk.CycleState, from *corev1.Pod, pods []*corev1.Pod) {
	data, err := cycle.Read(framework.PodsToActivateKey)
	if err != nil {
		return // the dispatcher does it
	}
	toActivate, ok := data.(*framework.PodsToActivate)
	if !ok {
		return
	}
	toActivate.Lock()
	defer toActivate.Unlock()
	for _, pod := range pods {
		if pod.UID != from.UID {
			toActivate.Map[pod.Namespace+"/"+pod.Name] = pod
		}
	}
}
