package gangpreemption

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/eviction"
)

// chosen are the victims that our search has found, on one node. Upstream asks extenders about them, evicts them and nominates the pod.
type chosen struct {
	*defaultpreemption.DefaultPreemption
	node       string // "" if there are none
	pods       []*corev1.Pod
	violations int
}

var _ preemption.Interface = (*chosen)(nil)

// GetOffsetAndNumCandidates says that one node is enough.
func (*chosen) GetOffsetAndNumCandidates(int32) (offset, count int32) { return 0, 1 }

// SelectVictimsOnNode returns the victims. It is asked for the node alone.
func (c *chosen) SelectVictimsOnNode(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo, []*preemption.DomainVictim,
	[]*policyv1.PodDisruptionBudget) ([]*corev1.Pod, int, *fwk.Status) {
	return c.pods, c.violations, nil
}

// choose searches victims for a pod without a queue, but on some nodes. It compares as many nodes as upstream does.
func (p *GangPreemption) choose(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader, but sets.Set[string]) *chosen {
	c := &chosen{DefaultPreemption: p.DefaultPreemption}
	if ok, _ := p.PodEligibleToPreemptOthers(ctx, pod, statuses.Get(pod.Status.NominatedNodeName)); !ok {
		return c // upstream says why
	}
	nodes, err := statuses.NodesForStatusCode(p.handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return c
	}
	from, enough := p.GetOffsetAndNumCandidates(int32(len(nodes)))
	search := &eviction.Preemptor{
		Pod: pod, Cycle: cycle, Nodes: append(nodes[from:len(nodes):len(nodes)], nodes[:from]...), Enough: int(enough),
		MayUse: func(node string) bool { return !but.Has(node) && !p.tracker.Victims.WaitForSeat(pod, node) },
		UnitsOn: func(node fwk.NodeInfo) []*preemption.DomainVictim {
			units, _ := p.Evaluator.GetVictimsOnNode(ctx, node) // it reads the snapshot, which does not fail
			return units
		},
	}
	var victims []*placement.Victim
	c.node, victims = p.victims.ByPriority(ctx, search)
	for _, v := range victims {
		c.pods = append(c.pods, v.AllPods()...)
		c.violations += v.Violations
	}
	return c
}

// preemptWith has upstream evict the victims.
func (p *GangPreemption) preemptWith(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, c *chosen) (*fwk.PostFilterResult, *fwk.Status) {
	only := framework.NewDefaultNodeToStatus()
	if c.node != "" {
		only.Set(c.node, fwk.NewStatus(fwk.Unschedulable))
	}
	// Before the evictions, which may give victims back at once. The next pod's search knows, although evictions are still to come.
	p.tracker.Victims.ClaimVictims(pod.UID, uids(c.pods))
	result, status := preemption.NewEvaluator(Name, p.handle, c, p.Executor).Preempt(ctx, cycle, pod, only)
	if !status.IsSuccess() {
		p.tracker.Victims.DropClaims(pod.UID)
	}
	return result, status
}

// uids are the UIDs of some pods.
func uids(pods []*corev1.Pod) []types.UID {
	uids := make([]types.UID, 0, len(pods))
	for _, pod := range pods {
		uids = append(uids, pod.UID)
	}
	return uids
}
