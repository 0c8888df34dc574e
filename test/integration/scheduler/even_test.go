package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestSurplusIsSharedEvenly: three gangs wait for room, which comes for nine pods. Each starts with one and
// gets two more, however long its pods back off in the scheduling queue. The simulation in pkg/scheduler/gangs draws more back-offs.
func TestSurplusIsSharedEvenly(t *testing.T) {
	for name, comes := range map[string]func(w *world){
		"one node": func(w *world) { w.addNode(0, places(9)) },
		"nine": func(w *world) {
			for i := range 9 {
				w.addNode(i)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newQuietWorld(t, 0)
			for range 4 {
				w.addNode(9, places(0)) // without any node the scheduler does not look at gangs
				for i := range 3 {
					gang := fmt.Sprintf("g%d", i)
					w.createGroup(gang, 1, "")
					w.createGang(gang, 9)
				}
				for i := range 3 {
					w.eventually("it waits", func() bool { return w.reported(fmt.Sprintf("g%d", i), nil) })
				}
				comes(w)
				w.expectBound("g", 9)
				assert.Equal(t, []int{3, 3, 3}, []int{w.bound("g0"), w.bound("g1"), w.bound("g2")})
				w.clear()
			}
		})
	}
}

// places gives a node room for n of the test's pods.
func places(n int) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Allocatable = mustertesting.Resources("cpu", fmt.Sprint(3*n), "memory", "16Gi", "pods", "110")
	}
}
