package ledger

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// Nodes is the sum of the allocatable resources of all nodes. It passes the sum to the ledger, which keeps guarantees free of it. Nodes
// that are cordoned or not ready count, for two reasons. Shares of queues are computed from this sum. Without those nodes, a drain would
// lower the shares, and queues would lose pods. And a cordon ends: a gang that needs such a node is admitted. So autoscalers see its pods,
// and the scheduler says why they wait. If the gang cannot start, its quota is released after the hold timeout, as for any other.
type Nodes struct {
	ledger  *Ledger
	changed func(guarantees bool)

	mu    sync.Mutex
	nodes map[string]resources.List // node -> allocatable
	total resources.Sums
}

// NewNodes makes the sum for a ledger. changed is called after each change of it, and told whether guarantees depend on it.
func NewNodes(ledger *Ledger, changed func(guarantees bool)) *Nodes {
	return &Nodes{ledger: ledger, changed: changed, nodes: map[string]resources.List{}, total: resources.Sums{}}
}

// Allocatable is the sum over all nodes.
func (n *Nodes) Allocatable() resources.List {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.total.List()
}

// Set takes over what a node has.
func (n *Nodes) Set(node *corev1.Node) {
	n.replace(node.Name, resources.FromResourceList(node.Status.Allocatable))
}

// Delete forgets a node.
func (n *Nodes) Delete(node *corev1.Node) { n.replace(node.Name, nil) }

// replace puts amounts in place of what a node had; nil means that the node is gone.
func (n *Nodes) replace(node string, amounts resources.List) {
	n.mu.Lock()
	isChange := !amounts.Equal(n.nodes[node])
	n.total.Sub(n.nodes[node])
	n.total.Add(amounts)
	n.nodes[node] = amounts
	if amounts == nil {
		delete(n.nodes, node)
	}
	guarantees := isChange && n.ledger.SetTotal(n.total.List())
	n.mu.Unlock()
	if isChange {
		n.changed(guarantees)
	}
}
