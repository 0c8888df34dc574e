// Package nodegroup keeps the pods of a queue on the node groups that the queue and its ancestors allow.
//
// A node's group is the value of its label volcano.sh/nodegroup-name. Pods of queues without spec.affinity skip the plugin. The tracker
// tries the pods again that were rejected, when a queue changes.
package nodegroup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
)

// Name of the plugin in a scheduler configuration.
const Name = quota.NodeGroupPlugin

// NodeGroup is the plugin.
type NodeGroup struct {
	tracker *gangs.Tracker
}

var (
	_ fwk.EnqueueExtensions = (*NodeGroup)(nil)
	_ fwk.PreFilterPlugin   = (*NodeGroup)(nil)
	_ fwk.FilterPlugin      = (*NodeGroup)(nil)
	_ fwk.PreScorePlugin    = (*NodeGroup)(nil)
	_ fwk.ScorePlugin       = (*NodeGroup)(nil)
	_ fwk.SignPlugin        = (*NodeGroup)(nil)
)

// New makes the factory of the plugin on a tracker of gangs. It takes no arguments.
func New(tracker *gangs.Tracker) frameworkruntime.PluginFactory {
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		if obj != nil {
			return nil, fmt.Errorf("the arguments of %s are of type %T, it takes none", Name, obj)
		}
		if err := tracker.Feed.Start(ctx, handle); err != nil {
			return nil, fmt.Errorf("starting the tracker of gangs for %s: %w", Name, err)
		}
		return &NodeGroup{tracker: tracker}, nil
	}
}

// Name returns the name of the plugin.
func (*NodeGroup) Name() string { return Name }

// SignPod adds the node groups of the pod's queue. Pods of queues that name others are filtered and scored by themselves.
func (n *NodeGroup) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	path := n.tracker.Quota.NodeGroupsOf(pod, false)
	if len(path) == 0 {
		return nil, nil
	}
	return []fwk.SignFragment{{Key: "muster.sh/node-groups", Value: path.String()}}, nil
}

// EventsToRegister are the changes of nodes that move them to another group.
func (n *NodeGroup) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, QueueingHintFn: n.mayGoTo},
	}, nil
}

// mayGoTo has a pod tried again when a node comes to a group to which it may go.
func (n *NodeGroup) mayGoTo(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	node, ok := newObj.(*corev1.Node)
	if !ok {
		return fwk.Queue, nil
	}
	path := n.tracker.Quota.NodeGroupsOf(pod, false)
	if path.Refuses(groupOf(node)) != "" {
		return fwk.QueueSkip, nil
	}
	if before, ok := oldObj.(*corev1.Node); ok && path.Refuses(groupOf(before)) == "" {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

const groupsKey fwk.StateKey = Name

// state is the path of a pod's queue in a scheduling cycle.
type state struct{ quota.NodeGroupPath }

// Clone returns the state itself, which does not change.
func (s state) Clone() fwk.StateData { return s }

// PreFilter reads the node groups once for all nodes.
func (n *NodeGroup) PreFilter(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	n.tracker.Feed.AwaitRead(ctx)
	path := n.tracker.Quota.NodeGroupsOf(pod, !placement.IsDryRun(cycle))
	if len(path) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	cycle.Write(groupsKey, state{path})
	return nil, nil
}

// PreFilterExtensions returns nil: other pods do not change the group of a node.
func (*NodeGroup) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects nodes that are not in a group to which the pod may go.
func (*NodeGroup) Filter(_ context.Context, cycle fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if why := pathOf(cycle).Refuses(groupOf(node.Node())); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	return nil
}

// PreScore skips the plugin for pods of queues that prefer no group.
func (*NodeGroup) PreScore(_ context.Context, cycle fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if !pathOf(cycle).HasPreferences() {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score prefers nodes of preferred groups, and nodes of groups to be avoided come last.
func (*NodeGroup) Score(_ context.Context, cycle fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return fwk.MaxScore / 2 * (1 + pathOf(cycle).Prefers(groupOf(node.Node()))), nil
}

// ScoreExtensions returns nil: scores need no normalization.
func (*NodeGroup) ScoreExtensions() fwk.ScoreExtensions { return nil }

func pathOf(cycle fwk.CycleState) quota.NodeGroupPath {
	data, err := cycle.Read(groupsKey)
	if err != nil {
		return nil
	}
	s, _ := data.(state)
	return s.NodeGroupPath
}

func groupOf(node *corev1.Node) string { return node.Labels[schedulingv1beta1.NodeGroupLabel] }
