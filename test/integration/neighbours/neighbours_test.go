package neighbours_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

const (
	// fewest is how many Jobs the good neighbour runs at least.
	fewest = 10
	// deletionTimeout is how long Kubernetes may take to delete some thousand objects.
	deletionTimeout = 8 * time.Minute
	// maxMemory bounds the resident memory of each of Muster's programs, in kB as the kernel counts.
	maxMemory = 512 << 10
)

// TestNoNamespaceHurtsAnother: the Jobs of another namespace complete in time, whatever a tenant does in its namespaces. None starts in
// part, no queue is used beyond its capability, and Muster's programs stay small. Nothing is left when the bad namespaces are deleted.
func TestNoNamespaceHurtsAnother(t *testing.T) {
	t.Cleanup(func() { keepLogs(t) })
	good := startNeighbour(t)
	t.Run("abuse", func(t *testing.T) {
		for _, a := range slices.Concat(amounts, pods, groups, commands, sizes, lives) {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				b := newTenant(t, a)
				a.do(b)
				t.Logf("accepted %d, refused %d", b.accepted.Load(), b.refused.Load())
				assert.Positive(t, b.accepted.Load(), "requests of the tenant that the API server has accepted")
			})
		}
	})
	good.finish()
	good.judge()
	judgeQueues(t)
	judgeClosedDoors(t)
	judgePrograms(t)

	deleteBadNamespaces(t)
	require.NoError(t, env.Kube.CoreV1().Pods(filler.Namespace).Delete(t.Context(), filler.Name, metav1.DeleteOptions{}))
	judgeQueuesAtRest(t)
	last := good.run(goodJob("last", queueGood))
	require.NoError(t, last, "all quota of the queue can be had again")
	judgePrograms(t)
}

// neighbour runs ordinary Jobs in namespaceGood, three at a time. There are two in queueGood, which has room for one of them, and one in
// queueShared.
type neighbour struct {
	t    *testing.T
	done sync.WaitGroup
	// enough is closed when no more Jobs than fewest need run.
	enough chan struct{}

	mu       sync.Mutex
	created  int
	problems []string
	took     []time.Duration
}

func startNeighbour(t *testing.T) *neighbour {
	n := &neighbour{t: t, enough: make(chan struct{})}
	for _, queue := range []string{queueGood, queueGood, queueShared} {
		n.done.Go(func() { n.runAll(queue) })
	}
	return n
}

// finish returns when the last Job has ended.
func (n *neighbour) finish() {
	close(n.enough)
	n.done.Wait()
}

// runAll runs one Job after the other in a queue. It ends when enough have run, or when one is late.
func (n *neighbour) runAll(queue string) {
	for {
		name, more := n.next()
		if !more {
			return
		}
		began := time.Now()
		err := n.run(goodJob(name, queue))
		n.mu.Lock()
		n.took = append(n.took, time.Since(began))
		if err != nil {
			n.problems = append(n.problems, fmt.Sprintf("%s in queue %s: %v", name, queue, err))
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
	}
}

// next names the next Job, if there is to be one.
func (n *neighbour) next() (name string, more bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.enough:
		more = n.created < fewest
	default:
		more = true
	}
	if more {
		name = goodName(n.created)
		n.created++
	}
	return name, more
}

// goodName is the name of a Job of the good neighbour.
func goodName(i int) string { return fmt.Sprintf("ordinary-%d", i) }

// goodJobs are the names of the Jobs of the good neighbour that have been seen.
func goodJobs() []string {
	var names []string
	for _, name := range log.JobNames() {
		if name.Namespace == namespaceGood {
			names = append(names, name.Name)
		}
	}
	return names
}

// goodJob is an ordinary Job. It is a gang of four with 8Gi of memory in all, whose pods know each other by name.
func goodJob(name, queue string) *batchv1alpha1.Job {
	return mustertesting.MakeJob(name).Namespace(namespaceGood).Queue(queue).Plugin("svc").Plugin("env").
		Task(mustertesting.MakeTask("leader", 1).Requests("cpu", "500m", "memory", "2Gi").ExitAfter(300*time.Millisecond, 0)).
		Task(mustertesting.MakeTask("worker", 3).Requests("cpu", "500m", "memory", "2Gi").ExitAfter(300*time.Millisecond, 0)).Obj()
}

// run creates a Job and waits until it has completed.
func (n *neighbour) run(job *batchv1alpha1.Job) error {
	ctx, cancel := context.WithTimeout(n.t.Context(), mustertesting.Timeout)
	defer cancel()
	if _, err := env.Muster.BatchV1alpha1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating it: %w", err)
	}
	name := types.NamespacedName{Namespace: job.Namespace, Name: job.Name}
	if err := log.Wait(ctx, func() bool { return log.Job(name).Phase == batchv1alpha1.Completed }); err != nil {
		return fmt.Errorf("it is not complete after %s: %v; pods %v", mustertesting.Timeout, log.JobStates(name), log.PodsOf(name))
	}
	return nil
}

// judge looks at the lives of all Jobs.
func (n *neighbour) judge() {
	slices.Sort(n.took)
	n.t.Logf("%d Jobs of the good neighbour took from %s to %s, half of them less than %s", len(n.took), n.took[0].Round(time.Millisecond),
		n.took[len(n.took)-1].Round(time.Millisecond), n.took[len(n.took)/2].Round(time.Millisecond))
	for _, problem := range n.problems {
		n.t.Error(problem)
	}
	for _, job := range goodJobs() {
		states := log.JobStates(types.NamespacedName{Namespace: namespaceGood, Name: job})
		// All pods may end before the Job is seen to run.
		phases := slices.DeleteFunc(watchlog.Phases(states), func(phase batchv1alpha1.JobPhase) bool { return phase == batchv1alpha1.Running })
		assert.Equal(n.t, []batchv1alpha1.JobPhase{batchv1alpha1.Pending, batchv1alpha1.Completed}, phases, "phases of %s but Running: %v", job, states)
		assert.Zero(n.t, states[len(states)-1].Retries, "restarts of %s", job)
		assert.Len(n.t, log.PodsOf(types.NamespacedName{Namespace: namespaceGood, Name: job}), 4, "pods of %s", job)
	}
	var gangs []watchlog.Incarnation
	for _, gang := range log.Incarnations() {
		if gang.Namespace == namespaceGood {
			gangs = append(gangs, gang)
		}
	}
	assert.Empty(n.t, watchlog.GangViolations(gangs, mustertesting.Timeout), "gangs that were not bound whole")
}

// judgeQueues compares what the pods of each queue requested at one time with its capability. Pods that were created with a node do not
// count: the scheduler did not decide them.
func judgeQueues(t *testing.T) {
	t.Helper()
	for _, queue := range []string{queueGood, queueShared, queueSmall, queueAmple} {
		limits := mustertesting.Resources(capabilities[queue]...)
		peak := peakUse(log.Pods(func(p watchlog.Pod) bool {
			// The tenant writes the name of the good neighbour's queue on pods of its own; they are not in it.
			return p.Queue == queue && (queue != queueGood || p.Namespace == namespaceGood) && !p.Bound.IsZero() && !p.Bound.Equal(p.Created)
		}))
		t.Logf("at most %s were used of queue %s", describe(peak), queue)
		for name, limit := range limits {
			used := peak[name]
			assert.LessOrEqual(t, used.Cmp(limit), 0, "%s %s were used of queue %s, which has %s", &used, name, queue, &limit)
		}
	}
}

// peakUse is the most of each resource that bound, unfinished pods requested at one time, as the record has it.
func peakUse(pods []watchlog.Pod) corev1.ResourceList {
	type change struct {
		at    time.Time
		pod   watchlog.Pod
		gives bool
	}
	var changes []change
	for _, pod := range pods {
		changes = append(changes, change{at: pod.Bound, pod: pod})
		if end := firstOf(pod.Finished, pod.Gone); !end.IsZero() {
			changes = append(changes, change{at: end, pod: pod, gives: true})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	use, peak := corev1.ResourceList{}, corev1.ResourceList{}
	for _, c := range changes {
		for name, quantity := range c.pod.Requests.ToResourceList() {
			sum := use[name].DeepCopy()
			if c.gives {
				sum.Sub(quantity)
			} else {
				sum.Add(quantity)
			}
			use[name] = sum
			if sum.Cmp(peak[name]) > 0 {
				peak[name] = sum.DeepCopy()
			}
		}
	}
	return peak
}

// describe prints amounts.
func describe(amounts corev1.ResourceList) string {
	var texts []string
	for name, quantity := range amounts {
		texts = append(texts, fmt.Sprintf("%s %s", &quantity, name))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// firstOf is the earlier of two moments; a zero one does not count.
func firstOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// judgeClosedDoors checks that no pods were made for Jobs that their queue has not admitted, and never will.
func judgeClosedDoors(t *testing.T) {
	t.Helper()
	assert.Empty(t, log.Pods(func(p watchlog.Pod) bool {
		return strings.HasPrefix(p.Job, notAdmitted) && strings.HasPrefix(p.Name, p.Job+"-")
	}), "pods of Jobs that were not admitted")
}

// judgePrograms checks that Muster's programs run and are small.
func judgePrograms(t *testing.T) {
	t.Helper()
	require.NoError(t, env.Cluster.Crashed())
	status, err := env.Cluster.Status(t.Context())
	require.NoError(t, err)
	for _, component := range status.Components {
		if component.Name != localcluster.MusterController && component.Name != localcluster.MusterScheduler {
			continue
		}
		highest := memoryOf(t, component.PID)
		t.Logf("%s took at most %d MiB", component.Name, highest>>10)
		assert.Less(t, highest, maxMemory, "kB of memory that %s took", component.Name)
	}
}

var highWater = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// memoryOf is the most memory that a process had, in kB.
func memoryOf(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	found := highWater.FindSubmatch(text)
	require.NotNil(t, found, "%s", text)
	kilobytes, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kilobytes
}

// deleteBadNamespaces deletes them, takes away the finalizers that the tenant left, and waits until nothing is left.
func deleteBadNamespaces(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deletionTimeout)
	defer cancel()
	began := time.Now()
	for _, name := range badNamespaces {
		if err := env.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
	}
	left := map[string]string{}
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		clear(left)
		for _, name := range badNamespaces {
			namespace, err := env.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return false, err
			}
			objects, err := takeFinalizersAway(ctx, name)
			if err != nil {
				return false, err
			}
			left[name] = fmt.Sprintf("%s; %v", objects, namespace.Status.Conditions)
		}
		return len(left) == 0, nil
	})
	require.NoError(t, err, "namespaces that do not go: %v", left)
	t.Logf("the bad namespaces were gone after %s", time.Since(began).Round(time.Millisecond))
}

// judgeQueuesAtRest waits until the queues say that nothing is in them but what the good neighbour has left.
func judgeQueuesAtRest(t *testing.T) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(capabilities)) {
		ctx, cancel := context.WithTimeout(t.Context(), mustertesting.Timeout)
		var last schedulingv1beta1.QueueStatus
		err := awaitQueue(ctx, name, func(q *schedulingv1beta1.Queue) bool {
			last = q.Status
			used := false
			for _, quantity := range last.Allocated {
				used = used || !quantity.IsZero()
			}
			return !used && last.Running == 0 && last.Inqueue == 0 && last.Pending == 0 && last.Unknown == 0
		})
		cancel()
		if !assert.NoError(t, err, "queue %s has charges that nothing is left of: %+v", name, last) {
			return
		}
	}
}

// awaitQueue waits until a queue is as it should be.
func awaitQueue(ctx context.Context, name string, met func(*schedulingv1beta1.Queue) bool) error {
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		queue, err := env.Muster.SchedulingV1beta1().Queues().Get(ctx, name, metav1.GetOptions{})
		return err == nil && met(queue), err
	})
}

// keepLogs keeps the logs of Muster's programs when a test has failed: `go test -artifacts` says where.
func keepLogs(t *testing.T) {
	if !t.Failed() {
		return
	}
	logs := filepath.Dir(env.Cluster.LogPath(localcluster.MusterController))
	require.NoError(t, os.CopyFS(filepath.Join(t.ArtifactDir(), "logs"), os.DirFS(logs)))
	for _, component := range []string{localcluster.MusterController, localcluster.MusterScheduler} {
		text, err := os.ReadFile(env.Cluster.LogPath(component))
		require.NoError(t, err)
		lines := strings.Split(string(text), "\n")
		t.Logf("the end of the log of %s:\n%s", component, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
}
