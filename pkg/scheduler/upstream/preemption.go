package upstream

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// EvictFunc evicts one victim of a preemption, in the name of a plugin. It returns true if the victim was not bound yet, so that nothing had to
// be deleted.
type EvictFunc = func(ctx context.Context, candidate preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *corev1.Pod, plugin string) (bool, error)

// NewPreemption makes the plugin DefaultPreemption.
func NewPreemption(ctx context.Context, args *config.DefaultPreemptionArgs, handle fwk.Handle) (*defaultpreemption.DefaultPreemption, error) {
	return defaultpreemption.New(ctx, args, handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
}

// CountPreemption counts an attempt in the metric scheduler_preemption_attempts_total.
func CountPreemption() { metrics.PreemptionAttempts.Inc() }
