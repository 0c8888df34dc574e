package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/test/benchmark/meter"
	"github.com/muster-sched/muster/test/benchmark/report"
)

// scaleWindow is how long a run of a scaling may take.
const scaleWindow = 30 * time.Minute

// scaling is a load in a cluster of a size, with waiting pods beside it.
type scaling struct {
	name   string
	nodes  int
	shape  shape
	parked int
	// variant to run it with; "" for each of the row.
	variant string
}

// scalingRow is a number of scalings, compared with the first.
type scalingRow struct {
	scalings []scaling
	// variants to run it with.
	variants []string
	// turns: all its clusters, each with its own variant, run at the same time. In each round the load runs on one after the other. So
	// compared figures are less than a minute apart, where the machine's speed is much the same. The waiting pods are created once.
	// Otherwise each run has a cluster of its own.
	turns bool
	// goal is the least ratio of our second figure to our first. It is relative to the stock scheduler's ratio of the fourth to the third;
	// 0 if there is none.
	goal float64
	// memory is the most memory of our scheduler at the end of the last run, relative to the stock scheduler's. It is 0 if that is not asked.
	memory float64
}

var both = []string{"stock", "podgroups"}

var scalingRows = []scalingRow{
	{variants: both, scalings: []scaling{{name: "nodes", nodes: 500, shape: shape{50, 100}}, {name: "nodes", nodes: 5000, shape: shape{50, 100}}}},
	{turns: true, goal: 1, scalings: []scaling{ // the stock scheduler's are unschedulable pods without gangs
		{name: "parked", nodes: 500, shape: shape{50, 100}, variant: "podgroups"},
		{name: "parked", nodes: 500, shape: shape{50, 100}, variant: "podgroups", parked: 10_000},
		{name: "parked", nodes: 500, shape: shape{50, 100}, variant: "stock"},
		{name: "parked", nodes: 500, shape: shape{50, 100}, variant: "stock", parked: 10_000},
	}},
	{memory: 1.2, variants: both, scalings: []scaling{{name: "pods", nodes: 5000, shape: shape{50, 100}}, {name: "pods", nodes: 5000, shape: shape{500, 100}}}},
}

// scaleResult is one run of a scaling.
type scaleResult struct {
	scaling
	Name          string  `json:"name"`
	Variant       string  `json:"variant"`
	Nodes         int     `json:"nodes"`
	Pods          int     `json:"pods"`
	Parked        int     `json:"parkedPods"`
	Round         int     `json:"round"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	// SchedulerBytes is the scheduler's resident memory at the end.
	SchedulerBytes float64         `json:"schedulerResidentBytes"`
	Costs          map[string]cost `json:"costs"`
	// ReportWrites is what the scheduler wrote until all waiting pods had a reason. RestWrites is what it wrote in the rest after that. The
	// first round has them.
	ReportWrites float64 `json:"reportWrites"`
	RestWrites   float64 `json:"restWrites"`
}

// reportScaling runs and prints the scalings. missed says which goals are missed.
func reportScaling(ctx context.Context, o *options) (all []scaleResult, missed, err error) {
	for _, row := range scalingRows {
		if !slices.Contains(o.scalings, row.scalings[0].name) {
			continue
		}
		results, err := row.run(ctx, o)
		all = append(all, results...)
		if err != nil {
			return all, nil, err
		}
		missed = errors.Join(missed, row.judgeSpeed(results), row.judgeMemory(results), judgeWrites(results))
	}
	return all, missed, nil
}

// rounds are the rounds of a row: a row without a goal is run once.
func (row *scalingRow) rounds(o *options) int {
	if row.goal == 0 && row.memory == 0 {
		return 1
	}
	return o.rounds
}

// in are the scalings of a round. Where memory is what is asked for, the first one says nothing more after the first round.
func (row *scalingRow) in(round int) []scaling {
	if row.memory > 0 && round > 0 {
		return row.scalings[len(row.scalings)-1:]
	}
	return row.scalings
}

// run runs each variant of each scaling in every round, and prints them.
func (row *scalingRow) run(ctx context.Context, o *options) ([]scaleResult, error) {
	if row.turns {
		return row.runInTurns(ctx, o)
	}
	return row.runApart(ctx, o)
}

func (row *scalingRow) runApart(ctx context.Context, o *options) (all []scaleResult, err error) {
	for round := range row.rounds(o) {
		for _, variant := range inTurn(row.variants, round) {
			for _, s := range inTurn(row.in(round), round) {
				r, err := scale(ctx, o, s, variant)
				if err != nil {
					return all, fmt.Errorf("scaling %s with %s: %w", s.name, variant, err)
				}
				r.Round = round
				all = append(all, r)
				row.print(all, r)
			}
		}
	}
	return all, nil
}

// runInTurns brings up a cluster for each scaling and parks the pods, and then has the load go around.
func (row *scalingRow) runInTurns(ctx context.Context, o *options) (all []scaleResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, scaleWindow+time.Duration(o.rounds)*window)
	defer cancel()
	clusters := make([]*waitingRoom, 0, len(row.scalings))
	defer func() {
		for _, c := range clusters {
			c.Down(ctx)
		}
	}()
	for _, s := range row.scalings {
		b, err := o.up(ctx, variants[s.variant], s.nodes, "32")
		if err != nil {
			return nil, fmt.Errorf("scaling %s: %w", s.name, err)
		}
		clusters = append(clusters, &waitingRoom{bench: b, scaling: s, scheduler: variants[s.variant].scheduler})
	}
	if err := parkAndRest(ctx, clusters); err != nil {
		return nil, err
	}
	for round := range o.rounds {
		for _, c := range inTurn(clusters, round) {
			r, err := c.runLoad(ctx, o, c.variant, fmt.Sprintf("-%d", round+1))
			if err == nil {
				err = c.clear(ctx)
			}
			if err != nil {
				return all, fmt.Errorf("scaling %s with %s: %w", c.name, c.variant, err)
			}
			if r.Round = round; round == 0 {
				r.ReportWrites, r.RestWrites = c.telling, c.resting
			}
			all = append(all, r)
			row.print(all, r)
		}
	}
	return all, nil
}

func (row *scalingRow) print(all []scaleResult, r scaleResult) {
	fmt.Fprintf(os.Stdout, "scaling %-7s %-10s %4d nodes %6d pods %6d parked  %5.0f pods/s%s  scheduler %4.0f MiB%s%s\n",
		r.Name, r.Variant, r.Nodes, r.Pods, r.Parked, r.PodsPerSecond, row.ratioToFirst(all, r),
		r.SchedulerBytes/(1<<20), describe(r.Costs, r.shape), r.writes())
}

// ratioToFirst is empty for what runs before the first of the row: the medians at the end have it.
func (row *scalingRow) ratioToFirst(all []scaleResult, r scaleResult) string {
	if ratios := ratiosOf(all, row.baseOf(r.scaling), r.Variant, r.scaling, r.Variant, speed); len(ratios) > r.Round {
		return fmt.Sprintf("  ratio %.2f", ratios[r.Round])
	}
	return ""
}

// baseOf is what a scaling of the row is compared with.
func (row *scalingRow) baseOf(s scaling) scaling {
	base := row.scalings[0]
	base.variant = s.variant
	return base
}

func speed(r scaleResult) float64 { return r.PodsPerSecond }

func memory(r scaleResult) float64 { return r.SchedulerBytes }

// ratiosOf are the ratios of a scaling with a variant to another one, in each round that has both.
func ratiosOf(all []scaleResult, base scaling, baseVariant string, s scaling, variant string, value func(scaleResult) float64) (ratios []float64) {
	find := func(round int, s scaling, variant string) int {
		return slices.IndexFunc(all, func(r scaleResult) bool { return r.Round == round && r.scaling == s && r.Variant == variant })
	}
	for round := 0; ; round++ {
		own, to := find(round, s, variant), find(round, base, baseVariant)
		if own < 0 || to < 0 {
			return ratios
		}
		ratios = append(ratios, value(all[own])/value(all[to]))
	}
}

// judgeSpeed prints the medians of a row that has a goal, and returns an error if that is missed. Ratios are compared within a round.
func (row *scalingRow) judgeSpeed(all []scaleResult) error {
	if row.goal == 0 {
		return nil
	}
	cost := func(of, to scaling) []float64 {
		ratios := ratiosOf(all, to, to.variant, of, of.variant, speed)
		fmt.Fprintf(os.Stdout, "scaling %-7s %6d parked  %-10s ratios %.2f, median %.2f\n", of.name, of.parked, of.variant, ratios, report.Median(ratios))
		return ratios
	}
	s := row.scalings
	ours, stock := cost(s[1], s[0]), cost(s[3], s[2])
	parts := make([]float64, len(ours))
	for round := range ours {
		parts[round] = ours[round] / stock[round]
	}
	reached := report.Median(parts)
	fmt.Fprintf(os.Stdout, "scaling %-7s ours to stock %.2f, median %.2f, goal >= %.2f\n", s[0].name, parts, reached, row.goal)
	if reached < row.goal {
		return fmt.Errorf("below the goal: %s reaches %.2f of %.2f", s[0].name, reached, row.goal)
	}
	return nil
}

// judgeMemory prints what our scheduler takes beside the stock one, and returns an error if that is too much.
func (row *scalingRow) judgeMemory(all []scaleResult) error {
	if row.memory == 0 {
		return nil
	}
	last := row.scalings[len(row.scalings)-1]
	ratios := ratiosOf(all, last, "stock", last, "podgroups", memory)
	ratio := report.Median(ratios)
	fmt.Fprintf(os.Stdout, "scaling %-7s memory of the scheduler, ratios to stock %.2f, median %.2f, goal <= %.2f\n", last.name, ratios, ratio, row.memory)
	if ratio > row.memory {
		return fmt.Errorf("above the goal: the scheduler's memory with %s is %.2f of stock's, not %.2f", last.name, ratio, row.memory)
	}
	return nil
}

// judgeWrites returns an error if gangs that cannot run cost too much. That is more than one write for each pod and two events for each gang.
// Later writes are errors, too. No other write is legitimate. There is no lease, and no other program writes these pods, so no write is refused
// and repeated.
func judgeWrites(all []scaleResult) (missed error) {
	for _, r := range all {
		if !r.reports() {
			continue
		}
		if most := float64(r.Parked + 2*r.Parked/parkedGang); r.ReportWrites > most {
			missed = errors.Join(missed, fmt.Errorf("above the goal: in round %d the first report took %.0f writes, not %.0f", r.Round+1, r.ReportWrites, most))
		}
		if r.RestWrites > 0 {
			missed = errors.Join(missed, fmt.Errorf("above the goal: in round %d %.0f writes came after the first report", r.Round+1, r.RestWrites))
		}
	}
	return missed
}

// reports says whether the result has the scheduler's writes about waiting pods.
func (r scaleResult) reports() bool {
	return r.parked > 0 && r.Round == 0 && r.Variant == "podgroups"
}

// writes describes the cost of the waiting pods until the load came.
func (r scaleResult) writes() string {
	if !r.reports() {
		return ""
	}
	return fmt.Sprintf("  writes per waiting pod %.3f, after the rest %.0f", r.ReportWrites/float64(r.Parked), r.RestWrites)
}

// scale runs the load of a scaling in a cluster of its own.
func scale(ctx context.Context, o *options, s scaling, variant string) (scaleResult, error) {
	ctx, cancel := context.WithTimeout(ctx, scaleWindow)
	defer cancel()
	b, err := o.up(ctx, variants[variant], s.nodes, "32")
	if err != nil {
		return scaleResult{}, err
	}
	defer b.Down(ctx)
	return (&waitingRoom{bench: b, scaling: s, scheduler: variants[variant].scheduler}).runLoad(ctx, o, variant, "")
}

// waitingRoom is a cluster in which a load runs, beside pods that wait if the scaling says so.
type waitingRoom struct {
	*bench
	scaling
	scheduler string
	// The scheduler's writes until the waiting pods had a reason, and in the rest after that.
	telling, resting float64
}

// runLoad measures the load; suffix makes the names of its profiles unique.
func (c *waitingRoom) runLoad(ctx context.Context, o *options, variant, suffix string) (scaleResult, error) {
	r := scaleResult{
		scaling: c.scaling, Name: c.name, Variant: variant, Nodes: c.nodes, Pods: c.shape.Gangs * c.shape.Pods, Parked: c.parked,
	}
	profiled := func() error { return nil }
	if o.profiles != "" {
		name := fmt.Sprintf("%s-%d-%s-%d-%s%s", c.name, c.nodes, c.shape, c.parked, variant, suffix)
		profiled = c.profile(ctx, o.profiles, name, o.profileFor)
	}
	measured, err := c.measure(ctx, c.shape, variants[variant])
	if err != nil {
		return scaleResult{}, err
	}
	if err := profiled(); err != nil {
		return scaleResult{}, err
	}
	r.PodsPerSecond, r.Costs = float64(r.Pods)/measured.seconds, measured.costs
	r.SchedulerBytes = measured.costs[c.scheduler].Memory
	return r, nil
}

// parkAndRest parks pods, leaves the clusters alone for a while, and then has other pods written.
func parkAndRest(ctx context.Context, clusters []*waitingRoom) error {
	told := make([]map[string]cost, len(clusters))
	for i, c := range clusters {
		before, err := c.costs(ctx)
		if err != nil {
			return err
		}
		if err := c.park(ctx); err != nil {
			return err
		}
		if err := c.settle(ctx); err != nil {
			return err
		}
		if told[i], err = c.costs(ctx); err != nil {
			return err
		}
		c.telling = spent(before, told[i])[c.scheduler].Writes
	}
	rest(ctx)
	for i, c := range clusters {
		after, err := c.costs(ctx)
		if err != nil {
			return err
		}
		c.resting = spent(told[i], after)[c.scheduler].Writes
		if err := c.writeOthers(ctx); err != nil {
			return err
		}
	}
	return nil
}

// clear takes a load away again.
func (c *waitingRoom) clear(ctx context.Context) error {
	now, s := int64(0), c.shape
	err := meter.InParallel(ctx, s.Gangs*s.Pods, func(i int) error {
		name := podName(gangName(i/s.Pods), i%s.Pods)
		return c.Kube.CoreV1().Pods(corev1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	if err != nil {
		return fmt.Errorf("deleting pods: %w", err)
	}
	if c.variant == "stock" {
		return c.settle(ctx)
	}
	err = meter.InParallel(ctx, s.Gangs, func(g int) error {
		return c.Muster.SchedulingV1beta1().PodGroups(corev1.NamespaceDefault).Delete(ctx, gangName(g), metav1.DeleteOptions{})
	})
	if err != nil {
		return fmt.Errorf("deleting PodGroups: %w", err)
	}
	return c.settle(ctx)
}

// restFor is the least time that all programs have for work that the new waiting pods still cause. The benchmark measures the cost of pods
// that wait, not of their creation.
const restFor = 90 * time.Second

func rest(ctx context.Context) {
	timer := time.NewTimer(restFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// The API server keeps the last writes of pods for watches, each pod before and after the write. It keeps them for 75 s, and then until
// newer ones take their places. Its history is filled with otherWrites to otherPods, which no scheduler handles, with waiting pods or
// without. A cluster that runs pods looks like that: 20,000 writes of 10,000 waiting pods have 25,600 places. Half of these are left when all
// are taken and the oldest are old. So they are gone after 12,800 other writes.
const (
	otherPods   = 100
	otherWrites = 15_000
)

// writeOthers fills the API server's history of pods with writes of other pods than the waiting ones.
func (b *bench) writeOthers(ctx context.Context) error {
	pods := b.Kube.CoreV1().Pods(corev1.NamespaceDefault)
	name := func(i int) string { return fmt.Sprintf("other-%d", i%otherPods) }
	err := meter.InParallel(ctx, otherPods, func(i int) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name(i)}, Spec: podSpecOf("40")}
		pod.Spec.SchedulerName = noScheduler
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating other pods: %w", err)
	}
	err = meter.InParallel(ctx, otherWrites, func(i int) error {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"written":"%d"}}}`, i)
		_, err := pods.Patch(ctx, name(i), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("writing other pods: %w", err)
	}
	return b.settle(ctx)
}

// noScheduler is the name of a scheduler that does not run.
const noScheduler = "does-not-run"

// parkedGang is how many pods a waiting gang has.
const parkedGang = 20

// park creates pods that find no room, in gangs if the variant has them. It waits until the scheduler has reported the last.
func (c *waitingRoom) park(ctx context.Context) error {
	count, grouped := c.parked/parkedGang, 0
	if c.variant == "podgroups" {
		grouped = count
	}
	err := meter.InParallel(ctx, grouped, func(g int) error {
		pg := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: parkedName(g)}, Spec: schedulingv1beta1.PodGroupSpec{MinMember: parkedGang}}
		_, err := c.Muster.SchedulingV1beta1().PodGroups(corev1.NamespaceDefault).Create(ctx, pg, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("parking: %w", err)
	}
	err = meter.InParallel(ctx, count*parkedGang, func(i int) error {
		pod := podOf(parkedName(i/parkedGang), i%parkedGang, "40") // more than a node has
		pod.Labels = map[string]string{besideLabel: "parked"}
		if grouped == 0 {
			pod.Annotations = nil
		}
		_, err := c.Kube.CoreV1().Pods(corev1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("parking: %w", err)
	}
	return c.awaitReports(ctx, count*parkedGang)
}

func parkedName(g int) string { return fmt.Sprintf("parked-%d", g) }

// awaitReports waits until all waiting pods have a reason: then the scheduler is at rest. It asks for the pods only when the scheduler has
// written as often as it must. Reading thousands of pods each second would give the API server and the benchmark a large heap.
func (c *waitingRoom) awaitReports(ctx context.Context, want int) error {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		metrics, err := c.Metrics(ctx, c.scheduler)
		if err != nil || metrics.Writes() < float64(want) {
			return false, err
		}
		told, err := c.countReports(ctx)
		return told == want, err
	})
	if err != nil {
		return fmt.Errorf("waiting until %d waiting pods have a reason: %w", want, err)
	}
	return nil
}

// countReports counts the waiting pods that have a reason.
func (b *bench) countReports(ctx context.Context) (told int, err error) {
	pods, err := b.Kube.CoreV1().Pods(corev1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: besideLabel, ResourceVersion: "0"})
	if err != nil {
		return 0, fmt.Errorf("listing waiting pods: %w", err)
	}
	for i := range pods.Items {
		if len(pods.Items[i].Status.Conditions) > 0 {
			told++
		}
	}
	return told, nil
}
