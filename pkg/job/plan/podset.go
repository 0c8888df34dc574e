package plan

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/job/order"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// jobPod is a pod and its place in the Job, by its annotations.
type jobPod struct {
	pod        *corev1.Pod // as it was when it had ended by itself, if that is known, or else as it is now
	shown      *corev1.Pod // the present pod; nil if it is gone
	position   int         // of the task in the spec; -1 if it has no such task
	index      int32
	version    int32
	generation int32
}

// podSet are all pods that the Job owns.
type podSet struct {
	pods  []jobPod
	names sets.Set[string] // of all pods, in any state: no pod can be created under one of these
}

// newPodSet finds the places of the pods. ended are pods that have ended and are gone or going, as they were when they ended. A pod that
// has no place was not made by the controller, although it names the Job as its owner. It is left alone.
func newPodSet(job *batchv1alpha1.Job, pods, ended []*corev1.Pod) *podSet {
	c := &podSet{pods: make([]jobPod, 0, len(pods)), names: make(sets.Set[string], len(pods))}
	positions := make(map[string]int, len(job.Spec.Tasks)) // task name -> position in the spec
	for i := range job.Spec.Tasks {
		positions[job.Spec.Tasks[i].Name] = i
	}
	asEnded := make(map[types.UID]*corev1.Pod, len(ended))
	for _, pod := range ended {
		asEnded[pod.UID] = pod
	}
	for _, pod := range pods {
		c.names.Insert(pod.Name)
		c.add(job, positions, cmp.Or(asEnded[pod.UID], pod), pod)
		delete(asEnded, pod.UID)
	}
	for _, pod := range ended {
		if asEnded[pod.UID] != nil {
			c.add(job, positions, pod, nil)
		}
	}
	return c
}

func (c *podSet) add(job *batchv1alpha1.Job, positions map[string]int, pod, shown *corev1.Pod) {
	index, version, hasPlace := placeOf(job, pod)
	if !hasPlace {
		return
	}
	position, known := positions[pod.Annotations[batchv1alpha1.TaskSpecKey]]
	if !known {
		position = -1
	}
	c.pods = append(c.pods, jobPod{pod, shown, position, index, version, policy.Generation(pod)})
}

// IsMember says whether a pod was made by the controller for the Job.
func IsMember(job *batchv1alpha1.Job, pod *corev1.Pod) bool {
	_, _, hasPlace := placeOf(job, pod)
	return hasPlace && metav1.IsControlledBy(pod, job)
}

// placeOf reads the index and the version of a pod; false if it has no place in the Job. No pod is younger than the Job's
// status.podGeneration. If one that says so were replaced, all its successors would be taken for replaced, too.
func placeOf(job *batchv1alpha1.Job, pod *corev1.Pod) (index, version int32, hasPlace bool) {
	i, indexErr := strconv.ParseInt(pod.Annotations[batchv1alpha1.TaskIndexKey], 10, 32)
	v, versionErr := strconv.ParseInt(pod.Annotations[batchv1alpha1.JobVersionKey], 10, 32)
	hasPlace = indexErr == nil && versionErr == nil && i >= 0 && policy.Generation(pod) <= job.Status.PodGeneration
	return int32(i), int32(v), hasPlace
}

// NeedsEnds tells whether a Job has to know how pods ended that are gone or going. It does if it runs or is going to, or may be resumed.
func NeedsEnds(job *batchv1alpha1.Job) bool {
	p := OrPending(job.Status.State.Phase)
	return phase.Runs(p) || p == batchv1alpha1.Restarting && !isLastRestart(job) || phase.IsAborted(p)
}

// relevantEnded returns ended pods that are gone or going and that matter for the Job. While it is aborted these are only the succeeded ones, for
// all other pods run again.
func relevantEnded(job *batchv1alpha1.Job, ended []*corev1.Pod) []*corev1.Pod {
	if !NeedsEnds(job) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(ended), func(pod *corev1.Pod) bool {
		return phase.IsAborted(job.Status.State.Phase) && !policy.HasSucceeded(pod)
	})
}

// dropKnown drops pods that are gone if a record has their end, or lets their index run anew.
func (c *podSet) dropKnown(records []policy.Record) {
	c.pods = slices.DeleteFunc(c.pods, func(s jobPod) bool {
		return s.shown == nil && s.position >= 0 &&
			(records[s.position].Finished(s.index) || records[s.position].IsReplaced(s.index, s.generation))
	})
}

// Members are a Job's pods, sorted by their next step.
type Members struct {
	// tasks hold the pods of the current incarnation that may stay, by the tasks of the spec.
	tasks []policy.Task
	// unwanted are the pods to delete, including the ones that are being deleted.
	unwanted []jobPod
	// Names of all pods.
	Names sets.Set[string]
}

// readRecords reads the records of all tasks from the Job's status, without the replaced pods that have successors.
func readRecords(job *batchv1alpha1.Job, all *podSet) []policy.Record {
	records := make([]policy.Record, len(job.Spec.Tasks))
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		records[i] = policy.ReadRecord(job.Status.TaskRecords, task.Name, task.Replicas)
	}
	for _, s := range all.pods {
		if s.position >= 0 {
			records[s.position].Seen(s.index, s.pod)
		}
	}
	return records
}

// writeRecords writes the records of all tasks for the Job's status.
func writeRecords(spec *batchv1alpha1.JobSpec, records []policy.Record) []batchv1alpha1.TaskRecord {
	var written []batchv1alpha1.TaskRecord
	for i := range spec.Tasks {
		if record, found := records[i].Write(spec.Tasks[i].Name); found {
			written = append(written, record)
		}
	}
	return written
}

// sort sorts the pods by the Job's phase, its incarnation and its records.
func (c *podSet) sort(job *batchv1alpha1.Job, records []policy.Record) *Members {
	m := &Members{tasks: make([]policy.Task, len(job.Spec.Tasks)), Names: c.names}
	for i := range job.Spec.Tasks {
		m.tasks[i] = policy.Task{Spec: &job.Spec.Tasks[i], Pods: map[int32]*corev1.Pod{}, Record: records[i]}
	}
	for _, s := range c.pods {
		switch {
		case isUnwanted(job, records, s):
			if s.shown != nil {
				m.unwanted = append(m.unwanted, s)
			}
		case s.position < 0, s.shown == nil && m.tasks[s.position].Pods[s.index] != nil:
		default:
			m.tasks[s.position].Pods[s.index] = s.pod
		}
	}
	return m
}

// isUnwanted tells whether Muster wants the pod to be gone. It follows from the Job's status and spec alone, so that
// a controller that starts anew finds the same victims.
func isUnwanted(job *batchv1alpha1.Job, records []policy.Record, s jobPod) bool {
	if s.version < job.Status.Version || s.position >= 0 && records[s.position].IsReplaced(s.index, s.generation) {
		return true
	}
	if phase.KeepsOnlyFinished(job.Status.State.Phase) || isLastRestart(job) {
		return !policy.IsFinished(s.pod)
	}
	return isSurplus(job, s)
}

// isSurplus tells whether the Job has been scaled down below the pod's index.
func isSurplus(job *batchv1alpha1.Job, s jobPod) bool {
	return s.position < 0 || s.index >= job.Spec.Tasks[s.position].Replicas
}

// isLastRestart tells whether the Job is restarting but has no run left. It then becomes Failed, and its finished pods stay for their logs.
func isLastRestart(job *batchv1alpha1.Job) bool {
	return job.Status.State.Phase == batchv1alpha1.Restarting && job.Status.RetryCount >= job.Spec.MaxRetry
}

// count fills in the counts of the status. A finished pod counts as such even when its object is gone.
func (m *Members) count(status *batchv1alpha1.JobStatus) {
	status.Pending, status.Running, status.Succeeded, status.Failed, status.Unknown = 0, 0, 0, 0, 0
	status.Terminating = int32(len(m.unwanted))
	status.TaskStatusCount = nil
	for i := range m.tasks {
		phases, terminating := countTask(&m.tasks[i])
		status.Terminating += terminating
		status.Pending += phases[corev1.PodPending]
		status.Running += phases[corev1.PodRunning]
		status.Succeeded += phases[corev1.PodSucceeded]
		status.Failed += phases[corev1.PodFailed]
		status.Unknown += phases[corev1.PodUnknown]
		if len(phases) == 0 {
			continue
		}
		if status.TaskStatusCount == nil {
			status.TaskStatusCount = map[string]batchv1alpha1.TaskState{}
		}
		status.TaskStatusCount[m.tasks[i].Spec.Name] = batchv1alpha1.TaskState{Phase: phases}
	}
}

func countTask(task *policy.Task) (phases map[corev1.PodPhase]int32, terminating int32) {
	phases = map[corev1.PodPhase]int32{}
	for index, pod := range task.Pods {
		switch {
		case task.Record.Finished(index):
		case pod.DeletionTimestamp != nil && !policy.HasSucceeded(pod):
			terminating++
		default:
			phases[countedPhase(pod)]++
		}
	}
	for p, ended := range map[corev1.PodPhase]int32{corev1.PodSucceeded: task.Record.Succeeded.Len(), corev1.PodFailed: task.Record.Failed.Len()} {
		if ended > 0 {
			phases[p] += ended
		}
	}
	return phases, terminating
}

func countedPhase(pod *corev1.Pod) corev1.PodPhase {
	switch p := pod.Status.Phase; p {
	case corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed:
		return p
	default:
		return corev1.PodUnknown
	}
}

// stage works out which tasks may run now. The status holds the counts of the members. No task is lost while a policy is going to restart
// its failed pods. None is lost before policies were asked about them.
func (m *Members) stage(job *batchv1alpha1.Job, byDefault batchv1alpha1.DependencyCondition, delays []policy.Delay) dependency.Stage {
	restarts := slices.ContainsFunc(delays, func(d policy.Delay) bool { return d.IsRestart() && d.Cause.Type == busv1alpha1.PodFailedEvent })
	someLost := phase.Runs(job.Status.State.Phase) && !restarts
	progress := make([]dependency.Task, len(m.tasks))
	for i := range m.tasks {
		task := &m.tasks[i]
		count := job.Status.TaskStatusCount[task.Spec.Name].Phase
		progress[i] = dependency.Task{
			Succeeded: count[corev1.PodSucceeded],
			Failed:    count[corev1.PodFailed],
			Started:   len(task.Pods) > 0 || task.Record.Created.Len() > 0,
		}
		if someLost {
			progress[i].Lost = task.Record.Failed.Len()
		}
		for _, pod := range task.Pods {
			if isReady(pod) {
				progress[i].Ready++
			}
		}
	}
	return dependency.StageOf(&job.Spec, progress, byDefault)
}

// SomeWait tells whether any pod of the tasks that may run is still to come, or has no node.
func (m *Members) SomeWait(stage dependency.Stage) bool {
	for i := range m.tasks {
		task := &m.tasks[i]
		if !stage.Open[i] {
			continue
		}
		for index := range task.Spec.Replicas {
			if pod := task.Pods[index]; !task.Record.Finished(index) && (pod == nil || pod.Spec.NodeName == "" && !policy.IsFinished(pod)) {
				return true
			}
		}
	}
	return false
}

// someKilled tells whether other clients killed a pod that stays and is to be replaced.
func (m *Members) someKilled() bool {
	for i := range m.tasks {
		for index, pod := range m.tasks[i].Pods {
			if pod.Status.Phase == corev1.PodFailed && policy.IsEvicted(pod) && !m.tasks[i].Record.Finished(index) {
				return true
			}
		}
	}
	return false
}

// firstFailed returns the failed pod of the lowest index in the first task that has one. It looks at existing pods and at ended ones that
// no status records yet; nil if none is.
func (m *Members) firstFailed() *corev1.Pod {
	for i := range m.tasks {
		for index := range m.tasks[i].Spec.Replicas {
			if pod := m.tasks[i].Pods[index]; pod != nil && pod.Status.Phase == corev1.PodFailed {
				return pod
			}
		}
	}
	return nil
}

// isReady tells whether a pod runs and is Ready, by its readiness gates as well.
func isReady(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Victims returns the unwanted pods that are not being deleted yet, in the order of deletion. The pods that come last in the spec go first.
func (m *Members) Victims() []*corev1.Pod {
	sorted := slices.SortedStableFunc(slices.Values(m.unwanted), func(a, b jobPod) int {
		return cmp.Or(cmp.Compare(b.position, a.position), cmp.Compare(b.index, a.index))
	})
	var found []*corev1.Pod
	for _, s := range sorted {
		if s.shown.DeletionTimestamp == nil {
			found = append(found, s.shown)
		}
	}
	return found
}

// unsuccessful returns the pods of the current incarnation that have not succeeded, by position of the task and by index.
func (c *podSet) unsuccessful(job *batchv1alpha1.Job) []map[int32]*corev1.Pod {
	found := make([]map[int32]*corev1.Pod, len(job.Spec.Tasks))
	for _, s := range c.pods {
		if s.position < 0 || s.version < job.Status.Version || policy.HasSucceeded(s.pod) {
			continue
		}
		if found[s.position] == nil {
			found[s.position] = map[int32]*corev1.Pod{}
		}
		found[s.position][s.index] = s.pod
	}
	return found
}

// Missing is a pod that the Job lacks.
type Missing struct {
	Task  int
	Index int32
}

// Missing returns the pods that can be created now. Their tasks may run, their names are free, and they have not finished. They are in the
// order of the tasks' priorities, and by index. No pod is returned of a lower priority than one whose name is among the awaited.
func (m *Members) Missing(jobName string, stage dependency.Stage, priorities []int32, awaited sets.Set[string]) []Missing {
	var found []Missing
	var least *int32 // the priority of pods whose names are awaited
	for _, i := range order.ByPriority(priorities) {
		task := &m.tasks[i]
		if least != nil && priorities[i] < *least {
			break
		}
		if !stage.Open[i] {
			continue
		}
		for index := range task.Spec.Replicas {
			if task.Pods[index] != nil || !task.Record.MayRun(index) {
				continue
			}
			switch name := policy.PodName(jobName, task.Spec.Name, index); {
			case !m.Names.Has(name):
				found = append(found, Missing{i, index})
			case awaited.Has(name):
				least = &priorities[i]
			}
		}
	}
	return found
}

// RecordsEnds says whether the next status of a Job records how its gone or going pods ended, if that matters. While it restarts, failed
// pods do not matter.
func RecordsEnds(job *batchv1alpha1.Job) bool {
	return job.Status.State.Phase != batchv1alpha1.Restarting
}
