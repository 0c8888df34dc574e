package gangs_test

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// simulation is a scheduler in miniature around a Tracker. It has nodes, an API whose events arrive late, a scheduling queue, a serial
// loop, Permit, and bindings that fail. It drives the Tracker through histories that a real scheduler takes only now and then. The books
// (simulation_books_test.go) judge the Tracker. They know only the Tracker's inputs and its actions.
type simulation struct {
	fwk.Handle // only the verbs below are used
	t          simT
	draw       func(label string, lowest, highest int) int
	faults     bool
	clock      *clocktesting.FakeClock
	tracker    *gangs.Tracker
	dirty      *simQueue // of the Tracker
	books      *books
	observed   map[transition]string // transitions of phases, and after which call each was first seen
	phases     map[state.Key]gang.Phase
	trace      []string // transitions, for when it fails
	args       config.CoschedulingArgs

	// The API, and its events that have not arrived yet.
	api         map[types.UID]*corev1.Pod
	groups      map[state.Key]*schedulingv1beta1.PodGroup
	queues      map[string]*schedulingv1beta1.Queue
	lost        []*schedulingv1beta1.PodGroup // deleted, or still to come
	bindings    map[types.UID]simBinding      // how the scheduler bound pods, also before a crash
	ofPods      []func()                      // to the Tracker
	ofGroups    []func()                      // to the Tracker, with the events of queues
	toScheduler []func()                      // events of pods
	evictions   []evict.Repair
	next        int
	makers

	// The scheduler.
	nodes   map[string]int64          // cpu of each, in millicores
	room    map[types.UID]*simRoom    // what is taken of the nodes
	known   map[types.UID]*corev1.Pod // pods without a node, as the scheduling queue knows them
	active  map[types.UID]time.Time   // pods to be tried, and since when
	gated   map[types.UID]bool        // held by the gate
	parked  map[types.UID]bool        // unschedulable; true if some node had no room
	waiting map[types.UID]*simWaiting // in Permit
	binding map[types.UID]*corev1.Pod // not in the API yet, with their node
	forced  sets.Set[types.UID]       // activated during their cycle
	missed  map[types.UID][]freedRoom // events during their cycle
	bound   func(pod *corev1.Pod)     // called when a pod may be bound; may be nil
	// backsOff says whether an event comes too early for a pod that is unschedulable; may be nil.
	backsOff func(pod *corev1.Pod) bool
}

// simT is what a simulation needs of a test.
type simT interface {
	Errorf(format string, args ...any)
	FailNow()
	Helper()
	Logf(format string, args ...any)
}

// simBinding is what the books know of a pod that the scheduler has bound. They do not read the pod's annotations.
type simBinding struct {
	queue string    // charged when the pod got its room, "" for none
	group types.UID // the PodGroup at that time
}

// simRoom is what a pod takes of a node.
type simRoom struct {
	node  string
	cpu   int64
	bound bool // as the API has said
}

// freedRoom is room that a pod gave back.
type freedRoom struct {
	by types.UID
	simRoom
}

// transition is a change of phase.
type transition struct{ from, to gang.Phase }

// simQueue is Tracker.dirty without goroutines: it is due when the simulation asks.
type simQueue struct {
	workqueue.TypedDelayingInterface[state.Key]
	clock *clocktesting.FakeClock
	ready []state.Key
	later map[state.Key]time.Time
}

func (q *simQueue) Add(key state.Key) {
	if !slices.Contains(q.ready, key) {
		q.ready = append(q.ready, key)
	}
}

func (q *simQueue) AddAfter(key state.Key, wait time.Duration) {
	if wait <= 0 {
		q.Add(key)
		return
	}
	at := q.clock.Now().Add(wait)
	if old, ok := q.later[key]; !ok || at.Before(old) {
		q.later[key] = at
	}
}

// take returns the keys that are due.
func (q *simQueue) take() []state.Key {
	var due []state.Key
	for key, at := range q.later {
		if !q.clock.Now().Before(at) {
			due = append(due, key)
			delete(q.later, key)
		}
	}
	sort.Slice(due, func(i, j int) bool { return due[i].String() < due[j].String() })
	for _, key := range due {
		q.Add(key)
	}
	keys := q.ready
	q.ready = nil
	return keys
}

// simWaiting is a pod in Permit.
type simWaiting struct {
	fwk.WaitingPod
	sim     *simulation
	pod     *corev1.Pod
	allowed *bool
}

func (w *simWaiting) Allow(string) {
	w.decide(true)
}

func (w *simWaiting) Reject(plugin, _ string) bool {
	if w.allowed == nil && plugin == dispatch.PluginName {
		w.sim.books.reject(w.pod.UID)
	}
	return w.decide(false)
}

func (w *simWaiting) decide(allow bool) bool {
	if w.allowed != nil {
		return false
	}
	w.allowed = &allow
	if allow {
		w.sim.allowed(w.pod)
	}
	return true
}

func (s *simulation) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if w, ok := s.waiting[uid]; ok {
		return w
	}
	return nil
}

// Activate moves pods to the active queue, if the gate allows it.
func (s *simulation) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		uid := pods[name].UID
		_, parked := s.parked[uid]
		_, inPermit := s.waiting[uid]
		_, inBinding := s.binding[uid]
		switch {
		case parked || s.gated[uid]:
			s.enqueue(uid)
		case inPermit || inBinding:
			s.forced.Insert(uid)
		}
	}
}

const simNodeSize = 6000 // millicores

// newSimulation makes a cluster of three nodes and of two queues, one below the other.
func newSimulation(t simT, draw func(label string, lowest, highest int) int, args config.CoschedulingArgs) *simulation {
	s := &simulation{
		t: t, draw: draw, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), observed: map[transition]string{}, args: args,
		api: map[types.UID]*corev1.Pod{}, groups: map[state.Key]*schedulingv1beta1.PodGroup{}, queues: map[string]*schedulingv1beta1.Queue{},
		nodes: map[string]int64{}, bindings: map[types.UID]simBinding{}, makers: newMakers(),
	}
	s.queues["q"] = mustertesting.MakeQueue("q").Capability("cpu", "12").Obj()
	s.queues["team"] = mustertesting.MakeQueue("team").Parent("q").Capability("cpu", "6").Obj()
	for i := range 3 {
		s.nodes[fmt.Sprint("node", i)] = simNodeSize
	}
	s.start()
	return s
}

// simArgs are arguments with which nothing is reserved but for repair.
func simArgs() config.CoschedulingArgs {
	return config.CoschedulingArgs{
		Admission:          config.AdmissionRequired,
		PermitTimeout:      metav1.Duration{Duration: time.Minute},
		PartialGangTimeout: metav1.Duration{Duration: 30 * time.Second},
		InitialBackoff:     metav1.Duration{Duration: time.Second},
		MaxBackoff:         metav1.Duration{Duration: 10 * time.Second},
	}
}

// newRapidSimulation draws what happens, and whether room and quota are reserved for gangs that wait long.
func newRapidSimulation(t *rapid.T) *simulation {
	draw := func(label string, lowest, highest int) int { return rapid.IntRange(lowest, highest).Draw(t, label) }
	args := simArgs()
	if rapid.Bool().Draw(t, "reserves") {
		args.MaxOvertakes = int32(rapid.IntRange(0, 3).Draw(t, "bypasses"))
		args.MaxOvertakeTime.Duration = time.Duration(rapid.IntRange(0, 20).Draw(t, "age")) * time.Second
	}
	args.RequirePodGroup = rapid.Bool().Draw(t, "requires")
	s := newSimulation(t, draw, args)
	s.faults = true
	return s
}

// noDraw always draws the lowest.
func noDraw(_ string, lowest, _ int) int { return lowest }

// start starts a scheduler on what the API has.
func (s *simulation) start() {
	s.tracker, s.dirty = gangs.New(s.clock), &simQueue{clock: s.clock, later: map[state.Key]time.Time{}}
	s.tracker.Dirty.ShutDown()
	s.tracker.Reports.ShutDown()
	s.tracker.Dirty = s.dirty
	s.tracker.Reports = &simQueue{clock: s.clock, later: map[state.Key]time.Time{}}
	s.tracker.Metrics.LostWakeups.Create(nil)
	s.ofPods, s.ofGroups, s.toScheduler, s.evictions = nil, nil, nil, nil
	s.room, s.known, s.active = map[types.UID]*simRoom{}, map[types.UID]*corev1.Pod{}, map[types.UID]time.Time{}
	s.gated, s.parked, s.waiting = map[types.UID]bool{}, map[types.UID]bool{}, map[types.UID]*simWaiting{}
	s.binding, s.forced, s.phases = map[types.UID]*corev1.Pod{}, sets.New[types.UID](), map[state.Key]gang.Phase{}
	s.missed = map[types.UID][]freedRoom{}
	if err := s.tracker.Configure("muster", s.args); err != nil {
		s.t.Errorf("%v", err)
	}
	s.tracker.Quota.EnforceQuota()
	s.tracker.Classes = simClasses()
	s.books = newBooks(s)
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		s.tellQueue(s.queues[name])
	}
	for _, key := range s.keys() {
		s.tellGroup(s.groups[key])
	}
	for _, uid := range simUIDs(s.api) {
		s.tellPod(s.api[uid])
	}
	if s.faults && s.draw("queueFirst", 0, 1) == 1 {
		s.deliverAll(&s.toScheduler)
	}
	s.deliverAll(&s.ofGroups)
	s.deliverAll(&s.ofPods)
	s.tracker.Feed.Open()
	s.deliverAll(&s.toScheduler)
}

// simClasses are PriorityClasses that users may write on PodGroups.
func simClasses() schedulinglisters.PriorityClassLister {
	classes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	_ = classes.Add(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 100})
	return schedulinglisters.NewPriorityClassLister(classes)
}

// crash loses what the scheduler knew. Bindings under way arrive, or do not. Pods may be nominated for which evictions were under way.
func (s *simulation) crash() {
	for _, uid := range simUIDs(s.api) {
		if s.binding[uid] == nil && s.fault("nominated", 4) {
			s.nominate(uid, fmt.Sprint("node", s.draw("to", 0, 2)))
		}
	}
	for _, uid := range simUIDs(s.binding) {
		if pod, ok := s.api[uid]; ok && pod.Spec.NodeName == "" && s.draw("arrives", 0, 1) == 1 {
			s.api[uid] = s.binding[uid]
			s.noteBinding(s.binding[uid])
		}
	}
	s.start()
}

// noteBinding notes what the scheduler has bound a pod for.
func (s *simulation) noteBinding(assumed *corev1.Pod) {
	s.bindings[assumed.UID] = s.books.bindingOf(assumed.UID)
}

// simUIDs returns the keys in a stable order, so that a history can be replayed.
func simUIDs[V any](m map[types.UID]V) []types.UID { return slices.Sorted(maps.Keys(m)) }

func (s *simulation) keys() []state.Key {
	return slices.SortedFunc(maps.Keys(s.groups), func(a, b state.Key) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
}

func simPick[T any](s *simulation, label string, from []T) (T, bool) {
	var none T
	if len(from) == 0 {
		return none, false
	}
	return from[s.draw(label, 0, len(from)-1)], true
}

// fault says whether something goes wrong that does so one time in n.
func (s *simulation) fault(label string, n int) bool {
	return s.faults && s.draw(label, 0, n-1) == n-1
}

// observe notes how the phases of gangs have changed. It asks the Tracker, and judges nothing.
func (s *simulation) observe(after string) {
	for key, g := range s.tracker.Gangs {
		phase := s.tracker.Status(g).Phase
		if last, ok := s.phases[key]; ok && last != phase {
			s.trace = append(s.trace, fmt.Sprintf("%s: %s -> %s after %s", key, last, phase, after))
			if _, known := s.observed[transition{last, phase}]; !known {
				s.observed[transition{last, phase}] = after
			}
		}
		s.phases[key] = phase
	}
	for key := range s.phases {
		if s.tracker.Gangs[key] == nil {
			delete(s.phases, key)
		}
	}
}

// simCPU, simRequest, simKeyOf and simVersionOf read pods without the code under test.

func simCPU(pod *corev1.Pod) int64 {
	return pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
}

func simRequest(pod *corev1.Pod) resources.List {
	return resources.List{corev1.ResourceCPU: simCPU(pod)}
}

// simNames is the queue that a pod names itself.
func simNames(pod *corev1.Pod) string { return pod.Annotations[schedulingv1beta1.QueueNameAnnotation] }

func simKeyOf(pod *corev1.Pod) (state.Key, bool) {
	name := pod.Annotations[schedulingv1beta1.GroupNameAnnotation]
	return state.Key{Name: name}, name != ""
}

func simVersionOf(pod *corev1.Pod) int64 {
	version, _ := strconv.ParseInt(pod.Annotations[batchv1alpha1.JobVersionKey], 10, 64)
	return version
}

// TestHistories drives random histories. The books judge each binding and each Reserve. In the end, when nothing happens any more, they
// judge what is left. See simulation_books_test.go.
func TestHistories(t *testing.T) {
	mustertesting.Histories(t, 300, func(t *rapid.T) {
		s := newRapidSimulation(t)
		for range rapid.IntRange(5, 80).Draw(t, "steps") {
			s.randomStep()
		}
		s.calmDown()
		s.books.checkRest()
		if s.endHolds() {
			s.rest()
			s.books.checkRest()
		}
		s.drain()
		s.books.checkNothingLeft()
	})
}

// randomStep is something that happens.
func (s *simulation) randomStep() {
	switch s.draw("step", 0, 30) {
	case 0, 1:
		s.createRandomGang()
	case 2, 3, 4, 5:
		for range s.draw("cycles", 1, 4) {
			s.scheduleOne()
		}
	case 6:
		s.leavePermit()
		s.bind()
	case 7, 8:
		s.dispatch()
	case 9:
		s.arrive()
	case 10:
		s.leavePermit()
		s.bind()
		s.arrive()
		s.dispatch()
	case 11:
		s.step(time.Duration(s.draw("ms", 1, 50)) * 100 * time.Millisecond)
	case 12:
		pod := s.createSingle(s.drawQueue(), int64(s.draw("cpu", 1, 3))*1000, s.drawPriority())
		if !s.args.RequirePodGroup && s.draw("adopted", 0, 1) == 1 {
			s.adopt(pod)
		}
	case 13:
		if uid, ok := simPick(s, "pod", simUIDs(s.api)); ok {
			s.randomEnd(s.api[uid])
		}
	case 14:
		if uid, ok := simPick(s, "pod", simUIDs(s.api)); ok && s.api[uid].Spec.NodeName != "" {
			s.finish(s.api[uid], s.draw("succeeds", 0, 2) > 0)
		}
	case 15, 16:
		if key, ok := simPick(s, "gang", s.keys()); ok {
			s.changeRandomGroup(key)
		}
	case 17:
		if key, ok := simPick(s, "gang", s.keys()); ok {
			s.restart(key)
		}
	case 18:
		s.controllerActs()
	case 19:
		s.evict()
		s.kubelet()
	case 20:
		queue := s.queues["team"].DeepCopy()
		if queue == nil {
			return
		}
		queue.Spec.Capability = mustertesting.Resources("cpu", fmt.Sprint(s.draw("capability", 2, 12)))
		queue.Spec.Parent = []string{"", "q"}[s.draw("parent", 0, 1)]
		s.tellQueue(queue)
	case 21:
		if s.draw("crashes", 0, 3) == 3 {
			s.crash()
		}
	case 22:
		s.bindByHand()
	case 23, 24:
		s.makeLostGroup()
	default:
		s.makersStep()
	}
}

// createRandomGang makes a PodGroup and its pods, perhaps fewer than the minimum.
func (s *simulation) createRandomGang() {
	size := s.draw("size", 1, 5)
	spec := gangSpec{queue: s.drawQueue(), size: size, minimum: s.draw("minimum", 0, size), cpu: int64(s.draw("cpu", 1, 5)) * 1000, priority: s.drawPriority()}
	if s.draw("tasks", 0, 2) == 2 {
		spec.tasks = map[string]int32{"a": int32(s.draw("minimumOfA", 0, 3)), "b": int32(s.draw("minimumOfB", 0, 2))}
	}
	if s.draw("pending", 0, 4) == 4 {
		spec.phase = schedulingv1beta1.PodGroupPending
	}
	if spec.queue == "" {
		spec.names = s.drawQueue()
		spec.disagrees = spec.names != "" && s.draw("disagrees", 0, 3) == 3
	}
	spec.late = s.draw("late", 0, 4) == 4
	if spec.ofOthers = s.draw("ofOthers", 0, 1) == 1; spec.ofOthers {
		spec.beyond = int64(max(0, s.draw("beyond", -2, 4)))
	}
	s.createGang(s.newName("gang"), spec)
}

// drawPriority makes few pods more important than the rest.
func (s *simulation) drawPriority() int32 { return []int32{0, 0, 0, 10}[s.draw("priority", 0, 3)] }

// drawQueue leaves some in no queue, some in q and some in its child.
func (s *simulation) drawQueue() string { return []string{"", "q", "team"}[s.draw("queue", 0, 2)] }

func (s *simulation) randomEnd(pod *corev1.Pod) {
	if s.draw("gracefully", 0, 1) == 1 {
		s.terminate(pod)
	} else {
		s.forgetPod(pod)
	}
}

func (s *simulation) changeRandomGroup(key state.Key) {
	switch s.draw("change", 0, 5) {
	case 0, 1:
		s.changeGroup(key, func(pg *schedulingv1beta1.PodGroup) { pg.Spec.MinMember = int32(s.draw("minimum", 0, 5)) })
	case 2:
		s.changeGroup(key, func(pg *schedulingv1beta1.PodGroup) { pg.Spec.Queue = s.drawQueue() })
	case 3:
		s.changeGroup(key, func(pg *schedulingv1beta1.PodGroup) { pg.Status.Phase = schedulingv1beta1.PodGroupInqueue })
	case 4:
		s.changeGroup(key, func(pg *schedulingv1beta1.PodGroup) { pg.Status.Phase = schedulingv1beta1.PodGroupPending })
	case 5:
		old := s.groups[key]
		s.forgetGroup(old)
		s.lost = append(s.lost, old)
		if s.draw("replaced", 0, 1) == 1 {
			s.makeLostGroup()
		}
	}
}

// makeLostGroup makes a PodGroup again that was deleted, or one that comes after its pods.
func (s *simulation) makeLostGroup() {
	if len(s.lost) == 0 {
		return
	}
	n := len(s.lost) - 1
	pg := s.lost[n].DeepCopy()
	s.lost = s.lost[:n]
	pg.UID, pg.CreationTimestamp, pg.Status.Conditions = types.UID(s.newName("group")), s.apiTime(), nil
	pg.Status.Phase, pg.Status.Succeeded, pg.Status.Failed, pg.Status.Reserved = schedulingv1beta1.PodGroupInqueue, 0, 0, nil
	s.tellGroup(pg)
}

// crashWhileBinding has a member bound for its gang, as a scheduler that has crashed since may have done.
func (s *simulation) crashWhileBinding(pod *corev1.Pod, node string) {
	key, _ := simKeyOf(pod)
	s.bindings[pod.UID] = simBinding{queue: s.groups[key].Spec.Queue, group: s.groups[key].UID}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	bound.Annotations[schedulingv1beta1.ChargedToAnnotation] = s.groups[key].Spec.Queue
	bound.Annotations[schedulingv1beta1.BoundForAnnotation] = string(s.groups[key].UID)
	s.tellPod(bound)
}

// bindByHand has another client bind a pod that waits.
func (s *simulation) bindByHand() {
	uid, ok := simPick(s, "pod", simUIDs(s.api))
	if !ok || s.api[uid].Spec.NodeName != "" || s.api[uid].DeletionTimestamp != nil || s.room[uid] != nil {
		return
	}
	for _, node := range slices.Sorted(maps.Keys(s.nodes)) {
		if s.free(node) < simCPU(s.api[uid]) {
			continue
		}
		bound := s.api[uid].DeepCopy()
		bound.Spec.NodeName = node
		delete(bound.Annotations, schedulingv1beta1.ChargedToAnnotation) // a policy refuses what others write
		delete(bound.Annotations, schedulingv1beta1.BoundForAnnotation)
		s.room[uid] = &simRoom{node: node, cpu: simCPU(bound), bound: true}
		s.tellPod(bound)
		return
	}
}

// calmDown lets everything happen that is still to happen, without faults. All gangs are admitted, and partial ones have their time.
func (s *simulation) calmDown() {
	s.faults, s.down = false, false
	s.closed.Clear()
	for _, key := range s.keys() {
		if !s.groups[key].Status.Phase.Admitted() {
			s.changeGroup(key, func(pg *schedulingv1beta1.PodGroup) { pg.Status.Phase = schedulingv1beta1.PodGroupInqueue })
		}
	}
	s.createSingle("", 1000, 0) // a scheduler that comes up and tries no pod does not know that it leads
	s.rest()
}

// rest waits until for a long time no pod has come or gone, or got room.
func (s *simulation) rest() {
	last, quiet := "", 0
	for seconds := 0; quiet < 45 && seconds < 500; seconds++ {
		s.settle()
		s.evict()
		s.kubelet()
		s.controllerActs()
		s.settle()
		now := fmt.Sprint(simUIDs(s.api), simUIDs(s.room))
		if quiet++; now != last {
			last, quiet = now, 0
		}
		s.step(time.Second)
	}
	s.settle()
}

// drain ends what runs until all has run that ever fits, and then everything.
func (s *simulation) drain() {
	// Gangs that never fit must not run.
	s.books.checkAllHadTheirTurn(func() { s.endOneRound() })
	for _, uid := range simUIDs(s.api) {
		s.forgetPod(s.api[uid])
	}
	for _, key := range s.keys() {
		s.forgetGroup(s.groups[key])
	}
	s.rest()
}

// endOneRound ends all running single pods and gangs, and creates others. So do the policies of gangs that have lost members.
func (s *simulation) endOneRound() {
	ended := sets.New[state.Key]()
	for _, key := range s.keys() {
		if s.books.startedIn(s.api, s.groups[key]) {
			ended.Insert(key)
		}
	}
	for _, pod := range s.api {
		if key, inGang := simKeyOf(pod); inGang && s.groups[key] != nil && pod.Spec.NodeName != "" {
			ended.Insert(key)
		}
	}
	for _, uid := range simUIDs(s.api) {
		key, inGang := simKeyOf(s.api[uid])
		if !inGang && s.api[uid].Spec.NodeName != "" || ended.Has(key) || inGang && s.groups[key] == nil {
			s.forgetPod(s.api[uid])
		}
	}
	for key := range ended {
		s.forgetGroup(s.groups[key])
	}
	for range 10 {
		s.settle()
		s.step(time.Second)
	}
}

// assertf fails with the state of the cluster.
func (s *simulation) assertf(ok bool, format string, args ...any) {
	s.t.Helper()
	if !ok {
		assert.Fail(s.t, fmt.Sprintf(format, args...), "%s", s.dump())
	}
}

func (s *simulation) dump() string {
	text := strings.Join(s.trace[max(0, len(s.trace)-50):], "\n") + "\n"
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		text += fmt.Sprintf("%s: %d free\n", name, s.free(name))
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.tracker.Gangs), func(a, b state.Key) int { return int(s.tracker.Gangs[a].Seen - s.tracker.Gangs[b].Seen) }) {
		g := s.tracker.Gangs[key]
		text += fmt.Sprintf("%s: %v, minimum %d %v, succeeded %d, queue %q, scout %q, members", key, s.tracker.Status(g), g.MinMember, g.MinTaskMember, g.Succeeded, g.PodGroup.Account, g.Scout.UID)
		for _, m := range g.Members() {
			text += fmt.Sprintf(" %s(v%d %s state %d on %q cpu %d)", m.UID, m.Version, m.Task, m.State, m.Pod.Spec.NodeName, simCPU(m.Pod))
		}
		text += "\n"
	}
	return text + fmt.Sprintf("active %v\ngated %v\nparked %v\nin Permit %v\nbinding %v\n", s.active, s.gated, s.parked, simUIDs(s.waiting), simUIDs(s.binding))
}
