// Command throughput measures what a user sees. That is how many pods a second are bound locally, from the first create to the last
// bind. Nodes are bare objects. It compares the stock scheduler without gangs, Muster with PodGroups, and Muster with
// Jobs, and prints ratios. Runs are interleaved, so that changes in the machine's speed hit all alike; absolute figures depend on the machine.
//
//	go run ./test/benchmark/throughput --shapes 20x100,50x100 --rounds 5 --json results.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/benchmark/report"
)

// shape is a load: a number of gangs of a number of pods each.
type shape struct{ Gangs, Pods int }

func (s shape) String() string { return fmt.Sprintf("%dx%d", s.Gangs, s.Pods) }

// result is one run.
type result struct {
	Shape   string  `json:"shape"`
	Variant string  `json:"variant"`
	Round   int     `json:"round"`
	Seconds float64 `json:"seconds"`
	// Told is after how many seconds the scheduler had written the events of all pods, too.
	Told float64 `json:"toldSeconds"`
	// PodsPerSecond is pods divided by Seconds.
	PodsPerSecond float64 `json:"podsPerSecond"`
	// Costs is what each component spent, by name.
	Costs map[string]cost `json:"costs"`
}

type options struct {
	gates    string
	shapes   []shape
	variants []string
	rounds   int
	nodes    int
	jsonPath string
	// wake and scale ask for these measurements in place of the throughput.
	wake, scale bool
	// scalings are the names of the scalings to measure.
	scalings []string
	// profiles is a folder for profiles, "" for none; profileFor is how long each lasts.
	profiles   string
	profileFor time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := benchmark(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "throughput:", err)
		os.Exit(1)
	}
}

func benchmark(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return fmt.Errorf("making the folder for profiles: %w", err)
		}
	}
	if o.wake || o.scale {
		return o.others(ctx)
	}
	results, err := o.compare(ctx)
	if err := errors.Join(err, o.save(results)); err != nil {
		return err
	}
	return reportThroughput(o, results)
}

// compare runs every variant of every shape in every round. When one fails, it returns what has been measured until then.
func (o *options) compare(ctx context.Context) ([]result, error) {
	var results []result
	for round := range o.rounds {
		for _, s := range o.shapes {
			for _, variant := range inTurn(o.variants, round) {
				measured, err := measure(ctx, o, s, variant)
				if err != nil {
					return results, fmt.Errorf("running %s with %s: %w", s, variant, err)
				}
				r := result{s.String(), variant, round, measured.seconds, measured.told, float64(s.Gangs*s.Pods) / measured.seconds, measured.costs}
				results = append(results, r)
				fmt.Fprintf(os.Stderr, "round %d  %-8s %-10s %6.1f s (told %4.1f s)  %6.0f pods/s%s\n",
					round+1, r.Shape, r.Variant, r.Seconds, r.Told, r.PodsPerSecond, describe(r.Costs, s))
			}
		}
	}
	return results, nil
}

// inTurn are variants, or scalings, in the order of a round. Every other round goes backwards, so that none always comes first.
func inTurn[E any](inOrder []E, round int) []E {
	order := slices.Clone(inOrder)
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// others runs what is no comparison of throughputs.
func (o *options) others(ctx context.Context) error {
	var results struct {
		WakeUps []wakeResult  `json:"wakeUps,omitempty"`
		Scaling []scaleResult `json:"scaling,omitempty"`
	}
	var missed, slower, err error
	if o.wake {
		results.WakeUps, missed = reportWakeUps(ctx, o)
	}
	if o.scale {
		results.Scaling, slower, err = reportScaling(ctx, o)
	}
	return errors.Join(missed, slower, err, o.save(results))
}

func (o *options) save(results any) error {
	if o.jsonPath == "" {
		return nil
	}
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.WriteFile(o.jsonPath, data, 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("throughput", flag.ContinueOnError)
	shapes := flags.String("shapes", "20x100,50x100,250x20,5x1000,5000x1", "loads to run, as gangs x pods of each")
	names := flags.String("variants", "stock,podgroups,jobs", "what to compare; the first is the baseline")
	flags.IntVar(&o.rounds, "rounds", 5, "how often to run each; with --scale, only for the rows \"parked\" and \"pods\", which have goals")
	flags.IntVar(&o.nodes, "nodes", 500, "number of nodes")
	flags.StringVar(&o.gates, "gates", "NominatedNodeNameForExpectation=false",
		"feature gates of the schedulers, stock and ours; each gate that matters must be named, as ours has settings of its own")
	flags.StringVar(&o.profiles, "profiles", "", "folder to write profiles of CPU time and heaps of the scheduler and the controller to")
	flags.DurationVar(&o.profileFor, "profile-for", 10*time.Second, "how long each profile lasts, from the first create")
	quick := flags.Bool("quick", false, "three rounds of two shapes, for development: some ten minutes")
	flags.BoolVar(&o.wake, "wake", false, "measure wake-ups instead: how soon after room has come free the next gang is bound")
	flags.BoolVar(&o.scale, "scale", false, "measure scaling instead: ten times the nodes, ten times the pods, 10,000 waiting pods; hours")
	scaled := flags.String("scalings", "nodes,parked,pods", "what to measure with --scale")
	flags.StringVar(&o.jsonPath, "json", "", "file to write all results to")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *quick {
		*shapes, *names, o.rounds = "20x100,5x1000", "stock,podgroups,plain,jobs", 3
	}
	for _, text := range strings.Split(*shapes, ",") {
		gangs, pods, ok := strings.Cut(text, "x")
		g, err1 := strconv.Atoi(gangs)
		p, err2 := strconv.Atoi(pods)
		if !ok || err1 != nil || err2 != nil || g < 1 || p < 1 {
			return nil, fmt.Errorf("--shapes: %q is not of the form 20x100", text)
		}
		o.shapes = append(o.shapes, shape{g, p})
	}
	for _, name := range strings.Split(*scaled, ",") {
		if !slices.ContainsFunc(scalingRows, func(row scalingRow) bool { return row.scalings[0].name == name }) {
			return nil, fmt.Errorf("--scalings: %q is unknown; there are \"nodes\", \"parked\" and \"pods\"", name)
		}
		o.scalings = append(o.scalings, name)
	}
	for _, name := range strings.Split(*names, ",") {
		if _, ok := variants[name]; !ok {
			return nil, fmt.Errorf("--variants: %q is unknown; there are stock, podgroups, plain, jobs and queues", name)
		}
		o.variants = append(o.variants, name)
	}
	return o, nil
}

// goalOf is the least ratio to the stock scheduler that a variant is to reach with all writes counted. It is 0 if there is no goal.
func goalOf(variant string, s shape) float64 {
	switch {
	case variant == "podgroups" && s.Pods > 1: // a single pod needs no gang
		return 0.95
	case variant == "plain":
		return 0.97
	case variant == "jobs" && s.Pods == 1:
		return 0.35 // a Job, a PodGroup and their statuses for each pod
	case variant == "jobs":
		return 0.80
	}
	return 0
}

// reportThroughput prints, for each shape, the median throughput of each variant. It prints the medians of the ratios to the baseline in
// the same round. They are throughput, throughput with the events of all pods, and processor time of the whole control plane. It returns an
// error if a goal is missed.
func reportThroughput(o *options, results []result) error {
	base := o.variants[0]
	var missed []string
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "shape\tvariant\tpods/s (median)\tratio to %s (median)\twith all events\tgoal\t\tCPU per pod to %s\tscheduler's memory to %s\n", base, base, base)
	for _, s := range o.shapes {
		for _, variant := range o.variants {
			var speeds, ratios, told, costs, memory []float64
			for round := range o.rounds {
				own, to := find(results, s, variant, round), find(results, s, base, round)
				speeds = append(speeds, own.PodsPerSecond)
				ratios = append(ratios, own.PodsPerSecond/to.PodsPerSecond)
				told = append(told, to.Told/own.Told)
				costs = append(costs, cpuOf(own)/cpuOf(to))
				memory = append(memory, memoryOf(own)/memoryOf(to))
			}
			goal, outcome := "", ""
			if least := goalOf(variant, s); least > 0 && base == "stock" {
				goal, outcome = fmt.Sprintf(">= %.2f", least), "met"
				if report.Median(told) < least {
					outcome, missed = "MISSED", append(missed, fmt.Sprintf("%s of %s", variant, s))
				}
			}
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f\t%.2f\t%s\t%s\t%.2f\t%.2f\n",
				s, variant, report.Median(speeds), report.Median(ratios), report.Median(told), goal, outcome, report.Median(costs), report.Median(memory))
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the results: %w", err)
	}
	if len(missed) > 0 {
		return fmt.Errorf("below the goal: %s", strings.Join(missed, ", "))
	}
	return nil
}

// cpuOf is the processor time of the whole control plane in a run, in seconds.
func cpuOf(r result) (seconds float64) {
	for _, c := range r.Costs {
		seconds += c.CPU
	}
	return seconds
}

// memoryOf is the resident memory of the scheduler at the end of a run, in bytes.
func memoryOf(r result) float64 {
	return r.Costs[localcluster.KubeScheduler].Memory + r.Costs[localcluster.MusterScheduler].Memory
}

// describe says in a few words what a pod cost each component: CPU in milliseconds, and writes to the API.
func describe(costs map[string]cost, s shape) string {
	text, pods := "", float64(s.Gangs*s.Pods)
	for _, name := range slices.Sorted(maps.Keys(costs)) {
		c := costs[name]
		text += fmt.Sprintf("  %s %.2f ms", name, c.CPU/pods*1000)
		if c.Writes >= 1 && name != localcluster.KubeAPIServer {
			text += fmt.Sprintf(" %.2f writes", c.Writes/pods)
		}
	}
	return text
}

func find(results []result, s shape, variant string, round int) result {
	i := slices.IndexFunc(results, func(r result) bool {
		return r.Shape == s.String() && r.Variant == variant && r.Round == round
	})
	return results[i]
}

// window is how long a run may take.
const window = 5 * time.Minute
