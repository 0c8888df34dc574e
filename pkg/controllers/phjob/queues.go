package phjob

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/phjob"
)

// byGroup is the index of Queues by the group that their labels name.
const byGroup = "controllers/phjob/group"

// groupLabels are the labels that make a Queue a group.
var groupLabels = []string{primehubv1alpha1.GroupIDLabel, primehubv1alpha1.GroupNameLabel}

func groupsOfQueue(obj any) ([]string, error) {
	var groups []string
	for _, label := range groupLabels {
		if name, has := obj.(*schedulingv1beta1.Queue).Labels[label]; has {
			groups = append(groups, label+"="+name)
		}
	}
	return groups, nil
}

// queuesFor are the Queues that may be the group of a PhJob.
func queuesFor(index cache.Indexer, spec *primehubv1alpha1.PhJobSpec) []*schedulingv1beta1.Queue {
	var queues []*schedulingv1beta1.Queue
	for i, name := range []string{spec.GroupID, spec.GroupName} {
		found, _ := index.ByIndex(byGroup, groupLabels[i]+"="+primehubv1alpha1.LabelOf(name)) // fails only for an unknown index
		for _, obj := range found {
			if queue := obj.(*schedulingv1beta1.Queue); !slices.Contains(queues, queue) {
				queues = append(queues, queue)
			}
		}
	}
	return queues
}

// queueNamed finds a Queue by its name; nil if there is none.
func queueNamed(index cache.Indexer, name string) *schedulingv1beta1.Queue {
	obj, exists, _ := index.GetByKey(name) // an index never fails
	if !exists {
		return nil
	}
	return obj.(*schedulingv1beta1.Queue)
}

// queueOf finds the Queue of a PhJob. While an administrator moves the labels of the group, no Queue or two Queues have them. A waiting PhJob
// stays in its Queue meanwhile.
func (from *source) queueOf(s *sight) (*schedulingv1beta1.Queue, error) {
	queue, err := phjob.FindQueue(from.queues, &s.Job.Spec)
	if err == nil || s.group == nil {
		return queue, err
	}
	if current := from.queue(s.group.Spec.Queue); current != nil {
		return current, nil
	}
	return nil, err
}

// answerAge is how long an answer of the API server about Queues serves other PhJobs.
const answerAge = time.Second

// queueAnswer is what the API server said about all Queues.
type queueAnswer struct {
	version string // of the API server's data
	at      time.Time
	queues  []*schedulingv1beta1.Queue
	books   *ledger.Ledger
}

// queueAsker asks the API server for all Queues. PhJobs that are refused at the same time share an answer.
type queueAsker struct {
	list func(ctx context.Context, options metav1.ListOptions) (*schedulingv1beta1.QueueList, error)

	mu   sync.Mutex
	last *queueAnswer
}

// ask returns the Queues as they were when an object had its version, or later.
func (a *queueAsker) ask(ctx context.Context, version string, now time.Time) (*queueAnswer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.last; last != nil && now.Sub(last.at) < answerAge {
		if order, err := resourceversion.CompareResourceVersion(last.version, version); err == nil && order >= 0 {
			return last, nil
		}
	}
	list, err := a.list(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for the queues: %w", err)
	}
	answer := &queueAnswer{version: list.ResourceVersion, at: now, books: ledger.New()}
	for i := range list.Items {
		answer.queues = append(answer.queues, &list.Items[i])
		answer.books.SetQueue(&list.Items[i])
	}
	a.last = answer
	return answer, nil
}

// queue finds a Queue by its name; nil if there is none.
func (a *queueAnswer) queue(name string) *schedulingv1beta1.Queue {
	at := slices.IndexFunc(a.queues, func(queue *schedulingv1beta1.Queue) bool { return queue.Name == name })
	if at < 0 {
		return nil
	}
	return a.queues[at]
}
