package runtimes

import (
	"fmt"
	"time"
)

// Facts are what an estimate is made of.
type Facts struct {
	// Run it is about.
	Run Run
	// Stated is the word of the user, 0 for none. Problem says what is wrong with it, if it does not count.
	Stated  time.Duration
	Problem error
	// Limit is after how long it is ended, 0 for never.
	Limit time.Duration
	// QueueDefault is what the queue says, 0 for nothing.
	QueueDefault time.Duration
}

// Finding is an estimate with what people should know of it.
type Finding struct {
	Estimate
	// Message says what it is made of.
	Message string
	// Distrusted: the user has given an estimate, and it is not used.
	Distrusted bool
}

// Find finds how long something is expected to run. The first that is known counts: the word of the user, earlier runs, the limit, the default of the
// queue. The word of a user counts for nothing for a while if it was far too short before. Nothing runs longer than its limit.
func (h *Past) Find(f Facts) Finding {
	found := Finding{Distrusted: f.Stated > 0 && h.Distrusts(f.Run)}
	mean, runs := h.Mean(f.Run)
	switch {
	case f.Stated > 0 && !found.Distrusted:
		found.For, found.Source, found.Message = f.Stated, User, "as its user says"
	case runs > 1:
		found.For, found.Source, found.Message = mean, History, "the mean of the last two runs of this kind"
	case runs == 1:
		found.For, found.Source, found.Message = mean, History, "the last run of this kind took as long"
	case f.Limit > 0:
		found.For, found.Source, found.Message = f.Limit, Limit, "it is ended then, by its activeDeadlineSeconds"
	case f.QueueDefault > 0:
		found.For, found.Source, found.Message = f.QueueDefault, Queue, "the defaultRuntime of its queue"
	}
	if f.Limit > 0 {
		found.For, found.Limit = min(found.For, f.Limit), f.Limit
	}
	problem := ""
	switch {
	case found.Distrusted:
		problem = fmt.Sprintf("the estimate of its user, %s, is not used: runs of late took more than twice as long as estimated", f.Stated)
	case f.Problem != nil:
		problem = f.Problem.Error()
	}
	if found.Message != "" && problem != "" {
		problem = "; " + problem
	}
	found.Message += problem
	return found
}
