package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/policy"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// Settings of a run, from the environment.
const (
	seedVariable     = "MUSTER_E2E_SEED"   // repeats the moments of a run
	durationVariable = "MUSTER_CHAOS_FOR"  // how long parts are killed, as a Go duration
	jobsVariable     = "MUSTER_CHAOS_JOBS" // how many Jobs there are
)

const (
	defaultJobs     = 200
	defaultDuration = 40 * time.Second
	// nodes hold all pods at once: nothing has to wait for room.
	nodes = 12
	// calmTimeout is how long the Jobs may take to end once the killing has.
	calmTimeout = 4 * time.Minute
)

// TestJobsOutliveTheirCluster (the goal of 200 Jobs with restarts). Every Job has the same end as in a run without kills, whatever is
// killed, and whenever. There are no more pods than in an undisturbed run. None is lost, and none that has finished runs again.
func TestJobsOutliveTheirCluster(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(setting(t, seedVariable, int(time.Now().UnixNano()), strconv.Atoi)), 0))
	duration := setting(t, durationVariable, defaultDuration, time.ParseDuration)
	s := harness.New(t)
	s.AddNodes(nodes, "cpu", "64", "pods", "250")
	c := &workload{story: s}
	c.invent(setting(t, jobsVariable, defaultJobs, strconv.Atoi))

	// Users come while parts are away, too.
	users, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.live(users, duration*2/3)
	}()
	killer := &killer{t: t, cluster: harness.Shared(), random: random, killed: map[string]int{}}
	killer.run(duration)
	calm := time.Now()
	go killer.wakeKubelets(users, s.Namespace)

	s.Within(calmTimeout, "all Jobs have come to their end", func() bool { return len(c.unfinished()) == 0 }, func() any { return c.unfinished() })
	stop()
	<-done
	c.report(t, calm)
	c.verify(t)
}

// setting reads what the environment says, and prints what holds.
func setting[T any](t *testing.T, variable string, byDefault T, parse func(string) (T, error)) T {
	t.Helper()
	value := byDefault
	if given := os.Getenv(variable); given != "" {
		var err error
		value, err = parse(given)
		require.NoError(t, err, variable)
	}
	t.Logf("%s=%v", variable, value)
	return value
}

// workload is a set of Jobs, each with its fate, and the users who look after them.
type workload struct {
	story *harness.Story
	jobs  []*member
}

type member struct {
	name  string
	fate  fate
	n     int32
	steps []step // what its user has still to do
	// begun says that its user is at the first of them. An answer may be lost when the API server is killed. Then the step is done
	// again, whatever has become of the Job by it.
	begun bool
	// taking is the pod that its user is taking away, taken the one before it; empty for none.
	taking, taken types.UID
}

// invent makes up the Jobs.
func (c *workload) invent(count int) {
	names := slices.Sorted(maps.Keys(fates))
	for i := range count {
		kind := names[i%len(names)]
		f := fates[kind]
		c.jobs = append(c.jobs, &member{name: fmt.Sprintf("%s-%d", kind, i), fate: f, n: int32(2 + i/len(names)%3), steps: f.user})
	}
}

// live creates the Jobs, spread over a time. It runs their users' actions until the context ends.
func (c *workload) live(ctx context.Context, spread time.Duration) {
	began, created := time.Now(), 0
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		due := min(len(c.jobs), 1+int(int64(len(c.jobs))*int64(time.Since(began))/int64(spread)))
		for created < due && c.create(ctx, c.jobs[created]) {
			created++
		}
		for _, m := range c.jobs[:created] {
			if len(m.steps) > 0 && (m.begun || c.isReached(m, m.steps[0])) && c.take(ctx, m, m.steps[0]) {
				m.steps, m.begun = m.steps[1:], false
			}
		}
	}, 200*time.Millisecond)
}

// attempt bounds one request of a user: some come while the API server is away, and are made again later.
const attempt = 5 * time.Second

func (c *workload) create(ctx context.Context, m *member) bool {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	job := m.fate.build(m.name, m.n).Namespace(c.story.Namespace).Obj()
	_, err := c.story.Muster.BatchV1alpha1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{})
	return err == nil || apierrors.IsAlreadyExists(err)
}

// isReached tells whether a Job has come so far that its user does the step.
func (c *workload) isReached(m *member, s step) bool {
	if state := c.story.Log.Job(c.story.Name(m.name)); state.Phase != s.phase || state.Retries != s.retries {
		return false
	}
	running := 0
	for _, pod := range c.story.Log.PodsOf(c.story.Name(m.name)) {
		if pod.UID == m.taken && pod.Gone.IsZero() {
			return false
		}
		if harness.Running(pod) {
			running++
		}
	}
	return s.running == 0 || running == s.running
}

func (c *workload) take(ctx context.Context, m *member, s step) bool {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	jobs := c.story.Muster.BatchV1alpha1().Jobs(c.story.Namespace)
	job, err := jobs.Get(ctx, m.name, metav1.GetOptions{})
	if err != nil || !m.begun && s.when != nil && !s.when(job) {
		return false
	}
	m.begun = true
	if s.evict != "" {
		return c.evict(ctx, m, s.evict)
	}
	if s.change != nil {
		s.change(job)
		_, err = jobs.Update(ctx, job, metav1.UpdateOptions{})
		return err == nil
	}
	_, err = c.story.Muster.BusV1alpha1().Commands(job.Namespace).Create(ctx, &busv1alpha1.Command{
		ObjectMeta:   metav1.ObjectMeta{Name: m.name},
		Action:       string(s.command),
		TargetObject: metav1.NewControllerRef(job, batchv1alpha1.SchemeGroupVersion.WithKind("Job")),
	}, metav1.CreateOptions{})
	return err == nil || apierrors.IsAlreadyExists(err)
}

// evict takes away the first pod of a task as a drain does, and no other one of its name. It returns false if that is not sure yet.
func (c *workload) evict(ctx context.Context, m *member, task string) bool {
	pods := c.story.Kube.CoreV1().Pods(c.story.Namespace)
	pod, err := pods.Get(ctx, policy.PodName(m.name, task, 0), metav1.GetOptions{})
	gone := apierrors.IsNotFound(err)
	switch {
	case err != nil && !gone, gone && m.taking == "":
		return false
	case m.taking == "":
		m.taking = pod.UID
	}
	if !gone && pod.UID == m.taking && pod.DeletionTimestamp == nil {
		err := pods.EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(m.taking))},
		})
		if err != nil {
			return false // the next look at the pod tells whether it was evicted and the answer was lost
		}
	}
	m.taking, m.taken = "", m.taking
	return true
}

// unfinished lists the Jobs that have not ended, or whose pods are still there, and describes their state.
func (c *workload) unfinished() []string {
	var found []string
	for _, m := range c.jobs {
		if state := c.story.Log.Job(c.story.Name(m.name)); state.Phase != m.fate.phase || state.Terminating > 0 {
			found = append(found, fmt.Sprintf("%s: %s", m.name, state))
		}
	}
	return found
}

// report prints which Jobs were the last to end, so that a run that passes says something too.
func (c *workload) report(t *testing.T, calm time.Time) {
	t.Helper()
	ended := func(m *member) time.Time {
		states := c.story.Log.JobStates(c.story.Name(m.name))
		return states[len(states)-1].Time
	}
	last := slices.SortedFunc(slices.Values(c.jobs), func(a, b *member) int { return ended(b).Compare(ended(a)) })
	for i, m := range last[:min(len(last), 5)] {
		t.Logf("%s ended %s after the last kill", m.name, ended(m).Sub(calm).Round(time.Millisecond))
		if i == 0 {
			c.describe(t, m)
		}
	}
}

// verify compares each Job and its pods with an undisturbed run.
func (c *workload) verify(t *testing.T) {
	t.Helper()
	namespace := c.story.Namespace
	pods, err := c.story.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	byJob := map[string][]corev1.Pod{}
	for _, pod := range pods.Items {
		name := pod.Annotations[batchv1alpha1.JobNameKey]
		byJob[name] = append(byJob[name], pod)
	}
	for _, m := range c.jobs {
		c.verifyMember(t, m, &c.story.Job(c.story.Name(m.name)).Status, byJob[m.name])
		if t.Failed() {
			return
		}
	}
	c.verifyNothingIsLeft(t)
}

// verifyMember compares a Job and its pods with an undisturbed run.
func (c *workload) verifyMember(t *testing.T, m *member, status *batchv1alpha1.JobStatus, pods []corev1.Pod) {
	t.Helper()
	succeeded := m.fate.succeeded(m.n)
	isRight := assert.Equal(t, m.fate.phase, status.State.Phase, "phase of %s", m.name)
	isRight = assert.Equal(t, m.fate.retries, status.RetryCount, "retries of %s", m.name) && isRight
	isRight = assert.EqualValues(t, succeeded, status.Succeeded, "pods of %s that have succeeded, by its status", m.name) && isRight
	isRight = assert.Equal(t, succeeded, countPhase(pods, corev1.PodSucceeded), "pods of %s that have succeeded", m.name) && isRight
	isRight = assert.Zero(t, countPhase(pods, corev1.PodRunning)+countPhase(pods, corev1.PodPending), "pods of %s that are left over", m.name) && isRight
	if isRight = c.verifyRuns(t, m) && isRight; !isRight {
		c.describe(t, m)
	}
}

// verifyRuns checks that no index of a Job ran more often than its spec asks for.
func (c *workload) verifyRuns(t *testing.T, m *member) bool {
	t.Helper()
	isRight := true
	runs := map[string][]watchlog.Pod{}
	for _, pod := range c.story.Log.PodsOf(c.story.Name(m.name)) {
		index := pod.Name + " of run " + pod.Version
		runs[index] = append(runs[index], pod)
		most := 1
		if often, listed := m.fate.again[pod.Task]; listed {
			most = often
		}
		isRight = assert.LessOrEqual(t, len(runs[index]), most, "pods named %s", index) && isRight
	}
	for index, pods := range runs {
		for _, earlier := range pods[:len(pods)-1] {
			isRight = assert.NotEqual(t, corev1.PodSucceeded, earlier.Phase, "%s had succeeded and ran again", index) && isRight
		}
	}
	return isRight
}

// verifyNothingIsLeft waits until what ended Jobs do not need is gone.
func (c *workload) verifyNothingIsLeft(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), mustertesting.Timeout)
	defer cancel()
	left := 0
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		groups, err := c.story.Muster.SchedulingV1beta1().PodGroups(c.story.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		commands, err := c.story.Muster.BusV1alpha1().Commands(c.story.Namespace).List(ctx, metav1.ListOptions{})
		left = len(groups.Items) + len(commands.Items)
		return err == nil && left == 0, err
	})
	require.NoError(t, err, "%d PodGroups and Commands are left", left)
}

// describe prints the life of a Job.
func (c *workload) describe(t *testing.T, m *member) {
	t.Helper()
	for _, state := range c.story.Log.JobStates(c.story.Name(m.name)) {
		t.Log(state)
	}
	for _, pod := range c.story.Log.PodsOf(c.story.Name(m.name)) {
		t.Log(pod)
	}
}
