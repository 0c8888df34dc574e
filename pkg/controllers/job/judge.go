package job

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/job/indexes"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// view is all that a judgement looks at.
type view struct {
	// job with its defaults filled in.
	job *batchv1alpha1.Job
	// pods that the Job owns, of whatever incarnation.
	pods []*corev1.Pod
	// ended are pods of the Job that have ended by themselves and are gone or going, as they were when they had, if no status tells of it yet.
	ended []*corev1.Pod
	// command to execute; nil if there is none.
	command *busv1alpha1.Command
	// groupUnknown tells that the Job's PodGroup is in phase Unknown.
	groupUnknown bool
	// specMark identifies the Job's spec; empty if no policy asks for its changes.
	specMark string
	// held is why the Job may not start; nil if it may.
	held *finding
	// refused says that the Job has started and that its spec is one that cannot run: nothing can be started anew.
	refused bool
	// dependency is what a task waits for that does not say.
	dependency batchv1alpha1.DependencyCondition
	// trouble is what a Pending or Running Job suffers from; nil if nothing.
	trouble *finding
	// undone is what the last attempt to act ran into; nil if nothing. It is said of a Job in the other phases.
	undone *finding
	// waiting is what the Job waits for while it is Pending; nil if nothing is known.
	waiting *finding
	// controlled is what status.controlledResources should say; nil if it should stay.
	controlled map[string]string
	// now is the time of the judgement.
	now time.Time
}

// finding is a word for programs and a sentence for people.
type finding struct {
	reason, message string
}

// request is an action that something asks for, and why.
type request struct {
	action  busv1alpha1.Action
	why     finding
	cause   *policy.Happening // what a policy answers; nil if a Command or the spec asks
	targets policy.Targets
	// others are what else policies were to answer.
	others []policy.Happening
	// commanded says that a Command asks.
	commanded bool
}

// verdict is what a judgement leads to.
type verdict struct {
	// status that the Job should have.
	status *batchv1alpha1.JobStatus
	// members are the pods as the status sees them: whom to delete, whom to create.
	members *members
	// stage is the part of the Job that may run.
	stage dependency.Stage
	// request that was granted; nil if none was.
	request *request
	// delays are the policies' answers whose time has not come.
	delays []policy.Delay
	// ignored says that the command that was given does nothing in the Job's phase.
	ignored bool
}

// judge works out what becomes of the Job. It changes nothing of what it looks at, and comes to the same verdict
// whenever it sees the same.
func judge(v *view) *verdict {
	job := *v.job
	job.Status = *v.job.Status.DeepCopy()
	status := &job.Status
	status.State.Phase = beginning(status.State.Phase)
	status.MinAvailable = job.Spec.MinAvailable
	if v.controlled != nil {
		status.ControlledResources = v.controlled
	}

	// A Job that may not start can still be ended.
	if v.held != nil && v.command == nil {
		return hold(v, &job)
	}
	all := seatAll(&job.Spec, v.pods, ofUse(&job, v.ended))
	memories := recallAll(&job, all)
	all.dropKnown(memories)
	noteSurplus(&job, memories, all)
	noteSucceeded(&job, memories, all)
	agreed := v.command != nil && phase.Honours(status.State.Phase, busv1alpha1.Action(v.command.Action))
	asked, delays := demand(v, &job, memories, all, agreed)
	granted := asked != nil && grant(&job, memories, all, asked, v.now)
	if granted {
		delays = asked.spare(delays)
	}

	sorted := all.sort(&job, memories)
	sorted.count(status)
	status.TaskRecords = recordAll(&job.Spec, memories)
	// An announcement stands in the status for as long as it has victims; without any it is skipped.
	stage := sorted.stage(&job, v.dependency, delays)
	if !granted || status.Terminating == 0 {
		if takeStep(v, &job, sorted, stage, delays) {
			sorted = all.sort(&job, memories)
			sorted.count(status)
		}
	}
	recordDelays(v, &job, granted, delays)
	result := &verdict{status: status, members: sorted, stage: stage, delays: delays, ignored: v.command != nil && !agreed}
	if granted {
		result.request = asked
	}
	if v.command != nil && (!agreed || asked.commanded) {
		status.HandledCommand = string(v.command.UID)
	}
	nameFailure(&v.job.Status, status, sorted)
	stamp(status, &v.job.Status, v.now)
	explain(v, status)
	return result
}

// firstStatus is the status of a Job that has come further than Pending before its status said anything; nil for other Jobs. It is
// written first: whoever watches sees each Job begin.
func firstStatus(v *view, result *verdict) *batchv1alpha1.JobStatus {
	if v.job.Status.State.Phase != "" || result.status.State.Phase == batchv1alpha1.Pending {
		return nil
	}
	first := v.job.Status.DeepCopy()
	first.State.Phase, first.MinAvailable = batchv1alpha1.Pending, v.job.Spec.MinAvailable
	stamp(first, &v.job.Status, v.now)
	return first
}

// beginning is the phase that a Job is in, which begins as Pending.
func beginning(p batchv1alpha1.JobPhase) batchv1alpha1.JobPhase {
	if p == "" {
		return batchv1alpha1.Pending
	}
	return p
}

// noteSurplus remembers the pods that are to go because their task was scaled down. Scaled up again while they are
// still going, the task would take them for evicted.
func noteSurplus(job *batchv1alpha1.Job, memories []policy.Memory, all *crew) {
	if phase.KeepsOnlyFinished(job.Status.State.Phase) {
		return
	}
	for _, s := range all.seated {
		if s.position >= 0 && s.version >= job.Status.Version && isSurplus(job, s) {
			memories[s.position].Renew(s.index, s.pod)
		}
	}
}

// noteSucceeded remembers the pods that have succeeded while a Job restarts or is aborted, when no policy is asked about them: they may
// be gone when it runs again, and then they would look evicted.
func noteSucceeded(job *batchv1alpha1.Job, memories []policy.Memory, all *crew) {
	if p := job.Status.State.Phase; p != batchv1alpha1.Restarting && !phase.IsAborted(p) {
		return
	}
	for i, task := range all.sort(job, memories).tasks {
		memories[i].NoteSucceeded(task.Pods)
	}
}

// hold keeps a Job that may not start in Pending and says why.
func hold(v *view, job *batchv1alpha1.Job) *verdict {
	status := &job.Status
	status.State.Reason, status.State.Message = v.held.reason, v.held.message
	stamp(status, &v.job.Status, v.now)
	all := seatAll(&job.Spec, v.pods, nil)
	return &verdict{status: status, members: all.sort(job, recallAll(job, all))}
}

// demand returns what is asked of the Job now, or nil: by a Command that the Job's phase honours first, then by its
// spec, then by its policies about what has happened. It remembers what has happened as dealt with.
//
// Only what would abort the Job waits for the next look if a policy has something to do: an aborted Job may go on, and nobody would be
// asked again about what had happened before.
func demand(v *view, job *batchv1alpha1.Job, memories []policy.Memory, all *crew, agreed bool) (*request, []policy.Delay) {
	answer, delays := askPolicies(v, job, memories, all)
	if answer != nil && answer.action == busv1alpha1.ResumeJobAction && isSuspended(job) {
		answer = nil
	}
	wish := askSpec(job, v.now)
	if agreed {
		wish = &request{action: busv1alpha1.Action(v.command.Action), why: whyCommanded(v.command), commanded: true}
	}
	if wish == nil || wish.action == busv1alpha1.AbortJobAction && answer != nil && phase.Honours(job.Status.State.Phase, answer.action) {
		return answer, delays
	}
	return wish, delays
}

// spare returns the answers to come that an action leaves standing: those about pods that it leaves alone.
func (r *request) spare(delays []policy.Delay) []policy.Delay {
	switch r.action {
	case busv1alpha1.RestartTaskAction, busv1alpha1.RestartPartitionAction, busv1alpha1.RestartPodAction:
	default:
		return nil
	}
	return slices.DeleteFunc(delays, func(d policy.Delay) bool {
		return d.Cause.Task >= 0 && (r.targets.Tasks[d.Cause.Task] || d.Cause.Index >= 0 && r.targets.Has(d.Cause.Task, d.Cause.Index))
	})
}

// recordDelays writes down what will be answered later. While a Job restarts nothing is asked, and what was written
// before stands.
func recordDelays(v *view, job *batchv1alpha1.Job, granted bool, delays []policy.Delay) {
	status := &job.Status
	switch {
	case phase.Ended(status.State.Phase):
		status.Delayed = nil
	case granted || answers(beginning(v.job.Status.State.Phase)):
		status.Delayed = policy.AgendaOf(delays).Record(&job.Spec)
	}
}

// whyCommanded says what the giver of a Command says, or else that there was one.
func whyCommanded(command *busv1alpha1.Command) finding {
	why := finding{command.Reason, command.Message}
	if why.reason == "" || why.reason == reasonSuspended {
		why.reason = string(busv1alpha1.CommandIssuedEvent)
	}
	if why.message == "" {
		why.message = fmt.Sprintf("Command %s asks for %s", command.Name, command.Action)
	}
	return why
}

// answers tells whether the policies are asked in a phase: about all that happens while the Job runs, and about changes
// of the spec while it is aborted too.
func answers(p batchv1alpha1.JobPhase) bool { return phase.Runs(p) || phase.IsAborted(p) }

// askPolicies returns what the policies answer to what has happened now, or before if the time has come for it.
func askPolicies(v *view, job *batchv1alpha1.Job, memories []policy.Memory, all *crew) (*request, []policy.Delay) {
	if !answers(job.Status.State.Phase) {
		return nil, nil
	}
	sorted := all.sort(job, memories)
	// A spec that cannot run is no change yet: it is compared with the one before when it is mended.
	whole := policy.Whole{Updated: !v.refused && noteSpec(v, &job.Status)}
	var seen []policy.Happening
	if phase.Runs(job.Status.State.Phase) {
		whole.Unknown = v.groupUnknown && isSplit(sorted)
		seen = policy.Observe(job, sorted.tasks, whole)
		settle(v, memories, sorted, seen)
	} else {
		seen = policy.Observe(job, nil, whole)
	}
	agenda := policy.RecallAgenda(&job.Spec, job.Status.Delayed)
	decide := policy.Decide
	if v.refused {
		decide = policy.DecideWithoutRestarts
	}
	decision, delays := decide(&job.Spec, agenda.Merge(job, sorted.tasks, seen, v.now), v.now)
	if decision == nil {
		return nil, delays
	}
	return &request{
		action:  decision.Action,
		why:     finding{decision.Reason(), decision.Message()},
		cause:   &decision.Cause,
		targets: decision.Targets,
		others:  decision.Others,
	}, delays
}

// settle remembers what is seen of the pods, and what has happened to them as dealt with. While nothing can be started anew, pods
// that were killed stay as they are.
func settle(v *view, memories []policy.Memory, sorted *members, seen []policy.Happening) {
	for i := range memories {
		memories[i].Note(sorted.tasks[i].Spec, sorted.tasks[i].Pods)
	}
	for _, h := range seen {
		if h.Task < 0 || v.refused && h.Pod != nil && h.Pod.DeletionTimestamp == nil {
			continue
		}
		memories[h.Task].Settle(h)
	}
	for i := range memories {
		sorted.tasks[i].Memory = memories[i]
	}
}

// isSplit tells whether some pods run while others wait for a node. It tells a PodGroup that is Unknown now from one
// that was so before a restart.
func isSplit(m *members) bool {
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
	reasonSuspended        = "Suspended"
	reasonResumed          = "Resumed"
	reasonDeadlineExceeded = "DeadlineExceeded"
)

// askSpec returns what the spec asks for: to suspend, to resume what was suspended by it, or to end at the deadline.
func askSpec(job *batchv1alpha1.Job, now time.Time) *request {
	suspend := isSuspended(job)
	current := job.Status.State
	isAborted := phase.IsAborted(current.Phase)
	switch {
	case suspend && !isAborted:
		return &request{action: busv1alpha1.AbortJobAction, why: finding{reasonSuspended, "spec.suspend is true"}}
	case !suspend && isAborted && current.Reason == reasonSuspended:
		return &request{action: busv1alpha1.ResumeJobAction, why: finding{reasonResumed, "spec.suspend is not true any more"}}
	}
	if left, limited := timeLeft(job, now); limited && left <= 0 {
		message := fmt.Sprintf("the Job has run longer than its activeDeadlineSeconds, %d", *job.Spec.ActiveDeadlineSeconds)
		return &request{action: busv1alpha1.TerminateJobAction, why: finding{reasonDeadlineExceeded, message}}
	}
	return nil
}

func isSuspended(job *batchv1alpha1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }

// timeLeft returns how long the Job may go on; false if it may go on for ever, or does not go on. As in batch/v1 the time begins
// anew when it is resumed.
func timeLeft(job *batchv1alpha1.Job, now time.Time) (time.Duration, bool) {
	if job.Spec.ActiveDeadlineSeconds == nil || job.Status.StartTime == nil || phase.IsAborted(job.Status.State.Phase) {
		return 0, false
	}
	// A Job that was stored before the schema had a maximum may say more than a duration holds.
	const longest = (1<<63 - 1) / int64(time.Second)
	allowed := time.Duration(min(*job.Spec.ActiveDeadlineSeconds, longest)) * time.Second
	return job.Status.StartTime.Add(allowed).Sub(now), true
}

// grant does to the status and the memories what the action does to the Job. It returns false if the Job's phase does
// not honour the action.
func grant(job *batchv1alpha1.Job, memories []policy.Memory, all *crew, asked *request, now time.Time) bool {
	status := &job.Status
	before := all.sort(job, memories)
	// Pods that have failed and that nobody was asked about went down with those that were stopped: a rank that loses its peers fails.
	stopped := all.unsuccessful(job)
	effect, honoured := phase.Act(status.State.Phase, asked.action, status.RetryCount, job.Spec.MaxRetry)
	if !honoured {
		return false
	}
	status.State = batchv1alpha1.JobState{
		Phase:              effect.Next,
		Reason:             asked.why.reason,
		Message:            asked.why.message,
		LastTransitionTime: status.State.LastTransitionTime,
	}
	if effect.Retry {
		status.RetryCount++
	}
	if effect.NewIncarnation {
		status.Version++
		clear(memories)
	}
	resumed := asked.action == busv1alpha1.ResumeJobAction
	if resumed && status.StartTime != nil {
		status.StartTime = &metav1.Time{Time: now}
	}
	if effect.Next == batchv1alpha1.Aborting {
		for _, h := range asked.others { // they are to be answered when the Job goes on
			if h.Task >= 0 {
				memories[h.Task].Reopen(h)
			}
		}
	}
	for i := range memories {
		switch {
		case effect.Kill == phase.KillTargets:
			renewTargets(&memories[i], i, &before.tasks[i], &asked.targets)
		case resumed:
			memories[i].Rewind(stopped[i])
		}
	}
	return true
}

// renewTargets marks the pods of a task that a restart is about, and lets their indexes run anew.
func renewTargets(memory *policy.Memory, position int, task *policy.Task, targets *policy.Targets) {
	var renewed []int32
	for index := range task.Spec.Replicas {
		if targets.Has(position, index) {
			renewed = append(renewed, index)
		}
	}
	memory.RenewAll(indexes.Of(renewed...), task.Pods)
}

// takeStep moves the Job to the next phase that its counts allow. It returns false if it stays. A Job some of whose
// pods a policy is going to restart has not failed yet; nor has one ended some of whose pods are replaced once its spec is mended.
func takeStep(v *view, job *batchv1alpha1.Job, sorted *members, stage dependency.Stage, delays []policy.Delay) bool {
	status := &job.Status
	step := phase.Next(&job.Spec, stage, status)
	if step.Next == status.State.Phase {
		return false
	}
	if phase.Runs(status.State.Phase) && step.Next == batchv1alpha1.Failed && slices.ContainsFunc(delays, policy.Delay.IsRestart) {
		return false
	}
	if v.refused && phase.KeepsOnlyFinished(step.Next) && step.Reason != phase.ReasonMinSuccessReached && sorted.someKilled() {
		return false
	}
	status.State.Phase = step.Next
	// Where there is nothing new to say, what led to the phase before led here too; but to run needs no reason.
	if step.Reason != "" || step.Next == batchv1alpha1.Running {
		status.State.Reason, status.State.Message = step.Reason, step.Message
	}
	return true
}

// explanation returns what there is to say about a Job in that phase beside why it is in it; nil if nothing is.
func (v *view) explanation(p batchv1alpha1.JobPhase) *finding {
	switch {
	case !phase.Runs(p):
		return nil
	case v.held != nil:
		return v.held
	case v.trouble != nil:
		return v.trouble
	case p == batchv1alpha1.Pending:
		return v.waiting
	default:
		return nil
	}
}

// explain says what a live Job suffers from or waits for, or else why it is in its phase. Of a Job that stops, or has, it says both:
// whether it is resumed, for one, depends on the reason.
func explain(v *view, status *batchv1alpha1.JobStatus) {
	if !phase.Runs(status.State.Phase) {
		if v.undone != nil && status.State.Phase == v.job.Status.State.Phase {
			status.State.Message = withUndone(&status.State, v.undone)
		}
		return
	}
	status.State.Reason, status.State.Message = "", ""
	if n := len(status.Conditions); n > 0 && status.Conditions[n-1].Status == status.State.Phase {
		status.State.Reason, status.State.Message = status.Conditions[n-1].Reason, status.Conditions[n-1].Message
	}
	if f := v.explanation(status.State.Phase); f != nil {
		status.State.Reason, status.State.Message = f.reason, f.message
	}
}

// stamp fills in the times and the conditions of a status that another has led to.
func stamp(status, before *batchv1alpha1.JobStatus, now time.Time) {
	if status.State.Phase == before.State.Phase {
		return
	}
	at := metav1.NewTime(now)
	status.State.LastTransitionTime = at
	if status.State.Phase == batchv1alpha1.Running && status.StartTime == nil {
		status.StartTime = &at
	}
	if phase.Ended(status.State.Phase) {
		status.CompletionTime = &at
	}
	clockOff(status, before, now)
	entry := batchv1alpha1.JobCondition{
		Status: status.State.Phase, LastTransitionTime: &at,
		Reason: status.State.Reason, Message: status.State.Message,
	}
	status.Conditions = append(withoutCondition(status.Conditions, entry.Status), entry)
}

// clockOff adds to the time that a Job has run when it is aborted or ends, or is resumed before it was Aborted: its start is that of the
// next run then.
func clockOff(status, before *batchv1alpha1.JobStatus, now time.Time) {
	p := status.State.Phase
	isNewStart := before.StartTime != nil && !status.StartTime.Equal(before.StartTime)
	if before.StartTime == nil || isOffTheClock(before.Conditions) || !phase.Ended(p) && p != batchv1alpha1.Aborted && !isNewStart {
		return
	}
	ran := now.Sub(before.StartTime.Time).Truncate(time.Second)
	if before.RunningDuration != nil {
		ran += before.RunningDuration.Duration
	}
	status.RunningDuration = &metav1.Duration{Duration: ran}
}

// isOffTheClock tells whether a Job has been Aborted and not resumed since. Its conditions are in the order in which it entered their
// phases last.
func isOffTheClock(conditions []batchv1alpha1.JobCondition) bool {
	for _, c := range slices.Backward(conditions) {
		switch {
		case c.Status == batchv1alpha1.Aborted:
			return true
		case c.Status == batchv1alpha1.Restarting || phase.Runs(c.Status):
			return false
		}
	}
	return false
}

// withoutCondition returns the conditions but that of a phase: a phase that is entered again moves to the end.
func withoutCondition(conditions []batchv1alpha1.JobCondition, p batchv1alpha1.JobPhase) []batchv1alpha1.JobCondition {
	var others []batchv1alpha1.JobCondition
	for _, c := range conditions {
		if c.Status != p {
			others = append(others, c)
		}
	}
	return others
}
