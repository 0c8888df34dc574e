package policy

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/indexes"
)

// Record is what has been dealt with of one task in the current incarnation. It is read from a TaskRecord of the Job's status.
type Record struct {
	// Created are the indexes whose pod was seen. An unfinished one without a pod was evicted.
	Created indexes.Set
	// Succeeded are the indexes whose pod was seen to have succeeded. They never run again.
	Succeeded indexes.Set
	// Failed are the indexes whose pod was seen to have failed and whose policies were asked about it. They do not
	// run again unless a policy says so, or the Job is aborted and resumed.
	Failed indexes.Set
	// Completed says that all had succeeded when the policies were last asked.
	Completed bool
	// Replaced is, by index, the generation of the youngest pod that has been dealt with. It and older ones of the index are to go.
	// An entry stays until a younger pod is seen: an informer that is behind may show the pod late.
	Replaced map[int32]int32
	// HasNewReplaced says that pods were recorded as replaced since the record was read, or that an earlier version wrote it. Pods that are
	// created from now on need another generation than the replaced ones.
	HasNewReplaced bool
	// handled is, by index, the UID of the replaced pod, as earlier versions wrote it. It tells that pod from its successor, which has
	// generation 0 as well if an earlier version created it.
	handled map[int32]types.UID
}

// maxGenerations bounds the sets of indexes in which the replaced pods of a task are written.
const maxGenerations = 4

// Generation returns the generation of a Job's pod: the status.podGeneration at its creation.
func Generation(pod *corev1.Pod) int32 {
	n, err := strconv.ParseInt(pod.Annotations[batchv1alpha1.PodGenerationAnnotation], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// ReadRecord reads the Job's record of the task. Unreadable fields are dropped: observing the pods fills them in again.
func ReadRecord(records []batchv1alpha1.TaskRecord, task string, replicas int32) Record {
	record := Record{Replaced: map[int32]int32{}}
	for i := range records {
		written := &records[i]
		if written.Name != task {
			continue
		}
		record.Created = readSet(written.Created, replicas)
		record.Succeeded = readSet(written.Succeeded, replicas)
		record.Failed = readSet(written.Failed, replicas)
		record.Completed = written.Completed
		record.readReplaced(written.Replaced, replicas)
		if len(written.Replaced) == 0 {
			record.readHandled(written.Handled)
		}
	}
	return record
}

func (m *Record) readReplaced(written []batchv1alpha1.ReplacedPods, replicas int32) {
	for _, pods := range written {
		set, err := indexes.Parse(pods.Indexes)
		if err != nil {
			continue
		}
		// A Job that was stored before there was a bound may have more.
		set.Trim(max(batchv1alpha1.MaxReplicas, replicas))
		for index := range set.All() {
			m.Replaced[index] = pods.Generation
		}
	}
}

// readHandled reads the replaced pods in the former notation. A pod of that time has generation 0.
func (m *Record) readHandled(written map[string]string) {
	for index, uid := range written {
		n, err := strconv.ParseInt(index, 10, 32)
		if err != nil || n < 0 {
			continue
		}
		if m.handled == nil {
			m.handled = map[int32]types.UID{}
		}
		m.Replaced[int32(n)], m.handled[int32(n)], m.HasNewReplaced = 0, types.UID(uid), true
	}
}

// readSet reads a set and drops the indexes that the task no longer has: scaled up again, they start anew.
func readSet(text string, replicas int32) indexes.Set {
	set, err := indexes.Parse(text)
	if err != nil {
		return indexes.Set{}
	}
	set.Trim(replicas)
	return set
}

// Write returns the record for the Job's status; false if there is nothing to remember.
func (m *Record) Write(task string) (batchv1alpha1.TaskRecord, bool) {
	written := batchv1alpha1.TaskRecord{
		Name:      task,
		Created:   m.Created.String(),
		Succeeded: m.Succeeded.String(),
		Failed:    m.Failed.String(),
		Completed: m.Completed,
		Replaced:  m.writeReplaced(),
	}
	return written, written.Created != "" || written.Succeeded != "" || written.Failed != "" || written.Completed || len(written.Replaced) > 0
}

// writeReplaced returns the replaced pods by generation. If there are more generations than are written, the oldest are merged into one.
// Then a recent pod that a new leader's informer does not show yet is replaced once more.
func (m *Record) writeReplaced() []batchv1alpha1.ReplacedPods {
	byGeneration := map[int32][]int32{}
	for index, generation := range m.Replaced {
		byGeneration[generation] = append(byGeneration[generation], index)
	}
	generations := slices.Sorted(maps.Keys(byGeneration))
	for ; len(generations) > maxGenerations; generations = generations[1:] {
		older, next := generations[0], generations[1]
		byGeneration[next] = append(byGeneration[next], byGeneration[older]...)
	}
	var written []batchv1alpha1.ReplacedPods
	for _, generation := range generations {
		written = append(written, batchv1alpha1.ReplacedPods{Generation: generation, Indexes: indexes.Of(byGeneration[generation]...).String()})
	}
	return written
}

// Clone returns a copy that shares nothing with the record.
func (m *Record) Clone() Record {
	return Record{
		Created:   m.Created.Clone(),
		Succeeded: m.Succeeded.Clone(),
		Failed:    m.Failed.Clone(),
		Completed: m.Completed,
		Replaced:  maps.Clone(m.Replaced),

		HasNewReplaced: m.HasNewReplaced,
		handled:        maps.Clone(m.handled),
	}
}

// IsReplaced tells whether a pod of that index and generation has been dealt with.
func (m *Record) IsReplaced(index, generation int32) bool {
	replaced, found := m.Replaced[index]
	return found && generation <= replaced
}

// Finished tells whether the pod of that index is known to have finished.
func (m *Record) Finished(index int32) bool {
	return m.Succeeded.Has(index) || m.Failed.Has(index)
}

// MayRun tells whether a pod may be created for that index.
func (m *Record) MayRun(index int32) bool { return !m.Finished(index) }

// Note remembers what is seen of a task's pods, about which the policies are asked.
func (m *Record) Note(task *batchv1alpha1.TaskSpec, pods map[int32]*corev1.Pod) {
	var created, succeeded, failed []int32
	for index, pod := range pods {
		if !m.Created.Has(index) {
			created = append(created, index)
		}
		switch {
		case m.Finished(index):
		case HasSucceeded(pod):
			succeeded = append(succeeded, index)
		case EndedByItself(pod):
			failed = append(failed, index)
		}
	}
	m.Created.AddAll(indexes.Of(created...))
	m.Succeeded.AddAll(indexes.Of(succeeded...))
	m.Failed.AddAll(indexes.Of(failed...))
	m.Completed = m.hasCompleted(task)
}

// NoteSucceeded remembers which of a task's pods have succeeded, and nothing else of what is seen. It is still there when the policies can
// be asked.
func (m *Record) NoteSucceeded(pods map[int32]*corev1.Pod) {
	var succeeded []int32
	for index, pod := range pods {
		if !m.Finished(index) && HasSucceeded(pod) {
			succeeded = append(succeeded, index)
		}
	}
	m.Created.AddAll(indexes.Of(succeeded...))
	m.Succeeded.AddAll(indexes.Of(succeeded...))
}

// hasCompleted tells whether all of a task's replicas are known to have succeeded.
func (m *Record) hasCompleted(task *batchv1alpha1.TaskSpec) bool {
	return task.Replicas > 0 && m.Succeeded.Len() >= task.Replicas
}

// Settle records that an event of this task has been handled. A pod that was taken away is replaced by a new one once it is gone. A pod
// that was killed is deleted as well, even if no other client deletes it. It must not matter whether the killer does, before or after a
// look.
func (m *Record) Settle(h Event) {
	if h.Type == busv1alpha1.PodEvictedEvent {
		m.Renew(h.Index, h.Pod)
	}
}

// Reopen forgets that the completion of this task has been handled. Another action was taken, and the Job may go on. Resuming handles other
// events: all pods that have not succeeded run anew then.
func (m *Record) Reopen(h Event) {
	if h.Type == busv1alpha1.TaskCompletedEvent {
		m.Completed = false
	}
}

// Renew remembers that the pod is to go, and forgets what its index has done, so that it runs anew. The pod is nil if
// there is none.
func (m *Record) Renew(index int32, pod *corev1.Pod) {
	m.Created.Remove(index)
	m.Completed = m.Completed && !m.Succeeded.Has(index)
	m.Succeeded.Remove(index)
	m.Failed.Remove(index)
	m.replace(index, pod)
}

// RenewAll does for all of these indexes what Renew does for one. Its time is linear in their number.
func (m *Record) RenewAll(renewed indexes.Set, pods map[int32]*corev1.Pod) {
	m.Created.RemoveAll(renewed)
	before := m.Succeeded.Len()
	m.Succeeded.RemoveAll(renewed)
	m.Completed = m.Completed && m.Succeeded.Len() == before
	m.Failed.RemoveAll(renewed)
	for index := range renewed.All() {
		m.replace(index, pods[index])
	}
}

// replace records that the pod is to go; nil is none.
func (m *Record) replace(index int32, pod *corev1.Pod) {
	if pod == nil || m.IsReplaced(index, Generation(pod)) {
		return
	}
	if m.Replaced == nil {
		m.Replaced = map[int32]int32{}
	}
	m.Replaced[index], m.HasNewReplaced = Generation(pod), true
}

// Rewind forgets all of the task but which pods have succeeded. All other pods are deleted, and their indexes run anew, also the failed
// ones.
func (m *Record) Rewind(unsuccessful map[int32]*corev1.Pod) {
	m.Created, m.Failed = m.Succeeded.Clone(), indexes.Set{}
	for index, pod := range unsuccessful {
		if !m.Succeeded.Has(index) {
			m.Renew(index, pod)
		}
	}
}

// Seen forgets the pods of that index that this one has replaced. No two pods of an index are there at a time.
func (m *Record) Seen(index int32, pod *corev1.Pod) {
	replaced, found := m.Replaced[index]
	former, isFormer := m.handled[index]
	if found && (Generation(pod) > replaced || isFormer && pod.UID != former) {
		delete(m.Replaced, index)
	}
}
