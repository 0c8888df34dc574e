package job

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plan"
)

// emitEvents writes events about a status that has been written. They are about the Command, the action taken or refused, and the Job's
// progress. It also reports new problems, and new reasons to wait.
func (w *statusWriter) emitEvents(d *decision) {
	job, s, p := d.job, d.s, d.p
	w.tellOfCommand(job, s.Command, p)
	switch {
	case p.Ignored != "":
		w.recorder.Event(job, corev1.EventTypeWarning, eventPolicyIgnored, p.Ignored)
	case p.Request != nil && !isOutOfRuns(p.Status, s.Job.Spec.MaxRetry):
		w.recorder.Eventf(job, corev1.EventTypeNormal, eventExecuteAction, "Start to execute action %s: %s", p.Request.Action, p.Request.Why.Message)
	}
	w.tellOfProgress(job, s, p.Status)
	said := s.Explanation(p.Status)
	if said == nil || job.Status.State.Reason == said.Reason {
		return
	}
	switch said.Reason {
	case plan.ReasonPodGroupPending, plan.ReasonQuotaExceeded, plan.ReasonUnschedulable:
		kind := "pending"
		if plan.IsAdmitted(s.Group) {
			kind = "unschedulable"
		}
		w.recorder.Eventf(job, corev1.EventTypeWarning, plan.ReasonPodGroupPending,
			"PodGroup %s:%s %s, reason: %s", job.Namespace, job.Name, kind, said.Message)
	case plan.ReasonFailedCreate, eventFailedDelete, eventPodGroupError, eventClaimError, plan.ReasonObjectNameTaken: // said when it happened
	case plan.ReasonBackOff:
		w.recorder.Event(job, corev1.EventTypeWarning, plan.ReasonBackOff, "Back-off restarting the job: its pods fail, or are evicted, again and again")
	case plan.ReasonEarlierPods: // it passes by itself
	default:
		w.recorder.Event(job, corev1.EventTypeWarning, said.Reason, said.Message)
	}
}

// isOutOfRuns says whether the Job has no run left for the requested restart: it becomes Failed, and starts nothing.
func isOutOfRuns(status *batchv1alpha1.JobStatus, maxRetry int32) bool {
	return status.State.Reason == phase.ReasonMaxRetryReached || status.State.Phase == batchv1alpha1.Restarting && status.RetryCount >= maxRetry
}

// tellOfProgress reports that the Job has been admitted after a wait, has started or has ended. The texts for a reason vary as little as
// possible. So the recorder joins the events of a Job that starts over and over.
func (w *statusWriter) tellOfProgress(job *batchv1alpha1.Job, s *plan.Snapshot, status *batchv1alpha1.JobStatus) {
	before := &job.Status
	switch p := status.State.Phase; {
	case p == plan.OrPending(before.State.Phase):
		if p == batchv1alpha1.Pending && slices.Contains(queueReasons, before.State.Reason) && plan.IsAdmitted(s.Group) {
			w.recorder.Eventf(job, corev1.EventTypeNormal, eventAdmitted, "Queue %s has admitted the job", s.Job.Spec.Queue)
		}
	case p == batchv1alpha1.Running && isStart(before.Conditions):
		w.recorder.Event(job, corev1.EventTypeNormal, eventRunning, "The minimum of the job runs")
	case phase.Ended(p):
		kind := corev1.EventTypeNormal
		if p == batchv1alpha1.Failed {
			kind = corev1.EventTypeWarning
		}
		w.recorder.Eventf(job, kind, string(p), "%s: %s", status.State.Reason, status.State.Message)
	}
}

// queueReasons are the reasons of a Pending Job that its queue does not admit.
var queueReasons = []string{plan.ReasonPodGroupPending, plan.ReasonQuotaExceeded,
	plan.ReasonQueueNotFound, plan.ReasonQueueIsRoot, plan.ReasonQueueHasChildren, plan.ReasonQueueNotOpen}

// isStart tells whether a Job with these conditions starts when it runs now. It does if it is new, was restarted or was resumed. A Job that
// was Pending for a while because too many of its pods waited has not started again.
func isStart(conditions []batchv1alpha1.JobCondition) bool {
	for _, c := range slices.Backward(conditions) {
		if c.Status != batchv1alpha1.Pending {
			return c.Status != batchv1alpha1.Running
		}
	}
	return true
}

// tellOfCommand reports the outcome of the Command, if there is one.
func (w *statusWriter) tellOfCommand(job *batchv1alpha1.Job, command *busv1alpha1.Command, p *plan.Plan) {
	switch {
	case command == nil || string(command.UID) != p.Status.HandledCommand: // its turn is at the next sync
	case p.CommandIgnored:
		w.instruments.commands.WithLabelValues("ignored").Inc()
		w.recorder.Eventf(job, corev1.EventTypeWarning, eventCommandIgnored,
			"Command %s is not executed: %s does nothing to a job that is %s", command.Name, command.Action, plan.OrPending(job.Status.State.Phase))
	default:
		w.instruments.commands.WithLabelValues("executed").Inc()
		w.recorder.Eventf(job, corev1.EventTypeNormal, eventCommandIssued,
			"Start to execute command %s, and clean it up to make sure executed not more than once.", command.Action)
	}
}
