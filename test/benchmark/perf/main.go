// Command perf runs upstream's scheduler_perf with Muster's plugins. Beside it run the stock scheduler with the same pods without gangs,
// and upstream's own GangScheduling. Runs are interleaved, so that changes in the machine's speed hit all alike. It prints ratios and fails
// if one is below its goal; absolute figures depend on the machine.
//
//	make bench ARGS="--rounds 1 --workloads GangScheduling/1000x3,SchedulingBasic"
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/muster-sched/muster/test/benchmark/report"
)

type options struct {
	workloads []workload
	variants  []variant
	rounds    int
	json      string
	resume    bool
	limit     time.Duration
	profile   bool
	list      bool
	etcd      string
	scratch   string
	logs      string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.list {
		list()
		return nil
	}
	var results report.Runs
	if o.resume {
		if results, err = report.Load(o.json); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stderr, "compiling scheduler_perf with Muster's plugins (minutes, once)")
	r, err := newRunner(ctx, o)
	if err != nil {
		return err
	}
	results, err = measure(ctx, o, r, results)
	return errors.Join(err, printTable(os.Stdout, o, results))
}

// step is one run that is to be made.
type step struct {
	round    int
	workload workload
	variant  variant
}

// steps are all runs, round by round. Every other round goes backwards, so that no variant is always the first.
func (o *options) steps() []step {
	var steps []step
	for round := range o.rounds {
		order := slices.Clone(o.variants)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, w := range o.workloads {
			for _, v := range order {
				if v.runs(w) {
					steps = append(steps, step{round, w, v})
				}
			}
		}
	}
	return steps
}

// measure makes the runs that have not been made yet, and saves after each. A run that fails does not stop the other runs.
func measure(ctx context.Context, o *options, r *runner, results report.Runs) (report.Runs, error) {
	var failures []error
	steps := o.steps()
	for i, s := range steps {
		if _, ok := results.Find(s.workload.name, s.variant.name, s.round); ok {
			continue
		}
		start := time.Now()
		result, err := r.run(ctx, s.workload, s.variant, s.round)
		if ctx.Err() != nil {
			return results, errors.New("interrupted; --resume goes on from here")
		}
		label := fmt.Sprintf("%d/%d  round %d  %-26s %-8s", i+1, len(steps), s.round+1, s.workload.name, s.variant.name)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s FAILED: %v\n", label, err)
			failures = append(failures, fmt.Errorf("%s with %s, round %d: %w", s.workload.name, s.variant.name, s.round+1, err))
			continue
		}
		fmt.Fprintf(os.Stderr, "%s %7.0f pods/s %6.1f s%s  (%.0f s in all)\n",
			label, result.PodsPerSecond, result.Seconds, timedOut(result), time.Since(start).Seconds())
		results = append(results, result)
		if err := results.Save(o.json); err != nil {
			return results, err
		}
	}
	return results, errors.Join(failures...)
}

func timedOut(r report.Run) string {
	if r.TimedOut {
		return fmt.Sprintf(", only %d pods bound in time", r.Pods)
	}
	return ""
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("perf", flag.ContinueOnError)
	names := flags.String("workloads", "", "beginnings of the names of workloads to run (default all)")
	variantNames := flags.String("variants", "stock,native,muster,shipped", "what to compare; stock is the baseline")
	flags.IntVar(&o.rounds, "rounds", 5, "how often to run each")
	scale := flags.Float64("scale", 1, "part of the nodes and pods, for a quick look; figures for less than 1 say little")
	flags.StringVar(&o.json, "json", "test-results/bench.json", "file that all results are written to")
	flags.BoolVar(&o.resume, "resume", false, "keep the results in the file, and run only what it has not")
	flags.DurationVar(&o.limit, "limit", 2*time.Minute, "how long the pods of a workload may take to be scheduled")
	flags.BoolVar(&o.profile, "profile", false, "write a CPU profile of the timed part of each run beside its log")
	flags.BoolVar(&o.list, "list", false, "list the workloads and variants, and do nothing else")
	flags.StringVar(&o.etcd, "etcd", "", "folder of etcd (default: that of make controlplane)")
	flags.StringVar(&o.scratch, "scratch", memory, "folder for the data of etcd; one in memory, so that no disk is measured")
	flags.StringVar(&o.logs, "logs", "test-results/bench", "folder for logs and profiles")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var err error
	if o.workloads, err = chooseWorkloads(*names); err != nil {
		return nil, err
	}
	for i, w := range o.workloads {
		o.workloads[i] = w.scaled(*scale)
	}
	if o.variants, err = chooseVariants(*variantNames); err != nil {
		return nil, err
	}
	return o, o.findFolders()
}

// memory is where Linux keeps files in memory.
const memory = "/dev/shm"

// findFolders makes paths absolute, since the benchmark runs elsewhere, and finds missing ones. Relative ones begin at the root of the
// repository, where make was called. The program itself runs in the folder of its module.
func (o *options) findFolders() error {
	repository, err := filepath.Abs("../../..")
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	if o.etcd == "" {
		found, err := filepath.Glob(filepath.Join(repository, "bin", "controlplane", "*", "etcd"))
		if err != nil || len(found) == 0 {
			return errors.New("there is no etcd in bin/controlplane: run make controlplane")
		}
		o.etcd = filepath.Dir(found[len(found)-1])
	}
	if _, err := os.Stat(o.scratch); o.scratch == memory && err != nil {
		o.scratch = os.TempDir()
	}
	for _, path := range []*string{&o.etcd, &o.scratch, &o.logs, &o.json} {
		if !filepath.IsAbs(*path) {
			*path = filepath.Join(repository, *path)
		}
	}
	return nil
}

func list() {
	fmt.Println("workloads:")
	for _, w := range workloads {
		fmt.Printf("  %-26s scheduler_perf/%s: %s/%s%s\n", w.name, w.folder, w.testCase, w.size, w.differs())
	}
	fmt.Println("variants:")
	for _, v := range variants {
		fmt.Printf("  %-26s %s\n", v.name, v.about)
	}
}
