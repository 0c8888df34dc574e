package upstream

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// EvictFunc evicts one victim of a preemption, in the name of a plugin. It returns true if the victim was not bound yet, so that nothing had to
// be deleted.
type EvictFunc = func(ctx context.Context, candidate preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *corev1.Pod, plugin string) (bool, error)

// NewPreemption makes the plugin DefaultPreemption. The plugin evicts pods with the function that change returns. change gets upstream's
// function. The plugin has no option for that.
func NewPreemption(ctx context.Context, args *config.DefaultPreemptionArgs, handle fwk.Handle, change func(EvictFunc) EvictFunc) (*defaultpreemption.DefaultPreemption, error) {
	plugin, err := defaultpreemption.New(ctx, args, handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, err
	}
	plugin.Executor.PreemptPod = change(plugin.Executor.PreemptPod)
	return plugin, nil
}

// EarliestStart is when the first of the victims with the highest priority started. Upstream prefers nodes where that is late.
func EarliestStart(victims *extenderv1.Victims) *metav1.Time {
	return util.GetEarliestPodStartTime(victims)
}

// CountPreemption counts an attempt in the metric scheduler_preemption_attempts_total.
func CountPreemption() { metrics.PreemptionAttempts.Inc() }
