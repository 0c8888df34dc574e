package queue

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-base/metrics"

	"github.com/muster-sched/muster/pkg/admission"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	schedulingv1beta1listers "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/described"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/resources"
)

const queueLabel = "queue"

// instruments are the metrics of queues. Amounts are in base units: cores, bytes.
type instruments struct {
	deserved, capability, guarantee, reserved, pending, podGroups *metrics.Desc

	admission *metrics.HistogramVec // seconds
	described.Metrics
}

// Metrics describes the metrics of queues.
func Metrics() []described.Metric { return newInstruments().All }

func newInstruments() *instruments {
	m := &instruments{}
	amount := func(name, help string) *metrics.Desc {
		return m.Read("muster_queue_"+name, help, queueLabel, "resource")
	}
	m.deserved = amount("deserved",
		"Present share of the cluster of a queue and its children, by resource. Base units: cores, bytes. It is computed every 5 seconds.")
	m.capability = amount("capability",
		"The most that the pods of a queue and its children may use, by resource. Base units: cores, bytes. A resource without a limit has no series.")
	m.guarantee = amount("guarantee",
		"Amount guaranteed to a queue and its children, by resource. Base units: cores, bytes. Other queues never use it.")
	m.reserved = amount("reserved",
		"Amount kept for admitted PodGroups of a queue and its children that have not started, by resource. Base units: cores, bytes.")
	m.pending = amount("pending",
		"Amount that PodGroups of a queue and its children request while they wait for admission, by resource. Base units: cores, bytes.")
	m.podGroups = m.Read("muster_queue_podgroups",
		"PodGroups of a queue, by phase. PodGroups of its children do not count. In phase Pending they wait until the queue admits them.", queueLabel, "phase")
	m.admission = m.Histograms("muster_queue_admission_wait_seconds",
		"Time from the creation of a PodGroup until its queue admits it, in seconds. The count is the number of PodGroups that were admitted.",
		metrics.ExponentialBuckets(0.01, 3, 15), queueLabel)
	return m
}

// Gauges reads amounts and counts of queues when the metrics are collected. Only queues that exist have series, and only the leader serves
// them.
type Gauges struct {
	metrics.BaseStableCollector
	queues  schedulingv1beta1listers.QueueLister
	books   *ledger.Ledger
	waiting func() map[string]resources.Sums
	leads   atomic.Bool

	*instruments
}

func newGauges(queues schedulingv1beta1listers.QueueLister, books *ledger.Ledger, waiting func() map[string]resources.Sums) *Gauges {
	return &Gauges{queues: queues, books: books, waiting: waiting, instruments: newInstruments()}
}

// DescribeWithStability lists the metrics.
func (g *Gauges) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{g.deserved, g.capability, g.guarantee, g.reserved, g.pending, g.podGroups} {
		ch <- desc
	}
}

// CollectWithStability reads the queues.
func (g *Gauges) CollectWithStability(ch chan<- metrics.Metric) {
	if !g.leads.Load() {
		return
	}
	queues, _ := g.queues.List(labels.Everything()) // a lister never fails
	pending := g.sumPending()
	for _, queue := range queues {
		g.collectAmounts(ch, queue, pending[queue.Name])
		for phase, count := range map[schedulingv1beta1.PodGroupPhase]int32{
			schedulingv1beta1.PodGroupPending: queue.Status.Pending, schedulingv1beta1.PodGroupInqueue: queue.Status.Inqueue,
			schedulingv1beta1.PodGroupRunning: queue.Status.Running, schedulingv1beta1.PodGroupUnknown: queue.Status.Unknown,
			schedulingv1beta1.PodGroupCompleted: queue.Status.Completed,
		} {
			ch <- metrics.NewLazyConstMetric(g.podGroups, metrics.GaugeValue, float64(count), queue.Name, string(phase))
		}
	}
}

// sumPending adds the waiting demand of each queue to the queue and its ancestors.
func (g *Gauges) sumPending() map[string]resources.Sums {
	pending := map[string]resources.Sums{}
	for queue, amounts := range g.waiting() {
		for _, name := range g.books.Path(queue) {
			if pending[name] == nil {
				pending[name] = resources.Sums{}
			}
			pending[name].AddSums(amounts)
		}
	}
	return pending
}

// collectAmounts reports the terms of a queue that count, which may differ from its spec.
func (g *Gauges) collectAmounts(ch chan<- metrics.Metric, queue *schedulingv1beta1.Queue, pending resources.Sums) {
	terms := g.books.Terms(queue.Name)
	used, all := g.books.Totals(queue.Name)
	reserved := all.Clone()
	reserved.SubSums(used)
	var deserved resources.List
	if own := queue.Status.Muster; own != nil {
		deserved = resources.FromResourceList(own.Deserved)
	}
	for desc, amounts := range map[*metrics.Desc]resources.List{
		g.deserved: deserved, g.capability: terms.Capability, g.guarantee: terms.Guarantee, g.reserved: reserved.List(),
		g.pending: pending.List(),
	} {
		for name, amount := range amounts {
			quantity := resources.Quantity(name, amount)
			ch <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, quantity.AsApproximateFloat64(), queue.Name, string(name))
		}
	}
}

// Gauges are to be registered by the program.
func (c *Controller) Gauges() *Gauges { return c.gauges }

// AdmissionWait is to be registered by the program.
func (c *Controller) AdmissionWait() metrics.Registerable { return c.gauges.admission }

// countAdmission counts a PodGroup that has been admitted between two states of it. For a queue that does not exist no series is made.
func (c *Controller) countAdmission(last, next *schedulingv1beta1.PodGroup, now time.Time) {
	if !c.gauges.leads.Load() || last.UID != next.UID || last.Status.Phase.Admitted() || !next.Status.Phase.Admitted() {
		return
	}
	queue := admission.QueueOf(next)
	if _, err := c.queues.Get(queue); err == nil {
		c.gauges.admission.WithLabelValues(queue).Observe(now.Sub(next.CreationTimestamp.Time).Seconds())
	}
}

// dropSeries removes the series of a queue that is gone.
func (c *Controller) dropSeries(queue string) {
	c.gauges.admission.Delete(map[string]string{queueLabel: queue})
}
