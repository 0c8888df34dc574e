package podgroup

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/runs"
	"github.com/muster-sched/muster/pkg/runtimes"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// leader is a stage whose controller leads: it knows what an earlier leader has written.
func leader(t *testing.T) *stage {
	s := newStage(t)
	s.runs.Read(t.Context())
	return s
}

// run has PodGroup g run for a time and complete, and go.
func (s *stage) run(annotations map[string]string, took time.Duration) {
	s.t.Helper()
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(1).Phase(inqueue).Obj()
	group.Annotations = annotations
	s.serve(group)
	s.cache(group)
	pod := member("a", corev1.PodRunning)
	began := s.time.Now().Truncate(time.Second)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(began)}}
	s.show(pod)
	require.Equal(s.t, running, s.step().Phase)
	pod = pod.DeepCopy()
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(began.Add(took))}}}}
	s.show(pod)
	s.step()
	require.Equal(s.t, completed, s.step().Phase)
	s.remove(pod)
	s.loseGroup("g")
}

// loseGroup takes a PodGroup away.
func (s *stage) loseGroup(name string) {
	s.t.Helper()
	require.NoError(s.t, s.muster.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Delete(s.t.Context(), name, metav1.DeleteOptions{}))
	require.NoError(s.t, s.musterInformers.Scheduling().V1beta1().PodGroups().Informer().GetStore().Delete(mustertesting.MakePodGroup(name).Obj()))
	_, err := s.Sync(s.t.Context(), "default/"+name)
	require.NoError(s.t, err)
}

// estimated is the estimate in the status of PodGroup g, which waits.
func (s *stage) estimated(annotations map[string]string) *schedulingv1beta1.PodGroupEstimate {
	s.t.Helper()
	group := mustertesting.MakePodGroup("g").UID("next").Queue("q").MinMember(1).Phase(inqueue).Obj()
	group.Annotations = annotations
	s.serve(group)
	s.cache(group)
	found := s.step().Estimate
	s.loseGroup("g")
	return found
}

func stated(text string) map[string]string {
	return map[string]string{schedulingv1beta1.RunningEstimateAnnotation: text}
}

func TestARunIsExpectedToTakeAsLongAsTheLastOnes(t *testing.T) {
	s := leader(t)
	assert.Nil(t, s.estimated(nil), "nothing is known")
	s.run(nil, 10*time.Minute)
	s.run(nil, 20*time.Minute)
	assert.Equal(t, &schedulingv1beta1.PodGroupEstimate{
		Runtime: &metav1.Duration{Duration: 15 * time.Minute}, Source: schedulingv1beta1.EstimateFromHistory,
		Message: "the mean of the last two runs of this kind",
	}, s.estimated(nil))
	assert.Equal(t, &schedulingv1beta1.PodGroupEstimate{
		Runtime: &metav1.Duration{Duration: time.Hour}, Source: schedulingv1beta1.EstimateFromUser, Message: "as its user says",
	}, s.estimated(stated("1h")))
	assert.Equal(t, "the mean of the last two runs of this kind; annotation muster.sh/running-estimate is \"soon\" and is ignored: "+
		"it must be a duration above 0 and of at most 8760h, such as \"1h30m\"", s.estimated(stated("soon")).Message)

	other := leader(t)
	other.runs = s.runs
	other.cache(mustertesting.MakeQueue("q").Obj())
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).Phase(inqueue).Obj()
	assert.Zero(t, other.runs.Find(other.factsOf(group, nil)), "one of another size is of another kind")
}

// TestOnlySuccessCounts: nothing is learned of runs that failed, or whose pods went.
func TestOnlySuccessCounts(t *testing.T) {
	s := newRun(t)
	s.runs.Read(t.Context())
	for _, name := range []string{"a", "b", "c"} {
		s.show(member(name, corev1.PodRunning))
	}
	require.Equal(t, running, s.step().Phase)
	for _, name := range []string{"a", "b"} {
		s.show(member(name, corev1.PodSucceeded))
	}
	s.show(member("c", corev1.PodFailed))
	require.Equal(t, completed, s.step().Phase)
	mean := s.runs.Find(s.factsOf(s.group("g"), nil))
	assert.Zero(t, mean)
}

func TestAUserWhoUnderstatesIsTold(t *testing.T) {
	s := leader(t)
	for range 3 {
		s.run(stated("1m"), 10*time.Minute)
	}
	s.told()
	found := s.estimated(stated("1m"))
	assert.Equal(t, 10*time.Minute, found.Runtime.Duration)
	assert.Equal(t, schedulingv1beta1.EstimateFromHistory, found.Source)
	const says = "the mean of the last two runs of this kind; the estimate of its user, 1m0s, is not used: runs of late took more than twice as long as estimated"
	assert.Equal(t, says, found.Message)
	assert.Contains(t, s.told(), "Warning EstimateNotUsed "+says)
}

// TestJobsHaveAHistory: it is of their last run, and they may be gone. Their limit bounds what is expected.
func TestJobsHaveAHistory(t *testing.T) {
	s := leader(t)
	s.cache(mustertesting.MakeQueue("q").Extend(&schedulingv1beta1.QueueExtension{DefaultRuntime: &metav1.Duration{Duration: 2 * time.Hour}}).Obj())
	began := metav1.NewTime(time.Unix(5000, 0))
	job := func(name string) *batchv1alpha1.Job {
		return mustertesting.MakeJob(name).UID(string(uuid.NewUUID())).Queue("q").Task(mustertesting.MakeTask("worker", 2)).Obj()
	}
	estimate := func(job *batchv1alpha1.Job) *schedulingv1beta1.PodGroupEstimate {
		s.cache(job)
		group := mustertesting.MakePodGroup(batchv1alpha1.PodGroupName(job)).UID("of-" + job.Name).Owner(job).Queue("q").MinMember(2).Phase(inqueue).Obj()
		next, _ := s.estimate(group, nil)
		return next
	}
	assert.Equal(t, schedulingv1beta1.EstimateFromQueue, estimate(job("train-1")).Source)
	limited := job("limited")
	limited.Spec.ActiveDeadlineSeconds = new(int64(90))
	assert.Equal(t, &schedulingv1beta1.PodGroupEstimate{
		Runtime: &metav1.Duration{Duration: 90 * time.Second}, Source: schedulingv1beta1.EstimateFromLimit,
		Limit: &metav1.Duration{Duration: 90 * time.Second}, Message: "it is ended then, by its activeDeadlineSeconds",
	}, estimate(limited))

	end := func(job *batchv1alpha1.Job, phase batchv1alpha1.JobPhase, change func(*batchv1alpha1.JobStatus)) {
		ended := job.DeepCopy()
		ended.Status.State.Phase, ended.Status.StartTime = phase, &began
		ended.Status.CompletionTime = &metav1.Time{Time: began.Add(40 * time.Minute)}
		change(&ended.Status)
		s.jobHandler().OnUpdate(job, ended)
	}
	for _, phase := range []batchv1alpha1.JobPhase{batchv1alpha1.Failed, batchv1alpha1.Aborted, batchv1alpha1.Terminated} {
		end(job("train-1"), phase, func(*batchv1alpha1.JobStatus) {})
	}
	end(job("train-1"), batchv1alpha1.Completed, func(status *batchv1alpha1.JobStatus) { status.RetryCount = 1 })
	assert.Equal(t, schedulingv1beta1.EstimateFromQueue, estimate(job("train-2")).Source, "when its last run began is not known")

	end(job("train-1"), batchv1alpha1.Completed, func(*batchv1alpha1.JobStatus) {})
	assert.Equal(t, 40*time.Minute, estimate(job("train-2")).Runtime.Duration)

	again := job("test-1")
	group := mustertesting.MakePodGroup(batchv1alpha1.PodGroupName(again)).UID("again").Owner(again).Queue("q").Phase(running).Obj()
	group.Status.JobVersion = new(int32(1))
	group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{Type: schedulingv1beta1.PodGroupScheduled, LastTransitionTime: metav1.NewTime(began.Add(30 * time.Minute))}}
	s.cache(group)
	end(again, batchv1alpha1.Completed, func(status *batchv1alpha1.JobStatus) { status.RetryCount, status.Version = 1, 1 })
	assert.Equal(t, 10*time.Minute, estimate(job("test-2")).Runtime.Duration, "from when the last run began")
}

// TestTheNextLeaderKnowsWhatEndedUnnoticed: the last one was stopped right after the end of a Job, and of a PodGroup without a Job.
func TestTheNextLeaderKnowsWhatEndedUnnoticed(t *testing.T) {
	s := newStage(t)
	s.cache(mustertesting.MakeQueue("q").Obj())
	began := s.time.Now().Add(-time.Hour)
	job := mustertesting.MakeJob("train-1").UID("train").Queue("q").Task(mustertesting.MakeTask("worker", 2)).Obj()
	job.Status.State.Phase, job.Status.StartTime = batchv1alpha1.Completed, &metav1.Time{Time: began}
	job.Status.CompletionTime = &metav1.Time{Time: began.Add(40 * time.Minute)}
	s.cache(job)
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(1).Phase(completed).Obj()
	s.cache(group)
	pod := member("a", corev1.PodSucceeded)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(began)}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(began.Add(10 * time.Minute))}}}}
	s.show(pod)
	s.runs.Read(t.Context())
	s.noteLate()
	s.noteLate()
	expected := func(run runtimes.Run) time.Duration { return s.runs.Find(runtimes.Facts{Run: run}).For }
	assert.Equal(t, 40*time.Minute, expected(runtimes.RunOfJob(job)))
	assert.Equal(t, 10*time.Minute, expected(runtimes.RunOf(group)))

	waiting := job.DeepCopy()
	waiting.Status.State.Phase = batchv1alpha1.Running
	again := job.DeepCopy()
	again.Status.CompletionTime = &metav1.Time{Time: began.Add(60 * time.Minute)}
	s.jobHandler().OnUpdate(waiting, job)
	assert.Equal(t, 40*time.Minute, expected(runtimes.RunOfJob(job)), "the informer tells of it late")
	s.jobHandler().OnUpdate(waiting, again)
	assert.Equal(t, 50*time.Minute, expected(runtimes.RunOfJob(job)), "another run of it")
}

// TestALieIsOneWithoutSuccess: a Job may fail, or be deleted when it has done its work. It tells what the word of its user is worth.
func TestALieIsOneWithoutSuccess(t *testing.T) {
	for name, end := range map[string]func(*stage, *batchv1alpha1.Job){
		"it fails": func(s *stage, job *batchv1alpha1.Job) {
			failed := job.DeepCopy()
			failed.Status.State.Phase, failed.Status.CompletionTime = batchv1alpha1.Failed, &metav1.Time{Time: s.time.Now()}
			s.jobHandler().OnUpdate(job, failed)
		},
		"it is deleted": func(s *stage, job *batchv1alpha1.Job) { s.jobHandler().OnDelete(job) },
	} {
		t.Run(name, func(t *testing.T) {
			s := leader(t)
			distrusted := func(took time.Duration) bool {
				job := mustertesting.MakeJob("train").UID(string(uuid.NewUUID())).Queue("q").Task(mustertesting.MakeTask("worker", 2)).Obj()
				job.Spec.RunningEstimate = &metav1.Duration{Duration: 10 * time.Minute}
				job.Status.State.Phase, job.Status.StartTime = batchv1alpha1.Running, &metav1.Time{Time: s.time.Now().Add(-took)}
				end(s, job)
				s.cache(job)
				group := mustertesting.MakePodGroup(batchv1alpha1.PodGroupName(job)).Owner(job).Queue("q").Obj()
				group.Annotations = stated("10m")
				return s.runs.Find(s.factsOf(group, nil)).Distrusted
			}
			for range 3 {
				assert.False(t, distrusted(19*time.Minute), "that is no lie")
			}
			assert.False(t, distrusted(time.Hour))
			assert.False(t, distrusted(time.Hour))
			assert.False(t, distrusted(time.Minute), "and it proves nothing to fail soon")
			assert.True(t, distrusted(time.Hour))
		})
	}
}

// TestALieOfAPodIsOneWithoutSuccess: a bare pod has a PodGroup of its own, which tells what the word of its user is worth.
func TestALieOfAPodIsOneWithoutSuccess(t *testing.T) {
	for name, end := range map[string]func(*stage, *corev1.Pod){
		"it fails": func(s *stage, pod *corev1.Pod) {
			pod = pod.DeepCopy()
			pod.Status.Phase = corev1.PodFailed
			s.show(pod)
			require.Equal(s.t, completed, s.step().Phase)
		},
		"it is deleted": func(s *stage, pod *corev1.Pod) {
			s.remove(pod)
			require.Equal(s.t, inqueue, s.step().Phase)
		},
		"its PodGroup goes first": func(s *stage, _ *corev1.Pod) { s.groupHandler().OnDelete(s.group("g")) },
	} {
		t.Run(name, func(t *testing.T) {
			distrusted := func(s *stage, uid string, took time.Duration) bool {
				group := mustertesting.MakePodGroup("g").UID(uid).Queue("q").MinMember(1).Phase(inqueue).Obj()
				group.Annotations = stated("10h")
				s.serve(group)
				s.cache(group)
				pod := member("a", corev1.PodRunning)
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.time.Now())}}
				s.show(pod)
				require.Equal(t, running, s.step().Phase)
				s.time.Step(took)
				end(s, pod)
				return s.runs.Find(s.factsOf(group, nil)).Distrusted
			}
			history := leader(t)
			for i, took := range []time.Duration{17 * time.Hour, 60 * time.Hour, 60 * time.Hour, time.Hour, 60 * time.Hour} {
				s := leader(t)
				s.runs = history.runs
				assert.Equal(t, i == 4, distrusted(s, fmt.Sprint("g", i), took), took) // and up to two hours, in which its status is written
			}
		})
	}
}

// TestAnEstimateIsSteady: it is written again only if it says something else. A gang that runs keeps its own.
func TestAnEstimateIsSteady(t *testing.T) {
	s := leader(t)
	s.cache(mustertesting.MakeQueue("q").Obj())
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").Phase(inqueue).Obj()
	ended := func(took time.Duration) {
		s.runs.Note(&runs.End{ID: string(uuid.NewUUID()), Run: runtimes.RunOf(group), Took: took, Successful: true})
	}
	expected := func() time.Duration {
		next, _ := s.estimate(group, nil)
		group.Status.Estimate = next
		return next.Runtime.Duration
	}
	ended(100 * time.Minute)
	ended(100 * time.Minute)
	assert.Equal(t, 100*time.Minute, expected())
	ended(118 * time.Minute)
	assert.Equal(t, 100*time.Minute, expected(), "a mean of 109 is about the same")
	ended(118 * time.Minute)
	assert.Equal(t, 118*time.Minute, expected())
	group.Status.Phase = running
	ended(time.Minute)
	ended(time.Minute)
	assert.Equal(t, 118*time.Minute, expected(), "it runs")
	group.Annotations = stated("3h")
	assert.Equal(t, 3*time.Hour, expected(), "its user knows better")
	group.Annotations = nil
	assert.Equal(t, 3*time.Hour, expected())
}

func TestTheLimitOfPods(t *testing.T) {
	pod := func(deadline *int64) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{ActiveDeadlineSeconds: deadline}}
	}
	for name, test := range map[string]struct {
		pods []*corev1.Pod
		want time.Duration
	}{
		"no pods":            {nil, 0},
		"the longest counts": {[]*corev1.Pod{pod(new(int64(60))), pod(new(int64(90)))}, 90 * time.Second},
		"one runs for ever":  {[]*corev1.Pod{pod(new(int64(60))), pod(nil)}, 0},
		"an absurd one":      {[]*corev1.Pod{pod(new(int64(1 << 62)))}, runtimes.Longest},
	} {
		assert.Equal(t, test.want, runtimes.FactsOf(&schedulingv1beta1.PodGroup{}, nil, nil, test.pods).Limit, name)
	}
}
