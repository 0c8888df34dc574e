package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/muster-sched/muster/test/benchmark/report"
)

// The goals, as ratios of pods a second within a round.
const (
	ofNative   = 1.5  // gangs are this much faster than upstream's, or
	ofStock    = 0.95 // as fast as the same pods without gangs, whichever is less
	ofOrdinary = 0.98 // ordinary pods lose no more than this to our plugins
)

// printTable writes the table of ratios, and returns an error that names the goals that were missed.
func printTable(out io.Writer, o *options, results report.Runs) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "workload\tvariant\tpods/s\tvs stock\tvs native\tCPU/pod vs stock\tof the goal")
	var missed []string
	for _, load := range o.workloads {
		for _, v := range o.variants {
			own := results.Of(load.name, v.name)
			if len(own) == 0 {
				continue
			}
			verdict, ok := judge(results, load, v)
			if !ok {
				missed = append(missed, load.name)
			}
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%s\t%s\t%s\t%s\n", load.name, v.name, report.Median(own.Speeds()),
				median(results.Ratios(load.name, v.name, stock, report.Speed)), median(results.Ratios(load.name, v.name, native, report.Speed)),
				median(results.Ratios(load.name, v.name, stock, report.CPU)), verdict)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(missed) > 0 {
		return errors.New("below the goal: " + strings.Join(missed, ", "))
	}
	return nil
}

func median(ratios []float64) string {
	if len(ratios) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", report.Median(ratios))
}

// judge says how much of its goal a variant reaches, as the median over the rounds. Only muster has one: what differs from stock
// there is our plugins alone.
func judge(results report.Runs, w workload, v variant) (verdict string, ok bool) {
	if v.name != muster {
		return "", true
	}
	var reached []float64
	for _, own := range results.Of(w.name, v.name) {
		if own.TimedOut {
			return "timed out", false
		}
		if goal, known := goalIn(results, w, own.Round); known {
			reached = append(reached, own.PodsPerSecond/goal)
		}
	}
	if len(reached) == 0 {
		return "", true
	}
	value := report.Median(reached)
	if value < 1 {
		return fmt.Sprintf("%.2f MISSED", value), false
	}
	return fmt.Sprintf("%.2f", value), true
}

// goalIn is how many pods a second the goal of a workload asks for in a round. A run of upstream's that did not end in time counts
// with what it bound until then.
func goalIn(results report.Runs, w workload, round int) (float64, bool) {
	base, ok := results.Find(w.name, stock, round)
	if !ok {
		return 0, false
	}
	if w.gangs == 0 {
		return ofOrdinary * base.PodsPerSecond, true
	}
	goal := ofStock * base.PodsPerSecond
	if theirs, ok := results.Find(w.name, native, round); ok {
		goal = min(goal, ofNative*theirs.PodsPerSecond)
	}
	return goal, true
}
