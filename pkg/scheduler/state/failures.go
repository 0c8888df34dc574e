package state

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
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// HandleFailures wraps what the scheduler does with a pod that could not be scheduled. The scheduler would write an event and
// a condition for the one pod that it tried; of a gang that waits as a whole, the reporter tells, of all members alike. So
// a round that fails costs no writes at all, whatever the size of the gang. For pods that stand for themselves nothing changes,
// but that those that wait for quota say so: no node would help them.
//
// In a cluster without nodes no plugin is asked: only here a gang of which some members hold room on nodes that have gone learns
// that the others will find none.
func (s *Store) HandleFailures(next scheduler.FailureHandlerFn) scheduler.FailureHandlerFn {
	s.speaks.Store(true)
	return func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		if errors.Is(status.AsError(), scheduler.ErrNoNodesAvailable) {
			s.Fail(pod.Pod)
		}
		if status.IsRejected() {
			switch {
			case s.speaksFor(pod.Pod):
				profile = &quietProfile{Framework: profile, ctx: ctx, silent: true}
			case s.waitsForQuota(pod.Pod):
				profile = &quietProfile{Framework: profile, ctx: ctx, reason: ReasonWaitingForQuota}
			}
		}
		next(ctx, profile, pod, status, nominating, start)
		s.FailureHandled(pod.Pod)
	}
}

// speaksFor says whether the reporter tells why a pod waits: it is of a gang whose minimum is not seated, or stands back
// for one for a moment.
func (s *Store) speaksFor(pod *corev1.Pod) bool {
	if _, ok := groupOf(pod); !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, m := s.find(pod.UID)
	if m == nil {
		return true // it is gone, or going
	}
	_, yielded := s.yielded[pod.UID]
	return yielded || !g.Seated()
}

func (s *Store) waitsForQuota(pod *corev1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waits := s.quotaWaiters[pod.UID]
	return waits
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
		podutil.UpdatePodCondition(status, condition)
	}
	if nominating.Mode() == fwk.ModeOverride {
		status.NominatedNodeName = nominating.NominatedNodeName
	}
	return nil, util.PatchPodStatus(w.profile.ctx, w.client, pod.Name, pod.Namespace, &pod.Status, status)
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
