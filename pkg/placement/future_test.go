package placement

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// nodeWith is a node of 4 CPUs with pods on it.
func nodeWith(name string, pods ...*corev1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(mustertesting.MakeNode(name).Allocatable("cpu", "4", "pods", "10").Obj())
	return info
}

// running is a pod that ends by itself.
func running(name, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := mustertesting.MakePod(name).Requests("cpu", cpu).UID(name).Obj()
	ends(pod)
	for _, change := range change {
		change(pod)
	}
	return pod
}

func ends(pod *corev1.Pod)    { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }
func endless(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyAlways }
func urgent(pod *corev1.Pod)  { pod.Spec.Priority = new(int32(10)) }
func daemon(pod *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: new(true)}}
}

func ofGang(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "gang", name) }
}

func TestPodsThatAReservationWaitsFor(t *testing.T) {
	problem := &Problem{
		Priority: 5,
		SameGang: func(p *corev1.Pod) bool { return p.Annotations["gang"] == "own" },
		InGang:   func(p *corev1.Pod) bool { return p.Annotations["gang"] != "" },
	}
	equal := func(p *corev1.Pod) { p.Spec.Priority = new(int32(5)) }
	tests := map[string]struct {
		pod                 *corev1.Pod
		waits, waitsIfIdeal bool // in the end, and if pods that never end are kept
	}{
		"a pod that ends":                     {running("p", "1"), true, true},
		"of the same priority":                {running("p", "1", equal), true, true},
		"of a higher priority":                {running("p", "1", urgent), false, false},
		"of a DaemonSet":                      {running("p", "1", daemon), false, false},
		"a static pod":                        {running("p", "1", func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, corev1.MirrorPodAnnotationKey, "x") }), false, false},
		"of the gang itself":                  {running("p", "1", ofGang("own")), false, false},
		"a pod that never ends by itself":     {running("p", "1", endless), true, false},
		"such a pod of another gang":          {running("p", "1", endless, ofGang("other")), true, true},
		"such a pod that is being terminated": {running("p", "1", endless, func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }), true, true},
		"such a pod of a higher priority":     {running("p", "1", endless, urgent), false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.waits, !problem.stays(test.pod, waiting{}))
			assert.Equal(t, test.waitsIfIdeal, !problem.stays(test.pod, waiting{keepEndless: true}))
		})
	}
	assert.False(t, (&Problem{}).stays(running("p", "1"), waiting{keepEndless: true}), "the functions may be nil")
}

func TestWhichGangsAreTooLarge(t *testing.T) {
	full := []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2", running("q", "4", daemon))}
	cpus := func(cpus int64) resources.List {
		return resources.List{corev1.ResourceCPU: 1000 * cpus, corev1.ResourcePods: 1}
	}
	tests := map[string]struct {
		nodes   []fwk.NodeInfo
		demands []Demand
		refused []pair
		want    bool
	}{
		"not if there is room in all, whatever runs there": {full, []Demand{{Requests: cpus(2), Count: 4}}, nil, false},
		"one pod more":                   {full, []Demand{{Requests: cpus(2), Count: 5}}, nil, true},
		"a pod larger than any node":     {full, []Demand{{Requests: cpus(5), Count: 1}}, nil, true},
		"more pods than nodes may have":  {full, []Demand{{Requests: cpus(0), Count: 21}}, nil, true},
		"as many pods as nodes may have": {full, []Demand{{Requests: cpus(0), Count: 20}}, nil, false},
		"more pods than may be together": {full, []Demand{{Requests: cpus(1), Count: 3, MaxPerNode: 1}}, nil, true},
		"a resource that no node has":    {full, []Demand{{Requests: resources.List{"nvidia.com/gpu": 1}, Count: 1}}, nil, true},
		"the second demand":              {full, []Demand{{Requests: cpus(1), Count: 1}, {Requests: cpus(3), Count: 3}}, nil, true},
		"not if each fits by itself":     {full, []Demand{{Requests: cpus(3), Count: 2}, {Requests: cpus(2), Count: 2}}, nil, false},
		"nodes that refuse its pods":     {full, []Demand{{Requests: cpus(2), Count: 4}}, []pair{{0, 1}}, true},
		"nodes that refuse other pods":   {full, []Demand{{Requests: cpus(1), Count: 1}, {Requests: cpus(2), Count: 4}}, []pair{{0, 1}}, false},
		"no nodes":                       {nil, []Demand{{Requests: cpus(1), Count: 1}}, nil, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := &view{infos: test.nodes, demands: test.demands, refused: map[pair]bool{}}
			for range test.demands {
				v.filters = append(v.filters, &filterState{})
			}
			for _, p := range test.refused {
				v.refused[p] = true
			}
			assert.Equal(t, test.want, v.isTooLarge())
		})
	}
}

// cpuProfile is a profile whose only filters look at CPU and at one node that they refuse.
type cpuProfile struct {
	Profile
	refused string
}

func (*cpuProfile) NominatedPodsForNode(string) []fwk.PodInfo { return nil }

func (*cpuProfile) RunPreFilterPlugins(context.Context, fwk.CycleState, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	return nil, nil, nil
}

func (*cpuProfile) RunPreFilterExtensionRemovePod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

func (p *cpuProfile) RunFilterPlugins(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if node.Node().Name == p.refused || FreeOn(node, []corev1.ResourceName{corev1.ResourceCPU})[corev1.ResourceCPU] < cpuOf(pod) {
		return fwk.NewStatus(fwk.Unschedulable)
	}
	return nil
}

func (p *cpuProfile) RunFilterPluginsWithNominatedPods(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	return p.RunFilterPlugins(ctx, cycle, pod, node)
}

func cpuOf(pod *corev1.Pod) int64 { return resources.PodRequests(pod)[corev1.ResourceCPU] }

// TestPlacesToReserve chooses places for two pods of 3 CPUs.
func TestPlacesToReserve(t *testing.T) {
	a, b := types.UID("a"), types.UID("b")
	tests := map[string]struct {
		nodes    []fwk.NodeInfo
		reserved map[types.UID]string
		held     map[string]resources.List
		renew    bool
		avoid    []string
		refused  string // a node that a filter refuses
		places   map[types.UID]string
		avoided  []string
	}{
		"room that is free, then where most is free": {
			nodes:  []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2"), nodeWith("n3", running("q", "2"))},
			places: map[types.UID]string{a: "n2", b: "n3"}},
		"not where more important pods and those of DaemonSets leave too little": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "2", urgent)), nodeWith("n2", running("q", "2", daemon)),
				nodeWith("n3", running("r", "4")), nodeWith("n4", running("s", "4"))},
			places: map[types.UID]string{a: "n3", b: "n4"}},
		"it does not wait for pods that never end": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "2", endless)), nodeWith("n2", running("q", "4")),
				nodeWith("n3", running("r", "4"))},
			places: map[types.UID]string{a: "n2", b: "n3"}},
		"unless there is no other way": {
			nodes:  []fwk.NodeInfo{nodeWith("n1", running("p", "2", endless)), nodeWith("n2", running("q", "4"))},
			places: map[types.UID]string{a: "n1", b: "n2"}},
		"room that other gangs hold comes free": {
			nodes: []fwk.NodeInfo{nodeWith("n1"), nodeWith("n2")}, held: map[string]resources.List{"n1": {corev1.ResourceCPU: 4000}},
			places: map[types.UID]string{a: "n1", b: "n2"}},
		"too few nodes": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2", running("q", "2", urgent))}},
		"a node that a filter refuses": {
			nodes: []fwk.NodeInfo{nodeWith("n1"), nodeWith("n2", running("q", "4")), nodeWith("n3", running("r", "4"))}, refused: "n1",
			places: map[types.UID]string{a: "n2", b: "n3"}},
		"the reserved places stay": {
			nodes:    []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2", running("q", "4")), nodeWith("n3", running("r", "2"))},
			reserved: map[types.UID]string{a: "n1", b: "n2"}, places: map[types.UID]string{a: "n1", b: "n2"}},
		"a renewal keeps what has come free and avoids the other node": {
			nodes:    []fwk.NodeInfo{nodeWith("n1"), nodeWith("n2", running("q", "2")), nodeWith("n3", running("r", "4"))},
			reserved: map[types.UID]string{a: "n1", b: "n2"}, renew: true,
			places: map[types.UID]string{a: "n1", b: "n3"}, avoided: []string{"n2"}},
		"nodes that were avoided before": {
			nodes:  []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2", running("q", "2")), nodeWith("n3", running("r", "4"))},
			avoid:  []string{"n2"},
			places: map[types.UID]string{a: "n1", b: "n3"}, avoided: []string{"n2"}},
		"when all nodes are to be avoided, none is": {
			nodes:    []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2", running("q", "2"))},
			reserved: map[types.UID]string{a: "n1", b: "n2"}, renew: true,
			places: map[types.UID]string{a: "n1", b: "n2"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			avoid := sets.New(test.avoid...)
			problem := &Problem{Reserved: test.reserved, Renew: test.renew, Avoid: avoid, Held: test.held}
			for _, uid := range []types.UID{a, b} {
				problem.Members = append(problem.Members, memberFor(running(string(uid), "3")))
			}
			m := &members{classes: [][]*gang.Member{problem.Members}, demands: []Demand{{Requests: problem.Members[0].Requests, Count: 2}}}
			places := problem.on(t.Context(), &cpuProfile{refused: test.refused}, m, test.nodes).chooseReservation(problem)
			assert.ElementsMatch(t, test.avoid, avoid.UnsortedList(), "the problem does not change")
			if test.places == nil {
				assert.Nil(t, places)
				return
			}
			require.NotNil(t, places)
			assert.Equal(t, test.places, places.Of)
			assert.ElementsMatch(t, test.avoided, places.Avoid.UnsortedList())
		})
	}
}

// TestAReservationWaitsForItsOwnQueueLast: it takes other nodes if there are some, and says so if there are none.
func TestAReservationWaitsForItsOwnQueueLast(t *testing.T) {
	own := func(p *corev1.Pod) { p.Labels = map[string]string{"queue": "own"} }
	isOwn := func(p *corev1.Pod) bool { return p.Labels["queue"] == "own" }
	for name, c := range map[string]struct {
		nodes     []fwk.NodeInfo
		isOwn     func(*corev1.Pod) bool
		node      string
		awaitsOwn bool
	}{
		"another queue":         {[]fwk.NodeInfo{nodeWith("n1", running("p", "3", own)), nodeWith("n2", running("q", "4"))}, isOwn, "n2", false},
		"its own queue":         {[]fwk.NodeInfo{nodeWith("n1", running("p", "3", own)), nodeWith("n2", running("q", "4", daemon))}, isOwn, "n1", true},
		"its own never end":     {[]fwk.NodeInfo{nodeWith("n1", running("p", "3", own, endless))}, isOwn, "n1", true},
		"beside its own":        {[]fwk.NodeInfo{nodeWith("n1", running("p", "1", own), running("q", "2"))}, isOwn, "n1", false},
		"a gang without queues": {[]fwk.NodeInfo{nodeWith("n1", running("p", "3", own)), nodeWith("n2", running("q", "4"))}, nil, "n1", false},
	} {
		t.Run(name, func(t *testing.T) {
			problem := &Problem{Members: []*gang.Member{memberFor(running("a", "2"))}, OwnQueue: c.isOwn}
			m := &members{classes: [][]*gang.Member{problem.Members}, demands: []Demand{{Requests: problem.Members[0].Requests, Count: 1}}}
			places := problem.on(t.Context(), &cpuProfile{}, m, c.nodes).chooseReservation(problem)
			require.NotNil(t, places)
			assert.Equal(t, map[types.UID]string{"a": c.node}, places.Of)
			assert.Equal(t, c.awaitsOwn, places.AwaitsOwn)
		})
	}
}
