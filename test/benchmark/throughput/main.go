// Command throughput measures what a user sees: how many pods a second are bound, from the first create to the last bind, on
// a local control plane with bare Node objects. It compares the stock scheduler without gangs, Muster with PodGroups, and
// Muster with Jobs, interleaved so that the machine's moods hit all alike, and prints ratios; absolute figures are the machine's.
//
//	go run ./test/benchmark/throughput --shapes 20x100,50x100 --rounds 5 --json results.json
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
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
	// PodsPerSecond is pods divided by Seconds.
	PodsPerSecond float64 `json:"podsPerSecond"`
}

type options struct {
	shapes   []shape
	variants []string
	rounds   int
	nodes    int
	jsonPath string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "throughput:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	var results []result
	for round := range o.rounds {
		for _, s := range o.shapes {
			for _, variant := range o.variants {
				seconds, err := measure(ctx, o, s, variants[variant])
				if err != nil {
					return fmt.Errorf("running %s with %s: %w", s, variant, err)
				}
				r := result{s.String(), variant, round, seconds, float64(s.Gangs*s.Pods) / seconds}
				results = append(results, r)
				fmt.Fprintf(os.Stderr, "round %d  %-8s %-10s %6.1f s  %6.0f pods/s\n", round+1, r.Shape, r.Variant, r.Seconds, r.PodsPerSecond)
			}
		}
	}
	if o.jsonPath != "" {
		data, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the results: %w", err)
		}
		if err := os.WriteFile(o.jsonPath, data, 0o644); err != nil {
			return fmt.Errorf("writing the results: %w", err)
		}
	}
	return report(o, results)
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("throughput", flag.ContinueOnError)
	shapes := flags.String("shapes", "20x100,50x100,250x20,5x1000", "loads to run, as gangs x pods of each")
	names := flags.String("variants", "stock,podgroups,jobs", "what to compare; the first is the baseline")
	flags.IntVar(&o.rounds, "rounds", 5, "how often to run each")
	flags.IntVar(&o.nodes, "nodes", 500, "number of nodes")
	flags.StringVar(&o.jsonPath, "json", "", "file to write all results to")
	if err := flags.Parse(args); err != nil {
		return nil, err
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
	for _, name := range strings.Split(*names, ",") {
		if _, ok := variants[name]; !ok {
			return nil, fmt.Errorf("--variants: %q is unknown; there are stock, podgroups, plain and jobs", name)
		}
		o.variants = append(o.variants, name)
	}
	return o, nil
}

// report prints, for each shape, the median throughput of each variant and the median of its ratios to the baseline in the same
// round.
func report(o *options, results []result) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "shape\tvariant\tpods/s (median)\tratio to %s (median)\n", o.variants[0])
	for _, s := range o.shapes {
		for _, variant := range o.variants {
			var speeds, ratios []float64
			for round := range o.rounds {
				own := find(results, s, variant, round)
				base := find(results, s, o.variants[0], round)
				speeds = append(speeds, own.PodsPerSecond)
				ratios = append(ratios, own.PodsPerSecond/base.PodsPerSecond)
			}
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f\n", s, variant, median(speeds), median(ratios))
		}
	}
	return w.Flush()
}

func find(results []result, s shape, variant string, round int) result {
	i := slices.IndexFunc(results, func(r result) bool {
		return r.Shape == s.String() && r.Variant == variant && r.Round == round
	})
	return results[i]
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// window is how long a run may take.
const window = 5 * time.Minute
