package placement

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
)

// Filters is the part of fwk.Handle that asks filters about a pod on a node. Pods can be added and removed before.
type Filters interface {
	RunFilterPluginsWithNominatedPods(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status
	RunPreFilterExtensionAddPod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status
	RunPreFilterExtensionRemovePod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status
	SnapshotSharedLister() fwk.SharedLister
}

// Profile is the part of the scheduler's framework.Framework that a Planner needs.
type Profile interface {
	Filters
	RunPreFilterPlugins(context.Context, fwk.CycleState, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
	NominatedPodsForNode(node string) []fwk.PodInfo
	RunFilterPlugins(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status
	RunReservePluginsReserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status
	RunReservePluginsUnreserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string)
	EnqueueExtensions() []fwk.EnqueueExtensions
	SharedInformerFactory() informers.SharedInformerFactory
}

const dryRunKey fwk.StateKey = "MusterDryRun"

// dryRun marks a cycle state.
type dryRun struct{}

// Clone returns the mark itself.
func (dryRun) Clone() fwk.StateData { return dryRun{} }

// MarkDryRun marks a cycle state in which a decision runs the plugins of the profile. Nothing is really placed.
func MarkDryRun(cycle fwk.CycleState) { cycle.Write(dryRunKey, dryRun{}) }

// IsDryRun says whether a cycle state is marked. A plugin must then neither decide on a gang nor change its own state.
func IsDryRun(cycle fwk.CycleState) bool {
	_, err := cycle.Read(dryRunKey)
	return err == nil
}
