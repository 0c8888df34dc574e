package explain

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/topology"
)

// waitsForRack is a Job of four pods of one cpu each that must be in one rack. Each of the two racks has two nodes of four cpus.
func waitsForRack(bound ...*corev1.Pod) Facts {
	f := waitingJob()
	f.says(schedulingv1beta1.PodGroupInqueue, schedulingv1beta1.NotEnoughResourcesReason, "no domain within tier 1 has room for the 4 members that start together")
	f.Group.Spec.NetworkTopology = &schedulingv1beta1.NetworkTopologySpec{HighestTierAllowed: ptr.To(1)}
	f.Nodes, f.Bound = nil, nil
	var nodes []topology.Node
	for _, rack := range []string{"r1", "r2"} {
		for i := range 2 {
			name := fmt.Sprintf("%s-%d", rack, i)
			f.Nodes = append(f.Nodes, *mustertesting.MakeNode(name).Allocatable("cpu", "4", "pods", "10").Obj())
			nodes = append(nodes, topology.Node{Name: name, Labels: map[string]string{"rack": rack, "row": "s"}})
		}
	}
	f.Tree = topology.Build(nil, []topology.Labels{{Name: "l", Levels: []topology.Level{{Key: "row", Tier: 2}, {Key: "rack", Tier: 1}}}}, nodes)
	for i := range 4 {
		f.Members = append(f.Members, *mustertesting.MakePod(fmt.Sprint("training-worker-", i)).Namespace("ml").Phase(corev1.PodPending).Requests("cpu", "1").Obj())
	}
	for _, pod := range bound {
		f.Bound = append(f.Bound, *pod)
	}
	return f
}

func onNode(name, group, node, cpu string) *corev1.Pod {
	pod := mustertesting.MakePod(name).Namespace("ml").Node(node).Requests("cpu", cpu)
	if group != "" {
		pod = pod.Group(group)
	}
	return pod.Obj()
}

// TestWhatWouldHaveToLeaveADomain: the fewest gangs, then the fewest pods. Nothing is said where there is room, or where no move helps.
func TestWhatWouldHaveToLeaveADomain(t *testing.T) {
	daemon := func(node string) *corev1.Pod {
		pod := onNode("daemon-"+node, "", node, "2")
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: ptr.To(true)}}
		return pod
	}
	leaving := onNode("leaving", "", "r1-0", "4")
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: now}, []string{"x"}
	for name, test := range map[string]struct {
		bound []*corev1.Pod
		want  string
	}{
		"one gang rather than two": {
			[]*corev1.Pod{onNode("a", "a", "r1-0", "3"), onNode("b", "b", "r1-1", "3"), onNode("c-0", "c", "r2-0", "3"), onNode("c-1", "c", "r2-1", "4"), onNode("d", "d", "r2-0", "1")},
			"Domain s/r1 of tier 1 would have room without PodGroup ml/a (1 pod). Nothing moves them by itself.",
		},
		"two gangs where one is too few": {
			[]*corev1.Pod{daemon("r1-0"), daemon("r1-1"), onNode("a", "a", "r1-0", "2"), onNode("b", "", "r1-1", "2"), daemon("r2-0"), daemon("r2-1"), onNode("c-0", "c", "r2-0", "2"), onNode("c-1", "c", "r2-1", "2")},
			"Domain s/r2 of tier 1 would have room without PodGroup ml/c (2 pods). Nothing moves them by itself.",
		},
		"pods without a gang": {
			[]*corev1.Pod{onNode("x", "", "r1-0", "4"), onNode("y", "", "r1-1", "1"), onNode("c-0", "c", "r2-0", "4"), onNode("c-1", "c", "r2-1", "1"), daemon("r1-1"), daemon("r2-1")},
			"Domain s/r1 of tier 1 would have room without Pod ml/x (1 pod). Nothing moves them by itself.",
		},
		"there is room":                {nil, ""},
		"a pod that goes makes room":   {[]*corev1.Pod{leaving, onNode("a", "a", "r1-1", "4"), onNode("b", "b", "r2-0", "4"), onNode("c", "c", "r2-1", "4")}, ""},
		"daemons would have to leave":  {[]*corev1.Pod{daemon("r1-0"), daemon("r1-1"), daemon("r1-0"), daemon("r2-0"), daemon("r2-1"), daemon("r2-0")}, ""},
		"the pods of a gang elsewhere": {[]*corev1.Pod{onNode("a-0", "a", "r1-0", "4"), onNode("a-1", "a", "r2-0", "4"), onNode("b", "b", "r1-1", "4"), onNode("c", "c", "r2-1", "4")}, "Domain s/r1 of tier 1 would have room without PodGroup ml/b (1 pod). Nothing moves them by itself."},
	} {
		t.Run(name, func(t *testing.T) {
			f := waitsForRack(test.bound...)
			page := Job(f)
			lines := section(page, headingFrees)
			if test.want == "" {
				assert.Empty(t, lines)
				assert.Nil(t, page.Wait.Move)
				return
			}
			assert.Equal(t, []string{test.want}, lines)
			require.NotNil(t, page.Wait.Move)
			assert.Equal(t, 1, page.Wait.Move.Tier)
		})
	}
}

// TestNoAdviceWithoutWhatItNeeds: the right to read nodes and pods, an admitted gang, and a limit.
func TestNoAdviceWithoutWhatItNeeds(t *testing.T) {
	full := []*corev1.Pod{onNode("a", "a", "r1-0", "4"), onNode("b", "b", "r1-1", "4"), onNode("c", "c", "r2-0", "4"), onNode("d", "d", "r2-1", "4")}
	for name, change := range map[string]func(*Facts){
		"nodes are not read": func(f *Facts) { f.Unread = []Part{PartNodes} },
		"no tree":            func(f *Facts) { f.Tree = nil },
		"not admitted":       func(f *Facts) { f.Group.Status.Phase = schedulingv1beta1.PodGroupPending },
		"soft":               func(f *Facts) { f.Group.Spec.NetworkTopology.Mode = schedulingv1beta1.SoftNetworkTopologyMode },
	} {
		f := waitsForRack(full...)
		require.NotEmpty(t, section(Job(f), headingFrees))
		change(&f)
		assert.Empty(t, section(Job(f), headingFrees), name)
	}
}
