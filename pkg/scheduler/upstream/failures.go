package upstream

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Explainer is the component that tells users why a pod waits.
type Explainer interface {
	// Explains says whether a reporter of our own says why a pod waits.
	Explains(pod *corev1.Pod) bool
	// Fail notes that a pod has found no node.
	Fail(pod *corev1.Pod) (inGang bool)
	// WaitsForQuota says whether a pod waits for quota, so that no node would help it.
	WaitsForQuota(pod *corev1.Pod) bool
}

// HandleFailures installs our failure handler in a scheduler that does not run yet.
func HandleFailures(sched *scheduler.Scheduler, explainer Explainer, quotaReason string) {
	sched.FailureHandler = handleFailures(sched.FailureHandler, explainer, quotaReason)
}

// handleFailures wraps what the scheduler does with a pod that could not be scheduled. For a pod that the explainer explains it writes
// neither an event nor a condition. The condition of a single pod that waits for quota gets the given reason.
//
// Why: the scheduler's own condition has the reason Unschedulable. Cluster autoscalers add nodes for it, also where only quota is missing.
// And it would describe one pod of a gang, and overwrite what the reporter writes for all pods. A plugin cannot change the reason.
func handleFailures(next scheduler.FailureHandlerFn, explainer Explainer, quotaReason string) scheduler.FailureHandlerFn {
	return func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		if errors.Is(status.AsError(), scheduler.ErrNoNodesAvailable) {
			explainer.Fail(pod.Pod) // in a cluster without nodes no plugin is asked
		}
		if status.IsRejected() {
			switch {
			case explainer.Explains(pod.Pod):
				profile = &quietProfile{Framework: profile, ctx: ctx, silent: true}
			case explainer.WaitsForQuota(pod.Pod):
				profile = &quietProfile{Framework: profile, ctx: ctx, reason: quotaReason}
			}
		}
		next(ctx, profile, pod, status, nominating, start)
	}
}

// quietProfile is a profile for the use of the scheduler's failure handler alone.
type quietProfile struct {
	framework.Framework
	ctx    context.Context // of the failure that is handled
	silent bool            // write neither event nor condition
	reason string          // else: the reason to write
}

// EventRecorder returns one that drops what it is given, if the profile is silent.
func (p *quietProfile) EventRecorder() events.EventRecorderLogger {
	if p.silent {
		return noEvents{}
	}
	return p.Framework.EventRecorder()
}

// APICacher returns what writes pods' statuses. The scheduler uses it in place of its client if there is one.
func (p *quietProfile) APICacher() fwk.APICacher {
	return &quietWriter{APICacher: p.Framework.APICacher(), profile: p, client: p.ClientSet()}
}

type noEvents struct{}

// Eventf does nothing.
func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// WithLogger returns the same.
func (n noEvents) WithLogger(klog.Logger) events.EventRecorderLogger { return n }

// quietWriter writes a pod's nomination and, as the profile says, its condition.
type quietWriter struct {
	fwk.APICacher // nil if the scheduler has none
	profile       *quietProfile
	client        kubernetes.Interface
}

// PatchPodStatus writes what is left of the change.
func (w *quietWriter) PatchPodStatus(pod *corev1.Pod, conditions []*corev1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	conditions = w.filter(conditions)
	if w.APICacher != nil {
		return w.APICacher.PatchPodStatus(pod, conditions, nominating)
	}
	status := pod.Status.DeepCopy()
	for _, condition := range conditions {
		UpdatePodCondition(status, condition)
	}
	if nominating.Mode() == fwk.ModeOverride {
		status.NominatedNodeName = nominating.NominatedNodeName
	}
	return nil, PatchPodStatus(w.profile.ctx, w.client, pod, status)
}

// filter drops the conditions that the reporter writes, or gives them the reason of the profile.
func (w *quietWriter) filter(conditions []*corev1.PodCondition) []*corev1.PodCondition {
	if w.profile.silent {
		return slices.DeleteFunc(slices.Clone(conditions), func(c *corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	}
	renamed := make([]*corev1.PodCondition, 0, len(conditions))
	for _, condition := range conditions {
		condition = condition.DeepCopy()
		if condition.Type == corev1.PodScheduled {
			condition.Reason = w.profile.reason
		}
		renamed = append(renamed, condition)
	}
	return renamed
}
