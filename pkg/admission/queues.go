package admission

import (
	"cmp"
	"fmt"
	"time"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
)

// openingTime is how long the queue controller may take to open a new queue before a message says so. The members of a new PodGroup may
// take as long to come, where that matters.
const openingTime = 10 * time.Second

// Queues are the queues that exist, by name.
type Queues map[string]*schedulingv1beta1.Queue

// QueuesOf are the queues of a list.
func QueuesOf(all []*schedulingv1beta1.Queue) Queues {
	queues := make(Queues, len(all))
	for _, queue := range all {
		queues[queue.Name] = queue
	}
	return queues
}

// get is a queue of a name, an empty one if there is none.
func (q Queues) get(name string) *schedulingv1beta1.Queue {
	if queue := q[name]; queue != nil {
		return queue
	}
	return &schedulingv1beta1.Queue{}
}

// maxRunning is how many PodGroups of a queue may run at the same time; nil for any number.
func (q Queues) maxRunning(name string) *int32 {
	if own := q.get(name).Spec.Muster; own != nil {
		return own.MaxRunningJobs
	}
	return nil
}

// LimitRunning says whether any queue limits how many PodGroups run.
func (q Queues) LimitRunning() bool {
	for name := range q {
		if q.maxRunning(name) != nil {
			return true
		}
	}
	return false
}

// opening says whether a queue is new, and the queue controller is about to open it.
func (q Queues) opening(name string, now time.Time) bool {
	queue := q[name]
	return queue != nil && queue.Status.State == "" && now.Sub(queue.CreationTimestamp.Time) < openingTime
}

// notOpen says why a queue takes no work, "" if it does. The queue, or one of its ancestors, does not exist or is not open. path leads from
// the queue to the root.
func (q Queues) notOpen(path []string) string {
	name := path[0]
	switch state := q.get(name).Status.State; {
	case q[name] == nil:
		return quoted(name) + " does not exist"
	case state != schedulingv1beta1.QueueStateOpen:
		return quoted(name) + " is " + cmp.Or(string(state), "not open yet")
	}
	for _, ancestor := range path[1:] {
		if state := q.get(ancestor).Status.State; state.IsShut() {
			return quoted(ancestor) + ", above " + quoted(name) + ", is " + string(state)
		}
	}
	return ""
}

// tooMany names the queue on the path to the root that has its maximum of running PodGroups. It is "" if there is none.
func (q Queues) tooMany(running map[string]int32, path []string) string {
	for _, name := range path {
		if most := q.maxRunning(name); most != nil && running[name] >= *most {
			return fmt.Sprintf("running jobs of %s: %d, its maxRunningJobs is %d", quoted(name), running[name], *most)
		}
	}
	return ""
}

// isFIFO says whether a blocked PodGroup blocks later ones in the same queue.
func (q Queues) isFIFO(name string) bool {
	return q.get(name).Spec.DequeueStrategy == schedulingv1beta1.DequeueStrategyFIFO
}

// lineOf is the way from a queue to the root on which its candidates wait. It is only the root for a queue that does not exist: users may
// name any number of these.
func (q Queues) lineOf(name string, tree *quota.Tree) []string {
	if q[name] == nil {
		return []string{quota.Root}
	}
	return tree.Path(name)
}

func quoted(queue string) string { return `queue "` + queue + `"` }
