package phjob

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/phjob"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestRefusedPhJobsShareAnAnswer about Queues if it is as new as they are.
func TestRefusedPhJobsShareAnAnswer(t *testing.T) {
	asked, now := 0, time.Unix(1000, 0)
	a := &queueAsker{list: func(context.Context, metav1.ListOptions) (*schedulingv1beta1.QueueList, error) {
		asked++
		return &schedulingv1beta1.QueueList{
			ListMeta: metav1.ListMeta{ResourceVersion: "100"}, Items: []schedulingv1beta1.Queue{*mustertesting.MakeQueue("q").Obj()},
		}, nil
	}}
	for _, version := range []string{"90", "100"} {
		answer, err := a.ask(t.Context(), version, now)
		require.NoError(t, err)
		assert.Equal(t, "q", answer.queue("q").Name)
		assert.Nil(t, answer.queue("other"))
		assert.True(t, answer.books.Exists("q"))
	}
	assert.Equal(t, 1, asked)
	_, err := a.ask(t.Context(), "101", now)
	require.NoError(t, err)
	assert.Equal(t, 2, asked, "the PhJob is newer than the answer")
	_, err = a.ask(t.Context(), "90", now.Add(answerAge))
	require.NoError(t, err)
	assert.Equal(t, 3, asked, "the answer is old")

	a.list = func(context.Context, metav1.ListOptions) (*schedulingv1beta1.QueueList, error) {
		return nil, errors.New("no connection")
	}
	_, err = a.ask(t.Context(), "102", now.Add(answerAge))
	require.Error(t, err)
}

// TestTheQueueOfAPhJob is found by the labels of its group. While these are moved, a PhJob that waits stays where it is.
func TestTheQueueOfAPhJob(t *testing.T) {
	queue := func(name, id, group string) *schedulingv1beta1.Queue {
		q := mustertesting.MakeQueue(name).Obj()
		q.Labels = map[string]string{primehubv1alpha1.GroupIDLabel: id, primehubv1alpha1.GroupNameLabel: group}
		return q
	}
	job := queued("g", "job", 1)
	for name, c := range map[string]struct {
		queues []*schedulingv1beta1.Queue
		in     string // where it waits
		want   string // "" for an error
	}{
		"by both labels":                        {[]*schedulingv1beta1.Queue{queue("a", "g", "g"), queue("b", "x", "x")}, "", "a"},
		"by its identifier":                     {[]*schedulingv1beta1.Queue{queue("a", "x", "g"), queue("b", "g", "g")}, "", "b"},
		"by its name":                           {[]*schedulingv1beta1.Queue{queue("a", "x", "g")}, "", "a"},
		"none":                                  {[]*schedulingv1beta1.Queue{queue("a", "x", "x")}, "", ""},
		"two":                                   {[]*schedulingv1beta1.Queue{queue("a", "g", "g"), queue("b", "g", "g")}, "", ""},
		"it waits and has been moved":           {[]*schedulingv1beta1.Queue{queue("a", "x", "x"), queue("b", "g", "g")}, "a", "b"},
		"it waits and none has the labels":      {[]*schedulingv1beta1.Queue{queue("a", "x", "x")}, "a", "a"},
		"it waits and both have the labels":     {[]*schedulingv1beta1.Queue{queue("a", "g", "g"), queue("b", "g", "g")}, "a", "a"},
		"it waits in a queue that is gone":      {[]*schedulingv1beta1.Queue{queue("b", "x", "x")}, "a", ""},
		"it waits and its queue is gone: moved": {[]*schedulingv1beta1.Queue{queue("b", "g", "g")}, "a", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byGroup: groupsOfQueue})
			for _, q := range c.queues {
				require.NoError(t, index.Add(q))
			}
			s := &sight{Facts: phjob.Facts{Job: job}}
			if c.in != "" {
				s.group = mustertesting.MakePodGroup("g").Queue(c.in).Obj()
			}
			from := source{
				queues: queuesFor(index, &job.Spec),
				queue:  func(name string) *schedulingv1beta1.Queue { return queueNamed(index, name) },
			}
			found, err := from.queueOf(s)
			if c.want == "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, found.Name)
		})
	}
}
