package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// The tests of order are not parallel, and begin when the pods of earlier tests are gone. Other tests would wake waiting gangs at random
// moments.

// newInQuiet makes a story on a cluster where nothing else happens, with one node for one pod of 3 CPUs.
func newInQuiet(t *testing.T) *harness.Story {
	s := harness.New(t)
	others := func(p watchlog.Pod) bool { return p.Gone.IsZero() }
	s.Pods(0, "the pods of earlier tests are gone", others)
	s.AddNodes(1, "cpu", "4")
	return s
}

// oneSeat makes a story with room for one pod of 3 CPUs, which is taken.
func oneSeat(t *testing.T) *harness.Story {
	s := newInQuiet(t)
	s.CreatePod(mustertesting.MakePod("seated").Requests("cpu", "3"))
	s.Pods(1, "the seat is taken", s.In(harness.Running))
	return s
}

// createInTurn creates Jobs that find no room, each older than the next by the API's clock, which counts seconds.
func createInTurn(t *testing.T, s *harness.Story, jobs ...*mustertesting.JobWrapper) {
	t.Helper()
	for _, job := range jobs {
		name := s.CreateJob(job)
		judged := func(p watchlog.Pod) bool { return p.Job == name.Name && harness.Unbound(p) && p.Waiting.Message != "" }
		// The scheduler tells all members of a gang, one after the other.
		s.Soon(name.Name+" has found no room", func() bool { return len(s.Log.Pods(s.In(judged))) > 0 },
			func() any { return s.Log.Pods(s.In(harness.Of(name.Name))) })
		pass(t, time.Second)
	}
}

// pass waits until a time has passed by the wall clock, which is what there is to wait for.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	since := time.Now()
	require.Eventually(t, func() bool { return time.Since(since) > d }, d+mustertesting.Timeout, 10*time.Millisecond)
}

// single is a Job of one pod that takes the seat for a second.
func single(name string) *mustertesting.JobWrapper {
	return mustertesting.MakeJob(name).Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "3").ExitAfter(time.Second, 0))
}

// expectOrder waits until the Jobs have completed and checks in which order their pods were bound.
func expectOrder(t *testing.T, s *harness.Story, want ...string) {
	t.Helper()
	for _, job := range want {
		s.JobPhase(s.Name(job), batchv1alpha1.Completed)
	}
	assert.Equal(t, want, names(s, harness.Bound, func(p watchlog.Pod) string { return p.Job }), "the order in which the Jobs were bound")
}

// names lists a property of the pods that fit and belong to Jobs, in the order of their binding.
func names(s *harness.Story, fits func(watchlog.Pod) bool, property func(watchlog.Pod) string) []string {
	pods := s.Log.Pods(s.In(fits, func(p watchlog.Pod) bool { return p.Job != "" }))
	for i := range pods {
		for j := i; j > 0 && pods[j].Bound.Before(pods[j-1].Bound); j-- {
			pods[j], pods[j-1] = pods[j-1], pods[j]
		}
	}
	var found []string
	for _, pod := range pods {
		found = append(found, property(pod))
	}
	return found
}

func TestJobsOfAHigherPriorityGoFirst(t *testing.T) {
	s := oneSeat(t)
	low, high := s.CreatePriorityClass("low", 10), s.CreatePriorityClass("high", 20)
	createInTurn(t, s, single("low").PriorityClass(low), single("high").PriorityClass(high), single("low-too").PriorityClass(low))
	s.EndPod("seated", 0)
	expectOrder(t, s, "high", "low", "low-too")
}

func TestOfEqualJobsTheOlderGoesFirst(t *testing.T) {
	s := oneSeat(t)
	createInTurn(t, s, single("first"), single("second"), single("third"))
	s.EndPod("seated", 0)
	expectOrder(t, s, "first", "second", "third")
}

func TestAMinimumGoesBeforeOlderSurplus(t *testing.T) {
	s := oneSeat(t)
	s.AddNodes(1, "cpu", "4")
	s.CreateJob(mustertesting.MakeJob("elastic").MinAvailable(1).
		Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "3")))
	s.Pods(1, "the minimum of the elastic Job runs", s.In(harness.Of("elastic"), harness.Running))
	s.Pods(1, "its surplus waits", s.In(harness.Unbound))
	createInTurn(t, s, single("younger"))

	s.EndPod("seated", 0)
	s.Pods(3, "all have had a seat", s.In(harness.Bound, func(p watchlog.Pod) bool { return p.Job != "" }))
	order := names(s, harness.Bound, func(p watchlog.Pod) string { return p.Job })
	assert.Equal(t, []string{"elastic", "younger", "elastic"}, order)
}

func TestTasksOfAHigherPriorityGoFirst(t *testing.T) {
	s := oneSeat(t)
	createInTurn(t, s, mustertesting.MakeJob("spark").MinAvailable(1).
		Task(mustertesting.MakeTask("executor", 2).Requests("cpu", "3").ExitAfter(time.Second, 0)).
		Task(mustertesting.MakeTask("driver", 1).Requests("cpu", "3").ExitAfter(time.Second, 0).
			PriorityClass(s.CreatePriorityClass("driver", 20))))
	s.Pods(3, "three wait", s.In(harness.Unbound))
	s.EndPod("seated", 0)
	s.JobPhase(s.Name("spark"), batchv1alpha1.Completed)
	order := names(s, harness.Bound, func(p watchlog.Pod) string { return p.Task })
	assert.Equal(t, []string{"driver", "executor", "executor"}, order)
}

// TestNoPodStartsInPlaceOfOneOfAHigherPriority (issue 40, 14): a gang starts as soon as its minimum exists. So a pod of the lowest
// priority must not exist before the others. Each Job has room for four of its seven pods.
func TestNoPodStartsInPlaceOfOneOfAHigherPriority(t *testing.T) {
	const jobs = 40
	s := newInQuiet(t)
	s.AddNodes(jobs-1, "cpu", "4")
	class := map[string]string{}
	for value, task := range []string{"low", "mid", "top"} {
		class[task] = s.CreatePriorityClass(task, int32(10+10*value))
	}
	for i := range jobs {
		task := func(name string, replicas int32) *mustertesting.TaskWrapper {
			return mustertesting.MakeTask(name, replicas).Requests("cpu", "1").PriorityClass(class[name]).
				NodeSelector(corev1.LabelHostname, fmt.Sprintf("%s-%d", s.Namespace, i))
		}
		s.CreateJob(mustertesting.MakeJob(fmt.Sprint("j-", i)).MinAvailable(4).Task(task("low", 3)).Task(task("mid", 2)).Task(task("top", 2)))
	}
	s.Pods(4*jobs, "each Job has its minimum", s.In(harness.Running))
	s.Pods(0, "pods of the lowest priority that have started", s.In(harness.Bound, harness.OfTask("low")))
	s.Pods(3*jobs, "the others wait", s.In(harness.Unbound))

	// The watch delivers pods in the order of their creation.
	rank := map[string]int{"top": 0, "mid": 1, "low": 2}
	for i := range jobs {
		var order []int
		for _, pod := range s.Log.PodsOf(s.Name(fmt.Sprint("j-", i))) {
			order = append(order, rank[pod.Task])
		}
		assert.IsNonDecreasing(t, order, "the tasks of j-%d, as the scheduler came to see its pods", i)
	}
}
