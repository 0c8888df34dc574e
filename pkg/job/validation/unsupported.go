package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
)

const notBuilt = "not supported yet: leave it out"

// Unsupported returns the fields of a valid Job that ask for something that Muster cannot do yet. Such a Job is not
// started, so that nothing is ignored silently.
func Unsupported(job *batchv1alpha1.Job) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	refuse := func(path *field.Path) { errs = append(errs, field.Forbidden(path, notBuilt)) }
	if job.Spec.NetworkTopology != nil {
		refuse(spec.Child("networkTopology"))
	}
	errs = append(errs, unsupportedPolicies(job.Spec.Policies, spec.Child("policies"))...)
	for i := range job.Spec.Tasks {
		task, path := &job.Spec.Tasks[i], spec.Child("tasks").Index(i)
		if task.PartitionPolicy != nil {
			refuse(path.Child("partitionPolicy"))
		}
		errs = append(errs, unsupportedPolicies(task.Policies, path.Child("policies"))...)
	}
	return errs
}

func unsupportedPolicies(policies []batchv1alpha1.LifecyclePolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range policies {
		p, path := &policies[i], path.Index(i)
		if p.Timeout != nil && p.Timeout.Duration > 0 && !mayWait(p) {
			errs = append(errs, field.Forbidden(path.Child("timeout"),
				"not supported yet but for PodPending, PodFailed and exit codes: leave it out"))
		}
		if event := busv1alpha1.JobUpdatedEvent; p.Event == event || slices.Contains(p.Events, event) {
			errs = append(errs, field.NotSupported(path.Child("event"), event, supportedEvents))
		}
		switch p.Action {
		case busv1alpha1.RestartPartitionAction, busv1alpha1.ResumeJobAction:
			errs = append(errs, field.NotSupported(path.Child("action"), p.Action, supportedActions))
		}
	}
	return errs
}

// mayWait tells whether all that the policy answers can be answered later: only of what happens to a pod that stays is
// it known when it happened.
func mayWait(p *batchv1alpha1.LifecyclePolicy) bool {
	for _, event := range append(slices.Clone(p.Events), p.Event) {
		switch event {
		case "", busv1alpha1.PodPendingEvent, busv1alpha1.PodFailedEvent:
		default:
			return false
		}
	}
	return true
}

var supportedEvents = []busv1alpha1.Event{
	busv1alpha1.AnyEvent, busv1alpha1.PodFailedEvent, busv1alpha1.PodEvictedEvent, busv1alpha1.TaskCompletedEvent,
	busv1alpha1.TaskFailedEvent, busv1alpha1.JobUnknownEvent, busv1alpha1.PodPendingEvent,
}

var supportedActions = []busv1alpha1.Action{
	busv1alpha1.RestartJobAction, busv1alpha1.RestartTaskAction, busv1alpha1.RestartPodAction,
	busv1alpha1.AbortJobAction, busv1alpha1.CompleteJobAction, busv1alpha1.TerminateJobAction,
}
