package phjob

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/phjob/phase"
)

// Messages that PrimeHub's clients know.
const (
	messageShort     = "Insufficient group/user quota"
	messageNever     = "Your instance type resource limit is bigger than your user or group quota."
	messageCancelled = "Cancelled by user"
	messageRunning   = "Job is currently running"
	messageDone      = "Job completed"
	messageTimeout   = "Job failed due to System Error: phJob has failed because it was active longer than specified deadline"
	messageGivenUp   = "Job failed due to System Error: phJob has failed because it was requeued more than specified times"
	backToPending    = "Back to pending due to: "
)

// Facts are what is known of a PhJob that has not ended.
type Facts struct {
	// Job as it is now.
	Job *primehubv1alpha1.PhJob
	// Config of the administrator.
	Config *Config
	// Now is the time.
	Now time.Time
	// Refused says why no pod can be made of the PhJob. It is nil if one can, or if that is not known.
	Refused *Refusal
	// Admitted says that the PhJob has its quota.
	Admitted bool
	// Shortage says what quota is missing; "" if that is not known.
	Shortage string
	// ExpectedStart is when the PodGroup is expected to start; nil if that is not known.
	ExpectedStart *metav1.Time
	// Pod is the pod of this try; nil if there is none.
	Pod *corev1.Pod
	// NodeLost says that the node of the pod does not answer.
	NodeLost bool
}

// Refusal says why no pod can be made of a PhJob.
type Refusal struct {
	// Reason and Message stand in the status.
	Reason  primehubv1alpha1.PhJobReason
	Message string
}

// AboveQuota refuses a PhJob that asks for more than a whole quota.
func AboveQuota() *Refusal { return &Refusal{primehubv1alpha1.ReasonOverQuota, messageNever} }

// CannotCreate refuses a PhJob of which no pod can be made.
func CannotCreate(err error) *Refusal {
	return &Refusal{primehubv1alpha1.ReasonPodCreationFailed, err.Error()}
}

// Decide returns the status that a PhJob has next, and when to look at it again though nothing has happened. 0 means never.
func Decide(f *Facts) (*primehubv1alpha1.PhJobStatus, time.Duration) {
	next := f.Job.Status.DeepCopy()
	next.ExpectedStart = nil
	event := f.event()
	if to, changes := phase.Next(next.Phase, event); changes {
		next.Phase = to
	}
	if event == phase.Requeue {
		next.Requeued++
		next.PodName = ""
		next.Message = backToPending + orElse(strings.TrimPrefix(orElse(waitingMessage(f.Pod), f.Job.Status.Message), backToPending), "the pod did not start in time")
		next.Reason = primehubv1alpha1.ReasonPodPending
		return next, 0
	}
	f.note(next, event)
	return next, f.wait(next)
}

// event is what has happened since the status was written; "" if nothing has.
func (f *Facts) event() phase.Event {
	current := f.Job.Status.Phase
	switch {
	case current == "":
		return phase.Submit
	case f.Job.Spec.Cancel:
		return phase.Cancel
	case f.Refused != nil && current != primehubv1alpha1.PhJobRunning:
		return phase.Refuse
	case current == primehubv1alpha1.PhJobPending:
		if f.Admitted {
			return phase.Admit
		}
		return ""
	case f.Pod == nil && current == primehubv1alpha1.PhJobRunning:
		return phase.Lose
	case f.Pod == nil:
		return ""
	}
	return f.podEvent()
}

// podEvent is what the pod has come to.
func (f *Facts) podEvent() phase.Event {
	isRunning := f.Job.Status.Phase == primehubv1alpha1.PhJobRunning
	switch f.Pod.Status.Phase {
	case corev1.PodSucceeded:
		return phase.Succeed
	case corev1.PodFailed:
		return phase.Fail
	case corev1.PodRunning:
		if left, limited := f.activeLeft(); isRunning && limited && left <= 0 {
			return phase.TimeOut
		}
		return phase.Start
	}
	if isRunning || f.startLeft() > 0 || f.Pod.DeletionTimestamp != nil {
		return ""
	}
	if limit := f.Job.Spec.RequeueLimit; limit != nil && f.Job.Status.Requeued >= *limit {
		return phase.GiveUp
	}
	return phase.Requeue
}

// startLeft is how much longer the pod may take to run.
func (f *Facts) startLeft() time.Duration {
	timeout := time.Duration(f.Config.JobSubmission.StartTimeoutSeconds) * time.Second
	return f.Pod.CreationTimestamp.Add(timeout).Sub(f.Now)
}

// activeLeft is how much longer a PhJob may run. It is false if there is no limit, or if it does not run yet.
func (f *Facts) activeLeft() (time.Duration, bool) {
	seconds := ptr.Deref(f.Job.Spec.ActiveDeadlineSeconds, f.Config.JobSubmission.DefaultActiveDeadlineSeconds)
	if seconds == 0 || f.Job.Status.StartTime == nil {
		return 0, false
	}
	return f.Job.Status.StartTime.Add(time.Duration(seconds) * time.Second).Sub(f.Now), true
}

// note writes reason, message and times of what has happened, or of what goes on.
func (f *Facts) note(next *primehubv1alpha1.PhJobStatus, event phase.Event) {
	if next.StartTime == nil && (next.Phase == primehubv1alpha1.PhJobRunning || event == phase.Succeed || event == phase.Fail) {
		next.StartTime = f.startTime()
	}
	if phase.IsFinal(next.Phase) {
		next.FinishTime = ptr.To(metav1.NewTime(f.Now.Truncate(time.Second)))
	}
	if f.Pod != nil {
		next.PodName = f.Pod.Name
	}
	if next.Phase == primehubv1alpha1.PhJobPending || next.Phase == primehubv1alpha1.PhJobPreparing {
		next.ExpectedStart = f.ExpectedStart
	}
	next.Reason, next.Message = f.explain(next, event)
}

// startTime is when the pod began to run, if that is known.
func (f *Facts) startTime() *metav1.Time {
	for _, c := range f.Pod.Status.ContainerStatuses {
		if c.State.Running != nil && !c.State.Running.StartedAt.IsZero() {
			return &c.State.Running.StartedAt
		}
		if c.State.Terminated != nil && !c.State.Terminated.StartedAt.IsZero() {
			return &c.State.Terminated.StartedAt
		}
	}
	return ptr.To(metav1.NewTime(f.Now.Truncate(time.Second)))
}

// explain returns the reason and the message of a status.
func (f *Facts) explain(next *primehubv1alpha1.PhJobStatus, event phase.Event) (primehubv1alpha1.PhJobReason, string) {
	switch event {
	case phase.Cancel:
		return primehubv1alpha1.ReasonCancelled, messageCancelled
	case phase.Refuse:
		return f.Refused.Reason, f.Refused.Message
	case phase.Succeed:
		return primehubv1alpha1.ReasonPodSucceeded, messageDone
	case phase.Fail:
		return primehubv1alpha1.ReasonPodFailed, "Job failed due to " + failureOf(f.Pod)
	case phase.Lose:
		return primehubv1alpha1.ReasonPodUnknown, fmt.Sprintf("Job failed because its pod %s was deleted before it ended", f.Job.Status.PodName)
	case phase.TimeOut:
		return primehubv1alpha1.ReasonOverActivateDeadline, messageTimeout
	case phase.GiveUp:
		return primehubv1alpha1.ReasonOverRequeueLimit, messageGivenUp
	}
	switch next.Phase {
	case primehubv1alpha1.PhJobPending:
		return f.explainPending()
	case primehubv1alpha1.PhJobPreparing:
		return primehubv1alpha1.ReasonPodPending, waitingMessage(f.Pod)
	}
	if f.NodeLost {
		return primehubv1alpha1.ReasonPodRunning, fmt.Sprintf("Node %s which was running pod %s is unresponsive", f.Pod.Spec.NodeName, f.Pod.Name)
	}
	return primehubv1alpha1.ReasonPodRunning, messageRunning
}

// explainPending says why a PhJob waits. A PhJob that went back to its queue gives the reason for that, until quota is short.
func (f *Facts) explainPending() (primehubv1alpha1.PhJobReason, string) {
	status := &f.Job.Status
	if f.Shortage != "" {
		return primehubv1alpha1.ReasonOverQuota, messageShort + ": " + f.Shortage
	}
	if status.Phase == primehubv1alpha1.PhJobPending {
		return status.Reason, status.Message
	}
	return primehubv1alpha1.ReasonOverQuota, messageShort
}

// IsNews says whether a change of status is worth an event. It is if the phase changes, or if quota turns out to be short. A new PhJob
// is Pending before anybody has looked at quota.
func IsNews(last, next *primehubv1alpha1.PhJobStatus) bool {
	if next.Phase == primehubv1alpha1.PhJobPending && next.Reason == primehubv1alpha1.ReasonOverQuota {
		return lacksQuota(next) && !lacksQuota(last)
	}
	return last.Phase != next.Phase
}

// lacksQuota says whether a status says which quota is short.
func lacksQuota(status *primehubv1alpha1.PhJobStatus) bool {
	return status.Phase == primehubv1alpha1.PhJobPending && strings.HasPrefix(status.Message, messageShort+": ")
}

// wait is when time alone changes something; 0 if it does not.
func (f *Facts) wait(next *primehubv1alpha1.PhJobStatus) time.Duration {
	var left time.Duration
	switch {
	case f.Pod == nil:
		return 0
	case next.Phase == primehubv1alpha1.PhJobPreparing:
		left = f.startLeft()
	case next.Phase == primehubv1alpha1.PhJobRunning:
		running := *f
		running.Job = f.Job.DeepCopy()
		running.Job.Status = *next
		var limited bool
		if left, limited = running.activeLeft(); !limited {
			return 0
		}
	default:
		return 0
	}
	return max(left, time.Second)
}

// KeepsPod says for how much longer the pod of a PhJob that has ended is kept. It is 0 if the pod goes now. limited is false if it stays.
func KeepsPod(job *primehubv1alpha1.PhJob, cfg *Config, now time.Time) (left time.Duration, limited bool) {
	switch job.Status.Reason {
	case primehubv1alpha1.ReasonCancelled, primehubv1alpha1.ReasonOverActivateDeadline, primehubv1alpha1.ReasonOverRequeueLimit:
		return 0, true
	}
	if job.Status.Phase == primehubv1alpha1.PhJobCancelled {
		return 0, true
	}
	seconds := ptr.Deref(job.Spec.TTLSecondsAfterFinished, cfg.JobSubmission.DefaultTTLSecondsAfterFinished)
	if seconds == 0 || job.Status.FinishTime == nil {
		return 0, false
	}
	return max(0, job.Status.FinishTime.Add(time.Duration(seconds)*time.Second).Sub(now)), true
}

// KeepsRecord says for how much longer a PhJob that has ended is kept; limited is false if it stays.
func KeepsRecord(job *primehubv1alpha1.PhJob, cfg *Config, now time.Time) (left time.Duration, limited bool) {
	if cfg.JobSubmission.JobTTLSeconds == 0 || job.Status.FinishTime == nil {
		return 0, false
	}
	return max(0, job.Status.FinishTime.Add(time.Duration(cfg.JobSubmission.JobTTLSeconds)*time.Second).Sub(now)), true
}

// failureOf says how a pod failed. It reads the end of its container, or else what Kubernetes says of the pod.
func failureOf(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if end := c.State.Terminated; end != nil && end.ExitCode != 0 {
			return said(end.Reason, orElse(end.Message, fmt.Sprintf("exit code %d", end.ExitCode)))
		}
	}
	return said(orElse(pod.Status.Reason, "Unknown"), pod.Status.Message)
}

// waitingMessage is what a pod says about why it does not run. It is "" if it says nothing, or if there is none.
func waitingMessage(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	for _, c := range pod.Status.ContainerStatuses {
		if waiting := c.State.Waiting; waiting != nil && waiting.Message != "" {
			return said(waiting.Reason, waiting.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return c.Message
		}
	}
	return ""
}

// said joins a reason and a message.
func said(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}

func orElse(text, other string) string {
	if text != "" {
		return text
	}
	return other
}
