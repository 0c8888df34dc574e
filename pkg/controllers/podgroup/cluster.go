package podgroup

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-sched/muster/pkg/resources"
)

// cluster adds up what the nodes have, those that are cordoned or not ready too. Pods run on them and are charged, and a queue's share must not
// shrink because nodes are drained: it would have to give pods back. Nor does it keep a gang Pending that would fit without the cordon: that
// passes, autoscalers look for the gang's pods, and the scheduler tells why they wait. Room of the queue is held for them no longer than for
// others that cannot start.
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
