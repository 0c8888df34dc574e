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
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
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
	waiting    map[types.UID]*waitingPod
	binding    map[types.UID]*corev1.Pod // allowed, with NodeName set; the API has not answered
	pods       map[types.UID]*corev1.Pod // as the API has them
	groups     map[Key]*schedulingv1beta1.PodGroup
	next       int
}

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
		if _, ok := s.parked[pod.UID]; ok {
			s.enqueue(s.pods[pod.UID])
		}
	}
}

func newSimulation(t *rapid.T) *simulation {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	s := &simulation{
		t: t, clock: clock, store: New(clock), nodes: map[string]int64{},
		active: map[types.UID]*corev1.Pod{}, parked: map[types.UID]*corev1.Pod{}, waiting: map[types.UID]*waitingPod{},
		binding: map[types.UID]*corev1.Pod{}, pods: map[types.UID]*corev1.Pod{}, groups: map[Key]*schedulingv1beta1.PodGroup{},
	}
	s.store.handle = s
	s.store.Configure(config.CoschedulingArgs{
		Admission:          config.AdmissionRequired,
		PermitTimeout:      metav1.Duration{Duration: time.Minute},
		PartialGangTimeout: metav1.Duration{Duration: time.Hour},
		InitialBackoff:     metav1.Duration{Duration: time.Second},
		MaxBackoff:         metav1.Duration{Duration: 10 * time.Second},
	})
	s.store.EnforceQuota()
	s.store.Serve("muster")
	s.store.SetQueue(&schedulingv1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec:       schedulingv1beta1.QueueSpec{Capability: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("12")}},
	})
	s.store.Open()
	for i := range 3 {
		s.nodes[fmt.Sprint("node", i)] = 6000
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
	if rapid.Bool().Draw(s.t, "queued") {
		pg.Spec.Queue = "q"
	}
	s.groups[Key{Name: name}] = pg
	early := rapid.Bool().Draw(s.t, "groupFirst")
	if early {
		s.store.SetPodGroup(pg)
	}
	cpu := rapid.Int64Range(1, 5).Draw(s.t, "cpu") * 1000
	for range size {
		s.createPod(name, cpu, 0)
	}
	if !early {
		s.store.SetPodGroup(pg)
	}
}

func (s *simulation) createPod(group string, cpu, version int64) {
	name := s.newName("pod")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{
			schedulingv1beta1.GroupNameAnnotation: group, batchv1alpha1.JobVersionKey: fmt.Sprint(version),
		}},
		Spec: corev1.PodSpec{SchedulerName: "muster", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)},
		}}}},
	}
	s.pods[pod.UID] = pod
	s.store.SetPod(pod)
	s.enqueue(pod)
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
	var fit []string
	for node, free := range s.nodes {
		if free >= cpuOf(pod) && (entry.Node == "" || entry.Node == node) {
			fit = append(fit, node)
		}
	}
	sort.Strings(fit)
	node, ok := pick(s, "node", fit)
	if !ok {
		s.store.Fail(pod)
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
	var nodes []plan.Node
	for name, free := range s.nodes {
		left := resources.List{corev1.ResourceCPU: free}
		left.Sub(round.Elsewhere[name])
		nodes = append(nodes, plan.Node{Name: name, Free: left})
	}
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].Name < nodes[j].Name })
	demand := plan.Demand{Requests: resources.List{corev1.ResourceCPU: cpuOf(scout)}, Count: len(round.Members)}
	result := plan.Make([]plan.Demand{demand}, nodes, func(int, int) bool { return true })
	if result.Verdict != plan.Possible {
		s.store.Park(round, scout, "room", scout, "NodeResourcesFit")
		return false
	}
	places, next := map[types.UID]string{}, 0
	for _, place := range result.Places[0] {
		for range place.Count {
			places[round.Members[next].UID] = nodes[place.Node].Name
			next++
		}
	}
	activate, ok := s.store.Admit(round, places)
	if ok && rapid.Bool().Draw(s.t, "activatedByTheScout") {
		s.store.do(context.Background(), deeds{activate: activate})
	}
	return ok
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
		if _, ask := s.store.MayBeHelpedBy(pod, "NodeResourcesFit"); ask {
			s.store.Help(pod)
		} else if s.isSurplus(pod) {
			s.enqueue(pod)
		}
	}
}

// isSurplus says whether a pod beyond the minimum waits for room by itself; the upstream plugins' hints wake it.
func (s *simulation) isSurplus(pod *corev1.Pod) bool {
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
	for _, key := range append(s.keys(), quotaKey) {
		s.store.do(context.Background(), s.store.next(key))
	}
}

func (s *simulation) deletePod(uid types.UID) {
	pod := s.pods[uid]
	delete(s.pods, uid)
	delete(s.active, uid)
	delete(s.parked, uid)
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
	version, cpu := int64(0), int64(1000)
	var old []types.UID
	for _, uid := range uidsOf(s.pods) {
		pod := s.pods[uid]
		if k, _ := groupOf(pod); k == key {
			m := member(pod)
			version, cpu = max(version, m.Version), cpuOf(pod)
			old = append(old, uid)
			going := pod.DeepCopy()
			now := metav1.NewTime(s.clock.Now())
			going.DeletionTimestamp = &now
			s.pods[uid] = going
			s.store.SetPod(going)
		}
	}
	for range old {
		s.createPod(key.Name, cpu, version+1)
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
}

func cpuOf(pod *corev1.Pod) int64 { return resources.PodRequests(pod)[corev1.ResourceCPU] }

// TestHistories drives random histories. At every binding the gang must be seated. At the end, when nothing happens any more: no
// pod holds room without being bound, no promise is left, the charges are those of the bound pods, and no gang waits
// that would fit.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 11).Draw(t, "step") {
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
			case 11:
				s.clock.Step(time.Duration(rapid.IntRange(100, 5000).Draw(t, "ms")) * time.Millisecond)
			}
		}
		s.calmDown()
		s.checkRest()
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

// calmDown lets everything happen that is still to happen.
func (s *simulation) calmDown() {
	for range 80 {
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

func (s *simulation) checkRest() {
	used := int64(0)
	for _, pod := range s.pods {
		if key, _ := groupOf(pod); pod.Spec.NodeName != "" && s.groups[key].Spec.Queue == "q" {
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

func (s *simulation) wouldFit(g *group) bool {
	chosen := g.Choose()
	if len(chosen) == 0 || g.queue != "" && s.store.ledger.RoomFor(g.key.String(), g.queue, requests(chosen)) != nil {
		return false
	}
	var nodes []plan.Node
	for name, free := range s.nodes {
		nodes = append(nodes, plan.Node{Name: name, Free: resources.List{corev1.ResourceCPU: free}})
	}
	demand := plan.Demand{Requests: resources.List{corev1.ResourceCPU: cpuOf(chosen[0].Pod)}, Count: len(chosen)}
	return plan.Make([]plan.Demand{demand}, nodes, func(int, int) bool { return true }).Verdict == plan.Possible
}
