package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// waitListOf makes the wait list of candidates for queues, of a cluster with that many millicores. A candidate that is taken is admitted, whatever
// the room.
func waitListOf(total int64, queues []*schedulingv1beta1.Queue, candidates []*Candidate) (next func() *Candidate) {
	books, waiting := ledger.New(), map[string]resources.Sums{}
	for _, queue := range queues {
		books.SetQueue(queue)
	}
	for _, c := range candidates {
		resources.AddTo(waiting, c.Queue, c.Want)
	}
	shares := books.ShareOut(resources.List{corev1.ResourceCPU: total}, waiting)
	tree := books.Snapshot()
	l := newWaitList(candidates, QueuesOf(queues), tree, shares)
	return func() *Candidate {
		c := l.next()
		if c != nil {
			tree.Add(c.Queue, c.Want)
			l.admitted(c)
		}
		return c
	}
}

func inLine(next func() *Candidate) (names []string) {
	for c := next(); c != nil; c = next() {
		names = append(names, c.Group.Name)
	}
	return names
}

func queueOf(name, parent string, weight, priority int32) *schedulingv1beta1.Queue {
	queue := mustertesting.MakeQueue(name).Parent(parent).Obj()
	queue.Spec.Weight, queue.Spec.Priority = weight, priority
	return queue
}

func in(queue, name string, age int, cores string) *Candidate {
	return NewCandidate(mustertesting.MakePodGroup(name).Queue(queue).Created(time.Unix(int64(1000-age), 0)).MinResources("cpu", cores).Obj())
}

func TestLine(t *testing.T) {
	for name, c := range map[string]struct {
		queues     []*schedulingv1beta1.Queue
		candidates []*Candidate
		want       []string
	}{
		"the queue of the higher priority first": {
			[]*schedulingv1beta1.Queue{queueOf("low", "", 1, 0), queueOf("high", "", 1, 5)},
			[]*Candidate{in("low", "l", 9, "1"), in("high", "h1", 1, "1"), in("high", "h2", 0, "1")},
			[]string{"h1", "h2", "l"},
		},
		"queues of one priority take turns": {
			[]*schedulingv1beta1.Queue{queueOf("a", "", 1, 0), queueOf("b", "", 1, 0)},
			[]*Candidate{in("a", "a1", 9, "1"), in("a", "a2", 8, "1"), in("a", "a3", 7, "1"), in("b", "b1", 3, "1"), in("b", "b2", 2, "1")},
			[]string{"a1", "b1", "a2", "b2", "a3"},
		},
		"one of three times the weight has three turns": {
			[]*schedulingv1beta1.Queue{queueOf("a", "", 1, 0), queueOf("b", "", 3, 0)},
			[]*Candidate{in("a", "a1", 9, "1"), in("a", "a2", 8, "1"), in("b", "b1", 7, "1"), in("b", "b2", 6, "1"), in("b", "b3", 5, "1"), in("b", "b4", 4, "1"), in("b", "b5", 3, "1"), in("b", "b6", 2, "1")},
			[]string{"a1", "b1", "b2", "b3", "a2", "b4", "b5", "b6"},
		},
		"a high priority of a child counts among its siblings only": {
			[]*schedulingv1beta1.Queue{queueOf("org", "", 1, 0), queueOf("kid", "org", 1, 9), queueOf("other", "", 1, 1)},
			[]*Candidate{in("kid", "k", 9, "1"), in("other", "o", 1, "1")},
			[]string{"o", "k"},
		},
		"in a queue the older first": {
			[]*schedulingv1beta1.Queue{queueOf("a", "", 1, 0)},
			[]*Candidate{in("a", "young", 1, "1"), in("a", "old", 9, "1")},
			[]string{"old", "young"},
		},
		"children of a queue take turns, and their parent with its siblings": {
			[]*schedulingv1beta1.Queue{queueOf("org", "", 1, 0), queueOf("x", "org", 1, 0), queueOf("y", "org", 1, 0), queueOf("b", "", 1, 0)},
			[]*Candidate{in("x", "x1", 9, "1"), in("x", "x2", 8, "1"), in("y", "y1", 7, "1"), in("b", "b1", 6, "1"), in("b", "b2", 5, "1"), in("b", "b3", 4, "1")},
			[]string{"x1", "b1", "y1", "b2", "x2", "b3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, inLine(waitListOf(4000, c.queues, c.candidates)))
		})
	}
}

// TestTheLineHandsOutEachOnce hands out random candidates of random trees. It checks that none is left out, and that in each queue they
// come by age.
func TestTheLineHandsOutEachOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d"}
		var queues []*schedulingv1beta1.Queue
		for _, name := range names[:rapid.IntRange(1, 4).Draw(t, "queues")] {
			queues = append(queues, queueOf(name, rapid.SampledFrom(append([]string{"", "root"}, names...)).Draw(t, "parent of "+name),
				rapid.Int32Range(1, 3).Draw(t, "weight"), rapid.Int32Range(0, 1).Draw(t, "priority")))
		}
		var candidates []*Candidate
		for i := range rapid.IntRange(0, 12).Draw(t, "candidates") {
			candidates = append(candidates, in(rapid.SampledFrom(append(names, "root")).Draw(t, "queue"), fmt.Sprint(i), 100-i, "1"))
		}
		seen, last := map[string]bool{}, map[string]time.Time{}
		next := waitListOf(10_000, queues, candidates)
		for c := next(); c != nil; c = next() {
			require.False(t, seen[c.Group.Name], "%s comes twice", c.Group.Name)
			seen[c.Group.Name] = true
			require.False(t, c.Group.CreationTimestamp.Time.Before(last[c.Queue]), "%s comes after a younger one", c.Group.Name)
			last[c.Queue] = c.Group.CreationTimestamp.Time
		}
		require.Len(t, seen, len(candidates))
	})
}

// TestQueuesThatDoNotExistShareAList: users may name any number of them.
func TestQueuesThatDoNotExistShareAList(t *testing.T) {
	var candidates []*Candidate
	for i := range 100 {
		candidates = append(candidates, in(fmt.Sprint("invented-", i), fmt.Sprint(i), 100-i, "1"))
	}
	l := newWaitList(candidates, Queues{}, quota.NewTree(), nil)
	assert.Len(t, l.lists, 1)
	for range candidates {
		c := l.next()
		require.NotNil(t, c)
		l.admitted(c)
	}
	assert.Nil(t, l.next())
}

// TestANewFirstOfTheWaitListIsNotReported: each admission makes another one the first of the wait list, and is not told to all behind it.
func TestANewFirstOfTheWaitListIsNotReported(t *testing.T) {
	queue := mustertesting.MakeQueue("f").Capability("cpu", "4").Dequeue(schedulingv1beta1.DequeueStrategyFIFO).Obj()
	behind := func(first *Candidate) blockerKind {
		return newFixture(queue).decide(wants("all", "f", "4"), first, wants("last", "f", "1"))[2].blocker.kind
	}
	assert.Equal(t, behind(wants("a", "f", "1")), behind(wants("b", "f", "1")))
}
