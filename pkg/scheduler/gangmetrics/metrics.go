// Package gangmetrics has the metrics of gangs and queues. Gangs and amounts are counted when they are collected.
package gangmetrics

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/muster-sched/muster/pkg/described"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/topology"
)

// Values of labels. First come results of a decision and of the attempt after it, then results of a search for victims. Events have the
// reasons of evictions, too. Levels of a decision say how far its search went.
const (
	ResultAdmitted   = "admitted"
	ResultNoRoom     = "no_room"
	ResultNoQuota    = "no_quota"
	ResultChanged    = "changed"
	ResultEvicting   = "evicting"
	ResultSeated     = "seated"
	ResultRolledBack = "rolled_back"

	ResultFound   = "found"
	ResultNothing = "nothing"

	Reclaimed       = "Reclaimed" // for another queue that is below its share
	Preempted       = "Preempted" // for a higher priority
	AboveCapability = "AboveCapability"
	BelowMinimum    = "BelowMinimum"

	LevelQuota = "quota" // the queue had no room
	LevelNone  = "none"  // there are no places
	LevelSome  = "some"  // no places were found, but there may be some: the gang is tried
	LevelPlan  = "plan"  // there is a place for each member
)

// Metrics are the counters and timers of the tracker. No label has values that grow with the number of gangs.
type Metrics struct {
	Attempts, Evictions, Reports, Tiers, Leaves     *metrics.CounterVec
	Rejections, Wasted, Activations, LostWakeups    *metrics.Counter
	Decisions, Searches, Quorum, Admit, Bind, Start *metrics.HistogramVec
	Drift                                           *metrics.Gauge
	gangs, used, assumed                            *metrics.Desc // computed when they are collected

	Lost   int // lost wakeups, under the tracker's lock: without registration the metric counts nothing
	Exists func(queue string) bool

	OfStarts
	described.Metrics
}

// OfStarts are the metrics of expected starts and of reservations with a start.
type OfStarts struct {
	Plans, PlanErrors     *metrics.HistogramVec
	PlanGangs             *metrics.Gauge
	Backfilled, Postponed *metrics.Counter
}

// Described lists the metrics of the plugins. The upstream scheduler has its own.
func Described() []described.Metric { return New().All }

// New makes the metrics. They count nothing until they are registered.
func New() *Metrics {
	m := &Metrics{}
	times := func(name, help string, start float64, labels ...string) *metrics.HistogramVec {
		return m.Histograms(name, help, metrics.ExponentialBuckets(start, 2, 16), labels...)
	}
	m.gangs = m.Read("muster_gangs", "Gangs by queue and by phase: Incomplete, NotAdmitted, Ready, Attempting, RollingBack, BackingOff, Unschedulable, Running.",
		"queue", "phase")
	m.Attempts = m.Counter("muster_gang_attempts_total", "Decisions on whole gangs by result: admitted, no_room, no_quota, evicting (pods go first), changed (during the decision); "+
		"and how the attempts of admitted gangs ended: seated, or rolled_back.", "result")
	m.Decisions = times("muster_gang_decision_duration_seconds", "Time to decide on a gang, by level: quota (the queue had no room), none (there are "+
		"no places), some (none were found, but there may be some), plan (each member has a place).", 0.00005, "level")
	m.Searches = times("muster_victim_search_duration_seconds", "Time that a search for pods to evict took of the scheduling loop, by result: found, or "+
		"nothing. All searches together take at most a fifth of the time, after the first half second.", 0.00005, "result")
	m.Quorum = times("muster_gang_quorum_duration_seconds", "Time from the creation of a PodGroup until enough of its members exist for its minimum, in seconds.", 0.01, "queue")
	m.Admit = times("muster_gang_admit_duration_seconds", "Time from when enough members of a gang exist until the scheduler finds places for them, in seconds.", 0.001, "queue")
	m.Bind = times("muster_gang_bind_duration_seconds", "Time from when the scheduler finds places for a gang until its minimum is bound, in seconds.", 0.001, "queue")
	m.Start = times("muster_queue_start_wait_seconds", "Time from the creation of a PodGroup until its minimum is bound for the first time, in seconds. "+
		"The count is the number of gangs that have started.", 0.05, "queue")
	m.Evictions = m.Counter("muster_queue_evictions_total", "Pods of a queue that were evicted, by reason: Reclaimed (for another queue that is below its share), "+
		"Preempted (for a higher priority), AboveCapability (their queue or user uses more than its limit), BelowMinimum (their gang starts over).", "queue", "reason")
	m.Reports = m.Counter("muster_gang_reports_total", "Conditions of waiting members written, by reason.", "reason")
	m.Tiers = m.Counter("muster_topology_gangs_total", "Gangs with a network topology that got their nodes, by the tier of the domain that has all of these.", "tier")
	m.Leaves = m.Counter("muster_topology_leaves_total", "Lowest domains of the network that these gangs got nodes in, by count: used, or fewest (as few as have so many nodes).", "count")
	m.used = m.Read("muster_queue_used", "Amount that the pods of a queue and its children request, by resource. Base units: cores, bytes.", "queue", "resource")
	m.assumed = m.Read("muster_queue_assumed", "Quota assumed for gangs and pods that are starting in a queue and its children, by resource. Base units: cores, bytes. It becomes a charge when a pod holds its room.", "queue", "resource")
	m.Rejections = m.Total("muster_gang_waiting_rejected_total", "Members that gave back their room, as their gang could not be placed.")
	m.Wasted = m.Total("muster_wasted_evictions_total", "Pods evicted to make room on a node for a pod that was then not bound there: it was bound elsewhere, was "+
		"deleted, or was not bound within a minute of the grace period. Evictions for native pod groups do not count.")
	m.Activations = m.Total("muster_activate_calls_total", "Calls that asked the scheduling queue to try pods at once.")
	m.LostWakeups = m.Total("muster_lost_wakeup_recovered_total", "Unschedulable gangs that were found to fit though no event had woken them. "+
		"Anything but 0 is a defect.")
	m.Drift = m.Number("muster_state_drift", "Pods on which the scheduler's own state has differed from the API for a minute or longer, "+
		"and queues whose totals are not the sums of their charges. Anything but 0 is a defect.")
	m.Plans = times("muster_plan_duration_seconds", "Time to plan when the gangs that wait start. The scheduling loop does not wait for it.", 0.0001)
	m.PlanErrors = times("muster_plan_error_ratio", "How long gangs have waited since a plan, as a part of how long they were expected to, by horizon: "+
		"the expected wait was at most 1m, 10m, 1h or 6h, or more.", 1.0/64, "horizon")
	m.PlanGangs = m.Number("muster_plan_gangs", "Waiting gangs in the last plan, which has the first 1,000.")
	m.Backfilled = m.Total("muster_gang_backfilled_total", "Gangs that have passed a gang that ranks before them and has a reservation with a start.")
	m.Postponed = m.Total("muster_reservation_postponed_total", "How often the start of a reservation was replaced by a later one. Runs have outlived "+
		"their estimates then, or gangs and pods that rank before have started.")
	return m
}

// QueueOf is the queue of an account as labels have it: "" for one that does not exist. Users can invent names, and each would have series
// for ever.
func (m *Metrics) QueueOf(account string) string {
	queue := quota.QueueOf(account)
	if m.Exists == nil || !m.Exists(queue) {
		return ""
	}
	return queue
}

// DropQueue removes the series of a queue that is gone.
func (m *Metrics) DropQueue(queue string) {
	of := map[string]string{"queue": queue}
	for _, histogram := range []*metrics.HistogramVec{m.Quorum, m.Admit, m.Bind, m.Start} {
		histogram.Delete(of)
	}
	for _, reason := range []string{Reclaimed, Preempted, AboveCapability, BelowMinimum} {
		m.Evictions.Delete(map[string]string{"queue": queue, "reason": reason})
	}
}

// ReachQuorum notes that enough members exist for a decision.
func (m *Metrics) ReachQuorum(g *gang.Group, now time.Time) {
	if !g.Timestamps.Complete.IsZero() {
		return
	}
	g.Timestamps.Complete = now
	if !g.Timestamps.Started {
		m.Quorum.WithLabelValues(m.QueueOf(g.PodGroup.Account)).Observe(now.Sub(g.PodGroup.Created).Seconds())
	}
}

// ReachAdmission notes that a gang was found to fit.
func (m *Metrics) ReachAdmission(g *gang.Group, now time.Time) {
	if g.Timestamps.Complete.IsZero() || !g.Timestamps.Admitted.IsZero() {
		return
	}
	g.Timestamps.Admitted = now
	m.Admit.WithLabelValues(m.QueueOf(g.PodGroup.Account)).Observe(now.Sub(g.Timestamps.Complete).Seconds())
}

// ReachBinding is called whenever a member is seen bound.
func (m *Metrics) ReachBinding(g *gang.Group, now time.Time) {
	if g.Timestamps.Admitted.IsZero() || g.CountIn(gang.Reserved)+g.CountIn(gang.Released) > 0 || !g.Seated() {
		return
	}
	m.Bind.WithLabelValues(m.QueueOf(g.PodGroup.Account)).Observe(now.Sub(g.Timestamps.Admitted).Seconds())
	if !g.Timestamps.Started {
		m.Start.WithLabelValues(m.QueueOf(g.PodGroup.Account)).Observe(now.Sub(g.PodGroup.Created).Seconds())
	}
	g.Timestamps = gang.Timestamps{Started: true}
}

// ReachDomain notes how close the members of a gang with a network topology are.
func (m *Metrics) ReachDomain(spread topology.Spread) {
	m.Tiers.WithLabelValues(strconv.Itoa(spread.Tier)).Inc()
	m.Leaves.WithLabelValues("used").Add(float64(spread.Leaves))
	m.Leaves.WithLabelValues("fewest").Add(float64(spread.Fewest))
}

// Register serves the metrics with those of the scheduler. It counts gangs, and reads the ledger, when they are collected. A process has one
// tracker; where a test or a benchmark makes another, the first one's are served.
func (m *Metrics) Register(count func() map[QueuePhase]int, books *ledger.Ledger) error {
	for _, metric := range m.Collectors {
		var registered prometheus.AlreadyRegisteredError
		if err := legacyregistry.Register(metric); errors.As(err, &registered) {
			return nil
		} else if err != nil {
			return fmt.Errorf("registering the metrics of gangs: %w", err)
		}
	}
	if err := legacyregistry.CustomRegister(&Gauges{Metrics: m, Count: count, Books: books}); err != nil {
		return fmt.Errorf("registering the metrics of gangs and queues: %w", err)
	}
	return nil
}

// Gauges are metrics that are computed when they are collected, so that they cost nothing until then.
type Gauges struct {
	metrics.BaseStableCollector
	Metrics *Metrics
	Count   func() map[QueuePhase]int
	Books   *ledger.Ledger
}

// DescribeWithStability lists them.
func (g *Gauges) DescribeWithStability(ch chan<- *metrics.Desc) {
	ch <- g.Metrics.gangs
	ch <- g.Metrics.used
	ch <- g.Metrics.assumed
}

// CollectWithStability reads them.
func (g *Gauges) CollectWithStability(ch chan<- metrics.Metric) {
	m := g.Metrics
	for key, n := range g.Count() {
		ch <- metrics.NewLazyConstMetric(m.gangs, metrics.GaugeValue, float64(n), key.Queue, key.Phase)
	}
	for _, queue := range g.Books.Queues() {
		used, all := g.Books.Totals(queue)
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

// QueuePhase is the key by which gangs are counted.
type QueuePhase struct {
	// Queue as labels have it.
	Queue string
	// Phase of the gangs.
	Phase string
}
