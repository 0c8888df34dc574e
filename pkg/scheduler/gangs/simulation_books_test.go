package gangs_test

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// books are what a simulation knows of gangs, rooms and quota. They follow what the Tracker was told, and what the simulated scheduler did.
// They count by themselves, with none of the code under test, and judge what it does.
type books struct {
	*simulation
	pods    map[types.UID]*corev1.Pod                 // as the Tracker was told
	told    map[state.Key]*schedulingv1beta1.PodGroup // as the Tracker was told
	limits  map[string]simLimit                       // of queues, as the Tracker was told
	holding map[types.UID]*simHold                    // pods that hold room and are not known to be bound
	excess  map[string]int64                          // how much more than its capability a queue may use, as something outside has changed
	chosen  map[state.Key]sets.Set[types.UID]         // members that were given places and have not come
	lacking map[state.Key]simLack                     // gangs that were found to lack room
	since   map[types.UID]time.Time                   // PodGroup -> when its gang was first found to lack room
	started map[simRun]bool                           // runs of gangs whose minimum was bound once
	failed  sets.Set[state.Key]                       // gangs for which no places could be reserved
	last    map[types.UID]simLast                     // the last account of pods that another client bound
}

// simLimit is the capability of a queue in millicores, and its parent.
type simLimit struct {
	cpu    int64
	parent string
}

// simHold is room that a pod holds.
type simHold struct {
	pod      *corev1.Pod
	node     string
	queue    string    // charged, "" for none
	group    types.UID // of the PodGroup, "" for none
	rejected bool
	allowed  bool
}

// simLast is an account that a pod had while it named a PodGroup.
type simLast struct {
	key   state.Key
	queue string
}

// simLack is a gang that was found to lack room.
type simLack struct {
	run      simRun
	cpu      int64
	priority int32
	since    time.Time
}

// simRun is an incarnation of a gang.
type simRun struct {
	key     state.Key
	group   types.UID
	version int64
}

func newBooks(s *simulation) *books {
	return &books{
		simulation: s, pods: map[types.UID]*corev1.Pod{}, told: map[state.Key]*schedulingv1beta1.PodGroup{}, limits: map[string]simLimit{},
		holding: map[types.UID]*simHold{}, excess: map[string]int64{}, chosen: map[state.Key]sets.Set[types.UID]{}, lacking: map[state.Key]simLack{}, since: map[types.UID]time.Time{},
		started: map[simRun]bool{}, failed: sets.New[state.Key](), last: map[types.UID]simLast{},
	}
}

// Entries.

func (b *books) setPod(pod *corev1.Pod) {
	key, _ := simKeyOf(pod)
	defer b.queueMayChange(key)()
	b.pods[pod.UID] = pod
	if pod.Spec.NodeName != "" {
		hold := b.holding[pod.UID]
		delete(b.holding, pod.UID)
		if hold == nil || hold.queue != b.AccountOf(pod) {
			b.excuse() // it was not known to have room, or its gang is in another queue since
		}
	}
	b.review()
}

func (b *books) deletePod(pod *corev1.Pod) {
	key, _ := simKeyOf(pod)
	defer b.queueMayChange(key)()
	delete(b.pods, pod.UID)
	b.review()
}

func (b *books) setGroup(pg *schedulingv1beta1.PodGroup) {
	key := state.Key{Name: pg.Name}
	defer b.queueMayChange(key)()
	b.told[key] = pg
	if simRunIsOver(pg) {
		delete(b.started, b.runOf(key))
	}
	b.review()
}

// queueMayChange is called before something that may give a gang another queue, and returns what is called afterwards.
func (b *books) queueMayChange(key state.Key) func() {
	before, existed := b.queueOf(key), b.told[key] != nil
	return func() {
		if before != b.queueOf(key) || existed != (b.told[key] != nil) {
			b.excuse() // use of members that another client bound is moved
		}
		for uid, pod := range b.pods {
			if k, _ := simKeyOf(pod); k == key && b.isBound(pod) {
				b.last[uid] = simLast{key, b.AccountOf(pod)}
			}
		}
	}
}

func (b *books) deleteGroup(pg *schedulingv1beta1.PodGroup) {
	defer b.queueMayChange(state.Key{Name: pg.Name})()
	delete(b.told, state.Key{Name: pg.Name})
	b.review()
}

func (b *books) setQueue(queue *schedulingv1beta1.Queue) {
	b.limits[queue.Name] = simLimit{queue.Spec.Capability.Cpu().MilliValue(), queue.Spec.Parent}
	b.excuse()
	b.review()
}

// review notes which gangs have been bound as a whole, and drops what does not wait any more. A gang with a member of a later incarnation begins
// anew.
func (b *books) review() {
	for run := range b.started {
		if run.version < b.versionOf(run.key) {
			delete(b.started, run)
		}
	}
	for key := range b.told {
		if b.short(key, b.isBound) == 0 || b.saysStarted(key) {
			b.started[b.runOf(key)] = true
		}
	}
	for key, lack := range b.lacking {
		if !b.waits(key) || b.runOf(key) != lack.run {
			delete(b.lacking, key)
		}
	}
}

// saysStarted says whether the status of a PodGroup says that the minimum of the present incarnation was bound.
func (b *books) saysStarted(key state.Key) bool {
	pg := b.told[key]
	completed := pg.Status.Phase == schedulingv1beta1.PodGroupCompleted && !simRunIsOver(pg)
	return simIncarnation(pg) >= b.versionOf(key) && (completed || slices.ContainsFunc(pg.Status.Conditions, func(c schedulingv1beta1.PodGroupCondition) bool {
		return c.Type == schedulingv1beta1.PodGroupScheduled
	}))
}

// simIncarnation is the incarnation that a status is about. That of others' PodGroups is about any.
func simIncarnation(pg *schedulingv1beta1.PodGroup) int64 {
	return int64(ptr.Deref(pg.Status.JobVersion, math.MaxInt32))
}

// decided notes a decision.
func (b *books) decided(s *gangs.Snapshot, d *placement.Decision) {
	delete(b.lacking, s.Key)
	delete(b.chosen, s.Key)
	if d.Feasibility != placement.Impossible {
		b.chosen[s.Key] = sets.New(gang.UIDs(d.Members)...)
		return
	}
	if d.NoPlaces {
		b.failed.Insert(s.Key)
	}
	pod := d.Members[0].Pod
	if group := b.runOf(s.Key).group; s.Lacks == nil && b.since[group].IsZero() {
		b.since[group] = b.clock.Now()
	}
	if s.Lacks == nil && !d.TooLarge && d.Shortfall != nil && b.waits(s.Key) { // else only nominated pods keep the room from it
		b.lacking[s.Key] = simLack{b.runOf(s.Key), simCPU(pod), *pod.Spec.Priority, b.clock.Now()}
	}
}

// reserve notes that a pod takes room on a node, and checks that it may.
func (b *books) reserve(pod *corev1.Pod, node string) {
	b.assertf(b.free(node) >= simCPU(pod), "%s was placed on %s where there is no room", pod.Name, node)
	pod = b.asTold(pod)
	b.assertf(!b.lacksGroup(pod), "%s got its room before it had its PodGroup", pod.Name)
	key, inGang := simKeyOf(pod)
	b.assertf(!inGang || b.told[key] == nil || b.admitted(b.told[key]), "%s got its room, but %s is not admitted", pod.Name, key)
	surplus := inGang && b.told[key] != nil && b.short(key, b.holds) == 0
	if surplus {
		b.checkSurplus(pod, node)
	}
	if surplus || !inGang {
		b.checkKept(pod)
	}
	b.chosen[key].Delete(pod.UID)
	b.holding[pod.UID] = &simHold{pod: pod, node: node, queue: b.AccountOf(pod)}
	if pg := b.told[key]; inGang && pg != nil {
		b.holding[pod.UID].group = pg.UID
	}
	b.checkQuota(pod)
}

// asTold is a pod of a scheduling cycle, which may be older than the Tracker's. It is in the gang in which the Tracker has it.
func (b *books) asTold(pod *corev1.Pod) *corev1.Pod {
	told := b.pods[pod.UID]
	if told == nil {
		return pod
	}
	if _, inGang := simKeyOf(told); inGang {
		return told
	}
	pod = pod.DeepCopy()
	delete(pod.Annotations, schedulingv1beta1.GroupNameAnnotation)
	return pod
}

func (b *books) unreserve(uid types.UID) {
	if hold := b.holding[uid]; hold != nil {
		key, _ := simKeyOf(hold.pod)
		if b.chosen[key] == nil {
			b.chosen[key] = sets.New[types.UID]()
		}
		if hold.allowed {
			b.chosen[key].Insert(uid) // it is placed anew
		}
		delete(b.holding, uid)
		if hold.queue != b.AccountOf(hold.pod) {
			b.excuse() // in the queue that its gang is in now
		}
	}
}

func (b *books) reject(uid types.UID) {
	if hold := b.holding[uid]; hold != nil {
		hold.rejected = true
	}
}

// bindingOf is what is known of a pod that is bound now.
func (b *books) bindingOf(uid types.UID) simBinding {
	if hold := b.holding[uid]; hold != nil {
		return simBinding{queue: hold.queue, group: hold.group}
	}
	return b.bindings[uid]
}

// Questions.

// isOwn says whether the scheduler has bound a member for the gang's present PodGroup.
func (b *books) isOwn(pod *corev1.Pod) bool {
	key, _ := simKeyOf(pod)
	binding, pg := b.bindings[pod.UID], b.told[key]
	return pg != nil && b.isBound(pod) && binding.group == pg.UID
}

// named are the queues that the members of a gang name. The queue of a pod that the scheduler has bound is fixed.
func (b *books) named(key state.Key) sets.Set[string] {
	named := sets.New[string]()
	for uid, pod := range b.pods {
		_, fixed := b.bindings[uid]
		if k, _ := simKeyOf(pod); k == key && (!fixed || !b.isBound(pod)) && simNames(pod) != "" {
			named.Insert(simAccount(simNames(pod), pod))
		}
	}
	return named
}

// queueOf is the queue of a gang: its PodGroup's, or the one that its members name; "" for none.
func (b *books) queueOf(key state.Key) string {
	pg := b.told[key]
	if pg == nil {
		return ""
	}
	if named := b.named(key); pg.Spec.Queue == "" && named.Len() == 1 {
		return named.UnsortedList()[0]
	}
	return simAccount(pg.Spec.Queue, pg)
}

// members are the members of a gang that count: they are of the current incarnation and are not being deleted.
func (b *books) members(key state.Key) []*corev1.Pod {
	current := b.versionOf(key)
	var members []*corev1.Pod
	for _, uid := range simUIDs(b.pods) {
		pod := b.pods[uid]
		if k, _ := simKeyOf(pod); k == key && simVersionOf(pod) == current && pod.DeletionTimestamp == nil {
			members = append(members, pod)
		}
	}
	return members
}

func (b *books) versionOf(key state.Key) int64 {
	current := int64(0)
	for _, pod := range b.pods {
		if k, _ := simKeyOf(pod); k == key {
			current = max(current, simVersionOf(pod))
		}
	}
	return current
}

func (b *books) runOf(key state.Key) simRun {
	run := simRun{key: key, version: b.versionOf(key)}
	if pg := b.told[key]; pg != nil {
		run.group = pg.UID
	}
	return run
}

func (b *books) isBound(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }

// holds says whether a pod has room that it will not give back, by what it has been told.
func (b *books) holds(pod *corev1.Pod) bool {
	hold := b.holding[pod.UID]
	return b.isBound(pod) || hold != nil && !hold.rejected
}

func exists(*corev1.Pod) bool { return true }

// short is how many members are missing to the minimum and the tasks' minimums, when some members count. Succeeded members fill any gap.
func (b *books) short(key state.Key, counts func(*corev1.Pod) bool) int {
	pg := b.told[key]
	total, ofTask := 0, map[string]int{}
	for _, pod := range b.members(key) {
		if counts(pod) {
			total++
			ofTask[pod.Annotations[batchv1alpha1.TaskSpecKey]]++
		}
	}
	succeeded := 0
	if !simRunIsOver(pg) && simIncarnation(pg) >= b.versionOf(key) {
		succeeded = int(pg.Status.Succeeded)
	}
	gaps, sum := 0, 0
	for task, n := range pg.Spec.MinTaskMember {
		sum += int(n)
		gaps += max(0, int(n)-ofTask[task])
	}
	if sum > int(pg.Spec.MinMember) {
		gaps = 0 // the minimum has no room for the minimums of the tasks
	}
	return max(0, int(pg.Spec.MinMember)-total-succeeded, gaps-succeeded)
}

// startedIn says whether the minimum of a gang is bound in the API.
func (b *books) startedIn(api map[types.UID]*corev1.Pod, pg *schedulingv1beta1.PodGroup) bool {
	other := &books{simulation: b.simulation, pods: api, told: map[state.Key]*schedulingv1beta1.PodGroup{{Name: pg.Name}: pg}}
	return other.short(state.Key{Name: pg.Name}, other.isBound) == 0
}

// waits says whether a gang is complete and admitted, and its minimum has no room.
func (b *books) waits(key state.Key) bool {
	pg := b.told[key]
	return pg != nil && b.admitted(pg) && b.short(key, exists) == 0 && b.short(key, b.holds) > 0
}

func (b *books) admitted(pg *schedulingv1beta1.PodGroup) bool {
	disputed := pg.Spec.Queue == "" && b.named(state.Key{Name: pg.Name}).Len() > 1
	queue, _, _ := strings.Cut(b.queueOf(state.Key{Name: pg.Name}), "/")
	_, queueExists := b.limits[queue]
	return !disputed && (queue == "" || queueExists) && pg.Status.Phase != "" && pg.Status.Phase != schedulingv1beta1.PodGroupPending
}

// AccountOf is the queue that a pod is charged to, "" for none. It is fixed when the scheduler binds the pod.
func (b *books) AccountOf(pod *corev1.Pod) string {
	if binding, fixed := b.bindings[pod.UID]; fixed && b.isBound(pod) {
		return binding.queue
	}
	key, inGang := simKeyOf(pod)
	switch {
	case inGang && b.queueOf(key) != "":
		return b.queueOf(key)
	case inGang && b.told[key] == nil && b.isBound(pod) && b.last[pod.UID].key == key && b.last[pod.UID].queue != "":
		return b.last[pod.UID].queue
	}
	return simAccount(simNames(pod), pod)
}

// path is an account, its queue and the ancestors of that.
func (b *books) path(account string) []string {
	var path []string
	queue, _, isUser := strings.Cut(account, "/")
	if isUser {
		path = append(path, account)
	}
	for queue != "" && !slices.Contains(path, queue) {
		path = append(path, queue)
		queue = b.limits[queue].parent
	}
	return path
}

// simAccount is the account that an object names: a queue, or its user there.
func simAccount(queue string, object metav1.Object) string {
	if user := object.GetLabels()[schedulingv1beta1.UserLabel]; queue != "" && user != "" {
		return queue + "/" + user
	}
	return queue
}

// uses is the use of the pods of a queue and its children. With chosen, it includes pods that were given places and hold none yet.
func (b *books) uses(queue string, chosen bool) int64 {
	sum := int64(0)
	for _, pod := range b.pods {
		if b.isBound(pod) && slices.Contains(b.path(b.AccountOf(pod)), queue) {
			sum += simCPU(pod)
		}
	}
	for uid, hold := range b.holding {
		if b.pods[uid] != nil && !b.isBound(b.pods[uid]) && slices.Contains(b.path(hold.queue), queue) {
			sum += simCPU(hold.pod)
		}
	}
	for key, members := range b.chosen {
		for uid := range members {
			if pod := b.pods[uid]; chosen && pod != nil && b.told[key] != nil && slices.Contains(b.path(b.queueOf(key)), queue) {
				sum += simCPU(pod)
			}
		}
	}
	return sum
}

// freeQuota is what is left of a queue and its ancestors.
func (b *books) freeQuota(queue string) map[string]int64 {
	free := map[string]int64{}
	for _, name := range b.path(queue) {
		if limit, known := b.limits[name]; known {
			free[name] = limit.cpu - b.uses(name, false)
		}
	}
	return free
}

// excuse allows queues to use more than their capability, as something outside has changed.
func (b *books) excuse() {
	for name, limit := range b.limits {
		b.excess[name] = max(b.excess[name], b.uses(name, true)-limit.cpu)
	}
}

// Checks.

// allow checks that a pod may be bound: the minimum of its gang holds room.
func (b *books) allow(pod *corev1.Pod) {
	if hold := b.holding[pod.UID]; hold != nil {
		hold.allowed = true
	}
	pod = b.asTold(pod)
	key, inGang := simKeyOf(pod)
	if !inGang || b.pods[pod.UID] == nil {
		return
	}
	b.assertf(b.told[key] != nil, "%s is released, but its PodGroup does not exist", pod.Name)
	if b.told[key] == nil {
		return
	}
	b.assertf(simVersionOf(pod) == b.versionOf(key) && b.pods[pod.UID].DeletionTimestamp == nil, "%s is released, but it does not count", pod.Name)
	short := b.short(key, b.holds)
	b.assertf(short == 0, "%s is released, but %d members of the minimum of %s hold no room", pod.Name, short, key)
}

// checkQuota checks that no queue uses more than its capability when a pod has taken its room.
func (b *books) checkQuota(pod *corev1.Pod) {
	for _, queue := range b.path(b.AccountOf(pod)) {
		limit, known := b.limits[queue]
		if !known {
			continue
		}
		b.excess[queue] = max(0, min(b.excess[queue], b.uses(queue, true)-limit.cpu))
		used := b.uses(queue, false)
		b.assertf(used <= limit.cpu+b.excess[queue], "when %s got its room, queue %s used %d of %d (%d are excused)", pod.Name, queue, used, limit.cpu, b.excess[queue])
	}
}

// checkSurplus checks that a surplus pod takes no room that a waiting minimum could use within the bypass bounds. It does not count starts, so
// it says nothing where their number is bounded. Surplus may use what is beside the places that are reserved for a gang. A gang can have them
// long before the bounds: its wait for quota counts, too.
func (b *books) checkSurplus(pod *corev1.Pod, node string) {
	free := b.free(node)
	for key, lack := range b.lacking {
		age, bound := b.clock.Since(b.since[lack.run.group]), b.args.MaxOvertakeTime.Duration
		beyond := b.args.MaxOvertakes > 0 || bound > 0 && age >= bound
		reserved := b.isReserved(key, b.AccountOf(pod)) && !slices.ContainsFunc(b.members(key), b.isOwn)
		if beyond || reserved || lack.priority < *pod.Spec.Priority || b.failed.Has(key) {
			continue
		}
		hurt := (free-simCPU(pod))/lack.cpu < free/lack.cpu
		b.assertf(!hurt, "surplus %s takes room on %s that the minimum of %s waits for", pod.Name, node, key)
	}
}

// evicts checks that a gang is evicted whole, and only if it is bound below its minimum and always was. Only pods are evicted that were bound
// for this PodGroup.
func (b *books) evicts(repairs []evict.Repair) {
	evicted := map[state.Key]sets.Set[types.UID]{}
	for _, r := range repairs {
		if pod := b.pods[r.UID]; r.Kind == evict.StartOver && pod != nil {
			key, _ := simKeyOf(pod)
			if evicted[key] == nil {
				evicted[key] = sets.New[types.UID]()
			}
			evicted[key].Insert(r.UID)
			b.assertf(b.isOwn(pod), "%s is evicted, but was not bound for this PodGroup", pod.Name)
		}
	}
	for key, members := range evicted {
		b.assertf(b.queueOf(key) != "", "%s is evicted, but it is in no queue", key)
		b.assertf(b.short(key, b.isBound) > 0 && !b.started[b.runOf(key)], "%s is evicted, but its minimum is bound, or was", key)
		for _, pod := range b.members(key) {
			b.assertf(!b.isOwn(pod) || members.Has(pod.UID), "%s is evicted, but not %s", key, pod.Name)
		}
	}
}

// checkRest is for a cluster where nothing happens any more.
func (b *books) checkRest() {
	assert.Zero(b.t, b.tracker.LostWakeups(), "wake-ups were lost")
	assert.Empty(b.t, b.holding, "pods hold room without being bound")
	b.checkCharges()
	b.checkSelf()
	for _, key := range b.keys() {
		b.checkWhole(key)
		b.checkMinimum(key)
	}
	for _, uid := range simUIDs(b.pods) {
		b.checkPod(b.pods[uid])
	}
}

// checkCharges checks that bound pods are charged, and that nothing is assumed: repairs are over.
func (b *books) checkCharges() {
	ledger := b.tracker.Quota.Ledger
	charged := sets.New(ledger.Pods()...)
	for uid, pod := range b.pods {
		if queue := b.AccountOf(pod); b.isBound(pod) && queue != "" {
			to, amount, ok := ledger.Charged(uid)
			b.assertf(ok && to == queue && amount[corev1.ResourceCPU] == simCPU(pod), "%s is charged %v in queue %q", uid, amount, to)
			charged.Delete(uid)
		}
	}
	b.assertf(charged.Len() == 0, "charged, but not bound: %v", sets.List(charged))
	for queue := range b.limits {
		used, all := ledger.Totals(queue)
		assumed := all.List()[corev1.ResourceCPU] - used.List()[corev1.ResourceCPU]
		b.assertf(assumed == 0, "%d of queue %s are assumed, and no gang is to be completed", assumed, queue)
	}
}

// checkWhole checks that a gang that a crash left below its minimum was completed, or evicted whole.
func (b *books) checkWhole(key state.Key) {
	own := slices.ContainsFunc(b.members(key), b.isOwn)
	if b.queueOf(key) != "" && own && !b.started[b.runOf(key)] {
		short := b.short(key, b.isBound)
		b.assertf(short == 0, "%s was neither completed nor evicted: %d members are missing", key, short)
	}
}

// against is what is reserved on a node against a gang or pod of a queue.
func (b *books) against(key state.Key, queue, node string) (sum int64) {
	for _, reserved := range b.tracker.WaitList.Book.NodesAgainst(queue) {
		if reserved.Key != key && b.mayWait(reserved.Key) {
			sum += reserved.Amounts[node][corev1.ResourceCPU]
		}
	}
	return sum
}

// isReserved says whether room is reserved for a gang against a queue.
func (b *books) isReserved(key state.Key, queue string) bool {
	return slices.ContainsFunc(b.tracker.WaitList.Book.NodesAgainst(queue), func(reserved *state.Reserved) bool { return reserved.Key == key })
}

func (b *books) mayWait(key state.Key) bool { return b.told[key] != nil && b.waits(key) }

// hasQuota says whether there is quota for an amount. With leavesRoomTo, it leaves out what waiting gangs of at least the priority need.
func (b *books) hasQuota(key state.Key, queue string, amount int64, priority int32, leavesRoomTo bool) bool {
	free := map[string]int64{}
	for name := range b.limits {
		free[name] = b.freeQuota(name)[name]
	}
	enough := func(queue string, amount int64) bool {
		for _, name := range b.path(queue) {
			if left, limited := free[name]; limited && left < amount {
				return false
			}
		}
		return true
	}
	if !enough(queue, amount) {
		return false
	}
	for _, other := range b.keys() {
		theirs := b.queueOf(other)
		if !leavesRoomTo || other == key || theirs == "" || !b.waits(other) || *b.members(other)[0].Spec.Priority < priority {
			continue
		}
		want := int64(b.short(other, b.holds)) * simCPU(b.members(other)[0])
		if b.exceeds(theirs, want) || !b.reserves() && enough(theirs, want) { // what is reserved for a gang stays while it lacks room
			continue
		}
		for _, name := range b.path(theirs) {
			if left, limited := free[name]; limited {
				want = max(0, min(want, left))
				free[name] -= want
			}
		}
	}
	return enough(queue, amount)
}

func (b *books) exceeds(queue string, amount int64) bool {
	for _, name := range b.path(queue) {
		if limit, known := b.limits[name]; known && limit.cpu < amount {
			return true
		}
	}
	return false
}

// reserves says whether room and quota are reserved for gangs that have waited too long.
func (b *books) reserves() bool {
	return b.args.MaxOvertakes > 0 || b.args.MaxOvertakeTime.Duration > 0
}

// checkMinimum checks that the minimum of a gang does not wait if there is room and quota for it.
func (b *books) checkMinimum(key state.Key) {
	if !b.mayWait(key) {
		return
	}
	members := b.members(key)
	missing, cpu, priority := b.short(key, b.holds), simCPU(members[0]), *members[0].Spec.Priority
	places := 0
	for node := range b.nodes {
		places += int(max(0, b.free(node)-b.against(key, b.queueOf(key), node)) / cpu)
	}
	fits := places >= missing && b.hasQuota(key, b.queueOf(key), int64(missing)*cpu, priority, b.reserves())
	b.assertf(!fits, "the minimum of %s fits and does not start", key)
}

// checkPod checks that a single pod or a surplus pod does not wait while it has room and quota. Room that waiting minimums need is left
// out.
func (b *books) checkPod(pod *corev1.Pod) {
	key, inGang := simKeyOf(pod)
	if b.isBound(pod) || pod.DeletionTimestamp != nil || b.lacksGroup(pod) {
		return
	}
	b.assertf(pod.Status.NominatedNodeName == "", "%s is still nominated to %s", pod.Name, pod.Status.NominatedNodeName)
	if inGang && (b.told[key] == nil || !b.admitted(b.told[key]) || b.short(key, b.holds) > 0 || simVersionOf(pod) != b.versionOf(key)) {
		return
	}
	free := b.freeQuota(b.AccountOf(pod))
	for name, kept := range b.keptQuota(key, *pod.Spec.Priority) {
		if left, limited := free[name]; limited && kept > 0 && left-kept < simCPU(pod) {
			return
		}
	}
	if !b.hasQuota(key, b.AccountOf(pod), simCPU(pod), *pod.Spec.Priority, b.reserves() || inGang) {
		return
	}
	for node := range b.nodes {
		free := b.free(node)
		fits := free-b.against(key, b.AccountOf(pod), node) >= simCPU(pod)
		for other := range b.told {
			if inGang && other != key && b.waits(other) && *b.members(other)[0].Spec.Priority >= *pod.Spec.Priority {
				cpu := simCPU(b.members(other)[0])
				fits = fits && (free-simCPU(pod))/cpu >= free/cpu
			}
		}
		b.assertf(!fits, "%s fits on %s and does not start", pod.Name, node)
	}
}

// checkAllHadTheirTurn ends what runs, round by round, until everything has run that fits into an empty cluster.
func (b *books) checkAllHadTheirTurn(endRound func()) {
	want := sets.New[state.Key]()
	for key := range b.told {
		queue := b.queueOf(key)
		if !b.mayWait(key) || slices.ContainsFunc(b.members(key), b.isBound) {
			continue
		}
		members := b.members(key)
		cpu, missing, places := simCPU(members[0]), int64(b.short(key, b.holds)), int64(0)
		for _, size := range b.nodes {
			places += size / cpu
		}
		if places >= int64(len(members)) && !b.exceeds(queue, missing*cpu) && !b.exceeds(queue, int64(len(members))*cpu) {
			want.Insert(key)
		}
	}
	for range 60 {
		endRound()
		for _, uid := range simUIDs(b.pods) {
			if _, inGang := simKeyOf(b.pods[uid]); !inGang {
				b.checkPod(b.pods[uid])
			}
		}
		for key := range want {
			if b.told[key] == nil || !b.mayWait(key) {
				want.Delete(key)
			}
		}
		if want.Len() == 0 {
			return
		}
	}
	b.assertf(false, "these gangs fit into an empty cluster and never start: %v", want.UnsortedList())
}

// checkNothingLeft is for an empty cluster: the Tracker remembers nothing.
func (b *books) checkNothingLeft() {
	t := b.tracker
	assert.Empty(b.t, t.Gangs, "gangs")
	assert.Empty(b.t, t.Attempting, "attempts")
	assert.Empty(b.t, t.Members, "members")
	assert.Empty(b.t, t.Detached, "detached pods")
	assert.Empty(b.t, t.Leaving, "pods that hold room of a gang that they have left")
	assert.Empty(b.t, t.Unseen, "unseen pods")
	assert.Empty(b.t, t.WaitList.Sharing.Gangs, "gangs with surplus")
	assert.Empty(b.t, t.WaitList.Sharing.TurnedBack, "surplus that lets others go first")
	assert.Empty(b.t, t.Woken, "woken gangs")
	assert.Empty(b.t, t.WaitList.Held.Pods, "blocked pods")
	assert.Empty(b.t, t.Quota.Pods, "pods that wait for quota")
	assert.Empty(b.t, t.Quota.Gangs, "gangs that wait for quota")
	assert.Empty(b.t, t.Quota.Bound, "charges")
	assert.Empty(b.t, t.WaitList.Held.Gangs, "gangs that wait for held room")
	assert.Nil(b.t, t.WaitList.Book.Nodes(), "reserved nodes")
	assert.Empty(b.t, t.WaitList.Book.Claims(state.Key{}, 0, true), "claims")
	for queue := range b.limits {
		used, all := t.Quota.Ledger.Totals(queue)
		assert.True(b.t, used.IsZero() && all.IsZero(), "used of %s", queue)
	}
	orders := 0
	t.Order.Keys.Range(func(any, any) bool { orders++; return true })
	assert.Zero(b.t, orders, "sort keys")
}
