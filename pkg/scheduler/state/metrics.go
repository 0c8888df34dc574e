package state

import (
	"context"
	"strings"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/muster-sched/muster/pkg/resources"
)

// Results of a judgement, and of the round that a yes begins.
const (
	resultAdmitted = "admitted"
	resultNoRoom   = "no_room"
	resultNoQuota  = "no_quota"
	resultChanged  = "changed"
	resultSeated   = "seated"
	resultLetGo    = "let_go"
)

// Levels of a judgement: how far it had to go.
const (
	levelQuota = "quota" // the queue had no room
	levelNone  = "none"  // there is no plan
	levelSome  = "some"  // no plan was found, yet there may be one: it is tried
	levelPlan  = "plan"  // there is a place for each member
)

// gangMetrics are what the Store counts and times. Nothing has a label that grows with the number of gangs.
type gangMetrics struct {
	attempts    *metrics.CounterVec
	judgements  *metrics.HistogramVec
	quorum      *metrics.HistogramVec
	admit       *metrics.HistogramVec
	bind        *metrics.HistogramVec
	reports     *metrics.CounterVec
	planHits    *metrics.Counter
	rejections  *metrics.Counter
	wasted      *metrics.Counter
	activations *metrics.Counter
	lostWakeups *metrics.Counter
	drift       *metrics.Gauge
	gangs       *metrics.Desc // the following are read off the Store when somebody asks
	used        *metrics.Desc
	promised    *metrics.Desc
	reference   []MetricReference
}

// MetricReference describes a metric for the reference page.
type MetricReference struct {
	// Name of the metric.
	Name string
	// Kind is counter, histogram or gauge.
	Kind string
	// Labels of the metric.
	Labels []string
	// Help says what it tells.
	Help string
}

// MetricsReference lists the metrics that the Store has beside those of the upstream scheduler.
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
	m.gangs = read("muster_gangs", "Gangs by queue and by what they are doing: forming (members or the PodGroup are missing), "+
		"pending (not admitted by the queue), queued (about to be judged), waiting (judged, and held until something can help), "+
		"starting (promised their room), running (the minimum has its room), partial (bound below the minimum).", "queue", "phase")
	m.attempts = counter("muster_gang_attempts_total", "Judgements of whole gangs by result: admitted, no_room, no_quota, changed (while it was "+
		"judged); and how the rounds of admitted gangs ended: seated, or let_go.", "result")
	m.judgements = histogram("muster_gang_judgement_duration_seconds", "Time to judge a gang, by level: quota (the queue had no room), none (there is "+
		"no plan), some (none was found, but there may be one), plan (each member has a place).", 0.00005, "level")
	m.quorum = histogram("muster_gang_quorum_duration_seconds", "From the creation of the PodGroup until enough of its members existed.", 0.01, "queue")
	m.admit = histogram("muster_gang_admit_duration_seconds", "From then until the gang was judged to fit.", 0.001, "queue")
	m.bind = histogram("muster_gang_bind_duration_seconds", "From then until its minimum was bound.", 0.001, "queue")
	m.reports = counter("muster_gang_reports_total", "Conditions of waiting members written, by reason.", "reason")
	m.used = read("muster_queue_used", "What the pods of a queue and of its children are charged, in base units (cores, bytes).", "queue", "resource")
	m.promised = read("muster_queue_promised", "What is promised to gangs of a queue and of its children that are starting.", "queue", "resource")
	m.planHits = plain("muster_gang_plan_hits_total", "Rounds that seated a gang on the nodes that were planned for its members, after a round in "+
		"which they chose their nodes themselves had failed.")
	m.rejections = plain("muster_gang_waiting_rejected_total", "Members that held room for their gang and lost it, as the gang could not be placed.")
	m.wasted = plain("muster_wasted_evictions_total", "Pods evicted to make room for one on a node to which that one was then not bound: it went elsewhere "+
		"or away, or did not come within a minute of the grace period. Those evicted for native pod groups do not count.")
	m.activations = plain("muster_activate_calls_total", "How often the scheduling queue was asked to try pods at once.")
	m.lostWakeups = plain("muster_lost_wakeup_recovered_total", "Waiting gangs that fitted when they were judged again without having been woken. "+
		"Anything but 0 is a defect.")
	const drift, driftHelp = "muster_state_drift", "Pods that the scheduler's own state and the API disagree on for more than a moment. Anything but 0 is a defect."
	m.describe(drift, "gauge", driftHelp, nil)
	m.drift = metrics.NewGauge(&metrics.GaugeOpts{Name: drift, Help: driftHelp, StabilityLevel: metrics.ALPHA})
	return m
}

func (m *gangMetrics) describe(name, kind, help string, labels []string) {
	m.reference = append(m.reference, MetricReference{Name: name, Kind: kind, Labels: labels, Help: help})
}

// registerMetrics serves the metrics with those of the scheduler. A process has one Store; where a test or a benchmark makes
// another, the first one's are served.
func (s *Store) registerMetrics(ctx context.Context) {
	m := s.metrics
	for _, metric := range []metrics.Registerable{
		m.attempts, m.judgements, m.quorum, m.admit, m.bind, m.reports, m.planHits, m.rejections, m.wasted, m.activations, m.lostWakeups, m.drift,
	} {
		if err := legacyregistry.Register(metric); err != nil {
			klog.FromContext(ctx).V(2).Info("Another Store serves the metrics", "err", err)
			return
		}
	}
	if err := legacyregistry.CustomRegister(&gauges{store: s}); err != nil {
		klog.FromContext(ctx).Error(err, "Registering the metrics of gangs and queues failed")
	}
}

// gauges are metrics that are read off the Store when somebody asks for them, so that they cost nothing until then.
type gauges struct {
	metrics.BaseStableCollector
	store *Store
}

// DescribeWithStability lists them.
func (g *gauges) DescribeWithStability(ch chan<- *metrics.Desc) {
	m := g.store.metrics
	ch <- m.gangs
	ch <- m.used
	ch <- m.promised
}

// CollectWithStability reads them.
func (g *gauges) CollectWithStability(ch chan<- metrics.Metric) {
	m := g.store.metrics
	for key, n := range g.store.countGangs() {
		ch <- metrics.NewLazyConstMetric(m.gangs, metrics.GaugeValue, float64(n), key.queue, key.phase)
	}
	for _, queue := range g.store.ledger.Queues() {
		used, all := g.store.ledger.Totals(queue)
		all.Sub(used)
		for desc, amounts := range map[*metrics.Desc]resources.List{m.used: used, m.promised: all} {
			for name, amount := range amounts {
				quantity := resources.Quantity(name, amount)
				ch <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, quantity.AsApproximateFloat64(), queue, string(name))
			}
		}
	}
}

// queuePhase is what gangs are counted by.
type queuePhase struct {
	queue, phase string
}

func (s *Store) countGangs() map[queuePhase]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[queuePhase]int{}
	for _, g := range s.gangs {
		counts[queuePhase{g.queue, s.phaseOf(g)}]++
	}
	return counts
}

// phaseOf names what a gang is doing, as the metric says it.
func (s *Store) phaseOf(g *group) string {
	switch {
	case g.phase == admitted:
		return "starting"
	case g.known && g.Seated():
		return "running"
	case g.known && g.Broken():
		return "partial"
	case g.known && s.mustBeAdmitted(g):
		return "pending"
	case !g.known || !g.Complete():
		return "forming"
	case g.parked:
		return "waiting"
	}
	return "queued"
}

// milestones are when a gang reached what is timed.
type milestones struct {
	complete, admitted time.Time
	started            bool // it was bound as a whole before
}

// reachQuorum is called when a gang may be judged.
func (s *Store) reachQuorum(g *group) {
	if !g.milestones.complete.IsZero() {
		return
	}
	g.milestones.complete = s.clock.Now()
	if !g.milestones.started {
		s.metrics.quorum.WithLabelValues(g.queue).Observe(s.clock.Since(g.since).Seconds())
	}
}

// noteAdmission notes that a gang was judged to fit.
func (s *Store) noteAdmission(g *group, round *Round, sure bool) {
	level := levelSome
	if sure {
		level = levelPlan
	}
	s.observeJudgement(round, level, resultAdmitted)
	s.noteLostWakeup(g, round)
	s.reachAdmission(g)
}

// reachAdmission is called when a gang was judged to fit.
func (s *Store) reachAdmission(g *group) {
	if g.milestones.complete.IsZero() || !g.milestones.admitted.IsZero() {
		return
	}
	g.milestones.admitted = s.clock.Now()
	s.metrics.admit.WithLabelValues(g.queue).Observe(s.clock.Since(g.milestones.complete).Seconds())
}

// reachBinding is called whenever a member is seen bound.
func (s *Store) reachBinding(g *group) {
	if g.milestones.admitted.IsZero() || g.HasReserved() || !g.Seated() {
		return
	}
	s.metrics.bind.WithLabelValues(g.queue).Observe(s.clock.Since(g.milestones.admitted).Seconds())
	g.milestones = milestones{started: true}
}

// observeJudgement notes how a judgement went.
func (s *Store) observeJudgement(round *Round, level, result string) {
	s.metrics.judgements.WithLabelValues(level).Observe(s.clock.Since(round.begun).Seconds())
	s.metrics.attempts.WithLabelValues(result).Inc()
}

// String prints a metric's name with its labels.
func (r MetricReference) String() string {
	if len(r.Labels) == 0 {
		return r.Name
	}
	return r.Name + "{" + strings.Join(r.Labels, ", ") + "}"
}
