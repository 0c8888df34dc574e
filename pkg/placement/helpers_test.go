package placement

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// plannerOn is a planner of a profile with the upstream filters, in a cluster.
func plannerOn(t testing.TB, nodes []*corev1.Node, pods ...*corev1.Pod) (*Planner, []fwk.NodeInfo) {
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
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault, Labels: map[string]string{"team": "a"}}})
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
	// The snapshot lists the nodes in random order.
	infos = slices.SortedFunc(slices.Values(infos), func(a, b fwk.NodeInfo) int { return cmp.Compare(a.Node().Name, b.Node().Name) })
	return NewPlanner(made), infos
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

// problemOf is the problem to place a gang of these pods.
func problemOf(pods []*corev1.Pod) *Problem {
	problem := &Problem{}
	for _, pod := range pods {
		problem.Members = append(problem.Members, memberFor(pod))
	}
	return problem
}

func memberFor(pod *corev1.Pod) *gang.Member {
	return &gang.Member{UID: pod.UID, Pod: pod, Requests: resources.PodRequests(pod)}
}

// viewOf is the view of a problem on all nodes.
func viewOf(t testing.TB, planner *Planner, problem *Problem, infos []fwk.NodeInfo) *view {
	t.Helper()
	return problem.on(t.Context(), planner.profile, membersOf(planner.profile, problem.Members), infos)
}
