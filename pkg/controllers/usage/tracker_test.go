package usage

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/muster-sched/muster/pkg/admission"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/inf.v0"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// world is a Tracker whose informers never start. The test puts objects into their stores and delivers the events, as
// late as it likes. No API is involved.
type world struct {
	*Tracker
	backlog []func()
}

func newWorld(t require.TestingT) *world {
	tracker, err := New(informers.NewSharedInformerFactory(kubefake.NewSimpleClientset(), 0),
		musterinformers.NewSharedInformerFactory(musterfake.NewSimpleClientset(), 0))
	require.NoError(t, err)
	return &world{Tracker: tracker}
}

func (w *world) later(deliver func()) { w.backlog = append(w.backlog, deliver) }

func (w *world) deliverAll() {
	for _, deliver := range w.backlog {
		deliver()
	}
	w.backlog = nil
}

func (w *world) putPod(pod *corev1.Pod) {
	old, existed, _ := w.pods.GetIndexer().Get(pod)
	_ = w.pods.GetIndexer().Add(pod)
	w.later(func() {
		if existed {
			w.onPodUpdate(old, pod)
		} else {
			w.onPod(pod)
		}
	})
}

func (w *world) removePod(pod *corev1.Pod) {
	old, existed, _ := w.pods.GetIndexer().Get(pod)
	if existed {
		_ = w.pods.GetIndexer().Delete(pod)
		w.later(func() { w.onPodDelete(cache.DeletedFinalStateUnknown{Obj: old}) })
	}
}

func (w *world) putGroup(group *schedulingv1beta1.PodGroup) {
	old, existed, _ := w.podGroups.GetIndexer().Get(group)
	_ = w.podGroups.GetIndexer().Add(group)
	w.later(func() {
		if existed {
			w.onGroupUpdate(old, group)
		} else {
			w.onGroup(group)
		}
	})
}

func (w *world) removeGroup(group *schedulingv1beta1.PodGroup) {
	old, existed, _ := w.podGroups.GetIndexer().Get(group)
	if existed {
		_ = w.podGroups.GetIndexer().Delete(group)
		w.later(func() { w.onGroupDelete(old) })
	}
}

func (w *world) usedCPU(queue string) int64 { return w.ledger.Used(queue)[corev1.ResourceCPU] }

// freeCPU is the most that still fits in a queue.
func (w *world) freeCPU(queue string) int64 {
	if s := w.ledger.Room(queue, resources.List{corev1.ResourceCPU: 1 << 40}); s != nil {
		return s.Free
	}
	return -1
}

func bound(name string) *mustertesting.PodWrapper {
	return mustertesting.MakePod(name).UID(name).Group("g").Requests("cpu", "1").Node("n")
}

func group() *mustertesting.PodGroupWrapper {
	return mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).MinResources("cpu", "2")
}

func TestWhatIsCharged(t *testing.T) {
	tests := map[string]struct {
		pod  *mustertesting.PodWrapper
		want int64
	}{
		"a bound member":              {bound("p"), 1000},
		"a member without a node":     {bound("p").Node(""), 0},
		"one that succeeded":          {bound("p").Phase(corev1.PodSucceeded), 0},
		"one that failed":             {bound("p").Phase(corev1.PodFailed), 0},
		"a pod of a group not seen":   {bound("p").Group("other"), 0},
		"a pod that names its queue":  {bound("p").Group("").QueueName("q"), 1000},
		"a pod without a queue":       {bound("p").Group(""), 0},
		"a group not seen and a name": {bound("p").Group("other").QueueName("q"), 1000},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putGroup(group().Obj())
			w.putPod(test.pod.Obj())
			w.deliverAll()
			assert.Equal(t, test.want, w.usedCPU("q"))
		})
	}
}

func TestMembersTakeUpTheHoldOfTheirGroup(t *testing.T) {
	w := newWorld(t)
	w.onQueue(mustertesting.MakeQueue("q").Capability("cpu", "10").Obj())
	g := group().Obj()
	w.putGroup(g)
	w.Hold(g, admission.MinimumOf(g), nil)
	w.deliverAll()
	require.EqualValues(t, 8000, w.freeCPU("q"))

	for _, step := range []struct {
		what string
		does func()
		free int64
	}{
		{"a member is bound", func() { w.putPod(bound("a").Obj()) }, 8000},
		{"the other, too", func() { w.putPod(bound("b").Obj()) }, 8000},
		{"surplus takes more", func() { w.putPod(bound("c").Obj()) }, 7000},
		{"one has succeeded", func() { w.putPod(bound("a").Phase(corev1.PodSucceeded).Obj()) }, 8000},
		{"the surplus goes", func() { w.removePod(bound("c").Obj()) }, 9000},
		{"one has failed: its place is kept", func() { w.putPod(bound("b").Phase(corev1.PodFailed).Obj()) }, 9000},
		{"released", func() { w.ReleaseHold(g.Namespace, g.Name, g.UID) }, 10000},
	} {
		step.does()
		w.deliverAll()
		assert.Equal(t, step.free, w.freeCPU("q"), step.what)
	}
}

// TestAHoldGrowsOnlyWhereThereIsRoom: a PodGroup was admitted with 2 of 10 CPUs. It is changed, and so are its pods.
func TestAHoldGrowsOnlyWhereThereIsRoom(t *testing.T) {
	cpu := func(amount int64) resources.List { return resources.List{corev1.ResourceCPU: amount} }
	for name, c := range map[string]struct {
		queue       string
		want, asked resources.List
		free, free2 int64 // of q, and of q2 with 3 CPUs
	}{
		"more minResources":               {"q", cpu(10000), nil, 0, 3000},
		"too much":                        {"q", cpu(10001), nil, 8000, 3000},
		"members ask for more":            {"q", cpu(2000), cpu(10000), 0, 3000},
		"members ask for too much":        {"q", cpu(2000), cpu(10001), 8000, 3000},
		"more, and members for too much":  {"q", cpu(3000), cpu(10001), 7000, 3000},
		"less, and members for too much":  {"q", cpu(1000), cpu(10001), 8000, 3000},
		"less":                            {"q", cpu(1000), nil, 9000, 3000},
		"another queue":                   {"q2", cpu(2000), nil, 10000, 1000},
		"another queue that has not that": {"q2", cpu(4000), nil, 10000, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.onQueue(mustertesting.MakeQueue("q").Capability("cpu", "10").Obj())
			w.onQueue(mustertesting.MakeQueue("q2").Capability("cpu", "3").Obj())
			w.Grant(group().Obj(), cpu(2000))
			for range 2 {
				w.Hold(group().Queue(c.queue).Obj(), c.want, c.asked)
				assert.Equal(t, c.free, w.freeCPU("q"))
				assert.Equal(t, c.free2, w.freeCPU("q2"))
			}
		})
	}
}

// TestAGangThatLosesAPodKeepsTheRoomOfThatPod: it ran on 2 of 10 CPUs, other pods have taken 8, and it asks for more since. Only what the
// pod was charged needs no room.
func TestAGangThatLosesAPodKeepsTheRoomOfThatPod(t *testing.T) {
	for name, c := range map[string]struct {
		want, others, held int64 // CPUs
		rested             bool
	}{
		"it asks for the same":                        {2, 8, 1, true},
		"it asks for more than the queue has":         {9, 8, 1, true},
		"it asks for more, and there is room":         {4, 6, 3, true},
		"it asks for less":                            {1, 8, 0, true},
		"more, and the controller has just begun":     {9, 8, 0, false},
		"the same, and the controller has just begun": {2, 8, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.onQueue(mustertesting.MakeQueue("q").Capability("cpu", "10").Obj())
			g := group().Obj()
			w.putGroup(g)
			w.putPod(bound("a").Obj())
			w.putPod(bound("b").Obj())
			w.putPod(mustertesting.MakePod("others").UID("others").QueueName("q").Requests("cpu", fmt.Sprint(c.others)).Node("n").Obj())
			w.deliverAll()
			if c.rested {
				w.Rest(g)
			}
			require.Equal(t, 8000-1000*c.others, w.freeCPU("q"), "a gang that runs holds nothing")
			w.removePod(bound("b").Obj())
			w.deliverAll()
			for range 2 {
				w.Hold(g, resources.List{corev1.ResourceCPU: 1000 * c.want}, nil)
				_, all := w.ledger.Totals("q")
				assert.Equal(t, 1000*(1+c.others+c.held), all.Amount(corev1.ResourceCPU))
			}
		})
	}
}

// TestOnlyWhatIsChargedIsKeptForLostPods: members that have succeeded use nothing. Their deletion lets the gang hold no more.
func TestOnlyWhatIsChargedIsKeptForLostPods(t *testing.T) {
	w := newWorld(t)
	w.onQueue(mustertesting.MakeQueue("q").Capability("cpu", "10").Obj())
	g := group().Obj()
	w.putGroup(g)
	w.putPod(bound("a").Phase(corev1.PodSucceeded).Obj())
	w.putPod(bound("b").Obj())
	w.putPod(mustertesting.MakePod("others").UID("others").QueueName("q").Requests("cpu", "9").Node("n").Obj())
	w.deliverAll()
	w.Rest(g)
	w.removePod(bound("a").Obj())
	w.removePod(bound("b").Obj())
	w.deliverAll()
	w.Hold(g, resources.List{corev1.ResourceCPU: 2000}, nil)
	_, all := w.ledger.Totals("q")
	assert.EqualValues(t, 10000, all.Amount(corev1.ResourceCPU), "no more than the queue has")
}

// TestWhatMembersHaveIsNotAskedForAgain: a PodGroup may come after its pods.
func TestWhatMembersHaveIsNotAskedForAgain(t *testing.T) {
	w := newWorld(t)
	want := resources.List{corev1.ResourceCPU: 3000}
	w.putPod(bound("a").Annotation(schedulingv1beta1.ChargedToAnnotation, "q").Obj())
	w.putPod(bound("failed").Phase(corev1.PodFailed).Obj())
	w.deliverAll()
	w.putGroup(group().Obj())
	w.deliverAll()
	assert.Equal(t, resources.List{corev1.ResourceCPU: 2000}, w.Lacking(group().Obj(), want))
	assert.Equal(t, want, w.Lacking(mustertesting.MakePodGroup("other").Obj(), want))
}

func TestChargesFollowTheGroup(t *testing.T) {
	w := newWorld(t)
	w.putPod(bound("a").Obj())
	w.deliverAll()
	require.Zero(t, w.usedCPU("q"))
	w.putGroup(group().Obj())
	w.deliverAll()
	require.EqualValues(t, 1000, w.usedCPU("q"), "the group is seen after its pods")
	w.putGroup(group().Queue("q2").Obj())
	w.deliverAll()
	require.Zero(t, w.usedCPU("q"))
	require.EqualValues(t, 1000, w.usedCPU("q2"), "the group has moved")
	w.removeGroup(group().Obj())
	w.putPod(bound("a").Label("x", "y").Obj())
	w.deliverAll()
	require.EqualValues(t, 1000, w.usedCPU("q2"), "the pod has outlived its group")
}

// TestTheAccountOfABoundPodIsFixed: it was written with the pod's binding. The controller follows the scheduler's rule.
func TestTheAccountOfABoundPodIsFixed(t *testing.T) {
	withoutUser := mustertesting.MakePodGroup("g").UID("g").Queue("q").Obj()
	group := withoutUser.DeepCopy()
	group.Labels = map[string]string{schedulingv1beta1.UserLabel: "bob"}
	moved := mustertesting.MakePodGroup("g").UID("g").Queue("other").Obj()
	renewed := mustertesting.MakePodGroup("g").UID("another").Queue("other").Obj()
	pod := bound("a").Annotation(schedulingv1beta1.ChargedToAnnotation, "q/bob").Obj()
	for name, happens := range map[string]func(*world){
		"nothing":                     func(*world) {},
		"the PodGroup is deleted":     func(w *world) { w.removeGroup(group) },
		"the PodGroup is moved":       func(w *world) { w.putGroup(moved) },
		"the PodGroup loses its user": func(w *world) { w.putGroup(withoutUser) },
		"the PodGroup is made again":  func(w *world) { w.removeGroup(group); w.deliverAll(); w.putGroup(renewed) },
		"the pod names another queue": func(w *world) {
			w.putPod(bound("a").Annotation(schedulingv1beta1.ChargedToAnnotation, "q/bob").QueueName("other").Obj())
		},
	} {
		t.Run(name, func(t *testing.T) {
			running, restarted := newWorld(t), newWorld(t)
			running.putGroup(group)
			for _, w := range []*world{running, restarted} {
				w.putPod(pod)
				w.deliverAll()
				happens(w)
				w.deliverAll()
				account, _, _ := w.ledger.Charged(pod.UID)
				assert.Equal(t, "q/bob", account)
				pods, groups := w.differing()
				assert.Empty(t, pods.UnsortedList())
				assert.Empty(t, append(groups, w.ledger.Differing()...))
			}
		})
	}
}

// TestPodsOfAPodGroupWithoutAQueueAreChargedAsTheyName: so the scheduler charges them, too.
func TestPodsOfAPodGroupWithoutAQueueAreChargedAsTheyName(t *testing.T) {
	w := newWorld(t)
	w.putGroup(mustertesting.MakePodGroup("g").UID("g").Queue("").Obj())
	w.putPod(bound("a").QueueName("q").Obj())
	w.putPod(bound("b").Obj())
	w.deliverAll()
	account, _, _ := w.ledger.Charged("a")
	assert.Equal(t, "q", account)
	account, _, _ = w.ledger.Charged("b")
	assert.Equal(t, schedulingv1beta1.DefaultQueue, account)
}

func TestANamesakeGetsNothingOfWhatWasHeld(t *testing.T) {
	w := newWorld(t)
	w.onQueue(mustertesting.MakeQueue("q").Capability("cpu", "10").Obj())
	old, anew := group().Obj(), group().UID("new").Obj()
	w.Hold(old, admission.MinimumOf(old), nil)
	w.ReleaseOtherHolds(anew.Namespace, anew.Name, anew.UID)
	assert.EqualValues(t, 10000, w.freeCPU("q"))
	w.Hold(anew, admission.MinimumOf(anew), nil)
	w.ReleaseHold(old.Namespace, old.Name, old.UID)
	assert.EqualValues(t, 8000, w.freeCPU("q"))
}

func TestWatchersHearOfUseAndOfRoom(t *testing.T) {
	w := newWorld(t)
	type notice struct {
		queue string
		freed bool
	}
	var heard []notice
	w.Watch(func(queue string, freed bool) { heard = append(heard, notice{queue, freed}) })
	w.putGroup(group().Obj())
	w.putPod(bound("a").Obj())
	w.deliverAll()
	assert.Equal(t, []notice{{"q", false}}, heard)
	heard = nil
	w.putPod(bound("a").Label("x", "y").Obj())
	w.deliverAll()
	assert.Empty(t, heard)
	w.removePod(bound("a").Obj())
	w.deliverAll()
	assert.Equal(t, []notice{{"q", true}}, heard)
}

// TestWatchersHearOfBothQueuesWhenAGroupMoves: the queue that the pods leave has more room, the other one has less.
func TestWatchersHearOfBothQueuesWhenAGroupMoves(t *testing.T) {
	w := newWorld(t)
	w.putGroup(group().Obj())
	w.putPod(bound("a").Obj())
	w.deliverAll()
	heard := map[string]bool{} // queue -> has it more room
	w.Watch(func(queue string, freed bool) { heard[queue] = heard[queue] || freed })
	w.putGroup(group().Queue("q2").Obj())
	w.deliverAll()
	assert.True(t, heard["q"])
	assert.Contains(t, heard, "q2")
}

// TestWatchersHearOfHolds: admission starts a new round only when a watcher says that room has come free.
func TestWatchersHearOfHolds(t *testing.T) {
	w := newWorld(t)
	var freed []string
	w.Watch(func(queue string, isFreed bool) {
		if isFreed {
			freed = append(freed, queue)
		}
	})
	heard := func() []string {
		defer func() { freed = nil }()
		return freed
	}
	g, moved := group().Obj(), group().Queue("q2").Obj()
	want := admission.MinimumOf(g)
	w.Hold(g, want, nil)
	assert.Empty(t, heard(), "a new hold frees nothing")
	w.Hold(g, want, nil)
	assert.Empty(t, heard(), "nothing has changed")
	w.Hold(g, resources.List{corev1.ResourceCPU: 500}, nil)
	assert.Equal(t, []string{"q"}, heard(), "a smaller hold")
	w.Hold(moved, want, nil)
	assert.Equal(t, []string{"q"}, heard(), "the hold has moved to another queue")
	w.ReleaseHold(g.Namespace, g.Name, "another")
	assert.Empty(t, heard(), "the hold is of another PodGroup")
	w.ReleaseHold(g.Namespace, g.Name, g.UID)
	assert.Equal(t, []string{"q2"}, heard())
	w.ReleaseHold(g.Namespace, g.Name, g.UID)
	assert.Empty(t, heard(), "there is no hold any more")
}

// TestAReplacedPodGroupHoldsNothing: after a lost watch an informer shows a deletion and a creation as one update.
func TestAReplacedPodGroupHoldsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		uid  string
		free int64
	}{"another PodGroup of its name": {"new", 10000}, "the same PodGroup": {"g", 8000}} {
		w := newWorld(t)
		w.onQueue(mustertesting.MakeQueue("q").Capability("cpu", "10").Obj())
		old := group().Obj()
		w.putGroup(old)
		w.Hold(old, admission.MinimumOf(old), nil)
		w.putGroup(group().UID(c.uid).MinMember(1).Obj())
		w.deliverAll()
		assert.Equal(t, c.free, w.freeCPU("q"), name)
	}
}

// TestTheLedgerFollowsTheStores changes pods and groups at random, and delivers the events late and in batches. In the end the ledger says
// what the stores say.
func TestTheLedgerFollowsTheStores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, held := newWorld(t), map[string]string{} // the queue that each group last held room in
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "pod")
			g := mustertesting.MakePodGroup(rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group"))
			switch rapid.IntRange(0, 5).Draw(t, "verb") {
			case 0, 1:
				w.putPod(drawPod(t, name))
			case 2:
				w.removePod(bound(name).Obj())
			case 3:
				w.putGroup(g.UID("1").Queue(rapid.SampledFrom([]string{"q", "r"}).Draw(t, "queue")).Obj())
			case 4:
				w.deliverAll()
			case 5:
				if obj, exists, _ := w.podGroups.GetIndexer().Get(g.Obj()); exists {
					stored := obj.(*schedulingv1beta1.PodGroup)
					w.Hold(stored, resources.List{corev1.ResourceCPU: heldCPU}, nil)
					held[stored.Name] = stored.Spec.Queue
				}
			}
		}
		w.deliverAll()
		w.requireExact(t)
		w.requireHeld(t, held)
	})
}

const heldCPU = 2500

// requireHeld compares what is booked beside the charges with what the members of some groups have not taken yet. held has the queue in which
// each group had room kept for it last.
func (w *world) requireHeld(t require.TestingT, held map[string]string) {
	charged, taken := w.fromStores()
	for _, queue := range []string{"q", "r"} {
		want := new(big.Int).Set(charged[queue])
		for group, of := range held {
			if rest := big.NewInt(heldCPU); of == queue {
				if has := taken[group]; has != nil {
					rest.Sub(rest, has)
				}
				if rest.Sign() > 0 {
					want.Add(want, rest)
				}
			}
		}
		_, all := w.ledger.Totals(queue)
		require.Equal(t, bounded(want), all.Amount(corev1.ResourceCPU), "queue %s with its holds", queue)
	}
}

// requireExact compares what is booked with what the stores say.
func (w *world) requireExact(t require.TestingT) {
	charged, taken := w.fromStores()
	all := new(big.Int)
	for _, queue := range []string{"q", "r"} {
		require.Equal(t, bounded(charged[queue]), w.usedCPU(queue), "queue %s", queue)
		all.Add(all, charged[queue])
	}
	require.Equal(t, bounded(all), w.usedCPU("root"))
	for _, group := range []string{"g", "h"} {
		sum := taken[group]
		if sum == nil {
			sum = new(big.Int)
		}
		require.Equal(t, bounded(sum), w.taken[metav1.NamespaceDefault+"/"+group].Amount(corev1.ResourceCPU), "group %s", group)
	}
	pods, groups := w.differing()
	require.Empty(t, pods)
	require.Empty(t, groups)
	require.Empty(t, w.ledger.Differing())
}

func bounded(n *big.Int) int64 {
	if n.IsInt64() {
		return n.Int64()
	}
	return math.MaxInt64
}

func drawPod(t *rapid.T, name string) *corev1.Pod {
	pod := bound(name).UID(fmt.Sprint(name, rapid.IntRange(0, 1).Draw(t, "uid"))).
		Group(rapid.SampledFrom([]string{"g", "h", ""}).Draw(t, "member of")).
		Requests("cpu", rapid.SampledFrom([]string{"1", "2", "3", "8Ei", "10000000000000000", "4611686018427387"}).Draw(t, "cpu"))
	if rapid.Bool().Draw(t, "unbound") {
		pod.Node("")
	}
	return pod.Phase(rapid.SampledFrom([]corev1.PodPhase{corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}).
		Draw(t, "phase")).Obj()
}

// fromStores adds up what the stores say: queue -> charged, group -> taken. It asks nothing of the code under test.
func (w *world) fromStores() (charged, taken map[string]*big.Int) {
	charged, taken = map[string]*big.Int{"q": {}, "r": {}}, map[string]*big.Int{}
	for _, obj := range w.pods.GetIndexer().List() {
		pod := obj.(*corev1.Pod)
		ended := pod.Status.Phase == corev1.PodSucceeded
		isMember := ended || pod.Status.Phase == corev1.PodRunning && pod.Spec.NodeName != ""
		group := pod.Annotations[schedulingv1beta1.GroupNameAnnotation]
		if !isMember || group == "" {
			continue
		}
		cpu := countedCPU(pod)
		if taken[group] == nil {
			taken[group] = new(big.Int)
		}
		taken[group].Add(taken[group], cpu)
		g, exists, _ := w.podGroups.GetIndexer().GetByKey(pod.Namespace + "/" + group)
		if exists && !ended {
			queue := g.(*schedulingv1beta1.PodGroup).Spec.Queue
			charged[queue].Add(charged[queue], cpu)
		}
	}
	return charged, taken
}

// countedCPU is what a pod of one container requests, in thousandths of a CPU. More than any cluster has counts as 4Ei of them.
func countedCPU(pod *corev1.Pod) *big.Int {
	cores := pod.Spec.Containers[0].Resources.Requests.Cpu().AsDec()
	exact := new(inf.Dec).Mul(cores, inf.NewDec(1000, 0))
	whole := new(inf.Dec).Round(exact, 0, inf.RoundUp).UnscaledBig()
	if most := new(big.Int).Lsh(big.NewInt(1), 62); whole.Cmp(most) > 0 {
		return most
	}
	return whole
}
