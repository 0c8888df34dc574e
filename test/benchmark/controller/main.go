// Command controller measures what muster-controller costs. It measures the delay of its answers at rest, its requests for a large Job, and
// how soon PhJobs start. It also measures memory, idle CPU and restart with many Jobs or PhJobs, most of which have ended. Each figure is
// compared with its goal; a goal that is missed is an error.
//
//	go run ./test/benchmark/controller --finished 10000 --live 1000 --phjobs-finished 50000 --phjobs-pending 10000 --json results.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"
)

// options of a run.
type options struct {
	prompt   int // Jobs whose steps are timed
	large    int // pods of the large Job
	finished int // Jobs of one pod that have completed
	live     int // Jobs of ten pods that run
	idle     time.Duration

	phFinished int // PhJobs that have ended
	phPending  int // PhJobs that wait for quota

	jsonPath string
	heapPath string
}

// figure is one measurement and its goal.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Goal  float64 `json:"goal"`
	Unit  string  `json:"unit"`
}

func (f figure) isMet() bool { return f.Value <= f.Goal }

var errMissed = errors.New("a goal is missed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	var figures []figure
	if o.prompt > 0 {
		if figures, err = measurePromptness(ctx, o); err != nil {
			return fmt.Errorf("measuring how soon the controller answers: %w", err)
		}
	}
	if o.large > 0 {
		more, err := measureLargeJob(ctx, o)
		if err != nil {
			return fmt.Errorf("measuring a large Job: %w", err)
		}
		figures = append(figures, more...)
	}
	if o.finished+o.live > 0 {
		more, err := measureManyJobs(ctx, o)
		if err != nil {
			return fmt.Errorf("measuring many Jobs: %w", err)
		}
		figures = append(figures, more...)
	}
	if o.phFinished+o.phPending > 0 {
		more, err := measurePhJobs(ctx, o)
		if err != nil {
			return fmt.Errorf("measuring PhJobs: %w", err)
		}
		figures = append(figures, more...)
	}
	if o.jsonPath != "" {
		data, err := json.MarshalIndent(figures, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the results: %w", err)
		}
		if err := os.WriteFile(o.jsonPath, data, 0o644); err != nil {
			return fmt.Errorf("writing the results: %w", err)
		}
	}
	return report(figures)
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("controller", flag.ContinueOnError)
	flags.IntVar(&o.prompt, "prompt", 50, "Jobs whose steps are timed on a cluster at rest; 0 leaves it out")
	flags.IntVar(&o.large, "large", 1000, "pods of the Job whose requests are counted; 0 leaves it out")
	flags.IntVar(&o.finished, "finished", 10000, "completed Jobs of one pod")
	flags.IntVar(&o.live, "live", 1000, "running Jobs of ten pods")
	flags.DurationVar(&o.idle, "idle", 30*time.Second, "how long the idle controller is watched")
	flags.IntVar(&o.phFinished, "phjobs-finished", 10000, "PhJobs that have ended; 0 of both kinds leaves PhJobs out")
	flags.IntVar(&o.phPending, "phjobs-pending", 1000, "PhJobs that wait for quota: none, or more than 20")
	flags.StringVar(&o.jsonPath, "json", "", "file to write the figures to")
	flags.StringVar(&o.heapPath, "heap", "", "file to write the heap profile of the idle controller to")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if o.phFinished < 0 || o.phPending < 0 || o.phFinished+o.phPending > 0 && o.phPending <= phStarts {
		return nil, fmt.Errorf("--phjobs-finished must not be negative, and --phjobs-pending must be more than %d where PhJobs are measured", phStarts)
	}
	if o.prompt < 0 || o.large < 0 || o.finished < 0 || o.live < 0 || o.idle <= 0 {
		return nil, errors.New("numbers must not be negative, and --idle must be more than 0")
	}
	return o, nil
}

// report prints the figures beside their goals.
func report(figures []figure) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tmeasured\tgoal, at most\tunit\t")
	var err error
	for _, f := range figures {
		result := "met"
		if !f.isMet() {
			result, err = "MISSED", errMissed
		}
		fmt.Fprintf(w, "%s\t%.4g\t%.4g\t%s\t%s\n", f.Name, f.Value, f.Goal, f.Unit, result)
	}
	return errors.Join(w.Flush(), err)
}
