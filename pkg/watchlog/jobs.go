package watchlog

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// JobState is one state of a Job as its watch delivered it.
type JobState struct {
	// Time of arrival.
	Time time.Time
	// Phase, Reason and Message of the Job.
	Phase           batchv1alpha1.JobPhase
	Reason, Message string
	// Version is the incarnation, Retries how often it was restarted.
	Version, Retries int32
	// MinAvailable as the status has it; Replicas is the sum over the tasks of the spec.
	MinAvailable, Replicas int32
	// Effective is the minimum of what may run. It is the sum of the tasks that wait for no other, or have started. It is MinAvailable unless
	// tasks depend on each other.
	Effective int32
	// ExpectedStart is when the Job is expected to start; zero if that is not known.
	ExpectedStart time.Time
	// The numbers of pods by what they do.
	Pending, Running, Succeeded, Failed, Terminating, Unknown int32
}

// String is a line for people.
func (s JobState) String() string {
	text := fmt.Sprintf("%s %s version %d retries %d: pending %d, running %d, succeeded %d, failed %d, terminating %d of %d, minimum %d",
		s.Time.Format(clock), s.Phase, s.Version, s.Retries, s.Pending, s.Running, s.Succeeded, s.Failed, s.Terminating, s.Replicas, s.MinAvailable)
	if s.Reason != "" {
		text += fmt.Sprintf("; %s: %s", s.Reason, s.Message)
	}
	return text
}

type jobRecord struct {
	uid    types.UID
	states []JobState // each differs from the one before
	gone   time.Time
}

func stateOf(job *batchv1alpha1.Job, now time.Time) JobState {
	s := job.Status
	state := JobState{
		Time: now, Phase: s.State.Phase, Reason: s.State.Reason, Message: s.State.Message,
		Version: s.Version, Retries: s.RetryCount, MinAvailable: s.MinAvailable,
		Pending: s.Pending, Running: s.Running, Succeeded: s.Succeeded, Failed: s.Failed,
		Terminating: s.Terminating, Unknown: s.Unknown,
	}
	if s.ExpectedStart != nil {
		state.ExpectedStart = s.ExpectedStart.UTC()
	}
	for i := range job.Spec.Tasks {
		state.Replicas += job.Spec.Tasks[i].Replicas
	}
	state.Effective = min(state.MinAvailable, startedReplicas(job))
	return state
}

// startedReplicas counts the pods of the tasks that wait for no other or have started. Whether a task that has not
// started might do so, the status does not say.
func startedReplicas(job *batchv1alpha1.Job) int32 {
	started := map[string]bool{}
	for _, record := range job.Status.TaskRecords {
		started[record.Name] = record.Created != ""
	}
	var count int32
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		// The tests of pkg/job use this package, so that it cannot use theirs.
		name := cmp.Or(task.Name, batchv1alpha1.DefaultTaskSpec+strconv.Itoa(i))
		waits := task.DependsOn != nil && len(task.DependsOn.Name) > 0
		if !waits || started[name] || len(job.Status.TaskStatusCount[name].Phase) > 0 {
			count += task.Replicas
		}
	}
	return count
}

func (r *jobRecord) see(state JobState) {
	if n := len(r.states); n > 0 {
		previous := r.states[n-1]
		previous.Time = state.Time
		if previous == state {
			return
		}
	}
	r.states = append(r.states, state)
}

// JobStates returns the states of the latest Job of that name, oldest first; nil if there was none.
func (l *Log) JobStates(job types.NamespacedName) []JobState {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.jobs[job]
	if known == nil {
		return nil
	}
	return append([]JobState(nil), known.states...)
}

// Job returns the latest state of the Job; the zero state if it was never seen.
func (l *Log) Job(job types.NamespacedName) JobState {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.jobs[job]
	if known == nil {
		return JobState{}
	}
	return known.states[len(known.states)-1]
}

// JobGone says whether the latest Job of that name was deleted.
func (l *Log) JobGone(job types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.jobs[job]
	return known != nil && !known.gone.IsZero()
}

// JobNames lists the Jobs that were seen.
func (l *Log) JobNames() []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := make([]types.NamespacedName, 0, len(l.jobs))
	for name := range l.jobs {
		names = append(names, name)
	}
	return names
}

// Phases is the sequence of phases that states went through, each change once.
func Phases(states []JobState) []batchv1alpha1.JobPhase {
	var phases []batchv1alpha1.JobPhase
	for _, state := range states {
		if state.Phase != "" && (len(phases) == 0 || phases[len(phases)-1] != state.Phase) {
			phases = append(phases, state.Phase)
		}
	}
	return phases
}

// StatusViolations says where phase and counts of a Job disagreed in a single write. Clients rely on that never to happen.
func StatusViolations(states []JobState) []string {
	var violations []string
	previous := batchv1alpha1.JobPhase("")
	first := true
	for _, state := range states {
		if state.Phase == "" {
			continue
		}
		if first && state.Phase != batchv1alpha1.Pending {
			violations = append(violations, fmt.Sprintf("the first phase is %s, not Pending", state.Phase))
		}
		if wrong := disagreement(previous, state); wrong != "" {
			violations = append(violations, fmt.Sprintf("%s -> %s with pending %d, running %d, succeeded %d, failed %d, terminating %d: %s",
				previous, state.Phase, state.Pending, state.Running, state.Succeeded, state.Failed, state.Terminating, wrong))
		}
		previous, first = state.Phase, false
	}
	return violations
}

// disagreement says what is wrong with one state that follows a phase; empty if nothing is.
func disagreement(previous batchv1alpha1.JobPhase, state JobState) string {
	entered := previous != state.Phase
	switch state.Phase {
	case batchv1alpha1.Restarting, batchv1alpha1.Aborting, batchv1alpha1.Terminating, batchv1alpha1.Completing:
		if entered && state.Terminating == 0 {
			return "no pod is counted as terminating"
		}
	case batchv1alpha1.Aborted, batchv1alpha1.Terminated, batchv1alpha1.Completed:
		if state.Pending+state.Running+state.Terminating > 0 {
			return "some pods are not gone yet"
		}
	case batchv1alpha1.Failed:
		if entered && state.Pending+state.Running+state.Terminating > 0 {
			return "some pods are not gone yet"
		}
	case batchv1alpha1.Running:
		if entered && state.Running+state.Succeeded < state.Effective {
			return fmt.Sprintf("fewer run or have succeeded than the minimum of %d", state.Effective)
		}
	case batchv1alpha1.Pending:
		if previous == batchv1alpha1.Restarting && state.Replicas-state.Terminating < state.MinAvailable {
			return fmt.Sprintf("more terminate than the minimum of %d of %d allows", state.MinAvailable, state.Replicas)
		}
	}
	return ""
}
