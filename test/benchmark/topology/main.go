// Command topology measures how whole the real scheduler leaves a real network, and what a network topology costs. It compares with the goals.
// Time is virtual. Each goal that is missed is an error.
//
//	go run ./test/benchmark/topology --parts fragments --gangs 1000
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/muster-sched/muster/test/benchmark/report"
	"github.com/muster-sched/muster/test/simulation"
)

// options of a run.
type options struct {
	parts                []string
	gangs, seeds, rounds int
	load                 float64
	narrow               time.Duration
	jsonPath             string
}

// part is a measurement by itself.
type part struct {
	name, about string
	measure     func(t *testing.T, o *options) ([]report.Figure, error)
}

var parts = []part{
	{"memory", "the tree of 5,000 nodes", measureMemory},
	{"fragments", "gangs of whole hosts come and go on a network of 847 hosts", measureFragments},
	{"speed", "gangs in one rack each of 5,000 nodes, beside the same without a topology", measureSpeed},
	{"unused", "gangs that ask for GPUs while no domain is known, beside the same without the score", measureUnused},
}

// main runs as a test does: only a test may have a bubble in which time is virtual.
func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	simulation.Prepare(func(err error, msg string) { fmt.Fprintln(os.Stderr, "topology:", msg, err) })
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "topology:", err)
		os.Exit(1)
	}
	os.Args = os.Args[:1] // the flags are not those of tests
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "topology", F: func(t *testing.T) {
		if err := run(t, o); err != nil {
			t.Error(err)
		}
	}}}, nil, nil)
}

func run(t *testing.T, o *options) error {
	var figures []report.Figure
	for _, p := range parts {
		if !slices.Contains(o.parts, p.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", p.name, p.about)
		begun := time.Now()
		own, err := p.measure(t, o)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", p.name, err)
		}
		figures = append(figures, own...)
		fmt.Fprintf(os.Stderr, "%s took %.0f s\n", p.name, time.Since(begun).Seconds())
	}
	return errors.Join(save(o.jsonPath, figures), report.PrintFigures(os.Stdout, figures))
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
	o, all := &options{}, strings.Join(names, ",")
	flags := flag.NewFlagSet("topology", flag.ContinueOnError)
	chosen := flags.String("parts", all, "what to measure: some of "+all)
	flags.IntVar(&o.gangs, "gangs", 3000, "gangs of each run of the part fragments")
	flags.IntVar(&o.seeds, "seeds", 2, "runs of the part fragments")
	flags.Float64Var(&o.load, "load", 0.85, "share of the hosts that the gangs of the part fragments ask for")
	flags.DurationVar(&o.narrow, "narrow", 0, "how long gangs of 2 to 8 hosts in the part fragments keep to one leaf; a gang runs for an hour on average")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds of the part speed; the part unused has twice as many")
	flags.StringVar(&o.jsonPath, "json", "", "file to write the figures to")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.parts = strings.Split(*chosen, ",")
	for _, name := range o.parts {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no part %q; the parts are %s", name, all)
		}
	}
	if o.gangs < 10 || o.seeds < 1 || o.rounds < 1 || o.load <= 0 || o.narrow < 0 {
		return nil, errors.New("--gangs must be at least 10, --seeds and --rounds at least 1, --load more than 0, and --narrow not negative")
	}
	return o, nil
}
