package histories_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/simulation"
)

// TestPreemptionLeavesNoGangBelowItsMinimum has urgent pods preempt members of gangs, while the watch of pods lags. The API has deleted victims
// before the scheduler sees it, and a deletion may take up to 60 ms. In the end each gang has its minimum on nodes, or no pod. No pod that fits
// waits.
func TestPreemptionLeavesNoGangBelowItsMinimum(t *testing.T) {
	var failure string // the first, as in TestT3_NoMemberIsBoundBeforeTheMinimum
	mustertesting.Histories(t, histories/4, func(rt *rapid.T) {
		if failure == "" {
			failure = inBubble(t, rt, func(w *world) {
				for range w.draw("gangs", 3, 5) {
					w.createElasticGang()
				}
				w.runFor(time.Second)
				w.runFor(time.Second)
				for range w.draw("steps", 10, 80) {
					w.preemptionStep()
					w.settle()
				}
				w.calmDown()
				w.checkWholeOrGone()
				w.checkRest()
			})
		}
		if failure != "" {
			rt.Fatalf("%s", failure)
		}
	})
}

// createElasticGang creates a gang that may be larger than its minimum, without a queue.
func (w *world) createElasticGang() {
	group := mustertesting.MakePodGroup(w.newName("gang")).MinMember(int32(w.draw("minMember", 2, 4))).Obj()
	group.UID, group.CreationTimestamp = w.newUID(), metav1.Now()
	group.Status.Phase = schedulingv1beta1.PodGroupInqueue
	w.createGroup(group)
	for range int(group.Spec.MinMember) + w.draw("surplus", 0, 2) {
		pod := w.podOf(group.Name, "", 1, 0)
		pod.Spec.Priority = ptr.To(int32(10 * w.draw("priority", 0, 2)))
		w.createPod(pod)
	}
}

func (w *world) createUrgent() {
	pod := w.podOf("", "", w.draw("cpu", 1, 3), 0)
	pod.Spec.Priority = ptr.To(int32(5 + 10*w.draw("priority", 0, 3)))
	w.createPod(pod)
}

// preemptionStep is one thing that happens.
func (w *world) preemptionStep() {
	switch w.draw("step", 0, 13) {
	case 0, 1:
		w.createUrgent()
	case 2, 3, 4:
		w.scheduleSome()
	case 5:
		if tried, ok := pick(w, "binding", w.process.attempts()); ok {
			w.decide(tried, succeeds)
		}
	case 6:
		w.note("watches of pods lag")
		w.api.Hold(simulation.Pods)
	case 7, 9, 10:
		w.note("watches of pods show one event")
		w.change(func() error {
			w.api.ShowNext(simulation.Pods)
			return nil
		})
	case 8:
		w.catchUp(simulation.Pods)
	case 11:
		d := time.Duration(w.draw("takes", 0, 3)) * 20 * time.Millisecond
		w.note("an eviction takes %s", d)
		w.process.mu.Lock()
		w.process.evictsIn = d
		w.process.mu.Unlock()
	default:
		d := time.Duration(w.draw("ms", 1, 60)) * time.Millisecond
		w.note("%s pass", d)
		w.pass(d)
	}
}

// checkWholeOrGone says that no gang has fewer members on nodes than its minimum, but more than none.
func (w *world) checkWholeOrGone() {
	v := w.now()
	for name, group := range v.groups {
		have := bound(v.members(name))
		if n := v.missing(group, have); n > 0 && len(have) > 0 {
			w.blame("%s has %d members on nodes, and %d are missing", name, len(have), n)
		}
	}
	if len(w.wrong) > 0 {
		w.note("at rest: %s", v)
	}
	w.settle()
}
