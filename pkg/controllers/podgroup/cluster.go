package podgroup

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-sched/muster/pkg/resources"
)

// cluster is the sum of the allocatable resources of all nodes. Nodes that are cordoned or not ready count, for two reasons. Shares of queues
// are computed from this sum: without those nodes, a drain would lower the shares, and queues would lose pods. And a cordon ends: a gang that
// needs such a node is admitted, so that autoscalers see its pods and the scheduler says why they wait. If the gang cannot start, its quota is
// released after the hold timeout, as for any other.
type cluster struct {
	grown func() // called when there may be more than before

	mu    sync.Mutex
	nodes map[string]resources.List // node -> allocatable
	total resources.Sums
}

func newCluster(grown func()) *cluster {
	return &cluster{grown: grown, nodes: map[string]resources.List{}, total: resources.Sums{}}
}

// allocatable is the sum over all nodes.
func (c *cluster) allocatable() resources.List {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total.List()
}

func (c *cluster) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.set(obj.(*corev1.Node)) },
		UpdateFunc: func(_, obj any) { c.set(obj.(*corev1.Node)) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				c.replace(name, nil)
			}
		},
	}
}

func (c *cluster) set(node *corev1.Node) {
	c.replace(node.Name, resources.FromResourceList(node.Status.Allocatable))
}

// replace puts amounts in place of what a node had; nil means that the node is gone.
func (c *cluster) replace(node string, amounts resources.List) {
	c.mu.Lock()
	changed := !amounts.Equal(c.nodes[node])
	c.total.Sub(c.nodes[node])
	c.total.Add(amounts)
	c.nodes[node] = amounts
	if amounts == nil {
		delete(c.nodes, node)
	}
	c.mu.Unlock()
	if changed {
		c.grown()
	}
}
