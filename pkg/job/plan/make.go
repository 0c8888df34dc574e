package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/job/indexes"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// Make computes the next state of the Job. It does not change the snapshot, and makes the same plan for the same snapshot.
func Make(s *Snapshot) *Plan {
	result := newPlan(s)
	if first := firstStatus(s, result); first != nil {
		return &Plan{Status: first, IsFirst: true}
	}
	return result
}

// newPlan is the plan for a Job whose clients have seen it begin.
func newPlan(s *Snapshot) *Plan {
	job := *s.Job
	job.Status = *s.Job.Status.DeepCopy()
	status := &job.Status
	status.State.Phase = OrPending(status.State.Phase)
	status.MinAvailable = job.Spec.MinAvailable
	if s.Controlled != nil {
		status.ControlledResources = s.Controlled
	}

	// A Job that may not start can still be ended.
	if s.Blocks(BlocksStart) && s.Command == nil && !IsDeleted(&job) {
		return hold(s, &job)
	}
	all := newPodSet(&job, s.Pods, relevantEnded(&job, s.Ended))
	records := readRecords(&job, all)
	all.dropKnown(records)
	noteSurplus(&job, records, all)
	noteSucceeded(&job, records, all)
	agreed := s.Command != nil && phase.Honours(status.State.Phase, busv1alpha1.Action(s.Command.Action))
	asked, evicted, delays := demand(s, &job, records, all, agreed)
	granted := asked != nil && grant(&job, records, all, asked, s.Now)
	if granted {
		delays = asked.spare(delays)
	}

	sorted := all.sort(&job, records)
	sorted.count(status)
	status.TaskRecords = writeRecords(&job.Spec, records)
	// An announcement stays in the status while it has victims; without any it is skipped.
	stage := sorted.stage(&job, s.Dependency, delays)
	if !granted || status.Terminating == 0 {
		if takeStep(s, &job, sorted, stage, delays) || endDeleted(&job, sorted, stage) {
			sorted = all.sort(&job, records)
			sorted.count(status)
		}
	}
	noteRestart(s, &job, records, asked, granted, evicted)
	recordDelays(s, &job, granted, delays)
	result := &Plan{Status: status, Members: sorted, Stage: stage, Delays: delays, CommandIgnored: s.Command != nil && !agreed}
	switch {
	case granted:
		result.Request = asked
	case asked != nil && asked.Cause != nil:
		result.Ignored = whyRefused(s.Job, asked)
	}
	if s.Command != nil && (!agreed || asked.Commanded) {
		status.HandledCommand = string(s.Command.UID)
	}
	nameFailure(&s.Job.Status, status, sorted)
	stamp(status, &s.Job.Status, s.Now)
	explain(s, status, stage)
	cutTexts(&status.State)
	return result
}

// firstStatus is the first status of a Job that is beyond Pending before it has a status. It is nil for other Jobs. It is written first: clients
// that watch see each Job begin.
func firstStatus(s *Snapshot, result *Plan) *batchv1alpha1.JobStatus {
	if s.Job.Status.State.Phase != "" || result.Status.State.Phase == batchv1alpha1.Pending {
		return nil
	}
	first := s.Job.Status.DeepCopy()
	first.State.Phase, first.MinAvailable = batchv1alpha1.Pending, s.Job.Spec.MinAvailable
	stamp(first, &s.Job.Status, s.Now)
	return first
}

// noteSurplus records the pods that are deleted because their task was scaled down. Without the record, a task that is scaled up again
// meanwhile would take them for evicted. No task can have an index beyond MaxReplicas again, and no record keeps it.
func noteSurplus(job *batchv1alpha1.Job, records []policy.Record, all *podSet) {
	if phase.KeepsOnlyFinished(job.Status.State.Phase) {
		return
	}
	for _, s := range all.pods {
		if s.position >= 0 && s.version >= job.Status.Version && isSurplus(job, s) && s.index < batchv1alpha1.MaxReplicas {
			records[s.position].Renew(s.index, s.pod)
		}
	}
}

// noteSucceeded records the pods that have succeeded while a Job restarts or is aborted. No policy is asked then: they may be gone when it
// runs again, and then they would look evicted.
func noteSucceeded(job *batchv1alpha1.Job, records []policy.Record, all *podSet) {
	if p := job.Status.State.Phase; p != batchv1alpha1.Restarting && !phase.IsAborted(p) {
		return
	}
	for i, task := range all.sort(job, records).tasks {
		records[i].NoteSucceeded(task.Pods)
	}
}

// hold keeps a Job that may not start in Pending and says why.
func hold(s *Snapshot, job *batchv1alpha1.Job) *Plan {
	status := &job.Status
	status.State.Reason, status.State.Message, status.ExpectedStart = s.Blockers[0].Reason, s.Blockers[0].Message, nil
	stamp(status, &s.Job.Status, s.Now)
	all := newPodSet(job, s.Pods, nil)
	return &Plan{Status: status, Members: all.sort(job, readRecords(job, all))}
}

// demand returns the action to take now, or nil. It comes from a Command that the Job's phase honours, or else from the spec, or else from
// the policies. It records the answered events, and returns the evictions of pods that are replaced.
//
// An abort waits for the next sync if a policy has something to do. An aborted Job may go on, and earlier events would never be answered.
func demand(s *Snapshot, job *batchv1alpha1.Job, records []policy.Record, all *podSet, agreed bool) (*Request, []policy.Event, []policy.Delay) {
	answer, evicted, delays := askPolicies(s, job, records, all)
	wish := askSpec(job, s.Now)
	if agreed {
		wish = &Request{Action: busv1alpha1.Action(s.Command.Action), Why: whyCommanded(s.Command), Commanded: true}
	}
	if wish == nil || wish.Action == busv1alpha1.AbortJobAction && answer != nil && phase.Honours(job.Status.State.Phase, answer.Action) {
		return answer, evicted, delays
	}
	return wish, evicted, delays
}

// recordDelays writes the delayed answers to the status. While a Job restarts no policy is asked, and the earlier ones stay.
func recordDelays(s *Snapshot, job *batchv1alpha1.Job, granted bool, delays []policy.Delay) {
	status := &job.Status
	switch {
	case phase.Ended(status.State.Phase):
		status.Delayed = nil
	case granted || answers(OrPending(s.Job.Status.State.Phase)):
		status.Delayed = policy.DelayedBy(delays).Write(&job.Spec)
	}
}

// whyCommanded returns the Command's reason, or says that there was a Command.
func whyCommanded(command *busv1alpha1.Command) Finding {
	why := Finding{command.Reason, cmp.Or(command.Message, fmt.Sprintf("Command %s asks for %s", command.Name, command.Action))}
	if why.Reason == "" || why.Reason == ReasonSuspended {
		why.Reason = string(busv1alpha1.CommandIssuedEvent)
	}
	return why
}

// answers says whether the policies are asked in a phase. They are asked about all events while the Job runs, and about changes of the spec
// while it is aborted.
func answers(p batchv1alpha1.JobPhase) bool { return phase.Runs(p) || phase.IsAborted(p) }

// askPolicies returns the policies' answers to present events, and to earlier ones whose time has come. It also returns the evictions of
// pods that are replaced in any case.
func askPolicies(s *Snapshot, job *batchv1alpha1.Job, records []policy.Record, all *podSet) (*Request, []policy.Event, []policy.Delay) {
	if !answers(job.Status.State.Phase) {
		return nil, nil, nil
	}
	sorted := all.sort(job, records)
	if IsDeleted(job) {
		if phase.Runs(job.Status.State.Phase) {
			settle(s, records, sorted, nil)
		}
		return nil, nil, nil
	}
	// A spec that cannot run is no change yet: it is compared with the one before when it is mended.
	whole := policy.Whole{Updated: !s.isRefused() && noteSpec(s, &job.Status)}
	var seen, evicted []policy.Event
	if phase.Runs(job.Status.State.Phase) {
		whole.Unknown = s.Group != nil && s.Group.Status.Phase == schedulingv1beta1.PodGroupUnknown && isSplit(sorted)
		seen = policy.Observe(job, sorted.tasks, whole)
		evicted = settle(s, records, sorted, seen)
	} else {
		seen = policy.Observe(job, nil, whole)
	}
	delayed := policy.ReadDelayed(&job.Spec, job.Status.Delayed)
	decide := policy.Decide
	if s.isRefused() {
		decide = policy.DecideWithoutRestarts
	}
	decision, delays := decide(&job.Spec, delayed.Merge(job, sorted.tasks, seen, s.Now), s.Now)
	if decision == nil {
		return nil, evicted, delays
	}
	return &Request{
		Action:  decision.Action,
		Why:     Finding{decision.Reason(), decision.Message()},
		Cause:   &decision.Cause,
		targets: decision.Targets,
		others:  decision.Others,
	}, evicted, delays
}

// settle records the state of the pods, and their events as handled. While nothing can be started anew, pods that were killed stay as they
// are. The evictions of pods that are replaced are returned.
func settle(s *Snapshot, records []policy.Record, sorted *Members, seen []policy.Event) []policy.Event {
	var evicted []policy.Event
	for i := range records {
		records[i].Note(sorted.tasks[i].Spec, sorted.tasks[i].Pods)
	}
	for _, h := range seen {
		if h.Task < 0 || s.isRefused() && h.Pod != nil && h.Pod.DeletionTimestamp == nil {
			continue
		}
		records[h.Task].Settle(h)
		if h.Type == busv1alpha1.PodEvictedEvent {
			evicted = append(evicted, h)
		}
	}
	for i := range records {
		sorted.tasks[i].Record = records[i]
	}
	return evicted
}

// isSplit tells whether some pods run while other pods wait for a node. It distinguishes a PodGroup that is Unknown now from one that was
// so before a restart.
func isSplit(m *Members) bool {
	var runs, waits bool
	for i := range m.tasks {
		for _, pod := range m.tasks[i].Pods {
			runs = runs || pod.Status.Phase == corev1.PodRunning
			waits = waits || pod.Status.Phase == corev1.PodPending && pod.Spec.NodeName == ""
		}
	}
	return runs && waits
}

// Reasons for actions that the spec asks for.
const (
	ReasonSuspended        = "Suspended"
	ReasonResumed          = "Resumed"
	ReasonDeadlineExceeded = "DeadlineExceeded"
)

// askSpec returns the action that the spec requests. It suspends, resumes after its own suspension, or ends the Job at the deadline.
func askSpec(job *batchv1alpha1.Job, now time.Time) *Request {
	suspend := isSuspended(job)
	current := job.Status.State
	isAborted := phase.IsAborted(current.Phase)
	switch {
	case IsDeleted(job): // only its deadline still holds
	case suspend && !isAborted:
		return &Request{Action: busv1alpha1.AbortJobAction, Why: Finding{ReasonSuspended, "spec.suspend is true"}}
	case !suspend && isAborted && current.Reason == ReasonSuspended:
		return &Request{Action: busv1alpha1.ResumeJobAction, Why: Finding{ReasonResumed, "spec.suspend is not true any more"}}
	}
	if left, limited := timeLeft(job, now); limited && left <= 0 {
		message := fmt.Sprintf("the Job has run longer than its activeDeadlineSeconds, %d", *job.Spec.ActiveDeadlineSeconds)
		return &Request{Action: busv1alpha1.TerminateJobAction, Why: Finding{ReasonDeadlineExceeded, message}}
	}
	return nil
}

// grant applies the action to the status and the records. It returns false if the Job's phase does not honour the action.
func grant(job *batchv1alpha1.Job, records []policy.Record, all *podSet, asked *Request, now time.Time) bool {
	status := &job.Status
	before := all.sort(job, records)
	unsuccessful := all.unsuccessful(job)
	effect, honoured := phase.Act(status.State.Phase, asked.Action, status.RetryCount, job.Spec.MaxRetry)
	if !honoured || isAgainstSuspension(job, asked) {
		return false
	}
	status.State = batchv1alpha1.JobState{
		Phase:              effect.Next,
		Reason:             asked.Why.Reason,
		Message:            asked.Why.Message,
		LastTransitionTime: status.State.LastTransitionTime,
	}
	if effect.Retry {
		status.RetryCount++
	}
	if effect.NewIncarnation {
		status.Version++
		clear(records)
	}
	if asked.Action == busv1alpha1.ResumeJobAction && status.StartTime != nil {
		status.StartTime = &metav1.Time{Time: now}
	}
	if effect.Next == batchv1alpha1.Aborting {
		for _, h := range asked.others { // they are to be answered when the Job goes on
			if h.Task >= 0 {
				records[h.Task].Reopen(h)
			}
		}
	}
	for i := range records {
		switch effect.Kill {
		case phase.KillTargets:
			renewTargets(&records[i], i, &before.tasks[i], &asked.targets)
		case phase.KillUnsuccessful:
			records[i].Rewind(unsuccessful[i])
		}
	}
	return true
}

// isAgainstSuspension tells whether a policy asks to resume a Job that its spec suspends.
func isAgainstSuspension(job *batchv1alpha1.Job, asked *Request) bool {
	return asked.Action == busv1alpha1.ResumeJobAction && asked.Cause != nil && isSuspended(job)
}

// whyRefused says why an aborted Job does not carry out a policy's action. It is empty for a Job that runs. Only an action that would
// resume the Job is refused, and a running Job needs none.
func whyRefused(job *batchv1alpha1.Job, asked *Request) string {
	p := job.Status.State.Phase
	if !phase.IsAborted(p) {
		return ""
	}
	why := fmt.Sprintf("it does nothing to a job that is %s", p)
	if isAgainstSuspension(job, asked) {
		why = "spec.suspend is true"
	}
	return fmt.Sprintf("Action %s is not executed: %s (%s)", asked.Action, why, asked.Why.Message)
}

// renewTargets marks the pods of a task that a restart targets, and lets their indexes run anew.
func renewTargets(record *policy.Record, position int, task *policy.Task, targets *policy.Targets) {
	var renewed []int32
	for index := range task.Spec.Replicas {
		if targets.Has(position, index) {
			renewed = append(renewed, index)
		}
	}
	record.RenewAll(indexes.Of(renewed...), task.Pods)
}

// takeStep moves the Job to the next phase that its counts allow. It returns false if it stays. A Job some of whose pods a policy is going
// to restart has not failed yet. The same holds for an ended Job some of whose pods are replaced once its spec is mended.
func takeStep(s *Snapshot, job *batchv1alpha1.Job, sorted *Members, stage dependency.Stage, delays []policy.Delay) bool {
	status := &job.Status
	step := phase.Next(&job.Spec, stage, status)
	if step.Next == status.State.Phase {
		return false
	}
	if phase.Runs(status.State.Phase) && step.Next == batchv1alpha1.Failed && slices.ContainsFunc(delays, policy.Delay.IsRestart) {
		return false
	}
	if s.isRefused() && phase.KeepsOnlyFinished(step.Next) && step.Reason != phase.ReasonMinSuccessReached && sorted.someKilled() {
		return false
	}
	status.State.Phase = step.Next
	// Without a new reason, the reason of the phase before holds here, too; but Running needs no reason.
	if step.Reason != "" || step.Next == batchv1alpha1.Running {
		status.State.Reason, status.State.Message = step.Reason, step.Message
	}
	return true
}
