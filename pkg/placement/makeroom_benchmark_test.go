package placement

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// allow lets every victim go and has quota.
type allow struct{}

func (allow) Take(*Victim) bool { return true }
func (allow) GiveBack(*Victim)  {}
func (allow) HasQuota() bool    { return true }

// BenchmarkMakeRoom makes room on 500 nodes that single pods fill.
func BenchmarkMakeRoom(b *testing.B) {
	tests := map[string]struct {
		resource string
		perNode  int // pods on each node, of 1 each
		members  int
		each     string
		victims  int
	}{
		"gang of 100 over 5,000 pods":       {"cpu", 10, 100, "1", 100},
		"gang of 100 large over 5,000 pods": {"cpu", 10, 100, "5", 500},
		"one pod over 4,000":                {"nvidia.com/gpu", 8, 1, "1", 1},
		"250 x 8 over 4,000":                {"nvidia.com/gpu", 8, 250, "8", 2000},
	}
	for name, test := range tests {
		b.Run(name, func(b *testing.B) {
			var nodes []*corev1.Node
			var pods, members []*corev1.Pod
			for n := range 500 {
				node := fmt.Sprintf("n%03d", n)
				nodes = append(nodes, mustertesting.MakeNode(node).Allocatable(test.resource, fmt.Sprint(test.perNode), "cpu", "10", "pods", "110").Obj())
				for i := range test.perNode {
					name := fmt.Sprintf("p%d-%d", n, i)
					pods = append(pods, mustertesting.MakePod(name).UID(name).Node(node).Requests(test.resource, "1").Obj())
				}
			}
			for i := range test.members {
				name := fmt.Sprintf("m%d", i)
				members = append(members, mustertesting.MakePod(name).UID(name).Requests(test.resource, test.each).Obj())
			}
			planner, infos := plannerOn(b, nodes, pods...)
			var candidates []*Victim
			for _, info := range infos {
				for _, pod := range info.GetPods() {
					candidates = append(candidates, &Victim{Victim: preemption.NewPodVictim(pod, nil, nil), Kind: gang.SinglePod, Rule: quota.ByPriority, class: 1})
				}
			}
			for b.Loop() {
				seat := planner.MakeRoom(b.Context(), problemOf(members), infos, candidates, allow{})
				require.NotNil(b, seat)
				require.Len(b, seat.Victims, test.victims)
			}
		})
	}
}
