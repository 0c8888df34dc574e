package policy

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/indexes"
)

// Record is what has been dealt with of one task in the current incarnation: a TaskRecord of the Job's status, read.
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
	// Handled is, by index, the UID of a pod that has been dealt with and that is to go, or is going.
	Handled map[int32]types.UID
}

// ReadRecord reads the Job's record of the task. What cannot be read is forgotten: what is seen of the pods fills it in
// again.
func ReadRecord(records []batchv1alpha1.TaskRecord, task string, replicas int32) Record {
	record := Record{Handled: map[int32]types.UID{}}
	for i := range records {
		written := &records[i]
		if written.Name != task {
			continue
		}
		record.Created = readSet(written.Created, replicas)
		record.Succeeded = readSet(written.Succeeded, replicas)
		record.Failed = readSet(written.Failed, replicas)
		record.Completed = written.Completed
		for index, uid := range written.Handled {
			if n, err := strconv.ParseInt(index, 10, 32); err == nil && n >= 0 {
				record.Handled[int32(n)] = types.UID(uid)
			}
		}
	}
	return record
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
	}
	for index, uid := range m.Handled {
		if written.Handled == nil {
			written.Handled = make(map[string]string, len(m.Handled))
		}
		written.Handled[strconv.Itoa(int(index))] = string(uid)
	}
	return written, written.Created != "" || written.Succeeded != "" || written.Failed != "" || written.Completed || len(written.Handled) > 0
}

// Clone returns a copy that shares nothing with the record.
func (m *Record) Clone() Record {
	return Record{
		Created:   m.Created.Clone(),
		Succeeded: m.Succeeded.Clone(),
		Failed:    m.Failed.Clone(),
		Completed: m.Completed,
		Handled:   maps.Clone(m.Handled),
	}
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

// NoteSucceeded remembers which of a task's pods have succeeded, and nothing else of what is seen: that is there when the policies can
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

// Settle remembers that a event of this task has been dealt with. A pod that was taken away is replaced by a new
// one once it is gone. One that was killed goes as well, also where nobody else deletes it: whether the killer does, and
// before or after somebody looks, must not matter.
func (m *Record) Settle(h Event) {
	if h.Type == busv1alpha1.PodEvictedEvent {
		m.Renew(h.Index, h.Pod)
	}
}

// Reopen forgets that the completion of this task has been dealt with: something else was done, and the Job may go on. What was to be
// done about other events is done by resuming: all pods that have not succeeded run anew then.
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
	m.rid(index, pod)
}

// RenewAll does for all of these indexes what Renew does for one, in time that grows with their number and no faster.
func (m *Record) RenewAll(renewed indexes.Set, pods map[int32]*corev1.Pod) {
	m.Created.RemoveAll(renewed)
	before := m.Succeeded.Len()
	m.Succeeded.RemoveAll(renewed)
	m.Completed = m.Completed && m.Succeeded.Len() == before
	m.Failed.RemoveAll(renewed)
	for index := range renewed.All() {
		m.rid(index, pods[index])
	}
}

// rid remembers that the pod is to go; nil is none.
func (m *Record) rid(index int32, pod *corev1.Pod) {
	if pod == nil {
		return
	}
	if m.Handled == nil {
		m.Handled = map[int32]types.UID{}
	}
	m.Handled[index] = pod.UID
}

// Rewind forgets all of the task but which pods have succeeded: all others are to go, and their indexes run anew, those that have
// failed included.
func (m *Record) Rewind(unsuccessful map[int32]*corev1.Pod) {
	m.Created, m.Failed = m.Succeeded.Clone(), indexes.Set{}
	for index, pod := range unsuccessful {
		if !m.Succeeded.Has(index) {
			m.Renew(index, pod)
		}
	}
}

// Prune forgets the pods to be rid of that exist no more.
func (m *Record) Prune(existing sets.Set[types.UID]) {
	maps.DeleteFunc(m.Handled, func(_ int32, uid types.UID) bool { return !existing.Has(uid) })
}
