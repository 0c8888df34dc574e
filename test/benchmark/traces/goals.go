package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// today is the rule that the others are compared with.
const today = "bypass, bounded"

// goal is a figure that backfill should reach.
type goal struct {
	workload string // the beginning of its name
	load     float64
	figure   string
	bound    float64
	atLeast  bool // else at most
	value    func(r, today Row) float64
}

var goals = []goal{
	{"eight nodes", 0, "start of the gang, of the earliest time there is", 1.02, false, func(r, _ Row) float64 { return (r.LargestMax + time.Second).Seconds() / 200 }},
	{"eight nodes", 0, "use", 0.95, true, func(r, _ Row) float64 { return r.Use }},
	{"lublin", 0.9, "use", 0.84, true, func(r, _ Row) float64 { return r.Use }},
	{"lublin", 0.9, "mean wait, of that by today's rule", 0.3, false, func(r, t Row) float64 { return ratio(r.Mean, t.Mean) }},
	{"lublin", 0.9, "expected ranges of 80 % that held", 0.75, true, func(r, _ Row) float64 { return r.held() }},
	{"lublin", 0.9, "expected ranges of 80 % that held", 0.85, false, func(r, _ Row) float64 { return r.held() }},
	{"philly, one-GPU", 0.9, "median wait, of that by today's rule", 0.4, false, func(r, t Row) float64 { return ratio(r.Median, t.Median) }},
	{"philly, one-GPU", 0.9, "longest wait, of that by today's rule", 0.75, false, func(r, t Row) float64 { return ratio(r.Longest, t.Longest) }},
	{"philly, one-GPU", 0.9, "expected ranges of 80 % that held", 0.75, true, func(r, _ Row) float64 { return r.held() }},
	{"philly, one-GPU", 0.9, "expected ranges of 80 % that held", 0.85, false, func(r, _ Row) float64 { return r.held() }},
	{"philly, as it is", 0.9, "mean wait, of that by today's rule", 1.05, false, func(r, t Row) float64 { return ratio(r.Mean, t.Mean) }},
	{"philly, as it is", 0.9, "mean wait of the largest 3 %, of that by today's rule", 0.75, false, func(r, t Row) float64 { return ratio(r.LargeMean, t.LargeMean) }},
}

// ratio is 1 if neither waits.
func ratio(a, b time.Duration) float64 {
	if a == b {
		return 1
	}
	return a.Seconds() / b.Seconds()
}

// printGoals prints the goals beside what the rules with estimates reach.
func printGoals(out io.Writer, rows []Row) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WORKLOAD\tLOAD\tFIGURE\tGOAL\tRULE\tREACHED\t")
	for _, g := range goals {
		at := slices.IndexFunc(rows, func(r Row) bool { return g.isOf(r) && r.Rule == today })
		if at < 0 {
			continue // there is nothing to compare with
		}
		for _, r := range rows {
			if g.isOf(r) && strings.HasPrefix(r.Rule, "EASY") {
				fmt.Fprintf(table, "%s\t%.2f\t%s\t%s\t%s\t%.2f\t%s\n", r.Workload, r.Load, g.figure, g.text(), r.Rule, g.value(r, rows[at]), g.verdict(r, rows[at]))
			}
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the goals: %w", err)
	}
	return nil
}

func (g goal) isOf(r Row) bool { return strings.HasPrefix(r.Workload, g.workload) && r.Load == g.load }

func (g goal) text() string {
	if g.atLeast {
		return fmt.Sprintf("at least %.2f", g.bound)
	}
	return fmt.Sprintf("at most %.2f", g.bound)
}

func (g goal) verdict(r, by Row) string {
	if value := g.value(r, by); g.atLeast == (value >= g.bound) || value == g.bound {
		return ""
	}
	return "missed"
}
