package histories_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/simulation"
)

// tell goes through a history in several ways, each with a scheduler that has read everything, and reports errors.
func tell(t *testing.T, history func(*world)) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		if failure := inBubble(t, rt, func(w *world) {
			w.pass(time.Second)
			history(w)
		}); failure != "" {
			rt.Fatalf("%s", failure)
		}
	})
}

// gangOf creates a gang that starts as a whole, and its pods.
func (w *world) gangOf(members, cpu int) *schedulingv1beta1.PodGroup {
	group := mustertesting.MakePodGroup(w.newName("gang")).MinMember(int32(members)).Obj()
	group.UID, group.CreationTimestamp = w.newUID(), metav1.Now()
	group.Status.Phase = schedulingv1beta1.PodGroupInqueue
	w.createGroup(group)
	for range members {
		w.createPod(w.podOf(group.Name, "", cpu, 0))
	}
	return group
}

// resize gives each node so many CPUs.
func (w *world) resize(cpu int) {
	for _, node := range w.nodes() {
		update(w, simulation.Nodes, node, func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourceCPU] = *resource.NewQuantity(int64(cpu), resource.DecimalSI)
		})
	}
}

func (w *world) require(ok bool, what string, args ...any) {
	if !ok {
		w.blame(what, args...)
		w.settle()
	}
}

// TestAGangThatWaitsIsWokenByWhatItWaitsFor, and by its own changes: its members' pods and specs may change meanwhile, in any order.
func TestAGangThatWaitsIsWokenByWhatItWaitsFor(t *testing.T) {
	tell(t, func(w *world) {
		gang := w.gangOf(3, 10) // more than a node has
		other := w.gangOf(2, 50)
		w.runFor(time.Second)
		w.runFor(3 * time.Second)
		w.createPod(w.podOf("", "", 1, 0))
		w.runFor(time.Second)

		for range w.draw("changes", 0, 4) {
			w.disturb(gang)
			if w.oneIn(2, "later") {
				w.runFor(2 * time.Second)
			}
		}
		w.runFor(3 * time.Second)
		if w.oneIn(2, "restart") {
			w.restart()
		}
		w.resize(40)
		w.runFor(time.Second)
		w.runFor(time.Second)
		v := w.now()
		have := bound(v.members(gang.Name))
		lacks := v.missing(v.groups[gang.Name], have)
		w.require(lacks == 0 || v.missing(v.groups[gang.Name], v.members(gang.Name)) > 0, "%d members are bound and %d missing although there is room", len(have), lacks)
		w.require(len(bound(v.members(other.Name))) == 0, "a gang is bound that does not fit")
		w.resize(100)
		w.calmDown()
		w.checkRest()
		w.require(len(bound(w.now().members(other.Name))) == 2, "the other gang waits although there is room")
	})
}

// disturb changes something about a gang that waits which does not let it fit.
func (w *world) disturb(gang *schedulingv1beta1.PodGroup) {
	members := w.now().members(gang.Name)
	member, ok := pick(w, "member", members)
	switch how := w.draw("disturbance", 0, 5); {
	case how == 0:
		w.createPod(w.podOf(gang.Name, "", 10, 0))
	case how == 1 && ok:
		w.note("%s is deleted", member.Name)
		w.remove(simulation.Pods, member)
		w.createPod(w.podOf(gang.Name, "", 10, 0))
	case how == 2 && ok:
		w.note("%s has a label", member.Name)
		update(w, simulation.Pods, member, func(p *corev1.Pod) { p.Labels = map[string]string{"changed": w.newName("value")} })
	case how == 3 && ok:
		w.note("%s leaves its gang", member.Name)
		update(w, simulation.Pods, member, func(p *corev1.Pod) { delete(p.Annotations, schedulingv1beta1.GroupNameAnnotation) })
		w.createPod(w.podOf(gang.Name, "", 10, 0))
	case how == 4:
		w.createNode()
	case how == 5:
		w.note("%s is deleted and comes back", gang.Name)
		w.remove(simulation.PodGroups, gang)
		again := gang.DeepCopy()
		again.UID, again.CreationTimestamp, again.ResourceVersion = w.newUID(), metav1.Now(), ""
		again.Status = schedulingv1beta1.PodGroupStatus{Phase: schedulingv1beta1.PodGroupInqueue}
		w.createGroup(again)
		*gang = *again
	}
}

// TestAGangThatHoldsRoomWhereTheNodesHaveGoneLetsGo: in a cluster without nodes the scheduler asks no plugin.
func TestAGangThatHoldsRoomWhereTheNodesHaveGoneLetsGo(t *testing.T) {
	tell(t, func(w *world) {
		w.gangOf(3, 4)
		for range 2 {
			w.process.turn()
			w.settle()
		}
		w.require(w.anyPodHoldsRoom(), "no pod holds room")
		for _, node := range w.nodes() {
			w.note("%s is gone", node.Name)
			w.remove(simulation.Nodes, node)
		}
		w.calmDown()
		w.checkRest()
	})
}

// TestAGangWakesAtOnce when a node comes and when a pod goes: the event wakes it. The scheduler looks at all gangs that are to be judged each
// second. None of these events comes within 200 ms before that look.
func TestAGangWakesAtOnce(t *testing.T) {
	for name, event := range map[string]func(*starts){
		"a node comes": func(s *starts) { s.addNode("new") },
		"a pod goes":   func(s *starts) { s.end("alone", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, offset := range []time.Duration{0, 200 * time.Millisecond, 500 * time.Millisecond, 800 * time.Millisecond} {
				runStarts(t, 2, func(s *starts) {
					s.submit("alone", 1, "")
					s.pass(time.Second)
					s.submit("gang", 2, "")
					s.pass(10*time.Second + offset)
					require.False(t, s.isBound("gang-0") || s.isBound("gang-1"), "it lacks a place")
					event(s)
					s.pass(100 * time.Millisecond)
					for i := range 2 {
						assert.True(t, s.isBound(fmt.Sprintf("gang-%d", i)), "%s after a look at all gangs", offset)
					}
				})
			}
		})
	}
}
