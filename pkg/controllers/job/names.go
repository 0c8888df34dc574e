package job

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// Resources whose own writes the controller waits to see in the informers.
var (
	podResource   = schema.GroupResource{Resource: "pods"}
	groupResource = schema.GroupResource{Group: "scheduling.volcano.sh", Resource: "podgroups"}
)

// Indexes of the informers that the controller looks things up by.
const (
	byOwningJob = "controllers/job/owner-uid"
	byQueue     = "controllers/job/queue"
	byParent    = "controllers/job/parent-queue"
	byTargetJob = "controllers/job/target"
	byClaim     = "controllers/job/claim"
)

func nameOf(job *batchv1alpha1.Job) types.NamespacedName {
	return types.NamespacedName{Namespace: job.Namespace, Name: job.Name}
}

func keyOf(job *batchv1alpha1.Job) string { return job.Namespace + "/" + job.Name }

// firstOf returns the first error that is not nil; nil if there is none.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// notYet is why a sync of a Job had no effect although nothing is wrong. An informer is behind, or another client has changed the Job.
type notYet struct {
	why   string
	pause time.Duration // before the next sync, if no event causes one earlier
}

func (e *notYet) Error() string { return e.why }

// Reasons of events on Jobs, beside the reasons to wait.
const (
	eventExecuteAction    = "ExecuteAction"
	eventFailedDelete     = "FailedDelete"
	eventPodGroupError    = "PodGroupError"
	eventClaimError       = "PVCError"
	eventPluginError      = "PluginError"
	eventStatusError      = "JobStatusError"
	eventPolicyNeverFires = "PolicyNeverFires"
	// The outcome of a policy whose action is not executed.
	eventPolicyIgnored   = "PolicyIgnored"
	eventActionCancelled = "ActionCancelled"
	// The progress of a Job. The reasons of its ends are the names of their phases.
	eventAdmitted = "Admitted"
	eventRunning  = "Running"
	// The outcome of a Command.
	eventCommandIssued  = "CommandIssued"
	eventCommandIgnored = "CommandIgnored"
)
