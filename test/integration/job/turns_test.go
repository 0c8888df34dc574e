package job_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// answers are what a Job waits for, and how long each took.
type answers struct {
	*stage
	took []answer
}

// answer is what was waited for, and how long.
type answer struct {
	took time.Duration
	what string
}

// await waits for one answer.
func (a *answers) await(what string, done wait.ConditionWithContextFunc) {
	a.t.Helper()
	begun := time.Now()
	err := wait.PollUntilContextTimeout(a.t.Context(), pollEvery, mustertesting.Timeout, true, done)
	require.NoError(a.t, err, what)
	a.took = append(a.took, answer{time.Since(begun), what})
}

func (a *answers) awaitPhase(name string, p batchv1alpha1.JobPhase) {
	a.t.Helper()
	a.await(fmt.Sprint(name, " is ", p), func(context.Context) (bool, error) { return log.Job(a.name(name)).Phase == p, nil })
}

// goThrough creates a Job, runs it and aborts it.
func (a *answers) goThrough(name string) {
	a.t.Helper()
	job := a.apply(mustertesting.MakeJob(name).Task(mustertesting.MakeTask("a", 1)))
	a.await("the PodGroup", func(ctx context.Context) (bool, error) {
		_, err := muster.SchedulingV1beta1().PodGroups(a.namespace).Get(ctx, batchv1alpha1.PodGroupName(job), metav1.GetOptions{})
		return err == nil, nil
	})
	a.admit(job)
	a.await("the first pod", func(ctx context.Context) (bool, error) {
		_, err := kube.CoreV1().Pods(a.namespace).Get(ctx, name+"-a-0", metav1.GetOptions{})
		return err == nil, nil
	})
	a.run(name + "-a-0")
	a.awaitPhase(name, batchv1alpha1.Running)
	a.command(job, job.UID, string(busv1alpha1.AbortJobAction))
	a.awaitPhase(name, batchv1alpha1.Aborting)
	a.reap(1)
	a.awaitPhase(name, batchv1alpha1.Aborted)
}

// TestNoNamespaceWaitsForAnother (issue 25, 4): in one namespace Jobs crash and restart all the time. In another, as many Jobs as the
// controller has workers get more pods than one turn allows. A Job of a third is answered meanwhile. MUSTER_TURNS_CRASHING=1000,
// MUSTER_TURNS_LARGE=1 and MUSTER_TURNS_REPLICAS=10000 are the full size.
func TestNoNamespaceWaitsForAnother(t *testing.T) {
	const rounds = 6
	crashing, large, replicas := setting(t, "MUSTER_TURNS_CRASHING", 100), setting(t, "MUSTER_TURNS_LARGE", 4), setting(t, "MUSTER_TURNS_REPLICAS", 1500)
	busy, bulky, good := newStage(t), newStage(t), &answers{stage: newStage(t)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go busy.autopilot(ctx, 9)
	for i := range crashing {
		busy.apply(mustertesting.MakeJob(fmt.Sprint("crash-", i)).MaxRetry(100).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).
			Task(mustertesting.MakeTask("a", 1)))
	}
	var jobs []*batchv1alpha1.Job
	for i := range large {
		jobs = append(jobs, bulky.apply(mustertesting.MakeJob(fmt.Sprint("large-", i)).Task(mustertesting.MakeTask("a", int32(replicas)))))
	}
	for _, job := range jobs {
		bulky.admit(job)
	}
	created := func() int {
		return controller.Requests.Of(func(request string) bool {
			return strings.HasPrefix(request, "POST ") && strings.HasSuffix(request, "/namespaces/"+bulky.namespace+"/pods")
		})
	}
	bulky.Soon("the large Jobs get pods", func() bool { return created() > large }, func() any { return created() })
	for round := range rounds {
		good.goThrough(fmt.Sprint("good-", round))
		if round == 0 {
			assert.Less(t, created(), 2*1000, "it need not wait for the first of the large Jobs to have had its turn")
		}
		if round < rounds/2 {
			assert.Less(t, created(), large*replicas, "the large Jobs still get pods")
		}
	}
	slices.SortFunc(good.took, func(a, b answer) int { return cmp.Compare(a.took, b.took) })
	t.Logf("%d answers, half of them within %s, 99 %% within %v, while %d pods of large Jobs were created", len(good.took),
		good.took[len(good.took)/2].took, good.took[len(good.took)*99/100], created())

	for _, job := range jobs {
		bulky.edit(job.Name, func(job *batchv1alpha1.Job) { yes := true; job.Spec.Suspend = &yes })
	}
	bulky.Within(2*time.Minute, "the large Jobs are aborted", func() bool {
		return !slices.ContainsFunc(jobs, func(job *batchv1alpha1.Job) bool { return log.Job(bulky.name(job.Name)).Phase != batchv1alpha1.Aborted })
	}, func() any { return log.Job(bulky.name(jobs[0].Name)) })
	bulky.Pods(0, "pods that are left of the large Jobs", bulky.live)
}

// setting is a number that the environment may give.
func setting(t *testing.T, variable string, byDefault int) int {
	t.Helper()
	given := os.Getenv(variable)
	if given == "" {
		return byDefault
	}
	number, err := strconv.Atoi(given)
	require.NoError(t, err, variable)
	return number
}

// TestADeletedJobComesToItsEnd (issue 25, 6): a workflow engine keeps it by a finalizer until it is Completed.
func TestADeletedJobComesToItsEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	builder := mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("a", 3).MinAvailable(1)).Obj()
	builder.Finalizers = []string{"example.com/keep"}
	job := s.applyObject(builder)
	s.admit(job)
	s.run("j-a-0", "j-a-1", "j-a-2")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	require.NoError(t, muster.BatchV1alpha1().Jobs(s.namespace).Delete(t.Context(), "j", metav1.DeleteOptions{}))
	s.command(job, job.UID, "RestartJob")
	s.expectIgnored("j", "the job is being deleted")
	s.awaitNoCommands()

	s.fail("j-a-0", 1)
	s.succeed("j-a-1", "j-a-2")
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completed)
	status := s.get("j").Status
	assert.EqualValues(t, 1, status.Failed)
	assert.EqualValues(t, 2, status.Succeeded)
	assert.Equal(t, 1, s.created("j-a-0"), "no policy acts")
	s.edit("j", func(job *batchv1alpha1.Job) { job.Finalizers = nil })
	s.Pods(0, "the garbage collector deletes what belonged to it", s.live)
}

func (s *stage) expectIgnored(job, why string) {
	s.t.Helper()
	s.Event("Job", s.name(job), func(e watchlog.Event) bool { return e.Reason == "CommandIgnored" && strings.HasSuffix(e.Message, why) })
}
