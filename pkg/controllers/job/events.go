package job

import (
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
)

// Reasons of events on Jobs, beside the reasons of what a Job waits for.
const (
	eventExecuteAction    = "ExecuteAction"
	eventFailedCreate     = "FailedCreate"
	eventFailedDelete     = "FailedDelete"
	eventPodGroupError    = "PodGroupError"
	eventClaimError       = "PVCError"
	eventPluginError      = "PluginError"
	eventStatusError      = "JobStatusError"
	eventPolicyNeverFires = "PolicyNeverFires"
	// What becomes of a Command.
	eventCommandIssued  = "CommandIssued"
	eventCommandIgnored = "CommandIgnored"
)

// emitEvents tells people what a status that has been written means: the command that was given, the action that was
// taken, and what the Job suffers from or waits for now and did not before.
func (c *Controller) emitEvents(job *batchv1alpha1.Job, s *snapshot, p *plan) {
	c.tellOfCommand(job, s.command, p)
	if p.request != nil {
		c.recorder.Eventf(job, corev1.EventTypeNormal, eventExecuteAction, "Start to execute action %s ", p.request.action)
	}
	said := s.explanation(p.status.State.Phase)
	if said == nil || job.Status.State.Reason == said.reason {
		return
	}
	switch said.reason {
	case reasonPodGroupPending, reasonUnschedulable:
		kind := "pending"
		if said.reason == reasonUnschedulable {
			kind = "unschedulable"
		}
		c.recorder.Eventf(job, corev1.EventTypeWarning, reasonPodGroupPending,
			"PodGroup %s:%s %s, reason: %s", job.Namespace, job.Name, kind, said.message)
	case eventFailedCreate, eventFailedDelete, eventPodGroupError, eventClaimError, reasonObjectNameTaken:
		// Said when it happened.
	case reasonEarlierPods:
		// It passes by itself.
	default:
		c.recorder.Event(job, corev1.EventTypeWarning, said.reason, said.message)
	}
}

// tellOfCommand tells what has become of the Command, if anything has.
func (c *Controller) tellOfCommand(job *batchv1alpha1.Job, command *busv1alpha1.Command, p *plan) {
	switch {
	case command == nil || string(command.UID) != p.status.HandledCommand: // it is its turn at the next look
	case p.ignored:
		c.instruments.commands.WithLabelValues("ignored").Inc()
		c.recorder.Eventf(job, corev1.EventTypeWarning, eventCommandIgnored,
			"Command %s is not executed: %s does nothing to a job that is %s", command.Name, command.Action, beginning(job.Status.State.Phase))
	default:
		c.instruments.commands.WithLabelValues("executed").Inc()
		c.recorder.Eventf(job, corev1.EventTypeNormal, eventCommandIssued,
			"Start to execute command %s, and clean it up to make sure executed not more than once.", command.Action)
	}
}
