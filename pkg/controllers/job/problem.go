package job

import (
	"errors"
	"fmt"
	"time"

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

// of makes the error one of that kind; nil stays nil.
func (k problemKind) of(err error) error {
	if err == nil {
		return nil
	}
	return &actError{k, err}
}

// actError is an error of a kind.
type actError struct {
	kind problemKind
	err  error
}

func (e *actError) Error() string { return e.err.Error() }
func (e *actError) Unwrap() error { return e.err }

// problemIn returns the message of an error for users; nil if it is of no kind.
func problemIn(err error) *plan.Finding {
	if errors.Is(err, errObjectTaken) {
		return &plan.Finding{Reason: plan.ReasonObjectNameTaken, Message: err.Error()}
	}
	if errors.Is(err, errEarlierPod) {
		return &plan.Finding{Reason: plan.ReasonEarlierPods, Message: err.Error()}
	}
	var known *actError
	if !errors.As(err, &known) {
		return nil
	}
	return &plan.Finding{Reason: known.kind.reason, Message: fmt.Sprintf("%s: %v", known.kind.text, known.err)}
}
