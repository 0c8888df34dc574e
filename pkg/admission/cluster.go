package admission

import (
	"fmt"
	"strconv"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// excess says that a PodGroup asks for more than the cluster has.
type excess struct {
	resource corev1.ResourceName
	want     int64
	others   int64 // use, and room kept for admitted PodGroups, where that counts
	total    int64 // the total of all nodes
	factor   float64
	// more: the amount is for further members, too, not for the minimum alone.
	more bool
}

// isForEver says whether the PodGroup asks for too much, whatever others use.
func (e *excess) isForEver() bool { return float64(e.want) > e.factor*float64(e.total) }

// Error describes the excess.
func (e *excess) Error() string {
	needs := "the minimum needs"
	if e.more {
		needs = "minResources need"
	}
	if !e.isForEver() {
		return fmt.Sprintf("%[6]s %[2]s %[1]s, and %[3]s are used or kept for admitted PodGroups: together more than %[4]g times the %[5]s "+
			"that all nodes have together", e.resource, resources.Format(e.resource, e.want), resources.Format(e.resource, e.others), e.factor,
			resources.Format(e.resource, e.total), needs)
	}
	return fmt.Sprintf("%s %s %s, more than %g times the %s that all nodes have together", needs,
		resources.Format(e.resource, e.want), e.resource, e.factor, resources.Format(e.resource, e.total))
}

// beyondCluster says whether a minimum and all other use are more than factor times what all nodes have together. Factor 0 switches it off.
func beyondCluster(want resources.List, others resources.Sums, total resources.List, factor float64) *excess {
	if factor == 0 {
		return nil
	}
	var worst *excess // the first by name, so that the answer does not depend on the order of the map
	for name, amount := range want {
		e := &excess{resource: name, want: amount, others: others.Amount(name), total: total[name], factor: factor}
		isBeyond := amount > 0 && float64(amount)+float64(e.others) > factor*float64(e.total)
		if isBeyond && (worst == nil || e.isWorseThan(worst)) {
			worst = e
		}
	}
	return worst
}

// isWorseThan orders excesses: an excess that lasts for ever comes first, then the name of the resource counts.
func (e *excess) isWorseThan(other *excess) bool {
	if e.isForEver() != other.isForEver() {
		return e.isForEver()
	}
	return e.resource < other.resource
}

// OvercommitFactor bounds use and holds for the admission of the queue's PodGroups, as a multiple of what all nodes have. It is 0 if the queue
// has no such annotation. The error names the annotation and the valid values.
func OvercommitFactor(queue *schedulingv1beta1.Queue) (float64, error) {
	text, written := queue.Annotations[schedulingv1beta1.OvercommitFactorAnnotation]
	if !written {
		return 0, nil
	}
	factor, err := strconv.ParseFloat(text, 64)
	if err != nil || !(factor >= 1 && factor <= maxFactor) {
		return 0, fmt.Errorf("metadata.annotations[%s] is %.40q: it must be a number from 1 to %d, such as \"1.2\"",
			schedulingv1beta1.OvercommitFactorAnnotation, text, maxFactor)
	}
	return factor, nil
}

// maxFactor is more than any cluster is overcommitted.
const maxFactor = 1000
