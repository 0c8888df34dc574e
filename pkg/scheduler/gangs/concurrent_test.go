package gangs_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// concurrentQueues are moved about while gangs start in them.
var concurrentQueues = []string{"q0", "q1", "q2"}

// TestConcurrentCallersOfTheTracker runs gangs and single pods concurrently. Gangs start, roll back, move between queues and are deleted,
// and some pods ask for more than can be counted. Queues are moved meanwhile. At the end only bound pods are charged, and nothing is
// assumed.
func TestConcurrentCallersOfTheTracker(t *testing.T) {
	const callers, rounds = 6, 100
	tr := openTracker(t)
	for _, name := range concurrentQueues {
		tr.SetQueue(mustertesting.MakeQueue(name).Capability("cpu", "1000").Obj())
	}
	var group sync.WaitGroup
	left := make([][]*corev1.Pod, callers)
	for caller := range callers {
		group.Go(func() {
			for n := range rounds {
				runGang(tr, caller, n)
				runSingle(tr, caller, n)
			}
			left[caller] = leavePods(tr, caller)
		})
	}
	group.Go(func() { moveQueues(tr, rounds) })
	group.Go(func() { askTracker(tr, rounds) })
	group.Wait()

	want, all := map[string]resources.Sums{"root": {}}, []*corev1.Pod{}
	for _, name := range concurrentQueues {
		want[name] = resources.Sums{}
		tr.SetQueue(mustertesting.MakeQueue(name).Capability("cpu", "1000").Obj())
	}
	for caller, pods := range left {
		for _, pod := range pods {
			want[queueOfCaller(caller, 0)].Add(resources.PodRequests(pod))
			want["root"].Add(resources.PodRequests(pod))
			all = append(all, pod)
		}
	}
	for queue, sums := range want {
		used, withAssumed := tr.Quota.Ledger.Totals(queue)
		assert.True(t, used.Equal(sums), "%s uses %v, its pods request %v", queue, used.List(), sums.List())
		assert.True(t, used.Equal(withAssumed), "nothing is assumed of %s", queue)
	}
	require.Empty(t, tr.Quota.Ledger.Differing())
	require.Empty(t, report.Drifting(tr, all))
}

func queueOfCaller(caller, n int) string { return concurrentQueues[(caller+n)%len(concurrentQueues)] }

// runGang takes a gang of two through its cycles. Other callers may end them early. Then it goes.
func runGang(tr *gangs.Tracker, caller, n int) {
	name := fmt.Sprint("gang-", caller)
	pg := func(queue string) *schedulingv1beta1.PodGroup {
		return mustertesting.MakePodGroup(name).UID(fmt.Sprint(name, n)).MinMember(2).Queue(queue).Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	}
	tr.SetPodGroup(pg(queueOfCaller(caller, n)))
	pods := []*corev1.Pod{}
	for i := range 2 {
		pods = append(pods, mustertesting.MakePod(fmt.Sprintf("%s-%d", name, i)).UID(fmt.Sprintf("%s-%d-%d", name, n, i)).Group(name).
			SchedulerName("muster").Requests("cpu", "2").Obj())
	}
	setPods(tr, pods...)
	tr.Gate(pods[0])
	if s := tr.Decisions.Snapshot(pods[0]); s != nil {
		tr.Decisions.Commit(s, yes(s, nil))
	}
	for _, pod := range pods {
		tr.Quota.Charge(pod)
		tr.Reserve(pod)
		tr.Permit(pod)
	}
	switch n % 3 {
	case 0:
		for _, pod := range pods {
			unreserve(tr, pod)
		}
	case 1:
		setPods(tr, on(pods[0], "n"), on(pods[1], "n"))
		tr.SetPodGroup(pg(queueOfCaller(caller, n+1)))
	case 2:
		tr.SetPod(on(pods[0], "n"))
		unreserve(tr, pods[1])
	}
	for _, pod := range pods {
		tr.DeletePod(pod)
		tr.Quota.Refund(pod)
	}
	tr.DeletePodGroup(pg(queueOfCaller(caller, n)))
}

// runSingle takes a pod without a gang through its cycle. It also adds and deletes a bound pod that asks for too much.
func runSingle(tr *gangs.Tracker, caller, n int) {
	queue := queueOfCaller(caller, n)
	single := singleNamed(fmt.Sprint("single-", caller, "-", n), queue).Obj()
	huge := singleNamed(fmt.Sprint("huge-", caller, "-", n), queue).Requests("cpu", []string{"8Ei", "10000000000000000"}[n%2]).Node("n").Obj()
	setPods(tr, single, huge)
	tr.Quota.QuotaShortage(single)
	tr.Quota.Charge(single)
	if n%2 == 0 {
		tr.Quota.Refund(single)
	} else {
		tr.SetPod(on(single, "n"))
	}
	tr.DeletePod(huge)
	tr.DeletePod(single)
	tr.Quota.Refund(single)
}

// leavePods leaves a bound pod of each kind.
func leavePods(tr *gangs.Tracker, caller int) []*corev1.Pod {
	name, queue := fmt.Sprint("left-", caller), queueOfCaller(caller, 0)
	tr.SetPodGroup(mustertesting.MakePodGroup(name).UID(name).MinMember(1).Queue(queue).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	pods := []*corev1.Pod{
		mustertesting.MakePod(name).UID(name).Group(name).SchedulerName("muster").Requests("cpu", "1").Node("n").Obj(),
		singleNamed("single-"+name, queue).Requests("cpu", "8Ei").Node("n").Obj(),
	}
	setPods(tr, pods...)
	return pods
}

// moveQueues has queues change their parents and capabilities, go and come.
func moveQueues(tr *gangs.Tracker, rounds int) {
	for n := range rounds {
		parent := []string{"", "q0"}[n%2]
		tr.SetQueue(mustertesting.MakeQueue("q1").Parent(parent).Capability("cpu", fmt.Sprint(500+n)).Obj())
		last := mustertesting.MakeQueue("q2").Parent(parent).Capability("cpu", "1000").Obj()
		tr.DeleteQueue(last)
		tr.SetQueue(last)
	}
}

// askTracker asks what the other parts of the scheduler ask while pods come and go.
func askTracker(tr *gangs.Tracker, rounds int) {
	for n := range rounds {
		name := fmt.Sprint("gang-", n%6)
		report.NewReports(tr).TakeReport(keyNamed(name))
		report.NewReports(tr).WaitingPods(keyNamed(name))
		tr.Quota.QuotaShortage(singleNamed("asks", queueOfCaller(n, 0)).Obj())
		tr.Quota.Ledger.Differing()
		report.Drifting(tr, nil)
	}
}
