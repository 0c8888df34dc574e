package job

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/policy"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// counted makes metrics that count, and says how to compare them with what they should be.
func counted(t *testing.T) (*instruments, metrics.KubeRegistry, func(want string, names ...string)) {
	t.Helper()
	registry := metrics.NewKubeRegistry()
	m := newInstruments()
	registry.MustRegister(m.Collectors...)
	return m, registry, func(want string, names ...string) {
		t.Helper()
		assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(want), names...))
	}
}

// TestWhatIsCounted: a Job that runs, is restarted by a policy, and ends.
func TestWhatIsCounted(t *testing.T) {
	m, registry, expect := counted(t)
	job := mustertesting.MakeJob("j").Queue("q").Obj()
	job.CreationTimestamp = metav1.Unix(1000, 0)
	started := metav1.Unix(1003, 0)
	status := func(p batchv1alpha1.JobPhase, start *metav1.Time, ran time.Duration) *batchv1alpha1.JobStatus {
		s := &batchv1alpha1.JobStatus{State: batchv1alpha1.JobState{Phase: p}, StartTime: start}
		if ran > 0 {
			s.RunningDuration = &metav1.Duration{Duration: ran}
		}
		return s
	}
	failed := &plan.Request{Action: busv1alpha1.RestartJobAction, Cause: &policy.Event{Type: busv1alpha1.PodFailedEvent}}
	told := &plan.Request{Action: busv1alpha1.CompleteJobAction, Commanded: true, Why: plan.Finding{Reason: "WhateverTheUserLikes"}}
	life := []struct {
		status *batchv1alpha1.JobStatus
		asked  *plan.Request
	}{
		{status(batchv1alpha1.Pending, nil, 0), nil},
		{status(batchv1alpha1.Running, &started, 0), nil},
		{status(batchv1alpha1.Running, &started, 0), nil},
		{status(batchv1alpha1.Restarting, &started, 0), failed},
		{status(batchv1alpha1.Pending, &started, 0), nil},
		{status(batchv1alpha1.Completing, &started, 0), told},
		{status(batchv1alpha1.Completed, &started, time.Minute), nil},
	}
	before := &batchv1alpha1.JobStatus{}
	for _, step := range life {
		m.wrote(job, before, &plan.Plan{Status: step.status, Request: step.asked}, true)
		before = step.status
	}
	expect(`
# HELP muster_job_phases_entered_total [ALPHA] How often Jobs entered each phase.
# TYPE muster_job_phases_entered_total counter
muster_job_phases_entered_total{phase="Completed"} 1
muster_job_phases_entered_total{phase="Completing"} 1
muster_job_phases_entered_total{phase="Pending"} 2
muster_job_phases_entered_total{phase="Restarting"} 1
muster_job_phases_entered_total{phase="Running"} 1
# HELP muster_job_status_writes_total [ALPHA] Status writes of Jobs, by change: a new phase, or only counts and messages.
# TYPE muster_job_status_writes_total counter
muster_job_status_writes_total{change="counts"} 1
muster_job_status_writes_total{change="phase"} 6
# HELP muster_job_actions_total [ALPHA] Actions that were taken, by cause: the event that a policy answered, CommandIssued, or Spec (suspend, deadline).
# TYPE muster_job_actions_total counter
muster_job_actions_total{action="CompleteJob",cause="CommandIssued"} 1
muster_job_actions_total{action="RestartJob",cause="PodFailed"} 1
`, "muster_job_phases_entered_total", "muster_job_status_writes_total", "muster_job_actions_total")
	completed, err := testutil.GetCounterMetricValue(m.completed.WithLabelValues("q"))
	require.NoError(t, err)
	assert.InDelta(t, 1, completed, 0)
	for name, want := range map[string]float64{"muster_job_start_duration_seconds": 3, "muster_job_running_duration_seconds": 60} {
		histogram, err := testutil.GetHistogramVecFromGatherer(registry, name, nil)
		require.NoError(t, err)
		assert.InDelta(t, want, histogram.GetAggregatedSampleSum(), 0.001, name)
	}
}

func TestCensus(t *testing.T) {
	m, _, expect := counted(t)
	in := func(p batchv1alpha1.JobPhase) *batchv1alpha1.Job {
		return mustertesting.MakeJob("j").Status(batchv1alpha1.JobStatus{State: batchv1alpha1.JobState{Phase: p}}).Obj()
	}
	handler := m.jobs.handler()
	handler.OnAdd(in(""), true)
	expect("", "muster_jobs") // a standby shows nothing
	m.jobs.show()
	handler.OnAdd(in(batchv1alpha1.Pending), false)
	handler.OnUpdate(in(batchv1alpha1.Pending), in(batchv1alpha1.Running))
	handler.OnAdd(in(batchv1alpha1.Failed), false)
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/j", Obj: in(batchv1alpha1.Failed)})
	expect(`
# HELP muster_jobs [ALPHA] Jobs by phase. Only the leader serves it.
# TYPE muster_jobs gauge
muster_jobs{phase="Failed"} 0
muster_jobs{phase="Pending"} 1
muster_jobs{phase="Running"} 1
`, "muster_jobs")
}

// TestQueuesThatUsersInventAreNotCounted: a Job that waits for a queue that does not exist can be ended.
func TestQueuesThatUsersInventAreNotCounted(t *testing.T) {
	for queue, exists := range map[string]bool{schedulingv1beta1.DefaultQueue: true, "invented": false} {
		t.Run(queue, func(t *testing.T) {
			d := newDesk(t)
			registry := metrics.NewKubeRegistry()
			registry.MustRegister(d.instruments.Collectors...)
			d.stands(mustertesting.MakeJob("j").Queue(queue).Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending)
			d.shows(commandFor(d.job(), "c", busv1alpha1.CompleteJobAction))
			require.NoError(t, d.settles())
			require.Equal(t, batchv1alpha1.Completed, d.job().Status.State.Phase)
			families, err := registry.Gather()
			require.NoError(t, err)
			var counted []string
			for _, family := range families {
				if family.GetName() == "volcano_job_completed_phase_count" {
					for _, series := range family.GetMetric() {
						counted = append(counted, series.GetLabel()[0].GetValue())
					}
				}
			}
			if exists {
				assert.Equal(t, []string{queue}, counted)
			} else {
				assert.Empty(t, counted)
			}
		})
	}
}
