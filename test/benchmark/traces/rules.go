package main

import (
	"slices"
	"time"

	"github.com/muster-sched/muster/pkg/apis/config"
)

// Rule says who may start before whom.
type Rule struct {
	Name string
	// InOrder submits a job to the scheduler only when the one before has started.
	InOrder bool
	// Arguments change the arguments of the Coscheduling plugin; nil leaves them as shipped.
	Arguments func(*config.CoschedulingArgs)
	// Estimate is how long a job is said to run; nil for no word.
	Estimate func(Job) time.Duration
	// ByLimits: the rule is replayed only for traces that have limits.
	ByLimits bool
	// ByHistory has the earlier runs say how long a job runs.
	ByHistory bool
}

// HasEstimates says whether anything is known of run times.
func (r Rule) HasEstimates() bool { return r.Estimate != nil || r.ByHistory }

// rules are the rows of the table.
var rules = []Rule{
	{Name: "first in, first out", InOrder: true},
	{Name: "bypass for ever", Arguments: func(args *config.CoschedulingArgs) { args.MaxOvertakes, args.MaxOvertakeTime.Duration = 0, 0 }},
	{Name: "bypass, bounded", Arguments: func(args *config.CoschedulingArgs) {
		args.MaxOvertakes, args.MaxOvertakeTime.Duration = 100, 10*time.Minute
	}},
	{Name: "EASY by users' limits", ByLimits: true, Estimate: func(j Job) time.Duration { return j.Limit }},
	{Name: "EASY by history", ByHistory: true},
	{Name: "EASY, true run times", Estimate: func(j Job) time.Duration { return j.Run }},
}

// rulesFor are the rules by which jobs are replayed.
func rulesFor(jobs []Job) []Rule {
	hasLimits := slices.ContainsFunc(jobs, func(j Job) bool { return j.Limit > 0 })
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.ByLimits && !hasLimits })
}
