package job

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/described"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plan"
)

// instruments are the metrics of the controller. None has a series for each Job.
type instruments struct {
	jobs      *census
	entered   *metrics.CounterVec   // by phase
	completed *metrics.CounterVec   // by queue
	failed    *metrics.CounterVec   // by queue
	actions   *metrics.CounterVec   // by action and cause
	commands  *metrics.CounterVec   // by whether it was executed
	problems  *metrics.CounterVec   // by reason
	pods      *metrics.CounterVec   // by what was done
	writes    *metrics.CounterVec   // of the status, by what has changed
	firstPods *metrics.Histogram    // milliseconds
	starts    *metrics.Histogram    // seconds
	runs      *metrics.HistogramVec // seconds, by phase

	described.Metrics
}

// Metrics describes the metrics of the controller.
func Metrics() []described.Metric { return newInstruments().All }

func newInstruments() *instruments {
	m := &instruments{}
	m.jobs = &census{counts: map[batchv1alpha1.JobPhase]float64{},
		shown: m.Gauge("muster_jobs", "Jobs by phase. Only the leader serves it.", "phase")}
	m.entered = m.Counter("muster_job_phases_entered_total", "How often Jobs entered each phase.", "phase")
	m.completed = m.Counter("volcano_job_completed_phase_count", "Jobs that were Completed, by queue.", "queue_name")
	m.failed = m.Counter("volcano_job_failed_phase_count", "Jobs that were Failed, by queue.", "queue_name")
	m.actions = m.Counter("muster_job_actions_total",
		"Actions that were taken, by cause: the event that a policy answered, CommandIssued, or Spec (suspend, deadline).", "action", "cause")
	m.commands = m.Counter("muster_job_commands_total", "Commands, by whether they were executed or ignored.", "result")
	m.problems = m.Counter("muster_job_troubles_total",
		"How often the API server refused a request for a Job, by the reason in the Job's state.", "reason")
	m.pods = m.Counter("muster_job_pods_total", "Requests to create and to delete pods of Jobs, by operation.", "operation")
	m.writes = m.Counter("muster_job_status_writes_total",
		"Status writes of Jobs, by change: a new phase, or only counts and messages.", "change")
	m.firstPods = m.Histogram("volcano_controller_job_to_pod_creation_latency_milliseconds",
		"Time from the creation of a Job to the creation of each pod of its first run, in milliseconds.", metrics.ExponentialBucketsRange(50, 60_000, 30))
	m.starts = m.Histogram("muster_job_start_duration_seconds", "Time from the creation of a Job until it is Running for the first time, in seconds.",
		metrics.ExponentialBuckets(0.25, 2, 18))
	m.runs = m.Histograms("muster_job_running_duration_seconds",
		"How long Jobs have run, by the phase that they ended in, in seconds. Time while they were aborted does not count.", metrics.ExponentialBuckets(1, 3, 14), "phase")
	return m
}

// wrote counts the content of a status that has been written. Queues that do not exist are not counted: a series for each name that users
// invent would stay for ever.
func (m *instruments) wrote(job *batchv1alpha1.Job, before *batchv1alpha1.JobStatus, p *plan.Plan, hasQueue bool) {
	now := p.Status.State.Phase
	if p.Request != nil {
		m.actions.WithLabelValues(string(p.Request.Action), causeOf(p.Request)).Inc()
	}
	if before.State.Phase == now {
		m.writes.WithLabelValues("counts").Inc()
		return
	}
	m.writes.WithLabelValues("phase").Inc()
	m.entered.WithLabelValues(string(now)).Inc()
	switch {
	case !hasQueue:
	case now == batchv1alpha1.Completed:
		m.completed.WithLabelValues(job.Spec.Queue).Inc()
	case now == batchv1alpha1.Failed:
		m.failed.WithLabelValues(job.Spec.Queue).Inc()
	}
	if before.StartTime == nil && p.Status.StartTime != nil {
		m.starts.Observe(p.Status.StartTime.Sub(job.CreationTimestamp.Time).Seconds())
	}
	if phase.Ended(now) && p.Status.RunningDuration != nil {
		m.runs.WithLabelValues(string(now)).Observe(p.Status.RunningDuration.Seconds())
	}
}

// causeOf has few values: the reason text of a Command is not one of them.
func causeOf(r *plan.Request) string {
	switch {
	case r.Cause != nil:
		return string(r.Cause.Type)
	case r.Commanded:
		return "CommandIssued"
	default:
		return "Spec"
	}
}

// created counts a pod.
func (m *instruments) created(job *batchv1alpha1.Job, now time.Time) {
	m.pods.WithLabelValues("create").Inc()
	if job.Status.Version == 0 && job.Status.RetryCount == 0 && job.Status.StartTime == nil {
		m.firstPods.Observe(float64(now.Sub(job.CreationTimestamp.Time).Milliseconds()))
	}
}

// census is the number of Jobs in each phase. Only the replica that leads shows it, as sums over replicas would count Jobs twice.
type census struct {
	shown *metrics.GaugeVec

	mu     sync.Mutex
	leads  bool
	counts map[batchv1alpha1.JobPhase]float64
}

// show serves the numbers from now on.
func (c *census) show() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leads = true
	for p, n := range c.counts {
		c.shown.WithLabelValues(string(p)).Set(n)
	}
}

// count adds to the number of Jobs in the phase of this one.
func (c *census) count(obj any, n float64) {
	job, ok := worker.LastKnown[*batchv1alpha1.Job](obj)
	if !ok {
		return
	}
	p := plan.OrPending(job.Status.State.Phase)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[p] += n
	if c.leads {
		c.shown.WithLabelValues(string(p)).Set(c.counts[p])
	}
}

func (c *census) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.count(obj, 1) },
		UpdateFunc: func(before, after any) {
			c.count(before, -1)
			c.count(after, 1)
		},
		DeleteFunc: func(obj any) { c.count(obj, -1) },
	}
}
