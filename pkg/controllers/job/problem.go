package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plan"
)

// conflictPause is the first pause after another client has changed an object of ours, until the informer shows the change.
const conflictPause = 50 * time.Millisecond

// problemKind is a request of the controller that the API server refused. Problems of a kind have the same reason and the same beginning of
// the text.
type problemKind struct{ reason, text string }

// The kinds of problems.
var (
	deleteError = problemKind{eventFailedDelete, "Error deleting pods"}
	createError = problemKind{plan.ReasonFailedCreate, "Error creating pods"}
	groupError  = problemKind{eventPodGroupError, "Failed to create PodGroup, err"}
	claimError  = problemKind{eventClaimError, "Failed to create PVC, err"}
	pluginError = problemKind{eventPluginError, "Execute plugin when job add failed, err"}
	// For a Job that has ended or is aborted.
	groupDeleteError  = problemKind{eventPodGroupError, "Failed to delete PodGroup, err"}
	objectDeleteError = problemKind{eventPluginError, "Execute plugin when job delete failed, err"}
	expiryError       = problemKind{eventFailedDelete, "Error deleting the expired job"}
)

// of makes the error one of that kind.
func (k problemKind) of(err error) error { return &actError{k, err} }

// actError is an error of a kind.
type actError struct {
	kind problemKind
	err  error
}

func (e *actError) Error() string { return e.err.Error() }
func (e *actError) Unwrap() error { return e.err }

// problemIn returns the message of an error for users; nil if it is of no kind.
func problemIn(err error) *plan.Finding {
	var known *actError
	switch {
	case errors.Is(err, errObjectTaken):
		return &plan.Finding{Reason: plan.ReasonObjectNameTaken, Message: err.Error()}
	case errors.Is(err, errEarlierPod):
		return &plan.Finding{Reason: plan.ReasonEarlierPods, Message: err.Error()}
	case errors.As(err, &known):
		return &plan.Finding{Reason: known.kind.reason, Message: fmt.Sprintf("%s: %v", known.kind.text, known.err)}
	}
	return nil
}

// loggedLooks is the number of syncs in a row without effect from which on they are logged.
const loggedLooks = 3

// maxPause is the longest pause between syncs without effect.
const maxPause = 30 * time.Second

// again says when to sync the Job again after a sync without effect: later each time, up to a bound. From the third in a row on it logs
// why.
func (c *Controller) again(ctx context.Context, job *batchv1alpha1.Job, why *staleError, r *retries) time.Duration {
	now := c.cfg.Clock.Now()
	if left := r.next.Sub(now); r.count > 0 && left > 0 {
		return left
	}
	pause := why.pause
	for range r.count {
		pause = min(2*pause, maxPause)
	}
	r.count++
	r.next = now.Add(pause)
	logger := klog.FromContext(ctx)
	if r.count >= loggedLooks {
		logger.Info("Job waits and will be looked at again", "job", klog.KObj(job), "reason", why.why, "looks", r.count, "after", pause)
	} else {
		logger.V(4).Info("Job waits", "job", klog.KObj(job), "reason", why.why)
	}
	return pause
}
