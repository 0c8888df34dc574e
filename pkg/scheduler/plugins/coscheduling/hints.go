package coscheduling

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// EventsToRegister are the events of all plugins of the profile. An event that wakes a pod that such a plugin has rejected must wake the
// plugin's rejected gangs. Each event is put to that plugin's own hint, with the pod that was rejected.
func (c *Coscheduling) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	var events []fwk.ClusterEventWithHint
	for _, plugin := range c.handle.EnqueueExtensions() {
		if plugin.Name() == Name {
			continue
		}
		theirs, err := plugin.EventsToRegister(ctx)
		if err != nil {
			return nil, fmt.Errorf("asking %s for its events: %w", plugin.Name(), err)
		}
		for _, event := range theirs {
			ours := fwk.ClusterEventWithHint{Event: event.Event, QueueingHintFn: c.hintFor(plugin.Name(), event.QueueingHintFn)}
			if event.PreQueueingHintFn != nil {
				ours.PreQueueingHintFn = askAboutAll
			}
			events = append(events, ours)
		}
	}
	return events, nil
}

// hintFor puts an event to the hint of a plugin, if that plugin has rejected the pod's gang. It never has the queue move the pod. A gang that
// may be helped is woken by the tracker, past the queue's back-off and in order with others.
func (c *Coscheduling) hintFor(plugin string, hint fwk.QueueingHintFn) fwk.QueueingHintFn {
	looksAtRoom := plugin == names.NodeResourcesFit
	return func(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		rejected, ask := c.tracker.Hints.RejectedBy(plugin, pod)
		if !ask {
			if looksAtRoom && hint != nil && c.tracker.Hints.IsBlocked(pod) {
				return hint(logger, pod, oldObj, newObj) // a single pod: room beside what is reserved helps it
			}
			return fwk.QueueSkip, nil
		}
		// Freed room counts whatever the hint says: it may be enough together with the room that is freed next.
		if r, known := c.freed.by(oldObj, newObj); known && looksAtRoom && !c.tracker.Hints.Free(pod, r.node, r.amount) {
			return fwk.QueueSkip, nil
		}
		if mayHelpAny(logger, hint, rejected, oldObj, newObj) {
			c.tracker.Hints.Wake(pod)
		}
		return fwk.QueueSkip, nil
	}
}

// mostAsked limits for how many demand classes a hint is asked about one event: it runs under the queue's lock.
const mostAsked = 16

// mayHelpAny says whether an event may help one of the pods. A gang of very many demand classes is taken to be helped.
func mayHelpAny(logger klog.Logger, hint fwk.QueueingHintFn, pods []*corev1.Pod, oldObj, newObj any) bool {
	if hint == nil || len(pods) > mostAsked {
		return true
	}
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		answer, err := hint(logger, pod, oldObj, newObj)
		return err != nil || answer != fwk.QueueSkip
	})
}

// askAboutAll has all hints asked about an event, although a plugin names the pods that it has rejected. It does not know the scouts that wait
// in their name.
func askAboutAll(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) {
	return fwk.PreQueueingHintResult{AllPods: true}, nil
}
