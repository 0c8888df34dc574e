package batching

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"pgregory.net/rapid"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// opinion is a plugin of somebody else's. What it says of a node never changes, but what that counts for depends on what runs on all.
type opinion struct{}

const opinionName = "Opinion"

// crowd is how many pods run on the nodes.
type crowd int64

func (c crowd) Clone() fwk.StateData { return c }

func (opinion) Name() string { return opinionName }

func (opinion) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	all := crowd(0)
	for _, node := range nodes {
		all += crowd(len(node.GetPods()))
	}
	state.Write(opinionName, all)
	return nil
}

func (opinion) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	name := node.Node().Name
	return int64(name[len(name)-1]), nil
}

func (o opinion) ScoreExtensions() fwk.ScoreExtensions { return o }

func (opinion) NormalizeScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	all, err := state.Read(opinionName)
	if err != nil {
		return fwk.AsStatus(err)
	}
	for i := range scores {
		scores[i].Score = scores[i].Score * int64(all.(crowd)) % (fwk.MaxScore + 1)
	}
	return nil
}

// profileOf is a framework with the plugins of the default profile, their arguments as in the profile muster, and more that score.
func profileOf(t testing.TB, snapshot *cache.Snapshot, strategy schedulerconfig.ScoringStrategyType, more ...string) framework.Framework {
	t.Helper()
	metrics.Register()
	stock := []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	obj, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(stock, nil, nil)
	require.NoError(t, err)
	profile := obj.(*schedulerconfig.KubeSchedulerConfiguration).Profiles[0]
	for _, a := range profile.PluginConfig {
		switch args := a.Args.(type) {
		case *schedulerconfig.NodeResourcesFitArgs:
			args.ScoringStrategy.Type = strategy
		case *schedulerconfig.PodTopologySpreadArgs:
			args.DefaultingType = schedulerconfig.ListDefaulting
		case *schedulerconfig.InterPodAffinityArgs:
			args.IgnorePreferredTermsOfExistingPods = true
		}
	}
	for _, name := range more {
		profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled, schedulerconfig.Plugin{Name: name, Weight: 3})
	}
	registry := upstream.NewInTreeRegistry()
	registry[opinionName] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return opinion{}, nil }
	client := fake.NewClientset()
	factory := scheduler.NewInformerFactory(client, 0, nil)
	claims := assumecache.NewAssumeCache(klog.FromContext(t.Context()), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	made, err := frameworkruntime.NewFramework(t.Context(), registry, &profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithSharedDRAManager(dynamicresources.NewDRAManager(t.Context(), claims, nil, factory)),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithPodNominator(queue.NewSchedulingQueue(nil, factory)))
	require.NoError(t, err)
	return made
}

var signature = fwk.PodSignature("alike")

// loop is what the scheduling loop does with a framework, as far as it concerns hints.
type loop struct {
	framework.Framework
	nodes   fwk.NodeInfoLister
	pod     *corev1.Pod
	count   int64
	pods    int
	hints   int
	created func(chosen string, others []fwk.NodePluginScores) // told when all nodes have been scored
}

// begin is a cycle as far as the hint.
func (l *loop) begin(ctx context.Context, t require.TestingT) (fwk.CycleState, string) {
	l.count++
	state := framework.NewCycleState()
	_, status, _ := l.RunPreFilterPlugins(ctx, state, l.pod)
	require.True(t, status.IsSuccess())
	return state, l.GetNodeHint(ctx, l.pod, signature, state, l.count)
}

// end is the rest of the cycle. It returns the node that the pod has been put on, "" if there is none.
func (l *loop) end(ctx context.Context, t require.TestingT, state fwk.CycleState, hint string) string {
	var chosen string
	if hint != "" && l.fits(ctx, state, hint) {
		chosen = hint
		l.hints++
		l.StoreScheduleResults(ctx, signature, hint, chosen, nil, l.count)
	} else if chosen = l.chooseOfAll(ctx, t, state, hint); chosen == "" {
		return ""
	}
	l.put(t, chosen)
	return chosen
}

func (l *loop) fits(ctx context.Context, state fwk.CycleState, node string) bool {
	info, err := l.nodes.Get(node)
	return err == nil && l.RunFilterPlugins(ctx, state, l.pod, info).IsSuccess()
}

func (l *loop) chooseOfAll(ctx context.Context, t require.TestingT, state fwk.CycleState, hint string) string {
	all, err := l.nodes.List()
	require.NoError(t, err)
	var feasible []fwk.NodeInfo
	for _, info := range all {
		if l.fits(ctx, state, info.Node().Name) {
			feasible = append(feasible, info)
		}
	}
	if len(feasible) == 0 {
		return ""
	}
	require.True(t, l.RunPreScorePlugins(ctx, state, l.pod, feasible).IsSuccess())
	scores, status := l.RunScorePlugins(ctx, state, l.pod, feasible)
	require.True(t, status.IsSuccess())
	sorted := framework.NewSortedScoredNodes(scores)
	chosen := sorted.Pop().Name
	if l.created != nil {
		l.created(chosen, sorted.UnorderedList())
	}
	l.StoreScheduleResults(ctx, signature, hint, chosen, sorted, l.count)
	return chosen
}

func (l *loop) put(t require.TestingT, node string) {
	info, err := l.nodes.Get(node)
	require.NoError(t, err)
	pod := l.pod.DeepCopy()
	l.pods++
	pod.Name, pod.Spec.NodeName = fmt.Sprintf("pod-%d", l.pods), node
	added, err := framework.NewPodInfo(pod)
	require.NoError(t, err)
	info.AddPodInfo(added)
}

// oracle does what upstream does: it scores the node of the last pod anew, and normalizes the scores of all.
type oracle struct {
	*loop
	others []fwk.NodePluginScores
	last   string
}

func (o *oracle) scores(ctx context.Context, t require.TestingT, state fwk.CycleState) map[string]int64 {
	if o.fits(ctx, state, o.last) {
		last, err := o.nodes.Get(o.last)
		require.NoError(t, err)
		infos := []fwk.NodeInfo{last}
		for _, other := range o.others {
			info, err := o.nodes.Get(other.Name)
			require.NoError(t, err)
			infos = append(infos, info)
		}
		state = state.Clone()
		require.True(t, o.RunPreScorePlugins(ctx, state, o.pod, infos).IsSuccess())
		raw, status := o.RunRawScorePlugins(ctx, state, o.pod, last)
		require.True(t, status.IsSuccess())
		o.others = append(o.others, fwk.NodePluginScores{Name: o.last, RawScores: raw})
		require.True(t, o.NormalizeScores(ctx, state, o.pod, o.others).IsSuccess())
	}
	totals := map[string]int64{}
	for _, other := range o.others {
		totals[other.Name] = other.TotalScore
	}
	return totals
}

func (o *oracle) take(node string) {
	o.last = node
	o.others = slices.DeleteFunc(o.others, func(n fwk.NodePluginScores) bool { return n.Name == node })
}

// TestTheHintIsTheBestNodeByUpstreamsRules puts pods on clusters of all sorts, and compares each hint with the scores that upstream would
// make, while others put pods on the nodes, too, and nodes change.
func TestTheHintIsTheBestNodeByUpstreamsRules(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var nodes []*corev1.Node
		draw := func(what string, of int) bool { return rapid.IntRange(0, of-1).Draw(r, what) == 0 }
		taints, disks := draw("some have taints", 2), draw("disks make a difference", 2)
		for i := range rapid.IntRange(2, 8).Draw(r, "nodes") {
			node := mustertesting.MakeNode(fmt.Sprintf("node-%d", i)).
				Allocatable("cpu", fmt.Sprint(rapid.IntRange(1, 6).Draw(r, "cpu")), "memory", "16Gi", "pods", "110").Obj()
			if taints && draw("taint", 2) {
				node.Spec.Taints = []corev1.Taint{{Key: "busy", Effect: corev1.TaintEffectPreferNoSchedule}}
			}
			if disks {
				node.Labels["disk"] = rapid.SampledFrom([]string{"none", "small", "large"}).Draw(r, "disk")
			}
			nodes = append(nodes, node)
		}
		pod := mustertesting.MakePod("pod").Requests("cpu", "1", "memory", "1Gi").Obj()
		if disks {
			pod.Spec.Affinity = prefersDisk
		}
		var more []string
		if draw("another plugin scores", 4) {
			more = []string{opinionName}
		}
		strategy := rapid.SampledFrom([]schedulerconfig.ScoringStrategyType{schedulerconfig.LeastAllocated, schedulerconfig.MostAllocated}).Draw(r, "strategy")
		snapshot := cache.NewSnapshot(nil, nodes)
		l := &loop{Framework: New(profileOf(t, snapshot, strategy, more...)), nodes: snapshot.NodeInfos(), pod: pod}
		o := &oracle{loop: l}
		l.created = func(chosen string, others []fwk.NodePluginScores) { o.others = others }
		for range 30 {
			if !oneCycle(t.Context(), r, l, o) {
				return // the cluster is full
			}
			node := rapid.SampledFrom(nodes).Draw(r, "node").Name
			switch rapid.IntRange(0, 9).Draw(r, "what others do") {
			case 0:
				l.put(r, node)
			case 1:
				change(r, l.nodes, o.last)
			case 2:
				change(r, l.nodes, node)
			case 3:
				l.count++ // a pod of another profile
			}
		}
	})
}

var prefersDisk = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
	{Weight: 5, Preference: hasDisk("small", "large")}, {Weight: 5, Preference: hasDisk("large")},
}}}

func hasDisk(sizes ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: sizes}}}
}

func oneCycle(ctx context.Context, r *rapid.T, l *loop, o *oracle) (found bool) {
	state, hint := l.begin(ctx, r)
	if hint != "" {
		totals := o.scores(ctx, r, state)
		require.Contains(r, totals, hint)
		for node, total := range totals {
			require.LessOrEqual(r, total, totals[hint], "%s is better than the hint, %s", node, hint)
		}
	}
	chosen := l.end(ctx, r, state, hint)
	o.take(chosen)
	return chosen != ""
}

// change has a node be tainted or not, as it was not before.
func change(t require.TestingT, nodes fwk.NodeInfoLister, name string) {
	info, err := nodes.Get(name)
	require.NoError(t, err)
	node := info.Node().DeepCopy()
	if node.Spec.Taints = nil; len(info.Node().Spec.Taints) == 0 {
		node.Spec.Taints = []corev1.Taint{{Key: "busy", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	info.(*framework.NodeInfo).SetNode(node)
}

// plainLoop is a loop in a cluster of roomy nodes, on which disks follow each other.
func plainLoop(t testing.TB, n int, with func(framework.Framework) framework.Framework, disks ...string) *loop {
	nodes := make([]*corev1.Node, 0, n)
	for i := range n {
		node := mustertesting.MakeNode(fmt.Sprintf("node-%d", i)).Allocatable("cpu", "1000", "memory", "1000Gi", "pods", "100000").Obj()
		if len(disks) > 0 {
			node.Labels["disk"] = disks[i%len(disks)]
		}
		nodes = append(nodes, node)
	}
	snapshot := cache.NewSnapshot(nil, nodes)
	pod := mustertesting.MakePod("pod").Requests("cpu", "1", "memory", "1Gi").Obj()
	pod.Spec.Affinity = prefersDisk
	return &loop{Framework: with(profileOf(t, snapshot, schedulerconfig.LeastAllocated)), nodes: snapshot.NodeInfos(), pod: pod}
}

// TestNoHint: the scores of the last pod do not serve for one that is not like it, does not follow it or has a node in mind.
func TestNoHint(t *testing.T) {
	for name, change := range map[string]func(l *loop) fwk.PodSignature{
		"another signature":          func(*loop) fwk.PodSignature { return fwk.PodSignature("other") },
		"no signature":               func(*loop) fwk.PodSignature { return nil },
		"another pod came between":   func(l *loop) fwk.PodSignature { l.count++; return signature },
		"the pod is nominated":       func(l *loop) fwk.PodSignature { l.pod.Status.NominatedNodeName = "node-1"; return signature },
		"the scores are of long ago": func(l *loop) fwk.PodSignature { age(l, time.Now().Add(-2*longest)); return signature },
	} {
		t.Run(name, func(t *testing.T) {
			l := plainLoop(t, 3, New)
			for range 3 {
				state, hint := l.begin(t.Context(), t)
				require.NotEmpty(t, l.end(t.Context(), t, state, hint))
			}
			require.Equal(t, 2, l.hints)
			signature := change(l)
			assert.Empty(t, l.GetNodeHint(t.Context(), l.pod, signature, framework.NewCycleState(), l.count+1))
		})
	}
}

// age has the scores be of a time.
func age(l *loop, since time.Time) { l.Framework.(*batching).batch.since = since }

// TestAHintOfNoUse: in the one cycle that the pods of a native PodGroup have, a pod may not go where it should have gone. Upstream may have
// taken back by then what others had, so that nothing is known of the node of the last pod.
func TestAHintOfNoUse(t *testing.T) {
	l := plainLoop(t, 3, New)
	state, hint := l.begin(t.Context(), t)
	l.end(t.Context(), t, state, hint)
	state, hint = l.begin(t.Context(), t)
	require.NotEmpty(t, hint)
	assert.Equal(t, metrics.BatchFlushPodFailed, l.Framework.(*batching).putBack(t.Context(), l.pod, state))
}

// TestANodeThatIsGoneIsNoHint: upstream notices when it gathers the nodes.
func TestANodeThatIsGoneIsNoHint(t *testing.T) {
	l := plainLoop(t, 3, New)
	state, hint := l.begin(t.Context(), t)
	l.end(t.Context(), t, state, hint)
	f := l.Framework.(*batching)
	for i := range f.batch.nodes.scores {
		f.batch.nodes.scores[i].Name += "-gone"
	}
	_, hint = l.begin(t.Context(), t)
	assert.Empty(t, hint)
}

// normalizations counts how often the scores of all nodes are made anew.
type normalizations struct {
	framework.Framework
	count int
}

func (n *normalizations) NormalizeScores(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, scores []fwk.NodePluginScores) *fwk.Status {
	n.count++
	return n.Framework.NormalizeScores(ctx, state, pod, scores)
}

// TestTheOthersAreNotScoredAnew: with the plugins that ship, and where nodes differ once all has been compared.
func TestTheOthersAreNotScoredAnew(t *testing.T) {
	for name, disks := range map[string][]string{"like nodes": nil, "nodes that differ": {"none", "small", "large"}} {
		t.Run(name, func(t *testing.T) {
			counted := &normalizations{}
			l := plainLoop(t, 6, func(f framework.Framework) framework.Framework {
				counted.Framework = f
				return New(counted)
			}, disks...)
			for range 30 {
				state, hint := l.begin(t.Context(), t)
				require.NotEmpty(t, l.end(t.Context(), t, state, hint))
				age(l, time.Now()) // whatever time the test takes
			}
			assert.Equal(t, 29, l.hints)
			assert.Equal(t, min(len(disks), 1), counted.count)
		})
	}
}

// BenchmarkHint has pods find their nodes one after the other, by the hints of upstream's batching and of ours.
func BenchmarkHint(b *testing.B) {
	for _, n := range []int{100, 500, 5000} {
		for name, with := range map[string]func(framework.Framework) framework.Framework{
			"upstream": func(f framework.Framework) framework.Framework { return f }, "muster": New,
		} {
			b.Run(fmt.Sprintf("%s/%d nodes", name, n), func(b *testing.B) {
				l := plainLoop(b, n, with)
				b.ReportAllocs()
				for b.Loop() {
					state, hint := l.begin(b.Context(), b)
					l.end(b.Context(), b, state, hint)
				}
				b.ReportMetric(float64(l.hints)/float64(b.N), "hints/op")
			})
		}
	}
}
