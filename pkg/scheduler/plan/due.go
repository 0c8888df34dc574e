package plan

import (
	"time"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

const (
	// grace is how long a gang has waited before its plan is written. Gangs that start promptly cost no writes.
	grace = 3 * time.Second
	// pause is the least time between two writes of a gang's plan.
	pause = time.Minute
	// An expected start is written again that has moved by partMoved of the time to it, and by leastMove.
	leastMove, partMoved = 10 * time.Second, 0.1
)

// isDue says whether a plan is to be written in place of the last one, which may be nil.
func isDue(last, next *schedulingv1beta1.PodGroupPlan, created, now time.Time) bool {
	switch {
	case last == nil:
		return !isWithin(grace, created, now)
	case isWithin(pause, last.ComputedAt.Time, now):
		return false
	case last.ExpectedStart == nil || next.ExpectedStart == nil:
		return last.Message != next.Message
	}
	moved := next.ExpectedStart.At.Sub(last.ExpectedStart.At.Time).Abs()
	return moved >= max(leastMove, time.Duration(partMoved*float64(next.ExpectedStart.At.Sub(now))))
}

// isWithin says whether less than a time has passed since a moment. A moment that lies far ahead is of before a clock was set back: it has passed.
func isWithin(d time.Duration, since, now time.Time) bool {
	passed := now.Sub(since)
	return passed < d && passed > -pause
}
