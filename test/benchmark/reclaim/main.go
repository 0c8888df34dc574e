// Command reclaim measures how soon evictions make room for a gang, and how many pods they evict. It compares with the goals. Each goal
// that is missed is an error.
//
//	go run ./test/benchmark/reclaim --parts plan,gpus --nodes 100 --json results.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/muster-sched/muster/test/benchmark/report"
)

// options of a run.
type options struct {
	parts    []string
	rounds   int
	nodes    int
	jsonPath string
}

// part is a measurement by itself.
type part struct {
	name, about string
	measure     func(ctx context.Context, o *options) ([]report.Figure, error)
}

var parts = []part{
	{"plan", "a gang takes room back on nodes full of pods of another queue", measurePlan},
	{"native", "gangs of a higher priority, beside upstream's native gangs", measureBesideNative},
	{"gpus", "Jobs take GPUs back among running pods of another queue", measureGPUs},
	{"queues", "throughput with 100 queues on three levels, beside none", measureQueues},
	{"admission", "decisions a second with 10,000 PodGroups waiting in one queue", measureAdmission},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "reclaim:", err)
		os.Exit(1)
	}
}

// run measures each part. A part that fails does not stop the other parts.
func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	var figures []report.Figure
	var failures []error
	for _, p := range parts {
		if !slices.Contains(o.parts, p.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", p.name, p.about)
		begun := time.Now()
		own, err := p.measure(ctx, o)
		if err != nil {
			failures = append(failures, fmt.Errorf("measuring %s: %w", p.name, err))
		}
		figures = append(figures, own...)
		fmt.Fprintf(os.Stderr, "%s took %.0f s\n", p.name, time.Since(begun).Seconds())
	}
	failures = append(failures, save(o.jsonPath, figures), report.PrintFigures(os.Stdout, figures))
	return errors.Join(failures...)
}

func save(path string, figures []report.Figure) error {
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

func parse(args []string) (*options, error) {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	all := strings.Join(names, ",")
	o := &options{}
	flags := flag.NewFlagSet("reclaim", flag.ContinueOnError)
	wanted := flags.String("parts", all, "what to measure")
	flags.IntVar(&o.rounds, "rounds", 3, "how often to run what is compared with something else")
	flags.IntVar(&o.nodes, "nodes", 500, "nodes of the parts plan and gpus; pods and gangs grow with them. The goals are those of 500")
	flags.StringVar(&o.jsonPath, "json", "", "file to write the figures to")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if o.rounds < 1 || o.nodes < 10 {
		return nil, errors.New("--rounds must be at least 1, and --nodes at least 10")
	}
	for _, name := range strings.Split(*wanted, ",") {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--parts: %q is none of %s", name, all)
		}
		o.parts = append(o.parts, name)
	}
	return o, nil
}
