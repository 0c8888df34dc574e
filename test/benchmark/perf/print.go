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
			outcome, ok := judge(results, load, v)
			if !ok {
				missed = append(missed, load.name)
			}
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%s\t%s\t%s\t%s\n", load.name, v.name, report.Median(own.Speeds()),
				median(results.Ratios(load.name, v.name, stock, report.Speed)), median(results.Ratios(load.name, v.name, native, report.Speed)),
				median(results.Ratios(load.name, v.name, stock, report.CPU)), outcome)
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

// judge says how much of its goal a variant reaches. Only muster has one: only our plugins differ from stock there.
func judge(results report.Runs, w workload, v variant) (outcome string, ok bool) {
	if v.name != muster {
		return "", true
	}
	for _, own := range results.Of(w.name, v.name) {
		if own.TimedOut {
			return "timed out", false
		}
	}
	value, known := reached(results, w, v)
	if !known {
		return "", true
	}
	if value < 1 {
		return fmt.Sprintf("%.2f MISSED", value), false
	}
	return fmt.Sprintf("%.2f", value), true
}

// reached is how much of the goal of a workload a variant reaches, as the median over the rounds. The lesser of the two goals of gangs is
// chosen once for all rounds. If it were chosen in each, it would be the one against whose program the machine was in that round. A run of
// upstream's that did not end in time counts with what it bound until then.
func reached(results report.Runs, w workload, v variant) (value float64, known bool) {
	toStock := results.Ratios(w.name, v.name, stock, report.Speed)
	if len(toStock) == 0 {
		return 0, false
	}
	if w.gangs == 0 {
		return report.Median(toStock) / ofOrdinary, true
	}
	value = report.Median(toStock) / ofStock
	if toNative := results.Ratios(w.name, v.name, native, report.Speed); len(toNative) > 0 {
		value = max(value, report.Median(toNative)/ofNative)
	}
	return value, true
}
