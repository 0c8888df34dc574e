package ledger

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestTheClusterIsTheSumOfItsNodes(t *testing.T) {
	changes, guaranteed := 0, false
	books := New()
	nodes := NewNodes(books, func(guarantees bool) { changes, guaranteed = changes+1, guarantees })
	node := func(name, cpu string) *corev1.Node { return mustertesting.MakeNode(name).Allocatable("cpu", cpu).Obj() }
	nodes.Set(node("a", "4"))
	nodes.Set(node("b", "2"))
	nodes.Set(node("b", "2"))
	assert.Equal(t, 2, changes, "a heartbeat changes nothing")
	nodes.Set(node("b", "3"))
	assert.EqualValues(t, 7000, nodes.Allocatable()[corev1.ResourceCPU])
	cordoned := node("b", "3")
	cordoned.Spec.Unschedulable = true
	nodes.Set(cordoned)
	assert.EqualValues(t, 7000, nodes.Allocatable()[corev1.ResourceCPU], "a cordon takes nothing away: pods run there")
	nodes.Delete(node("a", "4"))
	assert.EqualValues(t, 3000, nodes.Allocatable()[corev1.ResourceCPU])

	assert.False(t, guaranteed)
	assert.Nil(t, books.Room("other", resources.List{corev1.ResourceCPU: 5000}), "queues without guarantees may use more than the nodes have")
	kept := mustertesting.MakeQueue("kept").Obj()
	kept.Spec.Guarantee.Resource = mustertesting.Resources("cpu", "2")
	books.SetQueue(kept)
	shortage := books.Room("other", resources.List{corev1.ResourceCPU: 5000})
	require.EqualError(t, shortage, "the cluster has 1 cpu free of its total, 5 needed; 2 cpu are kept for the guarantees of other queues")
	nodes.Set(node("a", "4"))
	assert.True(t, guaranteed, "what waits for quota may fit now")
	assert.Nil(t, books.Room("other", resources.List{corev1.ResourceCPU: 5000}))
}
