package coscheduling

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestFewNodesAreTakenInACircle(t *testing.T) {
	nodes := make([]fwk.NodeInfo, 5)
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		info := framework.NewNodeInfo()
		info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		nodes[i] = info
	}
	c := &Coscheduling{}
	var rounds []string
	for range 4 {
		names := ""
		for _, node := range c.next(nodes, 2) {
			names += node.Node().Name
		}
		rounds = append(rounds, names)
	}
	assert.Equal(t, []string{"ab", "cd", "ea", "bc"}, rounds)
	assert.Equal(t, "a", nodes[0].Node().Name, "the snapshot's own list is not touched")
}
