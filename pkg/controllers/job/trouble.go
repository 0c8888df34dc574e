package job

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

const (
	// conflictPause is the first pause after another client has changed an object of ours, until the informer shows the change.
	conflictPause = 50 * time.Millisecond
	// maxPause is how long to wait at most before a name is tried again that is taken.
	maxPause = 30 * time.Second
)

// troubleKind is a request of the controller that the API server refused. Trouble of a kind has the same reason and the same beginning of
// the text.
type troubleKind struct{ reason, text string }

// The kinds of trouble.
var (
	deleteError = troubleKind{eventFailedDelete, "Error deleting pods"}
	createError = troubleKind{plan.ReasonFailedCreate, "Error creating pods"}
	groupError  = troubleKind{eventPodGroupError, "Failed to create PodGroup, err"}
	claimError  = troubleKind{eventClaimError, "Failed to create PVC, err"}
	pluginError = troubleKind{eventPluginError, "Execute plugin when job add failed, err"}
	// For a Job that has ended or is aborted.
	groupDeleteError  = troubleKind{eventPodGroupError, "Failed to delete PodGroup, err"}
	objectDeleteError = troubleKind{eventPluginError, "Execute plugin when job delete failed, err"}
	expiryError       = troubleKind{eventFailedDelete, "Error deleting the expired job"}
)

// of makes the error one of that kind; nil stays nil.
func (k troubleKind) of(err error) error {
	if err == nil {
		return nil
	}
	return &actError{k, err}
}

// actError is an error of a kind.
type actError struct {
	kind troubleKind
	err  error
}

func (e *actError) Error() string { return e.err.Error() }
func (e *actError) Unwrap() error { return e.err }

// report turns an API error into a reason, a message and an event, and says how to go on: soon, or with the error for a back-off.
func (c *Controller) report(job *batchv1alpha1.Job, err error, local *localState) (time.Duration, error) {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The Job is about to be deleted with its namespace.
		return 0, nil
	case apierrors.IsConflict(err):
		return 0, &notYet{err.Error(), conflictPause}
	}
	if early := (*notYet)(nil); errors.As(err, &early) {
		return 0, early
	}
	if slow := (*plugin.SlowSecret)(nil); errors.As(err, &slow) {
		return 0, nil // the Job is looked at again when it is made
	}
	trouble := troubleIn(err)
	if trouble == nil {
		return 0, err
	}
	isNew := local.lastError == nil || *local.lastError != *trouble
	local.lastError = trouble
	if !errors.Is(err, errEarlierPod) { // nothing is wrong then
		c.instruments.troubles.WithLabelValues(trouble.Reason).Inc()
		// Refusals by plugins have the same reason. Their event comes with the status, if the status has room for a reason.
		withStatus := trouble.Reason == eventPluginError && phase.Runs(job.Status.State.Phase)
		if isNew && !withStatus {
			c.recorder.Event(job, corev1.EventTypeWarning, trouble.Reason, trouble.Message)
		}
	}
	for _, taken := range []error{errNameTaken, errEarlierPod, errObjectTaken, errClaimTaken} {
		if errors.Is(err, taken) {
			// The name of an earlier Job's object is free as soon as that is gone; another owner may keep it.
			return local.nextPause(isNew), nil
		}
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return 0, &worker.UsersError{Err: err} // such as a PriorityClass that does not exist, or a ResourceQuota
	}
	return 0, err
}

// reportUnwritten writes an event when the API server refuses a Job's status, once for each reason in a row: the status itself cannot say
// it. Nothing that matters later is done to a Job before its status says so. So the Job goes on when the status can be written.
func (c *Controller) reportUnwritten(job *batchv1alpha1.Job, err error, local *localState) {
	c.instruments.troubles.WithLabelValues(eventStatusError).Inc()
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || local.writeError == err.Error() {
		return // an API server that does not answer takes no events either
	}
	local.writeError = err.Error()
	what := "update"
	if job.Status.State.Phase == "" {
		what = "initialize"
	}
	c.recorder.Eventf(job, corev1.EventTypeWarning, eventStatusError, "Failed to %s job status, err: %v", what, err)
}

// troubleIn returns the message of an error for users; nil if it is of no kind.
func troubleIn(err error) *plan.Finding {
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
