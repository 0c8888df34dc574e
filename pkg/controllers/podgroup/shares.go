package podgroup

import (
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Shares computes the present share of each queue; the share of the root is the whole cluster.
func (c *Controller) Shares() quota.Shares {
	return c.usage.Ledger().ShareOut(c.admission.cluster.Allocatable(), c.Waiting())
}

// Waiting is the sum of the minimums that wait to be admitted, by queue.
func (c *Controller) Waiting() map[string]resources.Sums {
	waiting := map[string]resources.Sums{}
	for _, group := range c.admission.waitingGroups() {
		queue := usage.QueueOf(group)
		if waiting[queue] == nil {
			waiting[queue] = resources.Sums{}
		}
		waiting[queue].Add(usage.MinimumOf(group))
	}
	return waiting
}
