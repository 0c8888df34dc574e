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
	"k8s.io/apimachinery/pkg/util/wait"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/benchmark/meter"
	"github.com/muster-sched/muster/test/benchmark/report"
)

// scaleWindow is how long a run of a scaling may take.
const scaleWindow = 30 * time.Minute

// scaling is a load in a cluster of a size, with parked pods beside it.
type scaling struct {
	name   string
	nodes  int
	shape  shape
	parked int
	// ignored: the parked pods name a scheduler that does not run. What they cost then, it costs that they exist.
	ignored bool
}

// scalingRow is a number of scalings of which the first is what the others are compared with.
type scalingRow struct {
	scalings []scaling
	// goal is the least ratio that the last is to reach, 0 if there is none. A row that has one is run in every round, the others
	// once.
	goal float64
	// memory is the most that our scheduler may take at the end of the last, as a ratio to the stock scheduler's; 0 if that is not asked.
	memory float64
}

var scalingRows = []scalingRow{
	{scalings: []scaling{{name: "nodes", nodes: 500, shape: shape{50, 100}}, {name: "nodes", nodes: 5000, shape: shape{50, 100}}}},
	{goal: 0.95, scalings: []scaling{
		{name: "parked", nodes: 500, shape: shape{50, 100}},
		{name: "parked", nodes: 500, shape: shape{50, 100}, parked: 10_000, ignored: true},
		{name: "parked", nodes: 500, shape: shape{50, 100}, parked: 10_000},
	}},
	{memory: 1.2, scalings: []scaling{{name: "pods", nodes: 5000, shape: shape{50, 100}}, {name: "pods", nodes: 5000, shape: shape{500, 100}}}},
}

// scaleResult is one run of a scaling.
type scaleResult struct {
	Name          string  `json:"name"`
	Variant       string  `json:"variant"`
	Nodes         int     `json:"nodes"`
	Pods          int     `json:"pods"`
	Parked        int     `json:"parkedPods"`
	Ignored       bool    `json:"ignored,omitempty"`
	Round         int     `json:"round"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	// SchedulerBytes is the scheduler's resident memory at the end.
	SchedulerBytes float64         `json:"schedulerResidentBytes"`
	Costs          map[string]cost `json:"costs"`
}

// reportScaling runs and prints the scalings, each with the stock scheduler's bare pods and with PodGroups. What only gangs can
// do, wait together, is run with PodGroups alone. missed says which goals are missed.
func reportScaling(ctx context.Context, o *options) (all []scaleResult, missed, err error) {
	for _, row := range scalingRows {
		if !slices.Contains(o.scalings, row.scalings[0].name) {
			continue
		}
		for _, variant := range []string{"stock", "podgroups"} {
			if row.scalings[1].parked > 0 && variant == "stock" {
				continue
			}
			results, ratios, err := row.run(ctx, o, variant)
			all = append(all, results...)
			if err != nil {
				return all, nil, err
			}
			missed = errors.Join(missed, row.judge(ratios))
		}
		missed = errors.Join(missed, row.judgeMemory(all))
	}
	return all, missed, nil
}

// run runs the scalings of a row one after the other, as often as is asked for, and prints each. The ratios are those of each
// scaling to the first in its round.
func (row *scalingRow) run(ctx context.Context, o *options, variant string) (all []scaleResult, ratios [][]float64, err error) {
	rounds := 1
	if row.goal > 0 {
		rounds = o.rounds
	}
	ratios = make([][]float64, len(row.scalings))
	for round := range rounds {
		first := 0.0
		for i, s := range row.scalings {
			r, err := scale(ctx, o, s, variant)
			if err != nil {
				return all, nil, fmt.Errorf("scaling %s with %s: %w", s.name, variant, err)
			}
			if i == 0 {
				first = r.PodsPerSecond
			}
			r.Round = round
			all, ratios[i] = append(all, r), append(ratios[i], r.PodsPerSecond/first)
			fmt.Fprintf(os.Stdout, "scaling %-7s %-10s %4d nodes %6d pods %6d %-7s  %5.0f pods/s  ratio %.2f  scheduler %4.0f MiB%s\n",
				s.name, variant, r.Nodes, r.Pods, r.Parked, s.beside(), r.PodsPerSecond, r.PodsPerSecond/first, r.SchedulerBytes/(1<<20), describe(r.Costs, s.shape))
		}
	}
	return all, ratios, nil
}

// judge prints the medians of a row that has a goal, and returns an error if that is missed.
func (row *scalingRow) judge(ratios [][]float64) error {
	if row.goal == 0 {
		return nil
	}
	for i, s := range row.scalings {
		fmt.Fprintf(os.Stdout, "scaling %-7s %6d %-7s  median ratio %.2f\n", s.name, s.parked, s.beside(), report.Median(ratios[i]))
	}
	if reached := report.Median(ratios[len(ratios)-1]); reached < row.goal {
		return fmt.Errorf("below the goal: %s reaches %.2f of %.2f", row.scalings[0].name, reached, row.goal)
	}
	return nil
}

// judgeMemory prints what our scheduler takes beside the stock one, and returns an error if that is too much.
func (row *scalingRow) judgeMemory(all []scaleResult) error {
	if row.memory == 0 {
		return nil
	}
	last := row.scalings[len(row.scalings)-1]
	of := func(variant string) float64 {
		i := slices.IndexFunc(all, func(r scaleResult) bool {
			return r.Name == last.name && r.Variant == variant && r.Pods == last.shape.Gangs*last.shape.Pods
		})
		return all[i].SchedulerBytes
	}
	ratio := of("podgroups") / of("stock")
	fmt.Fprintf(os.Stdout, "scaling %-7s memory of the scheduler, ratio to stock %.2f, goal <= %.2f\n", last.name, ratio, row.memory)
	if ratio > row.memory {
		return fmt.Errorf("above the goal: the scheduler's memory with %s is %.2f of stock's, not %.2f", last.name, ratio, row.memory)
	}
	return nil
}

// beside names the pods that wait beside the load.
func (s scaling) beside() string {
	if s.ignored {
		return "ignored"
	}
	return "parked"
}

func scale(ctx context.Context, o *options, s scaling, name string) (scaleResult, error) {
	ctx, cancel := context.WithTimeout(ctx, scaleWindow)
	defer cancel()
	v := variants[name]
	b, err := o.up(ctx, v, s.nodes, "32")
	if err != nil {
		return scaleResult{}, err
	}
	defer b.Down(ctx)
	if err := b.park(ctx, s); err != nil {
		return scaleResult{}, err
	}
	if s.parked > 0 {
		rest(ctx)
	}
	profiled := func() error { return nil }
	if o.profiles != "" {
		profiled = b.profile(ctx, o.profiles, fmt.Sprintf("%s-%d-%s-%d-%s-%s", s.name, s.nodes, s.shape, s.parked, s.beside(), name), o.profileFor)
	}
	measured, err := b.measure(ctx, s.shape, v)
	if err != nil {
		return scaleResult{}, err
	}
	if err := profiled(); err != nil {
		return scaleResult{}, err
	}
	pods := s.shape.Gangs * s.shape.Pods
	return scaleResult{
		Name: s.name, Variant: name, Nodes: s.nodes, Pods: pods, Parked: s.parked, Ignored: s.ignored,
		PodsPerSecond: float64(pods) / measured.seconds, SchedulerBytes: measured.costs[v.scheduler].Memory, Costs: measured.costs,
	}, nil
}

// restFor is how long all programs have for what they still do about the parked pods when these are there: it is the pods that wait
// whose cost is asked for, not their coming. The API server keeps what was written in the last 75 s for those who watch, each pod as
// it was and as it is; what is older it lets go of when something is written next.
const restFor = 90 * time.Second

func rest(ctx context.Context) {
	timer := time.NewTimer(restFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// parkedGang is how many pods a parked gang has.
const parkedGang = 20

// park creates gangs that find no room, and waits until the scheduler has said so of the last; or gangs that no scheduler looks at.
func (b *bench) park(ctx context.Context, s scaling) error {
	gangs := s.parked / parkedGang
	err := meter.InParallel(ctx, gangs, func(g int) error {
		pg := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: parkedName(g)}, Spec: schedulingv1beta1.PodGroupSpec{MinMember: parkedGang}}
		_, err := b.Muster.SchedulingV1beta1().PodGroups(corev1.NamespaceDefault).Create(ctx, pg, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("parking: %w", err)
	}
	err = meter.InParallel(ctx, gangs*parkedGang, func(i int) error {
		pod := podOf(parkedName(i/parkedGang), i%parkedGang, "40") // more than a node has
		pod.Labels = map[string]string{besideLabel: "parked"}
		if s.ignored {
			pod.Spec.SchedulerName = "nobody"
		}
		_, err := b.Kube.CoreV1().Pods(corev1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("parking: %w", err)
	}
	if s.ignored {
		return nil
	}
	return b.awaitReports(ctx, gangs*parkedGang)
}

func parkedName(g int) string { return fmt.Sprintf("parked-%d", g) }

// awaitReports waits until all parked pods say why they wait: then the scheduler is at rest. It asks for the pods only when the
// scheduler has written as often as it must: thousands of pods each second would leave the API server and the benchmark itself with
// a heap that the load pays for.
func (b *bench) awaitReports(ctx context.Context, want int) error {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		metrics, err := b.Metrics(ctx, localcluster.MusterScheduler)
		if err != nil || metrics.Writes() < float64(want) {
			return false, err
		}
		told, err := b.countReports(ctx)
		return told == want, err
	})
	if err != nil {
		return fmt.Errorf("waiting until %d parked pods say why they wait: %w", want, err)
	}
	return nil
}

// countReports counts the parked pods that say why they wait.
func (b *bench) countReports(ctx context.Context) (told int, err error) {
	pods, err := b.Kube.CoreV1().Pods(corev1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: besideLabel, ResourceVersion: "0"})
	if err != nil {
		return 0, fmt.Errorf("listing parked pods: %w", err)
	}
	for i := range pods.Items {
		if len(pods.Items[i].Status.Conditions) > 0 {
			told++
		}
	}
	return told, nil
}
