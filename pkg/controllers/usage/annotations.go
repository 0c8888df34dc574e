package usage

import (
	"fmt"
	"strconv"
	"time"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

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

// WaitingTime is how long a PodGroup waits before it is admitted without room; 0 if it has no such annotation. The error names the
// annotation and the valid values.
func WaitingTime(group *schedulingv1beta1.PodGroup) (time.Duration, error) {
	for _, name := range []string{schedulingv1beta1.WaitingTimeAnnotation, schedulingv1beta1.OldWaitingTimeAnnotation} {
		text, written := group.Annotations[name]
		if !written {
			continue
		}
		wait, err := time.ParseDuration(text)
		if err != nil || wait <= 0 {
			return 0, fmt.Errorf("annotation %s is %.40q and is ignored: it must be a duration above 0, such as \"1h30m\"", name, text)
		}
		return wait, nil
	}
	return 0, nil
}
