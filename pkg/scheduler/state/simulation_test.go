package state

import (
	"context"
	"fmt"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// simulation is a scheduler in miniature around a Store: a queue, a serial loop, a waiting room, binding that may fail, nodes,
// and an API whose news arrive when the history says so. It exists to drive the Store through histories that a real
// scheduler takes only now and then.
type simulation struct {
	fwk.Handle // only the verbs below are used
	t          *rapid.T
	clock      *clocktesting.FakeClock
	store      *Store
	nodes      map[string]int64 // cpu that is free, in millicores
	active     map[types.UID]*corev1.Pod
	parked     map[types.UID]*corev1.Pod // gated or unschedulable
	asleep     map[types.UID]*corev1.Pod // have left the queue
	waiting    map[types.UID]*waitingPod
	binding    map[types.UID]*corev1.Pod // allowed, with NodeName set; the API has not answered
	pods       map[types.UID]*corev1.Pod // as the API has them
	groups     map[Key]*schedulingv1beta1.PodGroup
	next       int
	noRoom     map[types.UID]bool // pods for which some node had no room when they were tried last
}

// nodeSize is the size of each node, in millicores.
const nodeSize = 6000

type waitingPod struct {
	fwk.WaitingPod
	sim      *simulation
	pod      *corev1.Pod
	decision *bool
}

// Allow is where it is decided that a pod will be bound: invariant 1.
func (w *waitingPod) Allow(string) {
	w.sim.checkSeated(w.pod)
	w.decide(true)
}

func (w *waitingPod) Reject(string, string) bool {
	return w.decide(false)
}

func (w *waitingPod) decide(allow bool) bool {
	if w.decision != nil {
		return false
	}
	w.decision = &allow
	return true
}

func (s *simulation) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if w, ok := s.waiting[uid]; ok {
		return w
	}
	return nil
}

func (s *simulation) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for _, pod := range pods {
		if _, ok := s.asleep[pod.UID]; ok {
			delete(s.asleep, pod.UID)
			s.enqueue(s.pods[pod.UID])
		}
	}
	s.store.Awake(pods)
	for _, pod := range pods {
		if _, ok := s.parked[pod.UID]; ok {
			s.enqueue(s.pods[pod.UID])
		}
	}
}

// Dismiss is what the scheduling queue does when gangs go to sleep.
func (s *simulation) Dismiss(pods []*corev1.Pod) {
	for _, pod := range pods {
		if _, ok := s.parked[pod.UID]; ok && s.store.Sleeps(pod) {
			delete(s.parked, pod.UID)
			s.asleep[pod.UID] = pod
		}
	}
}

func newSimulation(t *rapid.T) *simulation {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	s := &simulation{
		t: t, clock: clock, store: New(clock), nodes: map[string]int64{},
		active: map[types.UID]*corev1.Pod{}, parked: map[types.UID]*corev1.Pod{}, waiting: map[types.UID]*waitingPod{},
		binding: map[types.UID]*corev1.Pod{}, pods: map[types.UID]*corev1.Pod{}, groups: map[Key]*schedulingv1beta1.PodGroup{},
		noRoom: map[types.UID]bool{}, asleep: map[types.UID]*corev1.Pod{},
	}
	s.store.handle = s
	s.store.Sleep(s)
	s.store.Listen("muster", []Hint{{
		Plugin: "NodeResourcesFit", Event: framework.EventAssignedPodDelete,
		Ask: func(_ klog.Logger, scout *corev1.Pod, gone, _ any) (fwk.QueueingHint, error) {
			s.mayBeHelped(scout, gone.(*corev1.Pod))
			return fwk.QueueSkip, nil
		},
	}})
	s.store.args = config.CoschedulingArgs{
		Admission:          config.AdmissionRequired,
		PermitTimeout:      metav1.Duration{Duration: time.Minute},
		PartialGangTimeout: metav1.Duration{Duration: time.Hour},
		InitialBackoff:     metav1.Duration{Duration: time.Second},
		MaxBackoff:         metav1.Duration{Duration: 10 * time.Second},
		MaxOvertakes:       int32(rapid.IntRange(0, 3).Draw(t, "maxOvertakes")),
		MaxOvertakeTime:    metav1.Duration{Duration: time.Duration(rapid.IntRange(0, 20).Draw(t, "maxOvertakeSeconds")) * time.Second},
	}
	s.store.EnforceQuota()
	s.store.Serve("muster")
	s.store.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "12").Obj())
	s.store.SetQueue(mustertesting.MakeQueue("team").Parent("q").Capability("cpu", "6").Obj())
	s.store.Open()
	for i := range 3 {
		s.nodes[fmt.Sprint("node", i)] = nodeSize
	}
	return s
}

// uidsOf returns the keys in a stable order, so that a history can be replayed.
func uidsOf[V any](m map[types.UID]V) []types.UID {
	out := make([]types.UID, 0, len(m))
	for uid := range m {
		out = append(out, uid)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

func (s *simulation) keys() []Key {
	var out []Key
	for key := range s.groups {
		out = append(out, key)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

func pick[T any](s *simulation, label string, from []T) (T, bool) {
	var none T
	if len(from) == 0 {
		return none, false
	}
	return from[rapid.IntRange(0, len(from)-1).Draw(s.t, label)], true
}

func (s *simulation) newName(prefix string) string {
	s.next++
	return fmt.Sprintf("%s-%03d", prefix, s.next)
}

// createGang makes a PodGroup and some of its pods; the rest come later, or never.
func (s *simulation) createGang() {
	name := s.newName("gang")
	size := rapid.IntRange(1, 5).Draw(s.t, "size")
	pg := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(s.clock.Now())},
		Spec:       schedulingv1beta1.PodGroupSpec{MinMember: int32(rapid.IntRange(0, size).Draw(s.t, "minMember"))},
		Status:     schedulingv1beta1.PodGroupStatus{Phase: schedulingv1beta1.PodGroupInqueue},
	}
	pg.Spec.Queue = s.drawQueue()
	s.groups[Key{Name: name}] = pg
	early := rapid.Bool().Draw(s.t, "groupFirst")
	if early {
		s.store.SetPodGroup(pg)
	}
	cpu := rapid.Int64Range(1, 5).Draw(s.t, "cpu") * 1000
	priority := s.drawPriority()
	for range size {
		s.createPod(name, cpu, 0, priority)
	}
	if !early {
		s.store.SetPodGroup(pg)
	}
}

// drawPriority makes few pods more important than the rest.
func (s *simulation) drawPriority() int32 {
	return int32(rapid.SampledFrom([]int{0, 0, 0, 10}).Draw(s.t, "priority"))
}

// drawQueue leaves some in no queue, some in q and some in its child.
func (s *simulation) drawQueue() string {
	return rapid.SampledFrom([]string{"", "q", "team"}).Draw(s.t, "queue")
}

// createSingle makes a pod without a gang.
func (s *simulation) createSingle() *corev1.Pod {
	return s.createPodIn(s.drawQueue(), "", rapid.Int64Range(1, 3).Draw(s.t, "cpu")*1000, 0, s.drawPriority())
}

func (s *simulation) createPod(group string, cpu, version int64, priority int32) *corev1.Pod {
	return s.createPodIn("", group, cpu, version, priority)
}

func (s *simulation) createPodIn(queue, group string, cpu, version int64, priority int32) *corev1.Pod {
	name := s.newName("pod")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(s.clock.Now()), Annotations: map[string]string{
			schedulingv1beta1.GroupNameAnnotation: group, batchv1alpha1.JobVersionKey: fmt.Sprint(version),
			schedulingv1beta1.QueueNameAnnotation: queue,
		}},
		Spec: corev1.PodSpec{SchedulerName: "muster", Priority: &priority, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)},
		}}}},
	}
	s.pods[pod.UID] = pod
	s.store.SetPod(pod)
	s.enqueue(pod)
	return pod
}

func (s *simulation) enqueue(pod *corev1.Pod) {
	delete(s.active, pod.UID)
	delete(s.parked, pod.UID)
	if s.store.Gate(pod) == "" {
		s.active[pod.UID] = pod
	} else {
		s.parked[pod.UID] = pod
	}
}

// scheduleOne is a scheduling cycle of the first pod in the queue.
func (s *simulation) scheduleOne() {
	queue := uidsOf(s.active)
	if len(queue) == 0 {
		return
	}
	sort.SliceStable(queue, func(i, j int) bool {
		a, b := s.store.OrderKey(s.active[queue[i]], time.Time{}), s.store.OrderKey(s.active[queue[j]], time.Time{})
		return a.Before(&b)
	})
	pod := s.active[queue[0]]
	delete(s.active, pod.UID)
	node, ok := s.findNode(pod)
	if !ok {
		s.parked[pod.UID] = pod
		return
	}
	s.nodes[node] -= cpuOf(pod)
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	s.store.Reserve(pod, node)
	s.checkQuota()
	if rapid.IntRange(0, 19).Draw(s.t, "reserveFails") == 0 {
		s.giveUp(assumed)
		return
	}
	switch verdict, _, release := s.store.Permit(pod); verdict {
	case Reject:
		s.giveUp(assumed)
	case Wait:
		s.waiting[pod.UID] = &waitingPod{sim: s, pod: assumed}
	case Allow:
		s.checkSeated(pod)
		for _, uid := range release {
			if w := s.GetWaitingPod(uid); w != nil {
				w.Allow(PluginName)
			}
		}
		s.bind(assumed)
	}
}

// findNode does what PreFilter, Filter and PostFilter do.
func (s *simulation) findNode(pod *corev1.Pod) (string, bool) {
	delete(s.noRoom, pod.UID)
	entry := s.store.Enter(pod)
	switch entry.Role {
	case Held:
		s.store.Fail(pod)
		return "", false
	case Scout:
		if !s.judge(pod) {
			s.store.Fail(pod)
			return "", false
		}
		if entry = s.store.Enter(pod); entry.Role != Chosen {
			return "", false
		}
	case Surplus, Outsider:
		if s.store.QuotaShortage(pod) != nil {
			return "", false
		}
	}
	aside, barred := s.store.AsideFrom(pod), false
	var fit []string
	for node, free := range s.nodes {
		switch {
		case entry.Node != "" && entry.Node != node:
		case free < cpuOf(pod):
			s.noRoom[pod.UID] = true
		case aside != nil && aside.Bars(node, resources.List{corev1.ResourceCPU: free}, cpuRequest(pod)):
			barred = true
		default:
			fit = append(fit, node)
		}
	}
	sort.Strings(fit)
	node, ok := pick(s, "node", fit)
	if !ok && !s.store.Fail(pod) && barred {
		s.store.WaitBehind(pod, aside)
	}
	return node, ok
}

func (s *simulation) judge(scout *corev1.Pod) bool {
	round := s.store.Judge(scout)
	if round == nil {
		return false
	}
	if round.Quota != nil {
		s.store.Park(round, scout, "quota", scout, "Capacity")
		return false
	}
	nodes := s.freeNodes(round.Elsewhere)
	demands := []plan.Demand{{Requests: cpuRequest(scout), Count: len(round.Members)}}
	result := plan.Make(demands, nodes, anywhere)
	if result.Verdict != plan.Possible {
		round.Beyond = int64(len(round.Members)) > int64(len(s.nodes))*(nodeSize/cpuOf(scout))
		if round.Choose && !round.Beyond {
			s.setAside(round, demands, nodes)
		}
		index, never := plan.IndexOf(nodes, nil), func(int, int) bool { return false }
		if short := plan.Lacking(demands, s.freeNodes(nil), index, never); len(round.Elsewhere) > 0 && short != nil {
			round.Shortfall, round.Regardless = short, true
		} else {
			round.Shortfall = plan.Lacking(demands, nodes, index, never)
		}
		s.store.Park(round, scout, "room", scout, "NodeResourcesFit")
		return false
	}
	places := placesOf(round, nodes, result.Places)
	if rapid.Bool().Draw(s.t, "inTurns") {
		for _, i := range rapid.Permutation(indexes(len(round.Members))).Draw(s.t, "turns") {
			round.Turns = append(round.Turns, round.Members[i].UID)
		}
	}
	activate, ok := s.store.Admit(round, places)
	if ok && rapid.Bool().Draw(s.t, "activatedByTheScout") {
		s.store.do(context.Background(), deeds{activate: activate})
	}
	return ok
}

func indexes(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func anywhere(int, int) bool { return true }

func cpuRequest(pod *corev1.Pod) resources.List {
	return resources.List{corev1.ResourceCPU: cpuOf(pod)}
}

// freeNodes are the nodes in a stable order, without what is promised to others.
func (s *simulation) freeNodes(elsewhere map[string]resources.List) []plan.Node {
	var nodes []plan.Node
	for name, free := range s.nodes {
		left := resources.List{corev1.ResourceCPU: free}
		left.Sub(elsewhere[name])
		nodes = append(nodes, plan.Node{Name: name, Free: left})
	}
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].Name < nodes[j].Name })
	return nodes
}

func placesOf(round *Round, nodes []plan.Node, found [][]plan.Place) map[types.UID]string {
	places, next := map[types.UID]string{}, 0
	for _, place := range found[0] {
		for range place.Count {
			places[round.Members[next].UID] = nodes[place.Node].Name
			next++
		}
	}
	return places
}

// setAside chooses places for a gang on nodes from which everything has gone that will.
func (s *simulation) setAside(round *Round, demands []plan.Demand, nodes []plan.Node) {
	drained := make([]plan.Drained, len(nodes))
	before := make([][]plan.Place, 1)
	for n, node := range nodes {
		later := int64(nodeSize)
		for _, pod := range s.onNode(node.Name) {
			if round.Stays(pod, true) {
				later -= cpuOf(pod)
			}
		}
		drained[n] = plan.Drained{Name: node.Name, Now: node.Free, Later: resources.List{corev1.ResourceCPU: later}}
		count := 0
		for _, m := range round.Members {
			if round.Before[m.UID] == node.Name {
				count++
			}
		}
		before[0] = append(before[0], plan.Place{Node: n, Count: count})
	}
	if found, ok := plan.SetAside(demands, drained, anywhere, before); ok {
		s.store.SetAside(round, placesOf(round, nodes, found), nil)
	} else {
		s.store.SetAside(round, nil, nil)
	}
}

// onNode are the pods that hold room on a node.
func (s *simulation) onNode(node string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range s.pods {
		if _, assumed := s.binding[pod.UID]; pod.Spec.NodeName == node && !assumed {
			pods = append(pods, pod)
		}
	}
	for _, pod := range s.binding {
		if pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	for _, w := range s.waiting {
		if w.pod.Spec.NodeName == node {
			pods = append(pods, w.pod)
		}
	}
	return pods
}

func (s *simulation) bind(assumed *corev1.Pod) { s.binding[assumed.UID] = assumed }

// checkSeated is invariant 1: a member may be bound only while the minimum of its gang holds its room.
func (s *simulation) checkSeated(pod *corev1.Pod) {
	if g, m := s.store.find(pod.UID); m != nil {
		assert.True(s.t, g.Seated(), "%s is bound, but its gang %s is not seated", pod.Name, g.key.Name)
	}
}

// giveUp is what happens to a pod that loses its room.
func (s *simulation) giveUp(assumed *corev1.Pod) {
	s.nodes[assumed.Spec.NodeName] += cpuOf(assumed)
	s.store.Unreserve(s.podOr(assumed))
	s.capacityFreed(assumed)
	if pod, ok := s.pods[assumed.UID]; ok {
		s.parked[pod.UID] = pod
		if s.isSingle(pod) {
			s.enqueue(pod) // the scheduler tries again what failed otherwise than for lack of room
		}
	}
}

func (s *simulation) podOr(assumed *corev1.Pod) *corev1.Pod {
	if pod, ok := s.pods[assumed.UID]; ok {
		return pod
	}
	return assumed
}

// capacityFreed is the event by which the scheduling queue asks the hints of parked pods.
func (s *simulation) capacityFreed(gone *corev1.Pod) {
	for _, uid := range uidsOf(s.parked) {
		pod := s.parked[uid]
		if pod == nil || uid == gone.UID {
			continue
		}
		if !s.mayBeHelped(pod, gone) && (s.noRoom[uid] || s.store.WaitsBehind(pod)) {
			s.enqueue(pod) // whatever it is by now: the gate decides
		}
	}
	s.store.Happened(klog.Background(), framework.EventAssignedPodDelete, gone, nil, nil)
}

// mayBeHelped is the hint about room that has come free. It says whether a gang is parked under the name of the pod.
func (s *simulation) mayBeHelped(pod, gone *corev1.Pod) bool {
	_, ask := s.store.MayBeHelpedBy(pod, "NodeResourcesFit")
	if ask && s.store.MayBeEnough(pod, gone.Spec.NodeName, resources.List{corev1.ResourceCPU: cpuOf(gone)}) {
		s.store.Help(pod)
	}
	return ask
}

// isSingle says whether a pod waits for room by itself: it has no gang, or its minimum is seated. The upstream plugins' hints
// wake it.
func (s *simulation) isSingle(pod *corev1.Pod) bool {
	if _, inGang := groupOf(pod); !inGang {
		return true
	}
	g, m := s.store.find(pod.UID)
	return m != nil && g.Seated()
}

// settle lets the waiting room, the bindings and the waker do their part.
func (s *simulation) settle() {
	for _, uid := range uidsOf(s.waiting) {
		w := s.waiting[uid]
		if w.decision == nil {
			continue
		}
		delete(s.waiting, uid)
		if *w.decision {
			s.bind(w.pod)
		} else {
			s.giveUp(w.pod)
		}
	}
	for _, uid := range uidsOf(s.binding) {
		assumed := s.binding[uid]
		delete(s.binding, uid)
		if _, exists := s.pods[uid]; !exists || rapid.IntRange(0, 19).Draw(s.t, "bindFails") == 0 {
			s.giveUp(assumed)
			continue
		}
		s.pods[uid] = assumed
		s.store.SetPod(assumed)
	}
	s.store.check()
	for _, key := range append(s.keys(), quotaKey, asideKey) {
		s.store.do(context.Background(), s.store.next(key))
	}
}

func (s *simulation) deletePod(uid types.UID) {
	pod := s.pods[uid]
	delete(s.pods, uid)
	delete(s.active, uid)
	delete(s.parked, uid)
	delete(s.asleep, uid)
	if w, ok := s.waiting[uid]; ok {
		w.Reject("", "removed")
	}
	s.store.DeletePod(pod)
	if _, stillBinding := s.binding[uid]; pod.Spec.NodeName != "" && !stillBinding {
		s.nodes[pod.Spec.NodeName] += cpuOf(pod)
		s.capacityFreed(pod)
	}
}

// restart does what RestartJob does: the pods of the old incarnation go, and new ones come.
func (s *simulation) restart(key Key) {
	version, cpu, priority := int64(0), int64(1000), int32(0)
	var old []types.UID
	for _, uid := range uidsOf(s.pods) {
		pod := s.pods[uid]
		if k, _ := groupOf(pod); k == key {
			m := member(pod, nil)
			version, cpu, priority = max(version, m.Version), cpuOf(pod), *pod.Spec.Priority
			old = append(old, uid)
			going := pod.DeepCopy()
			now := metav1.NewTime(s.clock.Now())
			going.DeletionTimestamp = &now
			s.pods[uid] = going
			s.store.SetPod(going)
		}
	}
	for range old {
		s.createPod(key.Name, cpu, version+1, priority)
	}
	for _, uid := range old {
		if rapid.Bool().Draw(s.t, "lingers") {
			continue
		}
		s.deletePod(uid)
	}
}

func (s *simulation) checkQuota() {
	assert.Nil(s.t, s.store.ledger.Room("q", resources.List{corev1.ResourceCPU: 0}))
	assert.LessOrEqual(s.t, s.store.ledger.Used("q")[corev1.ResourceCPU], int64(12000), "the queue uses more than its capability")
	assert.LessOrEqual(s.t, s.store.ledger.Used("team")[corev1.ResourceCPU], int64(6000), "the queue uses more than its capability")
}

func cpuOf(pod *corev1.Pod) int64 { return resources.PodRequests(pod)[corev1.ResourceCPU] }

// TestHistories drives random histories. At every binding the gang must be seated. At the end, when nothing happens any more: no
// pod holds room without being bound, no promise is left, the charges are those of the bound pods, and no gang waits
// that would fit.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 12).Draw(t, "step") {
			case 0, 1:
				s.createGang()
			case 2, 3, 4, 5:
				s.scheduleOne()
			case 6, 7:
				s.settle()
			case 8:
				if uid, ok := pick(s, "pod", uidsOf(s.pods)); ok {
					s.deletePod(uid)
				}
			case 9:
				s.changeMinimum()
			case 10:
				if key, ok := pick(s, "gang", s.keys()); ok {
					s.restart(key)
				}
			case 12:
				s.createSingle()
			case 11:
				s.clock.Step(time.Duration(rapid.IntRange(100, 5000).Draw(t, "ms")) * time.Millisecond)
			}
		}
		s.calmDown()
		s.checkRest()
		s.checkSingles()
	})
}

func (s *simulation) changeMinimum() {
	key, ok := pick(s, "gang", s.keys())
	if !ok {
		return
	}
	pg := s.groups[key].DeepCopy()
	pg.Spec.MinMember = int32(rapid.IntRange(0, 5).Draw(s.t, "minimum"))
	s.groups[key] = pg
	s.store.SetPodGroup(pg)
}

// calmDown lets everything happen that is still to happen. Gangs that wait for quota take turns at what is set aside, and one whose
// turn it is may find room at any time: so a round that has begun comes to its end, also if a Reserve fails and it is tried again.
func (s *simulation) calmDown() {
	for i := 0; i < 80 || i < 100 && s.isTrying(); i++ {
		for range 20 {
			s.scheduleOne()
		}
		s.settle()
		s.clock.Step(time.Second)
		for _, uid := range uidsOf(s.pods) {
			if s.pods[uid] != nil && s.pods[uid].DeletionTimestamp != nil {
				s.deletePod(uid)
			}
		}
	}
}

// isTrying says whether a gang is in a round, or about to be judged.
func (s *simulation) isTrying() bool {
	for _, g := range s.store.gangs {
		if g.phase == admitted || !g.parked && !g.Seated() && g.Complete() && !s.store.mustBeAdmitted(g) {
			return true
		}
	}
	return false
}

func (s *simulation) checkRest() {
	assert.Zero(s.t, s.store.lostWakeups, "wake-ups were lost")
	used := int64(0)
	for _, pod := range s.pods {
		queue := pod.Annotations[schedulingv1beta1.QueueNameAnnotation]
		if key, inGang := groupOf(pod); inGang {
			queue = s.groups[key].Spec.Queue
		}
		if pod.Spec.NodeName != "" && queue != "" {
			used += cpuOf(pod)
		}
	}
	assert.Equal(s.t, used, s.store.ledger.Used("q")[corev1.ResourceCPU], "charges differ from the bound pods")
	for key, g := range s.store.gangs {
		assert.Empty(s.t, g.Reserved(), "%s holds room", key.Name)
		if g.phase == admitted || !g.Complete() || g.Seated() {
			assert.Equal(s.t, idle, g.phase, "%s was promised room and did not start", key.Name)
			continue
		}
		assert.False(s.t, s.wouldFit(g), "%s fits and does not start (scout %s, parked %v, phase %d)", key.Name, g.scout, g.parked, g.phase)
	}
}

// checkSingles is for a cluster at rest: no single pod waits for which there is room and quota.
func (s *simulation) checkSingles() {
	for uid, pod := range s.pods {
		if s.parked[uid] == nil && s.asleep[uid] == nil || !s.isSingle(pod) || pod.DeletionTimestamp != nil || s.isOld(pod) || s.store.QuotaShortage(pod) != nil {
			continue
		}
		aside := s.store.AsideFrom(pod)
		for node, free := range s.nodes {
			fits := free >= cpuOf(pod) && (aside == nil || !aside.Bars(node, resources.List{corev1.ResourceCPU: free}, cpuRequest(pod)))
			assert.False(s.t, fits, "%s fits on %s and does not start (waits behind what is set aside: %v)", uid, node, s.store.WaitsBehind(pod))
		}
	}
}

// isOld says whether a pod is of an earlier incarnation of its gang.
func (s *simulation) isOld(pod *corev1.Pod) bool {
	g, m := s.store.find(pod.UID)
	return m != nil && !g.Counts(m)
}

func (s *simulation) wouldFit(g *group) bool {
	chosen := g.Choose()
	if len(chosen) == 0 || g.queue != "" && s.store.quotaFor(g, requests(chosen)) != nil {
		return false
	}
	demand := plan.Demand{Requests: cpuRequest(chosen[0].Pod), Count: len(chosen)}
	var aside map[string]resources.List
	if a := s.store.asides.current.Load(); a != nil && s.store.standsBack(g, a) {
		aside = a.nodes
	}
	return plan.Make([]plan.Demand{demand}, s.freeNodes(aside), anywhere).Verdict == plan.Possible
}
