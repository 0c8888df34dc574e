package gangs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Results of a decision, and of the attempt after it.
const (
	resultAdmitted   = "admitted"
	resultNoRoom     = "no_room"
	resultNoQuota    = "no_quota"
	resultChanged    = "changed"
	resultEvicting   = "evicting"
	resultSeated     = "seated"
	resultRolledBack = "rolled_back"
)

// Results of a search for victims.
const (
	resultFound   = "found"
	resultNothing = "nothing"
)

// Levels of a decision: how far the search went.
const (
	levelQuota = "quota" // the queue had no room
	levelNone  = "none"  // there are no places
	levelSome  = "some"  // no places were found, but there may be some: the gang is tried
	levelPlan  = "plan"  // there is a place for each member
)

// gangMetrics are the counters and timers of the tracker. No label has values that grow with the number of gangs.
type gangMetrics struct {
	attempts    *metrics.CounterVec
	decisions   *metrics.HistogramVec
	searches    *metrics.HistogramVec
	quorum      *metrics.HistogramVec
	admit       *metrics.HistogramVec
	bind        *metrics.HistogramVec
	start       *metrics.HistogramVec
	evictions   *metrics.CounterVec
	reports     *metrics.CounterVec
	rejections  *metrics.Counter
	wasted      *metrics.Counter
	activations *metrics.Counter
	lostWakeups *metrics.Counter
	lost        int // the same, under the tracker's lock: without registration it counts nothing
	drift       *metrics.Gauge
	gangs       *metrics.Desc // these and the following are computed when they are collected
	used        *metrics.Desc
	assumed     *metrics.Desc
	reference   []MetricReference
	exists      func(queue string) bool
}

// MetricReference describes a metric for the reference page.
type MetricReference struct {
	// Name of the metric.
	Name string
	// Kind is counter, histogram or gauge.
	Kind string
	// Labels of the metric.
	Labels []string
	// Help says what it counts or measures.
	Help string
}

// MetricsReference lists the metrics of the plugins. The upstream scheduler has its own.
func MetricsReference() []MetricReference { return newGangMetrics().reference }

func newGangMetrics() *gangMetrics {
	m := &gangMetrics{}
	counter := func(name, help string, labels ...string) *metrics.CounterVec {
		m.describe(name, "counter", help, labels)
		return metrics.NewCounterVec(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
	}
	plain := func(name, help string) *metrics.Counter {
		m.describe(name, "counter", help, nil)
		return metrics.NewCounter(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	}
	histogram := func(name, help string, start float64, label string) *metrics.HistogramVec {
		m.describe(name, "histogram", help, []string{label})
		return metrics.NewHistogramVec(&metrics.HistogramOpts{
			Name: name, Help: help, Buckets: metrics.ExponentialBuckets(start, 2, 16), StabilityLevel: metrics.ALPHA,
		}, []string{label})
	}
	read := func(name, help string, labels ...string) *metrics.Desc {
		m.describe(name, "gauge", help, labels)
		return metrics.NewDesc(name, help, labels, nil, metrics.ALPHA, "")
	}
	m.gangs = read("muster_gangs", "Gangs by queue and by phase: Incomplete, NotAdmitted, Ready, Attempting, RollingBack, BackingOff, Unschedulable, Running.",
		"queue", "phase")
	m.attempts = counter("muster_gang_attempts_total", "Decisions on whole gangs by result: admitted, no_room, no_quota, evicting (pods go first), changed (during the decision); "+
		"and how the attempts of admitted gangs ended: seated, or rolled_back.", "result")
	m.decisions = histogram("muster_gang_decision_duration_seconds", "Time to decide on a gang, by level: quota (the queue had no room), none (there are "+
		"no places), some (none were found, but there may be some), plan (each member has a place).", 0.00005, "level")
	m.searches = histogram("muster_victim_search_duration_seconds", "Time that a search for pods to evict took of the scheduling loop, by result: found, or "+
		"nothing. All searches together take at most a fifth of the time, after the first half second.", 0.00005, "result")
	m.quorum = histogram("muster_gang_quorum_duration_seconds", "Time from the creation of a PodGroup until enough of its members exist for its minimum, in seconds.", 0.01, "queue")
	m.admit = histogram("muster_gang_admit_duration_seconds", "Time from when enough members of a gang exist until the scheduler finds places for them, in seconds.", 0.001, "queue")
	m.bind = histogram("muster_gang_bind_duration_seconds", "Time from when the scheduler finds places for a gang until its minimum is bound, in seconds.", 0.001, "queue")
	m.start = histogram("muster_queue_start_wait_seconds", "Time from the creation of a PodGroup until its minimum is bound for the first time, in seconds. "+
		"The count is the number of gangs that have started.", 0.05, "queue")
	m.evictions = counter("muster_queue_evictions_total", "Pods of a queue that were evicted, by reason: Reclaimed (for another queue that is below its share), "+
		"Preempted (for a higher priority), AboveCapability (their queue or user uses more than its limit), BelowMinimum (their gang starts over).", "queue", "reason")
	m.reports = counter("muster_gang_reports_total", "Conditions of waiting members written, by reason.", "reason")
	m.used = read("muster_queue_used", "Amount that the pods of a queue and its children request, by resource. Base units: cores, bytes.", "queue", "resource")
	m.assumed = read("muster_queue_assumed", "Quota assumed for gangs and pods that are starting in a queue and its children, by resource. Base units: cores, bytes. It becomes a charge when a pod holds its room.", "queue", "resource")
	m.rejections = plain("muster_gang_waiting_rejected_total", "Members that gave back their room, as their gang could not be placed.")
	m.wasted = plain("muster_wasted_evictions_total", "Pods evicted to make room on a node for a pod that was then not bound there: it was bound elsewhere, was "+
		"deleted, or was not bound within a minute of the grace period. Evictions for native pod groups do not count.")
	m.activations = plain("muster_activate_calls_total", "Calls that asked the scheduling queue to try pods at once.")
	m.lostWakeups = plain("muster_lost_wakeup_recovered_total", "Unschedulable gangs that were found to fit though no event had woken them. "+
		"Anything but 0 is a defect.")
	const drift, driftHelp = "muster_state_drift", "Pods on which the scheduler's own state has differed from the API for a minute or longer, " +
		"and queues whose totals are not the sums of their charges. Anything but 0 is a defect."
	m.describe(drift, "gauge", driftHelp, nil)
	m.drift = metrics.NewGauge(&metrics.GaugeOpts{Name: drift, Help: driftHelp, StabilityLevel: metrics.ALPHA})
	return m
}

func (m *gangMetrics) describe(name, kind, help string, labels []string) {
	m.reference = append(m.reference, MetricReference{Name: name, Kind: kind, Labels: labels, Help: help})
}

// register serves the metrics with those of the scheduler. A process has one tracker; where a test or a benchmark makes another, the first
// one's are served.
func (m *gangMetrics) register(t *Tracker) error {
	for _, metric := range []metrics.Registerable{
		m.attempts, m.decisions, m.searches, m.quorum, m.admit, m.bind, m.start, m.evictions, m.reports, m.rejections, m.wasted, m.activations, m.lostWakeups, m.drift,
	} {
		var registered prometheus.AlreadyRegisteredError
		if err := legacyregistry.Register(metric); errors.As(err, &registered) {
			return nil
		} else if err != nil {
			return fmt.Errorf("registering the metrics of gangs: %w", err)
		}
	}
	if err := legacyregistry.CustomRegister(&gauges{tracker: t}); err != nil {
		return fmt.Errorf("registering the metrics of gangs and queues: %w", err)
	}
	return nil
}

// gauges are metrics that are computed when they are collected, so that they cost nothing until then.
type gauges struct {
	metrics.BaseStableCollector
	tracker *Tracker
}

// DescribeWithStability lists them.
func (g *gauges) DescribeWithStability(ch chan<- *metrics.Desc) {
	m := g.tracker.metrics
	ch <- m.gangs
	ch <- m.used
	ch <- m.assumed
}

// CollectWithStability reads them.
func (g *gauges) CollectWithStability(ch chan<- metrics.Metric) {
	m := g.tracker.metrics
	for key, n := range g.countGangs() {
		ch <- metrics.NewLazyConstMetric(m.gangs, metrics.GaugeValue, float64(n), key.queue, key.phase)
	}
	for _, queue := range g.tracker.Quota.Ledger.Queues() {
		used, all := g.tracker.Quota.Ledger.Totals(queue)
		assumed := all.Clone()
		assumed.SubSums(used)
		for name := range all { // of what is used, also that nothing is assumed
			for desc, sums := range map[*metrics.Desc]resources.Sums{m.used: used, m.assumed: assumed} {
				quantity := resources.Quantity(name, sums.Amount(name))
				ch <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, quantity.AsApproximateFloat64(), queue, string(name))
			}
		}
	}
}

// queuePhase is the key by which gangs are counted.
type queuePhase struct {
	queue, phase string
}

func (g *gauges) countGangs() map[queuePhase]int {
	t := g.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := map[queuePhase]int{}
	for _, gang := range t.gangs {
		counts[queuePhase{t.metrics.queueOf(gang.podGroup.account), string(t.status(gang).Phase)}]++
	}
	return counts
}

// timestamps are the times of a gang's steps.
type timestamps struct {
	complete, admitted time.Time
	started            bool // it was bound as a whole before
}

// queueOf is the queue of an account as labels have it: "" for one that does not exist. Users can invent names, and each would have series
// for ever.
func (m *gangMetrics) queueOf(account string) string {
	queue := quota.QueueOf(account)
	if m.exists == nil || !m.exists(queue) {
		return ""
	}
	return queue
}

// dropQueue removes the series of a queue that is gone.
func (m *gangMetrics) dropQueue(queue string) {
	of := map[string]string{"queue": queue}
	for _, histogram := range []*metrics.HistogramVec{m.quorum, m.admit, m.bind, m.start} {
		histogram.Delete(of)
	}
	for _, reason := range []string{Reclaimed, Preempted, aboveCapability, belowMinimum} {
		m.evictions.Delete(map[string]string{"queue": queue, "reason": reason})
	}
}

// reachQuorum notes that enough members exist for a decision.
func (m *gangMetrics) reachQuorum(g *group, now time.Time) {
	if !g.timestamps.complete.IsZero() {
		return
	}
	g.timestamps.complete = now
	if !g.timestamps.started {
		m.quorum.WithLabelValues(m.queueOf(g.podGroup.account)).Observe(now.Sub(g.podGroup.created).Seconds())
	}
}

// reachAdmission notes that a gang was found to fit.
func (m *gangMetrics) reachAdmission(g *group, now time.Time) {
	if g.timestamps.complete.IsZero() || !g.timestamps.admitted.IsZero() {
		return
	}
	g.timestamps.admitted = now
	m.admit.WithLabelValues(m.queueOf(g.podGroup.account)).Observe(now.Sub(g.timestamps.complete).Seconds())
}

// reachBinding is called whenever a member is seen bound.
func (m *gangMetrics) reachBinding(g *group, now time.Time) {
	if g.timestamps.admitted.IsZero() || g.CountIn(gang.Reserved)+g.CountIn(gang.Released) > 0 || !g.Seated() {
		return
	}
	m.bind.WithLabelValues(m.queueOf(g.podGroup.account)).Observe(now.Sub(g.timestamps.admitted).Seconds())
	if !g.timestamps.started {
		m.start.WithLabelValues(m.queueOf(g.podGroup.account)).Observe(now.Sub(g.podGroup.created).Seconds())
	}
	g.timestamps = timestamps{started: true}
}

// observeDecision records the time and level of a decision.
func (c *Decisions) observeDecision(s *Snapshot, level, result string) {
	c.t.metrics.decisions.WithLabelValues(level).Observe(c.t.clock.Since(s.begun).Seconds())
	c.t.metrics.attempts.WithLabelValues(result).Inc()
}

// LostWakeups counts gangs that were found to fit without an event that woke them.
func (t *Tracker) LostWakeups() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.metrics.lost
}

// Reported counts a condition that was written.
func (r *Reports) Reported(reason string) { r.t.metrics.reports.WithLabelValues(reason).Inc() }

// String prints a metric's name with its labels.
func (r MetricReference) String() string {
	if len(r.Labels) == 0 {
		return r.Name
	}
	return r.Name + "{" + strings.Join(r.Labels, ", ") + "}"
}
