package eviction

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-sched/muster/pkg/placement"
)

// Why a pod still waits. The texts are constant: the next search finds the same, as a rule.
const (
	victimsLeave = "pods that were evicted for it are still ending"
	nothingFound = "no eviction that the queues and priorities allow makes room for it"
)

// MakeRoomFor is PostFilter for a pod that a queue is charged for. It evicts the fewest pods that give the pod room and quota, and nominates the
// pod to the node. The nomination stays until the victims are gone. If nothing is evicted it ends, as it would keep room from other pods.
func (s *Search) MakeRoomFor(ctx context.Context, pod *corev1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
	search, waits := s.victims.SearchFor(pod)
	if waits {
		return nil, fwk.NewStatus(fwk.Unschedulable, victimsLeave)
	}
	if search != nil {
		nodes, err := s.handle.SnapshotSharedLister().NodeInfos().List()
		if err != nil {
			return nil, fwk.AsStatus(err)
		}
		var seat *placement.Seat
		seat, search.Again = s.SeatFor(ctx, &search.Claimant, &search.Problem, nodes)
		if node, ok := s.victims.CommitSeat(search, seat); ok {
			return framework.NewPostFilterResultWithNominatedNode(node), nil
		}
	}
	return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.Unschedulable, nothingFound)
}
