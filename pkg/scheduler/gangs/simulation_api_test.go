package gangs_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

func (s *simulation) newName(prefix string) string {
	s.next++
	return fmt.Sprintf("%s-%03d", prefix, s.next)
}

// tellPod tells the tracker and the books what a pod is like now.
func (s *simulation) tellPod(pod *corev1.Pod) {
	old := s.api[pod.UID]
	s.api[pod.UID] = pod
	s.ofPods = append(s.ofPods, func() {
		s.books.setPod(pod)
		s.tracker.SetPod(pod)
		s.observe("SetPod")
	})
	s.toScheduler = append(s.toScheduler, func() {
		s.schedulerSees(pod)
		if old != nil && old.Status.NominatedNodeName != pod.Status.NominatedNodeName {
			s.nominationEnds(old)
		}
	})
}

// forgetPod tells the tracker and the books that a pod is gone.
func (s *simulation) forgetPod(pod *corev1.Pod) {
	delete(s.api, pod.UID)
	s.ofPods = append(s.ofPods, func() {
		s.books.deletePod(pod)
		s.tracker.DeletePod(pod)
		s.observe("DeletePod")
	})
	s.toScheduler = append(s.toScheduler, func() { s.schedulerForgets(pod) })
}

func (s *simulation) tellGroup(pg *schedulingv1beta1.PodGroup) {
	s.groups[state.Key{Name: pg.Name}] = pg
	s.ofGroups = append(s.ofGroups, func() {
		s.books.setGroup(pg)
		s.tracker.SetPodGroup(pg)
		s.observe("SetPodGroup")
	})
}

func (s *simulation) forgetGroup(pg *schedulingv1beta1.PodGroup) {
	delete(s.groups, state.Key{Name: pg.Name})
	s.ofGroups = append(s.ofGroups, func() {
		s.books.deleteGroup(pg)
		s.tracker.DeletePodGroup(pg)
		s.observe("DeletePodGroup")
	})
}

func (s *simulation) tellQueue(queue *schedulingv1beta1.Queue) {
	s.queues[queue.Name] = queue
	s.ofGroups = append(s.ofGroups, func() {
		s.books.setQueue(queue)
		s.tracker.SetQueue(queue)
	})
}

// deliver delivers the first events of a stream.
func (s *simulation) deliver(stream *[]func(), n int) {
	for ; n > 0 && len(*stream) > 0; n-- {
		event := (*stream)[0]
		*stream = (*stream)[1:]
		event()
	}
}

func (s *simulation) deliverAll(stream *[]func()) { s.deliver(stream, len(*stream)) }

// arrive delivers some events, all of them if nothing is slow.
func (s *simulation) arrive() {
	for i, stream := range []*[]func(){&s.ofPods, &s.ofGroups, &s.toScheduler} {
		n := len(*stream)
		if s.faults {
			n -= s.draw(fmt.Sprint("late", i), 0, n)
		}
		s.deliver(stream, n)
	}
}

// gangSpec is a gang to be made.
type gangSpec struct {
	queue         string
	names         string // the queue that the pods name
	disagrees     bool   // the first pod names another
	late          bool   // the PodGroup comes later, or never
	size, minimum int
	tasks         map[string]int32 // minimums
	cpu           int64
	priority      int32
	phase         schedulingv1beta1.PodGroupPhase
	ofOthers      bool  // it is not of a Job of ours
	beyond        int64 // cores of its minResources beyond the minimum
}

// createGang makes a PodGroup and its pods.
func (s *simulation) createGang(name string, spec gangSpec) state.Key {
	switch {
	case s.closed.Has(spec.queue):
		spec.phase = schedulingv1beta1.PodGroupPending
	case spec.phase == "":
		spec.phase = schedulingv1beta1.PodGroupInqueue
	}
	pg := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(s.newName(name)), CreationTimestamp: s.apiTime()},
		Spec:       schedulingv1beta1.PodGroupSpec{MinMember: int32(spec.minimum), MinTaskMember: spec.tasks, Queue: spec.queue},
		Status:     schedulingv1beta1.PodGroupStatus{Phase: spec.phase, JobVersion: ptr.To[int32](0)},
	}
	if spec.ofOthers {
		pg.Status.JobVersion = nil
	} else {
		pg.OwnerReferences = simJob(name)
	}
	s.shapes[state.Key{Name: name}] = spec
	if spec.late {
		s.lost = append(s.lost, pg)
	} else {
		s.tellGroup(pg)
	}
	for i := range spec.size {
		names := spec.names
		if spec.disagrees && i == 0 {
			names = map[string]string{"q": "team", "team": "q"}[names]
		}
		s.createMember(name, []string{"a", "b"}[i%2], i, spec.cpu, 0, spec.priority, names)
	}
	return state.Key{Name: name}
}

// apiTime is the time as the API has it, in seconds.
func (s *simulation) apiTime() metav1.Time {
	return metav1.NewTime(s.clock.Now().Truncate(time.Second))
}

func (s *simulation) createMember(group, task string, index int, cpu, version int64, priority int32, names string) *corev1.Pod {
	return s.createPod(cpu, priority, map[string]string{
		schedulingv1beta1.QueueNameAnnotation: names,
		schedulingv1beta1.GroupNameAnnotation: group, batchv1alpha1.JobVersionKey: fmt.Sprint(version),
		batchv1alpha1.TaskSpecKey: task, batchv1alpha1.TaskIndexKey: fmt.Sprint(index),
	})
}

// createSingle makes a pod without a gang.
func (s *simulation) createSingle(queue string, cpu int64, priority int32) *corev1.Pod {
	return s.createPod(cpu, priority, map[string]string{schedulingv1beta1.QueueNameAnnotation: queue})
}

func (s *simulation) createPod(cpu int64, priority int32, annotations map[string]string) *corev1.Pod {
	name := s.newName("pod")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: s.apiTime(), Annotations: annotations},
		Spec: corev1.PodSpec{SchedulerName: "muster", Priority: &priority, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)},
		}}}},
	}
	s.tellPod(pod)
	return pod
}

// terminate begins to delete a pod.
func (s *simulation) terminate(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		return
	}
	going := pod.DeepCopy()
	going.DeletionTimestamp = ptr.To(s.apiTime())
	s.tellPod(going)
}

// finish ends a bound pod by itself. The outcome is written to its PodGroup.
func (s *simulation) finish(pod *corev1.Pod, succeeded bool) {
	s.forgetPod(pod)
	key, inGang := simKeyOf(pod)
	old := s.groups[key]
	if !inGang || old == nil || int64(ptr.Deref(old.Status.JobVersion, 0)) != simVersionOf(pod) {
		return
	}
	pg := old.DeepCopy()
	if succeeded {
		pg.Status.Succeeded++
	} else {
		pg.Status.Failed++
	}
	s.tellGroup(pg)
}

// restart does what RestartJob does: the pods of the old incarnation go, and new ones come.
func (s *simulation) restart(key state.Key) {
	pg := s.groups[key].DeepCopy()
	if simIsOfOthers(pg) {
		return
	}
	version := int64(0)
	var old []*corev1.Pod
	for _, uid := range simUIDs(s.api) {
		if k, _ := simKeyOf(s.api[uid]); k == key {
			old = append(old, s.api[uid])
			version = max(version, simVersionOf(s.api[uid]))
		}
	}
	version++
	pg.Status.JobVersion, pg.Status.Succeeded, pg.Status.Failed, pg.Status.Conditions = ptr.To(int32(version)), 0, 0, nil
	s.tellGroup(pg)
	for _, pod := range old {
		s.terminate(pod)
	}
	for i, pod := range old {
		s.shapes[key] = gangSpec{cpu: simCPU(pod), priority: *pod.Spec.Priority, names: simNames(pod)}
		s.createMember(key.Name, pod.Annotations[batchv1alpha1.TaskSpecKey], i, simCPU(pod), version, *pod.Spec.Priority, simNames(pod))
	}
	for _, pod := range old {
		if !s.fault("lingers", 3) {
			s.forgetPod(s.api[pod.UID])
		}
	}
}

// changeGroup changes a PodGroup.
func (s *simulation) changeGroup(key state.Key, change func(*schedulingv1beta1.PodGroup)) {
	pg := s.groups[key].DeepCopy()
	change(pg)
	s.tellGroup(pg)
}

// evict carries out what a tick has asked for.
func (s *simulation) evict() {
	for _, r := range s.evictions {
		if pod, ok := s.api[r.UID]; ok && r.Kind == evict.StartOver {
			s.terminate(pod)
		} else if ok && r.Kind == evict.DropNomination {
			s.nominate(r.UID, "")
		}
	}
	s.evictions = nil
}

// kubelet ends pods that are being deleted.
func (s *simulation) kubelet() {
	for _, uid := range simUIDs(s.api) {
		if s.api[uid].DeletionTimestamp != nil {
			s.forgetPod(s.api[uid])
		}
	}
}
