package coscheduling

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// pluginOn is the plugin in a profile of the upstream filters, in a cluster.
func pluginOn(t testing.TB, nodes []*corev1.Node, pods ...*corev1.Pod) (*Coscheduling, []fwk.NodeInfo) {
	t.Helper()
	metrics.Register()
	stock := []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	obj, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(stock, nil, nil)
	require.NoError(t, err)
	filters := schedulerconfig.PluginSet{}
	for _, name := range []string{names.NodeUnschedulable, names.TaintToleration, names.NodeAffinity, names.NodePorts, names.NodeResourcesFit,
		names.PodTopologySpread, names.InterPodAffinity} {
		filters.Enabled = append(filters.Enabled, schedulerconfig.Plugin{Name: name})
	}
	preFilters := schedulerconfig.PluginSet{Enabled: filters.Enabled[2:]}
	profile := &schedulerconfig.KubeSchedulerProfile{
		SchedulerName: "muster",
		PluginConfig:  obj.(*schedulerconfig.KubeSchedulerConfiguration).Profiles[0].PluginConfig,
		Plugins: &schedulerconfig.Plugins{
			QueueSort: schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: names.PrioritySort}}},
			Bind:      schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: names.DefaultBinder}}},
			PreFilter: preFilters, Filter: filters,
		},
	}
	snapshot := cache.NewSnapshot(pods, nodes)
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}})
	factory := informers.NewSharedInformerFactory(client, 0)
	made, err := frameworkruntime.NewFramework(t.Context(), upstream.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithPodNominator(queue.NewSchedulingQueue(nil, factory)))
	require.NoError(t, err)
	factory.Core().V1().Namespaces().Informer()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	infos, err := snapshot.NodeInfos().List()
	require.NoError(t, err)
	return &Coscheduling{handle: made}, infos
}

const zone = corev1.LabelTopologyZone

// nodeIn is a node of a zone with room for so many pods of one CPU.
func nodeIn(inZone, name string, pods int) *corev1.Node {
	return mustertesting.MakeNode(name).Label(zone, inZone).Allocatable("cpu", fmt.Sprint(pods), "memory", "64Gi", "pods", "110").Obj()
}

// in is a pod of one CPU with labels of the form role=value.
func in(role, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := mustertesting.MakePod(name).UID(name).Label("role", role).Requests("cpu", "1").Obj()
	for _, change := range change {
		change(pod)
	}
	return pod
}

func on(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = node }
}

func rule(key, role string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": role}}}}
}

func near(key, role string) func(*corev1.Pod) {
	terms := &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: rule(key, role)}
	return func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{PodAffinity: terms} }
}

func awayFrom(key, role string) func(*corev1.Pod) {
	terms := &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: rule(key, role)}
	return func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: terms} }
}

func spread(key, role string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": role}},
		})
	}
}

func withDisk(node *corev1.Node) *corev1.Node {
	node.Labels["disk"] = "ssd"
	return node
}

func needsDisk(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }

// some are n pods of a role.
func some(n int, role string, change ...func(*corev1.Pod)) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, in(role, fmt.Sprintf("%s-%d", role, i), change...))
	}
	return pods
}

// roundOf is a judgement of a gang of these pods.
func roundOf(pods []*corev1.Pod) *state.Round {
	round := &state.Round{}
	for _, pod := range pods {
		round.Members = append(round.Members, &gang.Member{UID: pod.UID, Pod: pod, Requests: resources.PodRequests(pod)})
	}
	return round
}

func TestMembersThatMindEachOtherArePlacedTogether(t *testing.T) {
	zonesOf := func(room ...int) (nodes []*corev1.Node) {
		for i, n := range room {
			nodes = append(nodes, nodeIn(fmt.Sprint("z", i), fmt.Sprint("n", i), n))
		}
		return nodes
	}
	psAndWorkers := func(key string) []*corev1.Pod { return append(some(2, "worker", near(key, "ps")), in("ps", "ps-0")) }
	tests := map[string]struct {
		nodes   []*corev1.Node
		running []*corev1.Pod
		gang    []*corev1.Pod
		seats   int // fewer than the members if they cannot be placed
		in      map[string]int
		by      string // who stands in the way
	}{
		"those whom others need in their zone":   {nodes: zonesOf(2, 3), gang: psAndWorkers(zone), seats: 3, in: map[string]int{"n1": 3}},
		"those whom others need on their node":   {nodes: zonesOf(2, 3), gang: psAndWorkers(corev1.LabelHostname), seats: 3, in: map[string]int{"n1": 3}},
		"no zone has room for them and the rest": {nodes: zonesOf(2, 2), gang: psAndWorkers(zone), seats: 2, by: names.InterPodAffinity},
		"one in need of another kind that is there": {nodes: zonesOf(3, 3), running: []*corev1.Pod{in("ps", "other", on("n0"))},
			gang: some(2, "worker", near(zone, "ps")), seats: 2, in: map[string]int{"n0": 2}},
		"all in one zone that has the room": {nodes: zonesOf(5, 5, 8), gang: some(8, "worker", near(zone, "worker")), seats: 8, in: map[string]int{"n2": 8}},
		"all in one zone, and none has it":  {nodes: zonesOf(5, 5, 5), gang: some(8, "worker", near(zone, "worker")), seats: 5, by: names.InterPodAffinity},
		"the fuller zone last": {nodes: zonesOf(9, 1), running: []*corev1.Pod{in("worker", "w", on("n0"))},
			gang: some(2, "worker", spread(zone, "worker")), seats: 2, in: map[string]int{"n0": 1, "n1": 1}},
		"evenly over three zones": {nodes: zonesOf(9, 9, 9), gang: some(7, "worker", spread(zone, "worker")), seats: 7},
		"no zone may have two more than the emptiest": {nodes: zonesOf(9, 9, 1), gang: some(7, "worker", spread(zone, "worker")), seats: 5,
			by: names.PodTopologySpread},
		"one of each zone": {nodes: zonesOf(2, 2, 2), gang: some(3, "worker", awayFrom(zone, "worker")), seats: 3,
			in: map[string]int{"n0": 1, "n1": 1, "n2": 1}},
		"more than there are zones": {nodes: zonesOf(4, 4), gang: some(3, "worker", awayFrom(zone, "worker")), seats: 2, by: names.InterPodAffinity},
		"kinds that keep each other off": {nodes: zonesOf(2, 2), seats: 4,
			gang: append(some(2, "a", awayFrom(corev1.LabelHostname, "b")), some(2, "b")...)},
		"some of each kind on each node": {nodes: []*corev1.Node{nodeIn("z", "n0", 4), nodeIn("z", "n1", 3)}, seats: 6,
			gang: append(some(3, "a"), some(3, "b", near(corev1.LabelHostname, "a"))...)},
		"one kind in the zone with the room, and the other in the other": {
			nodes: []*corev1.Node{nodeIn("z1", "n0", 1), nodeIn("z0", "n1", 1), nodeIn("z0", "n2", 4)}, seats: 3, in: map[string]int{"n0": 1},
			gang: append(some(2, "a", awayFrom(corev1.LabelHostname, "b")), some(1, "b", awayFrom(zone, "a"))...)},
		"each kind on a node of its own": {nodes: zonesOf(4, 4, 1), seats: 5,
			gang: append(some(2, "a", near(corev1.LabelHostname, "a")), some(3, "b", near(corev1.LabelHostname, "b"))...)},
		"the zone that has what one of them needs": {nodes: append(zonesOf(9, 9, 9, 9, 9, 9, 9, 9, 9, 9), withDisk(nodeIn("z10", "n10", 5))),
			gang: append(some(4, "worker", near(zone, "worker")), in("ps", "ps-0", near(zone, "worker"), needsDisk)), seats: 5, in: map[string]int{"n10": 5}},
		"one that keeps all others off": {nodes: zonesOf(9), seats: 2, by: names.InterPodAffinity,
			gang: append(some(2, "a"), in("b", "b-0", awayFrom(corev1.LabelHostname, "a")))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plugin, infos := pluginOn(t, test.nodes, test.running...)
			k, result := plugin.plan(t.Context(), roundOf(test.gang), infos)
			require.Equal(t, test.seats, seated(result), "%v", k.reasons)
			if test.seats < len(test.gang) {
				assert.Equal(t, plan.Impossible, result.Verdict)
				k.culprit(result)
				assert.True(t, k.rejectors.Has(test.by), "its events wake the gang: %v", k.rejectors)
				assert.Contains(t, k.explain(result), fmt.Sprintf("%d of %d members of the gang fit", test.seats, len(test.gang)))
				return
			}
			require.Equal(t, plan.Possible, result.Verdict)
			places := k.places(result)
			expectLegal(t, t, test.nodes, test.running, test.gang, k.turns, places)
			for node, count := range test.in {
				assert.Equal(t, count, countOf(places, node), "on %s", node)
			}
		})
	}
}

func countOf(places map[types.UID]string, node string) (n int) {
	for _, place := range places {
		if place == node {
			n++
		}
	}
	return n
}

// expectLegal checks that each member may go to its place when those before it are there, as the filters see it from the start.
func expectLegal(t *testing.T, check require.TestingT, nodes []*corev1.Node, running, members []*corev1.Pod, turns []types.UID,
	places map[types.UID]string,
) {
	if turns == nil {
		return // the order makes no difference
	}
	require.Len(check, turns, len(members))
	byUID := map[types.UID]*corev1.Pod{}
	for _, member := range members {
		byUID[member.UID] = member
	}
	for _, uid := range turns {
		member := byUID[uid]
		require.Contains(check, openTo(t, nodes, running, member), places[uid], "the place of %s", uid)
		running = append(running, placedOn(member, places[uid]))
	}
}

func placedOn(pod *corev1.Pod, node string) *corev1.Pod {
	placed := pod.DeepCopy()
	placed.Spec.NodeName = node
	return placed
}

// openTo are the nodes that a pod may go to, pods of a gang or not.
func openTo(t *testing.T, nodes []*corev1.Node, running []*corev1.Pod, pod *corev1.Pod) (open []string) {
	plugin, infos := pluginOn(t, nodes, running...)
	k := plugin.newCast(t.Context(), roundOf([]*corev1.Pod{pod}), infos)
	run := k.trial(0)
	require.True(t, run.status.IsSuccess())
	for n, info := range infos {
		if plugin.handle.RunFilterPluginsWithNominatedPods(t.Context(), run.cycle, pod, info).IsSuccess() {
			open = append(open, k.nodes[n].Name)
		}
	}
	return open
}

// TestWhatIsFoundForAGangIsLegal has small gangs with rules of all kinds placed.
func TestWhatIsFoundForAGangIsLegal(t *testing.T) {
	mustertesting.Histories(t, 200, func(r *rapid.T) {
		var nodes []*corev1.Node
		for i := range rapid.IntRange(1, 4).Draw(r, "nodes") {
			inZone, room := rapid.SampledFrom([]string{"z0", "z1", "z2"}).Draw(r, "zone"), rapid.IntRange(1, 4).Draw(r, "room")
			nodes = append(nodes, nodeIn(inZone, fmt.Sprint("n", i), room))
		}
		roles := []string{"a", "b"}
		draw := func() []func(*corev1.Pod) {
			var rules []func(*corev1.Pod)
			key, role := rapid.SampledFrom([]string{zone, corev1.LabelHostname}).Draw(r, "key"), rapid.SampledFrom(roles).Draw(r, "of")
			switch rapid.IntRange(0, 3).Draw(r, "rule") {
			case 0:
				rules = append(rules, near(key, role))
			case 1:
				rules = append(rules, awayFrom(key, role))
			case 2:
				rules = append(rules, spread(key, role))
			}
			return rules
		}
		var members, running []*corev1.Pod
		for _, role := range roles {
			members = append(members, some(rapid.IntRange(0, 3).Draw(r, role), role, draw()...)...)
		}
		if len(members) == 0 {
			return
		}
		if rapid.Bool().Draw(r, "running") {
			running = []*corev1.Pod{in(rapid.SampledFrom(roles).Draw(r, "running role"), "running", on("n0"))}
		}
		plugin, infos := pluginOn(t, nodes, running...)
		k, result := plugin.plan(t.Context(), roundOf(members), infos)
		if result.Verdict == plan.Possible {
			expectLegal(t, r, nodes, running, members, k.turns, k.places(result))
		}
	})
}

func TestGangsWithoutTies(t *testing.T) {
	nodes := []*corev1.Node{nodeIn("z", "n0", 4), nodeIn("z", "n1", 4)}
	tests := map[string][]*corev1.Pod{
		"no rules":                           some(2, "worker"),
		"only rules about others":            some(2, "worker", near(zone, "never-comes")),
		"only its kind and only on its node": some(2, "worker", awayFrom(corev1.LabelHostname, "worker")),
	}
	for name, pods := range tests {
		t.Run(name, func(t *testing.T) {
			plugin, infos := pluginOn(t, nodes)
			assert.Nil(t, plugin.newCast(t.Context(), roundOf(pods), infos).ties)
		})
	}
}

// TestRoomIsSetAsideWhereMembersMayBeTogether: all must be in one zone, and only one has the room when its pods have ended.
func TestRoomIsSetAsideWhereMembersMayBeTogether(t *testing.T) {
	nodes := []*corev1.Node{nodeIn("a", "a0", 5), nodeIn("b", "b0", 4), nodeIn("b", "b1", 4)}
	job := func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }
	running := []*corev1.Pod{in("job", "j0", on("b0"), job), in("job", "j1", on("b1"), job)}
	plugin, infos := pluginOn(t, nodes, running...)
	round := roundOf(some(8, "worker", near(zone, "worker")))
	k := plugin.newCast(t.Context(), round, infos)
	places, _ := k.setAside()
	require.Len(t, places, 8)
	assert.Zero(t, countOf(places, "a0"))

	round.Before = places
	again, _ := plugin.newCast(t.Context(), round, infos).setAside()
	assert.Equal(t, places, again, "the choice stands")

	plugin, infos = pluginOn(t, nodes[:2], running[0])
	none, _ := plugin.newCast(t.Context(), roundOf(some(8, "worker", near(zone, "worker"))), infos).setAside()
	assert.Nil(t, none, "no zone is large enough")
}

// large are gangs of a thousand on 500 nodes in three zones that have room for twice as many, and what is to be found of them.
var large = map[string]struct {
	tie  func(*corev1.Pod)
	want plan.Verdict
}{
	"spread over zones":              {spread(zone, "worker"), plan.Possible},
	"spread over nodes":              {spread(corev1.LabelHostname, "worker"), plan.Possible},
	"in one zone, none has the room": {near(zone, "worker"), plan.Impossible},
}

const largeSize = 1000

func largeNodes() (nodes []*corev1.Node) {
	for i := range largeSize / 2 {
		nodes = append(nodes, nodeIn(fmt.Sprint("z", i%3), fmt.Sprint("n", i), 4))
	}
	return nodes
}

// TestLargeGangsArePlacedTogether: the bound of a judgement's work is wide enough for them.
func TestLargeGangsArePlacedTogether(t *testing.T) {
	for name, c := range large {
		t.Run(name, func(t *testing.T) {
			plugin, infos := pluginOn(t, largeNodes())
			_, result := plugin.plan(t.Context(), roundOf(some(largeSize, "worker", c.tie)), infos)
			assert.Equal(t, c.want, result.Verdict, "%d seats", seated(result))
		})
	}
}

// BenchmarkPlaceTogether measures the judgement of a gang of a thousand whose members mind where the others are. The scheduling loop waits
// for it.
func BenchmarkPlaceTogether(b *testing.B) {
	for name, c := range large {
		b.Run(name, func(b *testing.B) {
			plugin, infos := pluginOn(b, largeNodes())
			round := roundOf(some(largeSize, "worker", c.tie))
			for b.Loop() {
				plugin.plan(b.Context(), round, infos)
			}
		})
	}
}
