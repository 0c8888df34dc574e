package gangs_test

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// makers are users and operators that make pods and PodGroups without a Job of ours. muster-controller is one of them.
type makers struct {
	down       bool                   // muster-controller does not run
	owners     map[types.UID]simHome  // owners of pods without a PodGroup
	shapes     map[state.Key]gangSpec // what further members of a gang are like
	closed     sets.Set[string]       // queues that admit nothing
	goneQueues []*schedulingv1beta1.Queue
}

// simHome is the PodGroup of the pods of an owner.
type simHome struct {
	key     state.Key
	minimum int
}

func newMakers() makers {
	return makers{owners: map[types.UID]simHome{}, shapes: map[state.Key]gangSpec{}, closed: sets.New[string]()}
}

// makersStep is something that others do, or muster-controller.
func (s *simulation) makersStep() {
	switch s.draw("of makers", 0, 9) {
	case 0:
		s.createOwned()
	case 1:
		s.down = !s.down
	case 2, 3:
		if key, ok := simPick(s, "gang", s.keys()); ok {
			s.addMembers(key, s.draw("more", 1, 2))
		}
	case 4:
		s.runTwice()
	case 5:
		s.changeQueue()
	case 6:
		if uid, ok := simPick(s, "pod", simUIDs(s.api)); ok {
			s.tellPod(s.api[uid].DeepCopy()) // the kubelet has written its status
		}
	case 7:
		s.endHolds()
	case 8, 9:
		s.controllerActs()
	}
}

// createOwned makes pods of one owner, as a ReplicaSet does. They have no PodGroup yet.
func (s *simulation) createOwned() {
	owner := types.UID(s.newName("owner"))
	size := s.draw("size", 1, 4)
	s.owners[owner] = simHome{minimum: s.draw("minimum", 1, size)}
	queue, cpu, priority := s.drawQueue(), int64(s.draw("cpu", 1, 4))*1000, s.drawPriority()
	for range size {
		pod := s.createPod(cpu, priority, map[string]string{schedulingv1beta1.QueueNameAnnotation: queue})
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: string(owner), UID: owner, Controller: ptr.To(true)}}
	}
}

// lacksGroup says whether muster-controller is to give a pod a PodGroup.
func (s *simulation) lacksGroup(pod *corev1.Pod) bool {
	_, inGang := simKeyOf(pod)
	return s.args.RequirePodGroup && !inGang && pod.DeletionTimestamp == nil
}

// controllerActs does what muster-controller does for all pods and PodGroups, unless it is down.
func (s *simulation) controllerActs() {
	if s.down {
		return
	}
	for _, uid := range simUIDs(s.api) {
		if s.lacksGroup(s.api[uid]) {
			s.adopt(s.api[uid])
		}
	}
	for _, key := range s.keys() {
		s.control(key)
	}
}

// adopt gives a pod without a gang a PodGroup of its own, as muster-controller does, or that of its owner. The tracker may hear of it before
// the scheduling queue.
func (s *simulation) adopt(pod *corev1.Pod) {
	if s.fault("trackerFirst", 2) {
		s.deliverAll(&s.toScheduler)
		defer s.deliverAll(&s.ofPods)
		defer s.deliverAll(&s.ofGroups)
	}
	owner := types.UID("")
	if len(pod.OwnerReferences) > 0 {
		owner = pod.OwnerReferences[0].UID
	}
	home := s.owners[owner]
	if home.key == (state.Key{}) || owner == "" {
		spec := gangSpec{queue: simNames(pod), minimum: max(1, home.minimum), cpu: simCPU(pod), priority: *pod.Spec.Priority, ofOthers: true}
		if s.faults && s.draw("pending", 0, 1) == 1 {
			spec.phase = schedulingv1beta1.PodGroupPending
		}
		home.key = s.createGang(s.newName("adopted"), spec)
		s.owners[owner] = home
	}
	pod = pod.DeepCopy()
	pod.Annotations[schedulingv1beta1.GroupNameAnnotation] = home.key.Name
	s.tellPod(pod)
}

// addMembers makes further members of a gang, as replacements of others or beyond the minimum.
func (s *simulation) addMembers(key state.Key, count int) {
	spec, version := s.shapes[key], int64(ptr.Deref(s.groups[key].Status.JobVersion, 0))
	for range count {
		index := s.next
		s.createMember(key.Name, []string{"a", "b"}[index%2], index, spec.cpu, version, spec.priority, spec.names)
	}
}

// endHolds ends what is kept for further members of gangs, as after the hold timeout. It says whether anything was kept.
func (s *simulation) endHolds() (some bool) {
	for _, key := range s.keys() {
		if s.groups[key].Status.Reserved != nil {
			s.changeGroup(key, func(pg *schedulingv1beta1.PodGroup) { pg.Status.Reserved = nil })
			some = true
		}
	}
	return some
}

// runTwice has a gang of others start and finish. All of its pods are removed, and members of the next run come. muster-controller may notice
// the end before that, or afterwards, or never. The scheduler may crash while the next run starts.
func (s *simulation) runTwice() {
	size := s.draw("size", 1, 3)
	key := s.createGang(s.newName("again"), gangSpec{queue: s.drawQueue(), size: size, minimum: s.draw("minimum", 1, size), cpu: int64(s.draw("cpu", 1, 5)) * 1000, priority: 10, ofOthers: true})
	s.goOn(s.draw("rounds", 3, 6))
	for _, uid := range simUIDs(s.api) {
		if k, _ := simKeyOf(s.api[uid]); k != key {
			continue
		}
		if s.api[uid].Spec.NodeName != "" {
			s.finish(s.api[uid], true)
		} else {
			s.forgetPod(s.api[uid])
		}
	}
	if s.draw("completed", 0, 2) < 2 {
		s.control(key)
	}
	s.addMembers(key, s.draw("next", 1, 3))
	if s.draw("crashes", 0, 1) == 1 {
		s.goOn(s.draw("rounds", 1, 3))
		s.crash()
	}
}

// goOn lets the scheduler work for some rounds.
func (s *simulation) goOn(rounds int) {
	for range rounds {
		s.arrive()
		for range 3 {
			s.scheduleOne()
		}
		s.leavePermit()
		s.bind()
		s.dispatch()
	}
}

// changeQueue closes or opens a queue, lowers or raises its capability, deletes it, or makes it again.
func (s *simulation) changeQueue() {
	name := []string{"q", "team"}[s.draw("which", 0, 1)]
	queue := s.queues[name]
	switch s.draw("queue becomes", 0, 4) {
	case 0:
		if s.closed.Has(name) {
			s.closed.Delete(name)
		} else {
			s.closed.Insert(name)
		}
	case 1:
		if queue != nil {
			queue = queue.DeepCopy()
			queue.Spec.Capability = mustertesting.Resources("cpu", fmt.Sprint(s.draw("capability", 2, 14)))
			s.tellQueue(queue)
		}
	case 2:
		if queue != nil {
			s.forgetQueue(queue)
			s.goneQueues = append(s.goneQueues, queue)
		}
	case 3, 4:
		for _, gone := range s.goneQueues {
			s.tellQueue(gone)
		}
		s.goneQueues = nil
	}
}

func (s *simulation) forgetQueue(queue *schedulingv1beta1.Queue) {
	delete(s.queues, queue.Name)
	s.ofGroups = append(s.ofGroups, func() {
		s.books.deleteQueue(queue.Name)
		s.tracker.DeleteQueue(queue)
	})
}

// control does what the podgroup controller does. It notes how far a gang has come, and keeps quota for its further members.
func (s *simulation) control(key state.Key) {
	pg := s.groups[key]
	scheduled := slices.ContainsFunc(pg.Status.Conditions, func(c schedulingv1beta1.PodGroupCondition) bool {
		return c.Type == schedulingv1beta1.PodGroupScheduled
	})
	next := pg.DeepCopy()
	members := s.books.membersIn(s.api, pg)
	finished := len(members) == 0 && pg.Status.Succeeded+pg.Status.Failed > 0
	switch {
	case pg.Status.Phase == schedulingv1beta1.PodGroupPending:
		return
	case simRunIsOver(pg) && len(members) > 0: // the next run begins
		next.Status.Phase, next.Status.Succeeded, next.Status.Conditions = schedulingv1beta1.PodGroupInqueue, 0, nil
	case simIsOfOthers(pg) && finished && pg.Status.Succeeded >= pg.Spec.MinMember:
		next.Status.Phase, next.Status.Reserved = schedulingv1beta1.PodGroupCompleted, nil
	case !scheduled && s.books.startedIn(s.api, pg):
		next.Status.Phase = schedulingv1beta1.PodGroupRunning
		next.Status.Conditions = append(next.Status.Conditions, schedulingv1beta1.PodGroupCondition{
			Type: schedulingv1beta1.PodGroupScheduled, Status: corev1.ConditionTrue,
		})
		if beyond := s.shapes[key].beyond; beyond > 0 {
			next.Status.Reserved = mustertesting.Resources("cpu", fmt.Sprint(int64(pg.Spec.MinMember)*s.shapes[key].cpu/1000+beyond))
		}
	case pg.Status.Reserved != nil && simRest(pg, members) == 0:
		next.Status.Reserved = nil // it is used
	default:
		return
	}
	s.tellGroup(next)
}

// simRest is what bound members have not used of what is reserved for a gang.
func simRest(pg *schedulingv1beta1.PodGroup, members []*corev1.Pod) int64 {
	rest := pg.Status.Reserved.Cpu().MilliValue()
	for _, pod := range members {
		if pod.Spec.NodeName != "" {
			rest -= simCPU(pod)
		}
	}
	return max(0, rest)
}

// simIsOfOthers says whether a PodGroup is not that of a Job of ours.
func simIsOfOthers(pg *schedulingv1beta1.PodGroup) bool { return len(pg.OwnerReferences) == 0 }

// simRunIsOver says whether the run of a PodGroup of others is over. It is if all have finished, the minimum has succeeded, and none has
// failed. Its successes do not count for members that come later.
func simRunIsOver(pg *schedulingv1beta1.PodGroup) bool {
	return simIsOfOthers(pg) && pg.Status.Phase == schedulingv1beta1.PodGroupCompleted && pg.Status.Failed == 0 && pg.Status.Succeeded >= pg.Spec.MinMember
}

// simJob is the owner of the PodGroups of our Jobs.
func simJob(name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: batchv1alpha1.SchemeGroupVersion.String(), Kind: "Job", Name: name, UID: types.UID("job-" + name), Controller: ptr.To(true),
	}}
}

// Nominations.

// nominate has room kept for a pod on a node, or on none any more.
func (s *simulation) nominate(uid types.UID, node string) {
	pod := s.api[uid]
	if pod == nil || pod.Spec.NodeName != "" || pod.Status.NominatedNodeName == node {
		return
	}
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = node
	s.tellPod(pod)
	if s.known[uid] != nil {
		s.known[uid] = pod // the scheduler notes it before the API does
	}
}

// keptFor is what is kept on a node for nominated pods against a pod. Members of the gang that is decided do not keep it from each other.
func (s *simulation) keptFor(node string, uid types.UID, priority int32, gang state.Key) int64 {
	kept := int64(0)
	for other, pod := range s.known {
		key, inGang := simKeyOf(pod)
		if pod.Status.NominatedNodeName != node || other == uid || s.room[other] != nil || *pod.Spec.Priority < priority {
			continue
		}
		if gang == (state.Key{}) || !inGang || key != gang {
			kept += simCPU(pod)
		}
	}
	return kept
}

// preempt does what preemption does for a single pod or surplus and has no room. It evicts a pod of lower priority, and nominates the
// pod to that node.
func (s *simulation) preempt(pod *corev1.Pod) {
	for _, uid := range simUIDs(s.api) {
		victim := s.api[uid]
		node := victim.Spec.NodeName
		if node == "" || victim.DeletionTimestamp != nil || *victim.Spec.Priority >= *pod.Spec.Priority {
			continue
		}
		if s.free(node)+simCPU(victim) < simCPU(pod)+s.keptFor(node, pod.UID, *pod.Spec.Priority, state.Key{}) {
			continue
		}
		s.terminate(victim)
		s.nominate(pod.UID, node)
		return
	}
	s.nominate(pod.UID, "")
}

// nominationEnds is the event of a pod that is nominated to a node no more.
func (s *simulation) nominationEnds(old *corev1.Pod) {
	if node := old.Status.NominatedNodeName; node != "" {
		s.roomFreed(old.UID, &simRoom{node: node, cpu: simCPU(old)})
	}
}

// Entries of the books.

func (b *books) deleteQueue(name string) {
	delete(b.limits, name)
	b.excuse()
	b.review()
}

// membersIn are the members of a gang in the API.
func (b *books) membersIn(api map[types.UID]*corev1.Pod, pg *schedulingv1beta1.PodGroup) []*corev1.Pod {
	other := &books{simulation: b.simulation, pods: api, told: map[state.Key]*schedulingv1beta1.PodGroup{{Name: pg.Name}: pg}}
	return other.members(state.Key{Name: pg.Name})
}

// kept is what is kept in each queue for further members of started gangs, against a pod of a priority. The part that is free is kept, there
// and in the ancestors. The pod's own gang does not keep it from the pod.
func (b *books) keptQuota(own state.Key, priority int32) map[string]int64 {
	kept := map[string]int64{}
	for _, key := range b.keysTold() {
		pg := b.told[key]
		if key == own || pg.Status.Reserved == nil || b.queueOf(key) == "" || b.short(key, b.holds) > 0 {
			continue
		}
		want, highest := pg.Status.Reserved.Cpu().MilliValue(), int32(0)
		for uid, pod := range b.pods {
			if k, _ := simKeyOf(pod); k != key {
				continue
			}
			highest = max(highest, *pod.Spec.Priority)
			if b.holding[uid] != nil || b.isBound(pod) {
				want -= simCPU(pod)
			}
		}
		if highest < priority {
			continue
		}
		for _, name := range b.path(b.queueOf(key)) {
			if limit, limited := b.limits[name]; limited {
				want = min(want, limit.cpu-b.uses(name, false)-kept[name])
			}
			want = max(0, want)
			kept[name] += want
		}
	}
	return kept
}

// keysTold are the PodGroups that the tracker was told of, in a stable order.
func (b *books) keysTold() []state.Key {
	keys := make([]state.Key, 0, len(b.told))
	for key := range b.told {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b state.Key) int { return cmp.Compare(a.Name, b.Name) })
	return keys
}

// checkKept checks that a single pod or surplus takes no quota of others. That is the quota that is kept for further members of started
// gangs. It is called before the pod counts.
func (b *books) checkKept(pod *corev1.Pod) {
	key, _ := simKeyOf(pod)
	free := b.freeQuota(b.AccountOf(pod))
	kept := b.keptQuota(key, *pod.Spec.Priority)
	for name, left := range free {
		b.assertf(kept[name] == 0 || left-kept[name] >= simCPU(pod), "%s takes quota of %s that is kept for further members of a gang: %d are free, %d kept", pod.Name, name, left, kept[name])
	}
}

// checkSelf has the tracker compare itself with the API, and sums up the charges of each queue.
func (b *books) checkSelf() {
	all := make([]*corev1.Pod, 0, len(b.api))
	for _, uid := range simUIDs(b.api) {
		all = append(all, b.api[uid])
	}
	differing := report.Drifting(b.tracker, all)
	b.assertf(differing.Len() == 0, "the tracker's self-check finds pods that differ: %v", sets.List(differing))
	queues := b.tracker.Quota.Ledger.Differing()
	b.assertf(len(queues) == 0, "the totals of queues are not the sums of their charges: %v", queues)
	for queue := range b.limits {
		used, _ := b.tracker.Quota.Ledger.Totals(queue)
		got, want := used.List()[corev1.ResourceCPU], b.uses(queue, false)
		b.assertf(got == want, "queue %s uses %d, its pods have %d", queue, got, want)
	}
}
