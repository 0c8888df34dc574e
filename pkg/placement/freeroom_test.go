package placement

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-sched/muster/pkg/resources"
)

// TestFreeRoomFollowsTheSnapshot: what is kept of earlier snapshots gives the same numbers as looking at all nodes. Pods come and go, and so do nodes.
func TestFreeRoomFollowsTheSnapshot(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	kept, made := &freeRoom{}, 0
	newNode := func() fwk.NodeInfo {
		info := framework.NewNodeInfo()
		info.SetNode(nodeIn(fmt.Sprintf("a%d", made%3), fmt.Sprintf("n%d", made), 4))
		made++
		return info
	}
	infos := []fwk.NodeInfo{newNode(), newNode(), newNode()}
	tree := treeByZone(infos)
	demand := Demand{Requests: resources.List{"cpu": 1000, "pods": 1}}
	for step := range 500 {
		n := random.Intn(len(infos))
		switch random.Intn(6) {
		case 0:
			infos = append(slices.Clone(infos), newNode())
			tree = treeByZone(infos)
		case 1:
			infos[n] = newNode() // the tree is of before
		case 2:
			random.Shuffle(len(infos), func(i, j int) { infos[i], infos[j] = infos[j], infos[i] })
		case 3:
			if pods := infos[n].GetPods(); len(pods) > 0 {
				require.NoError(t, infos[n].RemovePod(klog.FromContext(t.Context()), pods[0].GetPod()))
			}
		default:
			pod, err := framework.NewPodInfo(in("w", fmt.Sprint("p", step)))
			require.NoError(t, err)
			infos[n].AddPodInfo(pod)
		}
		names := []corev1.ResourceName{"cpu", "pods", "memory"}[:2+random.Intn(2)]
		kept.update(tree, infos, names)
		got, want := make([]int, len(tree.Nodes)), make([]int, len(tree.Nodes))
		kept.slots(demand, got)
		for _, info := range infos {
			if at := tree.IndexOf(info.Node().Name); at >= 0 {
				want[at] = Slots(demand, FreeOn(info, names))
				require.Same(t, info, kept.infoOf(at), "step %d", step)
			}
		}
		require.Equal(t, want, got, "step %d", step)
	}
	demand.MaxPerNode = 1
	one := make([]int, len(tree.Nodes))
	kept.slots(demand, one)
	assert.Equal(t, 1, slices.Max(one))
}
