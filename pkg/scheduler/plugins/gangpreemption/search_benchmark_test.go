package gangpreemption

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// full is a cluster whose nodes ten pods fill, of one CPU each. It says how they are named in groups and queues.
type full struct {
	gangs   bool // tens of pods are gangs, which can spare two
	queue   string
	allHigh bool // on all nodes but one, at most one pod is less important than the preemptor
}

// cluster has the pods, with five priorities.
func (f full) cluster(nodes int) *cluster {
	c := newCluster()
	if f.queue != "" {
		c.tracker.Quota.EnforceQuota()
		c.tracker.SetQueue(mustertesting.MakeQueue(f.queue).Obj())
	}
	c.tracker.Victims.EvictPods()
	for n := range nodes {
		if f.gangs {
			c.group(mustertesting.MakePodGroup(fmt.Sprintf("g%d", n)).UID(fmt.Sprintf("g%d", n)).MinMember(8).Queue(f.queue).Obj())
		}
		for i := range 10 {
			pod := mustertesting.MakePod(fmt.Sprintf("p%d-%d", n, i)).Node(nodeName((n+i/5)%nodes)).Requests("cpu", "1")
			switch {
			case f.allHigh && i > 0:
				pod.Priority(10)
			case !f.gangs:
				pod.Priority(int32((n + i) % 5))
			default:
				pod.Priority(int32(n % 5))
			}
			if f.gangs {
				pod.Group(fmt.Sprintf("g%d", n))
			} else if f.queue != "" {
				pod.QueueName(f.queue)
			}
			made := pod.Obj()
			made.Status.StartTime = &metav1.Time{Time: time.Unix(int64(1000+(n*7+i)%5000), 0)}
			c.add(made)
		}
	}
	return c
}

// search prepares a search of victims for a pod. The search says how many it has found, and evicts none.
type search func(b *testing.B, w *world, pod *corev1.Pod, statuses fwk.NodeToStatusReader) func() int

// stock is a search with upstream's evaluator.
func stock(b *testing.B, w *world, pod *corev1.Pod, statuses fwk.NodeToStatusReader) func() int {
	cycle := w.preFiltered(b, pod)
	return func() int {
		e := preemption.NewEvaluator(Name, w, w.plugin.DefaultPreemption, w.plugin.Executor)
		nodes, err := statuses.NodesForStatusCode(w.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
		require.NoError(b, err)
		offset, count := e.GetOffsetAndNumCandidates(int32(len(nodes)))
		found, _, err := e.DryRunPreemption(b.Context(), cycle, pod, nodes, nil, offset, count)
		require.NoError(b, err)
		best := e.SelectCandidate(b.Context(), found)
		if best == nil {
			return 0
		}
		return len(best.Victims().Pods)
	}
}

// byPriority is a search for a pod without a queue.
func byPriority(b *testing.B, w *world, pod *corev1.Pod, statuses fwk.NodeToStatusReader) func() int {
	cycle := w.preFiltered(b, pod)
	return func() int { return len(w.plugin.choose(b.Context(), cycle, pod, statuses, nil).pods) }
}

// preFiltered is the state of a cycle after PreFilter.
func (w *world) preFiltered(b *testing.B, pod *corev1.Pod) fwk.CycleState {
	cycle := framework.NewCycleState()
	_, status, _ := w.RunPreFilterPlugins(b.Context(), cycle, pod)
	require.True(b, status.IsSuccess(), status)
	return cycle
}

// seat is a search as for a gang.
func seat(b *testing.B, w *world, pod *corev1.Pod, _ fwk.NodeToStatusReader) func() int {
	s, _ := w.tracker.Victims.SearchFor(pod)
	require.NotNil(b, s)
	return func() (victims int) {
		nodes, err := w.SnapshotSharedLister().NodeInfos().List()
		require.NoError(b, err)
		found, _ := w.plugin.victims.SeatFor(b.Context(), &s.Claimant, &s.Problem, nodes)
		if found != nil {
			for _, v := range found.Victims {
				victims += len(v.AllPods())
			}
		}
		return victims
	}
}

// BenchmarkSearch compares searches for victims of a single pod with that of the upstream scheduler. Nothing else should run on the machine. The
// time is that of all processors, as upstream looks at nodes in parallel.
func BenchmarkSearch(b *testing.B) {
	for _, shape := range []struct {
		name   string
		full   full
		cpu    string
		way    string
		search search
	}{
		{"single pods", full{}, "3", "upstream", stock},
		{"single pods", full{}, "3", "no queue", byPriority},
		{"single pods", full{queue: "a"}, "3", "queue", seat},
		{"gangs", full{gangs: true}, "3", "upstream", stock},
		{"gangs", full{gangs: true}, "3", "no queue", byPriority},
		{"gangs", full{gangs: true, queue: "a"}, "3", "queue", seat},
		{"without effect", full{allHigh: true}, "3", "upstream", stock},
		{"without effect", full{allHigh: true}, "3", "no queue", byPriority},
		{"without effect", full{allHigh: true, queue: "a"}, "3", "queue", seat},
	} {
		for _, nodes := range []int{500, 5000} {
			b.Run(fmt.Sprintf("%s/%d/%s", shape.name, nodes, shape.way), func(b *testing.B) {
				c := shape.full.cluster(nodes)
				pod := mustertesting.MakePod("urgent").UID("urgent").SchedulerName("muster").Requests("cpu", shape.cpu).Priority(10).QueueName(shape.full.queue).Obj()
				statuses, all := framework.NewDefaultNodeToStatus(), make([]*corev1.Node, nodes)
				for n := range nodes {
					all[n] = mustertesting.MakeNode(nodeName(n)).Allocatable("cpu", "10", "pods", "100").Obj()
					statuses.Set(nodeName(n), fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu"))
				}
				w := newWorldOf(b, c, []*corev1.Pod{pod}, all...)
				run, found := shape.search(b, w, pod, statuses), 0
				before := processorTime()
				for b.Loop() {
					found = run()
				}
				b.ReportMetric(float64(found), "victims")
				b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
			})
		}
	}
}

// processorTime is what the process has used of all processors.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
