package gangs_test

import (
	"context"
	"maps"
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

func (s *simulation) schedulerSees(pod *corev1.Pod) {
	uid := pod.UID
	if pod.Spec.NodeName != "" {
		if w, ok := s.waiting[uid]; ok {
			w.Reject("", "bound by another client")
		}
		s.leaveQueue(uid)
		s.room[uid] = &simRoom{node: pod.Spec.NodeName, cpu: simCPU(pod), bound: true}
		return
	}
	_, seen := s.known[uid]
	s.known[uid] = pod
	if !seen {
		s.enqueue(uid)
	}
}

func (s *simulation) schedulerForgets(pod *corev1.Pod) {
	uid := pod.UID
	if w, ok := s.waiting[uid]; ok {
		w.Reject("", "removed")
	}
	s.leaveQueue(uid)
	if pod.Spec.NodeName == "" {
		s.nominationEnds(pod)
	}
	if r := s.room[uid]; r != nil && r.bound {
		delete(s.room, uid)
		s.roomFreed(uid, r)
	}
}

func (s *simulation) leaveQueue(uid types.UID) {
	delete(s.known, uid)
	delete(s.active, uid)
	delete(s.gated, uid)
	delete(s.parked, uid)
	delete(s.missed, uid)
}

// enqueue puts a pod into the active queue, if the gate allows it.
func (s *simulation) enqueue(uid types.UID) {
	pod := s.known[uid]
	s.leaveQueue(uid)
	if pod == nil {
		return
	}
	s.known[uid] = pod
	if s.tracker.Gate(pod) == "" {
		s.active[uid] = s.clock.Now()
	} else {
		s.gated[uid] = true
	}
	s.observe("Gate")
}

func (s *simulation) free(node string) int64 {
	free := s.nodes[node]
	for _, r := range s.room {
		if r.node == node {
			free -= r.cpu
		}
	}
	return free
}

// scheduleOne is a scheduling cycle of the first pod in the queue. It says whether there was one.
func (s *simulation) scheduleOne() bool {
	queue := simUIDs(s.active)
	if len(queue) == 0 {
		return false
	}
	sort.SliceStable(queue, func(i, j int) bool {
		a, b := s.tracker.Order.OrderKey(s.known[queue[i]], s.active[queue[i]]), s.tracker.Order.OrderKey(s.known[queue[j]], s.active[queue[j]])
		return a.Before(&b)
	})
	pod := s.known[queue[0]]
	delete(s.active, pod.UID)
	s.missed[pod.UID] = nil
	if pod.DeletionTimestamp == nil {
		s.cycle(pod)
		s.observe("cycle")
	}
	return true
}

func (s *simulation) cycle(pod *corev1.Pod) {
	var activate []*corev1.Pod
	node, noRoom, is := s.findNode(pod, &activate)
	if node == "" {
		if noRoom && is == isSingle && s.fault("preempts", 4) {
			s.preempt(pod)
		} else {
			s.nominate(pod.UID, "")
		}
		s.park(pod.UID, noRoom)
		return
	}
	if s.tracker.WaitList.LetsOthersGoFirst(pod) {
		s.nominate(pod.UID, "")
		s.park(pod.UID, false)
		return
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	charged, shortage := s.tracker.Quota.Charge(pod)
	for key, value := range charged.Annotations(pod) { // as the binding does
		metav1.SetMetaDataAnnotation(&assumed.ObjectMeta, key, value)
	}
	if shortage != nil || !s.tracker.Reserve(pod) {
		s.giveUp(assumed, false)
		return
	}
	if to := pod.Status.NominatedNodeName; to != "" && to != node {
		s.tracker.Hints.NominationUnused(to, simRequest(pod))
	}
	s.books.reserve(pod, node)
	s.room[pod.UID] = &simRoom{node: node, cpu: simCPU(pod)}
	s.observe("Reserve")
	if s.fault("reserveFails", 30) {
		s.giveUp(assumed, true)
		return
	}
	result, release := s.tracker.Permit(pod)
	s.observe("Permit")
	switch result {
	case gangs.Reject:
		s.giveUp(assumed, false)
		return
	case gangs.Wait:
		s.waiting[pod.UID] = &simWaiting{sim: s, pod: assumed}
	case gangs.Allow:
		s.allowed(assumed)
		for _, uid := range release {
			if w := s.GetWaitingPod(uid); w != nil {
				w.Allow(dispatch.PluginName)
			}
		}
		s.binding[pod.UID] = assumed
	}
	byName := map[string]*corev1.Pod{}
	for _, other := range activate {
		if other.UID != pod.UID {
			byName[other.Name] = other
		}
	}
	s.Activate(klog.Background(), byName)
}

// allowed is where it is decided that a pod will be bound.
func (s *simulation) allowed(assumed *corev1.Pod) {
	s.books.allow(assumed)
	if s.bound != nil {
		s.bound(assumed)
	}
}

// findNode does what PreFilter, Filter and PostFilter do.
func (s *simulation) findNode(pod *corev1.Pod, activate *[]*corev1.Pod) (node string, noRoom bool, is role) {
	if s.tracker.Quota.QuotaShortage(pod) != nil {
		return "", false, isHeld
	}
	entry := s.tracker.Enter(pod)
	is = roleOf(s.tracker, pod, entry)
	s.observe("Enter")
	if is == isScout {
		ok := s.decide(pod, activate)
		s.observe("Commit")
		if is = isHeld; ok {
			entry = s.tracker.Enter(pod)
			is = roleOf(s.tracker, pod, entry)
		}
		if is == isScout {
			is = isHeld
		}
	}
	if is == isHeld {
		s.tracker.Fail(pod)
		s.observe("Fail")
		return "", false, isHeld
	}
	request, barred := simRequest(pod), false
	var fit []string
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		free := resources.List{corev1.ResourceCPU: s.free(name)}
		left := resources.List{corev1.ResourceCPU: s.free(name) - s.keptFor(name, pod.UID, *pod.Spec.Priority, state.Key{})}
		switch {
		case entry.Node != "" && entry.Node != name:
		case left[corev1.ResourceCPU] < simCPU(pod):
			noRoom = true
		case simBars(entry, name, free, request), simBars(entry, name, left, request):
			barred = true
		default:
			fit = append(fit, name)
		}
	}
	if is == isChosen && s.fault("noNodeAfterAll", 30) {
		fit, noRoom = nil, true
	}
	if to := pod.Status.NominatedNodeName; slices.Contains(fit, to) && !s.fault("elsewhere", 3) {
		fit = []string{to}
	}
	node, ok := simPick(s, "node", fit)
	if !ok && !s.tracker.Fail(pod) && barred {
		s.tracker.WaitList.WaitForReserved(pod, entry)
	}
	s.observe("Fail")
	return node, noRoom, is
}

// simBars says whether what is free on a node is reserved against a pod, or needed by others.
func simBars(entry state.Entry, node string, free, request resources.List) bool {
	if entry.Reserved.Bars(node, free, request, nil) {
		return true
	}
	for _, need := range entry.Holds {
		if need.IsHurtBy(node, free, request) {
			return true
		}
	}
	return false
}

// decide decides on the gang of a scout, as package placement does.
func (s *simulation) decide(scoutPod *corev1.Pod, activate *[]*corev1.Pod) bool {
	snapshot := s.tracker.Decisions.Snapshot(scoutPod)
	if snapshot == nil {
		return false
	}
	var decision *placement.Decision
	if snapshot.Lacks != nil {
		decision = &placement.Decision{Members: snapshot.Problem.Members, Message: "quota", Rejectors: sets.New("Capacity"), Rejected: []*corev1.Pod{scoutPod}}
	} else {
		decision = s.place(&snapshot.Problem)
		decision.Rejected = []*corev1.Pod{scoutPod}
	}
	if s.fault("changesMeanwhile", 20) {
		s.arrive()
	}
	pods, ok := s.tracker.Decisions.Commit(snapshot, decision)
	if ok {
		s.books.decided(snapshot, decision)
	}
	*activate = pods
	return ok && decision.Feasibility != placement.Impossible
}

// place finds places for members that are all alike.
func (s *simulation) place(problem *placement.Problem) *placement.Decision {
	d := &placement.Decision{Members: problem.Members}
	demands := []placement.Demand{{Requests: simRequest(problem.Members[0].Pod), Count: len(problem.Members)}}
	group, _ := simKeyOf(problem.Members[0].Pod)
	var nodes, empty, without []placement.Node // without what is kept for nominated pods
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		free := resources.List{corev1.ResourceCPU: s.free(name)}
		empty = append(empty, placement.Node{Name: name, Free: free.Clone()})
		free.Sub(problem.Held[name])
		kept := resources.List{corev1.ResourceCPU: s.keptFor(name, "", problem.Priority, group)}
		without = append(without, placement.Node{Name: name, Free: free.Clone()})
		free.Sub(kept)
		nodes = append(nodes, placement.Node{Name: name, Free: free})
	}
	anywhere := func(int, int) bool { return true }
	packing := placement.Pack(demands, nodes, anywhere)
	if s.fault("uncertain", 10) {
		d.Feasibility = placement.Uncertain
		return d
	}
	if packing.Feasibility == placement.Possible {
		d.Feasibility, d.Places = placement.Possible, simPlaces(problem, nodes, packing.Places[0])
		if s.faults && s.draw("inOrder", 0, 3) == 3 {
			rest := gang.UIDs(problem.Members)
			for len(rest) > 0 {
				i := s.draw("order", 0, len(rest)-1)
				d.Order = append(d.Order, rest[i])
				rest = slices.Delete(rest, i, i+1)
			}
		}
		return d
	}
	d.Message, d.Rejectors = "room", sets.New(names.NodeResourcesFit)
	cpu := simCPU(problem.Members[0].Pod)
	slots := 0
	for _, size := range s.nodes {
		slots += int(size / cpu)
	}
	d.TooLarge = len(problem.Members) > slots
	if problem.Reserve && !d.TooLarge {
		s.reserve(problem, d, demands, nodes)
	}
	index, never := placement.IndexOf(nodes, nil), func(int, int) bool { return false }
	d.Shortfall = placement.Lacking(demands, without, index, never)
	if len(problem.Held) > 0 {
		if short := placement.Lacking(demands, empty, index, never); short != nil {
			d.Shortfall, d.ShortWithoutHeld = short, true
		}
	}
	return d
}

func simPlaces(problem *placement.Problem, nodes []placement.Node, found []placement.Place) map[types.UID]string {
	places, next := map[types.UID]string{}, 0
	for _, place := range found {
		for range place.Count {
			places[problem.Members[next].UID] = nodes[place.Node].Name
			next++
		}
	}
	return places
}

// reserve chooses places on nodes from which everything has gone that may be waited for.
func (s *simulation) reserve(problem *placement.Problem, d *placement.Decision, demands []placement.Demand, nodes []placement.Node) {
	later := make([]resources.List, len(nodes))
	before := make([][]placement.Place, 1)
	for n, node := range nodes {
		later[n] = resources.List{corev1.ResourceCPU: s.free(node.Name)}
		for uid, r := range s.room {
			pod := s.api[uid]
			if r.node == node.Name && (pod == nil || !problem.SameGang(pod) && *pod.Spec.Priority <= problem.Priority) {
				later[n].Add(resources.List{corev1.ResourceCPU: r.cpu})
			}
		}
		count := 0
		for _, m := range problem.Members {
			if problem.Reserved[m.UID] == node.Name {
				count++
			}
		}
		if count > 0 {
			before[0] = append(before[0], placement.Place{Node: n, Count: count})
		}
	}
	if found, ok := placement.PackLater(demands, nodes, later, func(int, int) bool { return true }, before); ok {
		d.Reserve = &placement.Places{Of: simPlaces(problem, nodes, found[0])}
	} else {
		d.NoPlaces = true
	}
}

// giveUp is what happens to a pod that loses its room. After an error the queue tries it again by itself.
func (s *simulation) giveUp(assumed *corev1.Pod, isError bool) {
	uid := assumed.UID
	s.tracker.Unreserve(assumed)
	s.tracker.Quota.Refund(assumed)
	s.books.unreserve(uid)
	s.observe("Unreserve")
	if r := s.room[uid]; r != nil && !r.bound {
		delete(s.room, uid)
	}
	s.roomFreed(uid, &simRoom{node: assumed.Spec.NodeName, cpu: simCPU(assumed)})
	s.nominate(uid, "")
	forced := s.forced.Has(uid)
	s.forced.Delete(uid)
	switch {
	case s.known[uid] == nil:
	case isError || forced:
		s.enqueue(uid)
	default:
		s.park(uid, false)
	}
}

// park keeps a pod that is unschedulable, and asks its hints about what has happened during its cycle.
func (s *simulation) park(uid types.UID, noRoom bool) {
	missed := s.missed[uid]
	delete(s.missed, uid)
	if s.known[uid] == nil {
		return // gone in the meantime
	}
	s.parked[uid] = noRoom
	for _, event := range missed {
		s.hint(uid, event)
	}
}

// gang.RoomFreed is the event by which the scheduling queue asks the hints of pods that are unschedulable.
func (s *simulation) roomFreed(gone types.UID, r *simRoom) {
	event := freedRoom{gone, *r}
	for uid := range s.missed {
		s.missed[uid] = append(s.missed[uid], event)
	}
	for _, uid := range simUIDs(s.parked) {
		s.hint(uid, event)
	}
}

// hint does what the hints of the plugins Coscheduling and NodeResourcesFit do.
func (s *simulation) hint(uid types.UID, event freedRoom) {
	pod := s.known[uid]
	_, parked := s.parked[uid]
	if pod == nil || !parked || uid == event.by {
		return
	}
	if _, ask := s.tracker.Hints.RejectedBy(names.NodeResourcesFit, pod); ask {
		if s.tracker.Hints.Free(pod, event.node, resources.List{corev1.ResourceCPU: event.cpu}) {
			s.tracker.Hints.Wake(pod)
			s.observe("Wake")
		}
	} else if s.parked[uid] || s.tracker.Hints.IsBlocked(pod) {
		if s.backsOff == nil || !s.backsOff(pod) {
			s.enqueue(uid)
		}
	}
}

// leavePermit lets the pods go on that have been decided in Permit.
func (s *simulation) leavePermit() (some bool) {
	for _, uid := range simUIDs(s.waiting) {
		w := s.waiting[uid]
		if w.allowed == nil {
			continue
		}
		some = true
		delete(s.waiting, uid)
		if *w.allowed {
			s.binding[uid] = w.pod
		} else {
			s.giveUp(w.pod, false)
		}
	}
	return some
}

// bind has the API answer to bindings.
func (s *simulation) bind() (some bool) {
	for _, uid := range simUIDs(s.binding) {
		assumed := s.binding[uid]
		outcome := 0
		if s.faults {
			outcome = s.draw("binding", 0, 24)
		}
		if outcome > 20 && outcome < 23 {
			continue // it takes longer
		}
		some = true
		delete(s.binding, uid)
		now, exists := s.api[uid]
		if !exists || now.Spec.NodeName != "" || outcome == 23 {
			s.giveUp(assumed, true)
			continue
		}
		bound := now.DeepCopy()
		bound.Spec.NodeName, bound.Status.NominatedNodeName = assumed.Spec.NodeName, ""
		for _, key := range []string{schedulingv1beta1.ChargedToAnnotation, schedulingv1beta1.BoundForAnnotation} {
			if value, written := assumed.Annotations[key]; written {
				metav1.SetMetaDataAnnotation(&bound.ObjectMeta, key, value)
			}
		}
		s.noteBinding(assumed)
		s.tellPod(bound)
		if outcome == 24 { // it was bound though the answer said that it was not
			if s.draw("eventFirst", 0, 1) == 1 {
				s.deliverAll(&s.ofPods)
			}
			s.giveUp(assumed, true)
			continue
		}
		s.tracker.Order.Bound(uid)
		s.forced.Delete(uid)
	}
	return some
}

// dispatch does what Tracker.dispatch does.
func (s *simulation) dispatch() (some bool) {
	d, keys := dispatch.NewDispatcher(s.tracker), s.dirty.take()
	var all dispatch.Actions
	for _, key := range append(d.Woken(context.Background(), s, keys), keys...) {
		all.Add(d.NextActions(key))
	}
	s.observe("nextActions")
	d.Apply(context.Background(), s, all)
	for _, key := range s.tracker.Reports.(*simQueue).take() {
		report.NewReports(s.tracker).TakeReport(key)
	}
	return len(keys) > 0
}

func (s *simulation) tick() {
	actions, repairs := dispatch.NewDispatcher(s.tracker).Tick()
	s.observe("tick")
	dispatch.NewDispatcher(s.tracker).Apply(context.Background(), s, actions)
	s.books.evicts(repairs)
	s.evictions = append(s.evictions, repairs...)
}

// step lets time pass.
func (s *simulation) step(d time.Duration) {
	s.clock.Step(d)
	s.tick()
}

// settle lets everything happen that can happen now.
func (s *simulation) settle() {
	for range 1000 {
		some := len(s.ofPods)+len(s.ofGroups)+len(s.toScheduler) > 0
		s.arrive()
		for range 100 {
			if !s.scheduleOne() {
				break
			}
			some = true
		}
		some = s.leavePermit() || some
		some = s.bind() || some
		some = s.dispatch() || some
		if !some {
			return
		}
	}
	s.t.Errorf("it does not come to rest")
}

// run lets the cluster live for a while, without faults.
func (s *simulation) run(d time.Duration) {
	for end := s.clock.Now().Add(d); ; s.clock.Step(10 * time.Millisecond) {
		s.settle()
		if !s.clock.Now().Before(end) {
			return
		}
		if s.clock.Now().Nanosecond() == 0 {
			s.tick()
		}
	}
}
