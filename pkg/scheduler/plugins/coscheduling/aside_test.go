package coscheduling

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// nodeWith is a node of 4 CPUs with pods on it.
func nodeWith(name string, pods ...*corev1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(mustertesting.MakeNode(name).Allocatable("cpu", "4", "pods", "10").Obj())
	return info
}

func running(name, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := mustertesting.MakePod(name).Requests("cpu", cpu).UID(name).Obj()
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	for _, change := range change {
		change(pod)
	}
	return pod
}

func endless(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyAlways }
func urgent(pod *corev1.Pod)  { pod.Spec.Priority = new(int32(10)) }
func daemon(pod *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: new(true)}}
}

// everything is what the nodes of these tests have.
var everything = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourcePods}

func TestWhichGangsAreBeyondTheCluster(t *testing.T) {
	full := []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2", running("q", "4", daemon))}
	cpus := func(cpus int64) resources.List {
		return resources.List{corev1.ResourceCPU: 1000 * cpus, corev1.ResourcePods: 1}
	}
	tests := map[string]struct {
		nodes   []fwk.NodeInfo
		demands []plan.Demand
		refused []place
		want    bool
	}{
		"not while there is room in all, whatever runs there": {full, []plan.Demand{{Requests: cpus(2), Count: 4}}, nil, false},
		"one pod more":                   {full, []plan.Demand{{Requests: cpus(2), Count: 5}}, nil, true},
		"a pod larger than any node":     {full, []plan.Demand{{Requests: cpus(5), Count: 1}}, nil, true},
		"more pods than nodes may have":  {full, []plan.Demand{{Requests: cpus(0), Count: 21}}, nil, true},
		"more pods than may be together": {full, []plan.Demand{{Requests: cpus(1), Count: 3, MaxPerNode: 1}}, nil, true},
		"a resource that no node has": {full,
			[]plan.Demand{{Requests: resources.List{"nvidia.com/gpu": 1}, Count: 1}}, nil, true},
		"the second demand":          {full, []plan.Demand{{Requests: cpus(1), Count: 1}, {Requests: cpus(3), Count: 3}}, nil, true},
		"not if each fits by itself": {full, []plan.Demand{{Requests: cpus(3), Count: 2}, {Requests: cpus(2), Count: 2}}, nil, false},
		"nodes that refuse its pods": {full, []plan.Demand{{Requests: cpus(2), Count: 4}}, []place{{0, 1}}, true},
		"nodes that refuse others":   {full, []plan.Demand{{Requests: cpus(1), Count: 1}, {Requests: cpus(2), Count: 4}}, []place{{0, 1}}, false},
		"no nodes":                   {nil, []plan.Demand{{Requests: cpus(1), Count: 1}}, nil, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := &cast{infos: test.nodes, demands: test.demands, refused: map[place]bool{}}
			for range test.demands {
				k.trials = append(k.trials, &trialRun{})
			}
			for _, p := range test.refused {
				k.refused[p] = true
			}
			assert.Equal(t, test.want, k.isBeyond())
		})
	}
}

func TestNodesAreChosenByWhatWillEndThere(t *testing.T) {
	a, b := types.UID("a"), types.UID("b")
	tests := map[string]struct {
		nodes  []fwk.NodeInfo
		before map[types.UID]string
		renew  bool
		avoid  []string
		bars   string // a node that other filters bar
		places map[types.UID]string
		vain   []string
	}{
		"room that is free, then where most is": {
			nodes:  []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2"), nodeWith("n3", running("q", "2"))},
			places: map[types.UID]string{a: "n2", b: "n3"}},
		"not where more important pods and those of DaemonSets leave too little": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "2", urgent)), nodeWith("n2", running("q", "2", daemon)),
				nodeWith("n3", running("r", "4")), nodeWith("n4", running("s", "4"))},
			places: map[types.UID]string{a: "n3", b: "n4"}},
		"pods that never end are not waited for": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "2", endless)), nodeWith("n2", running("q", "4")),
				nodeWith("n3", running("r", "4"))},
			places: map[types.UID]string{a: "n2", b: "n3"}},
		"unless there is no other way": {
			nodes:  []fwk.NodeInfo{nodeWith("n1", running("p", "2", endless)), nodeWith("n2", running("q", "4"))},
			places: map[types.UID]string{a: "n1", b: "n2"}},
		"too few nodes": {
			nodes: []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2", running("q", "2", urgent))}},
		"other reasons against a node remain": {
			nodes: []fwk.NodeInfo{nodeWith("n1"), nodeWith("n2", running("q", "4")), nodeWith("n3", running("r", "4"))}, bars: "n1",
			places: map[types.UID]string{a: "n2", b: "n3"}},
		"the choice stands": {
			nodes:  []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2", running("q", "4")), nodeWith("n3", running("r", "2"))},
			before: map[types.UID]string{a: "n1", b: "n2"}, places: map[types.UID]string{a: "n1", b: "n2"}},
		"after waiting in vain, other nodes; what has come free is kept": {
			nodes:  []fwk.NodeInfo{nodeWith("n1"), nodeWith("n2", running("q", "2")), nodeWith("n3", running("r", "4"))},
			before: map[types.UID]string{a: "n1", b: "n2"}, renew: true,
			places: map[types.UID]string{a: "n1", b: "n3"}, vain: []string{"n2"}},
		"nodes where waiting was in vain before": {
			nodes:  []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2", running("q", "2")), nodeWith("n3", running("r", "4"))},
			avoid:  []string{"n2"},
			places: map[types.UID]string{a: "n1", b: "n3"}, vain: []string{"n2"}},
		"when waiting was in vain everywhere it begins anew": {
			nodes:  []fwk.NodeInfo{nodeWith("n1", running("p", "4")), nodeWith("n2", running("q", "2"))},
			before: map[types.UID]string{a: "n1", b: "n2"}, renew: true,
			places: map[types.UID]string{a: "n1", b: "n2"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			round := &state.Round{Before: test.before, Renew: test.renew, Avoid: sets.New(test.avoid...)}
			for _, uid := range []types.UID{a, b} {
				round.Members = append(round.Members, &gang.Member{UID: uid, Pod: running(string(uid), "3"), Requests: resources.List{corev1.ResourceCPU: 3000}})
			}
			k := &cast{round: round, infos: test.nodes, groups: [][]*gang.Member{round.Members},
				demands: []plan.Demand{{Requests: round.Members[0].Requests, Count: 2}}}
			for _, info := range test.nodes {
				k.nodes = append(k.nodes, plan.Node{Name: info.Node().Name, Free: freeOn(info, everything)})
			}
			k.drainedFits = func(_, node int, _ bool) bool { return k.nodes[node].Name != test.bars }
			places, vain := k.setAside()
			assert.Equal(t, test.places, places)
			assert.ElementsMatch(t, test.vain, vain.UnsortedList())
		})
	}
}

// TestWhatIsSetAsideIsKept has room set aside for a gang, and asks Filter about pods of all kinds.
func TestWhatIsSetAsideIsKept(t *testing.T) {
	store := storeWithAside(t)
	group := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{"scheduling.k8s.io/group-name": name} }
	}
	tests := map[string]struct {
		pod    *corev1.Pod
		node   fwk.NodeInfo
		barred bool
	}{
		"what is set aside":           {running("p", "2"), nodeWith("n1"), true},
		"room beside it":              {running("p", "1"), nodeWith("n1"), false},
		"another node":                {running("p", "4"), nodeWith("n2"), false},
		"what is to come free":        {running("p", "1"), nodeWith("n1", running("q", "2")), true},
		"a pod that requests no room": {running("p", "0"), nodeWith("n1", running("q", "2")), false},
		"a more important pod":        {running("p", "2", urgent), nodeWith("n1"), false},
		"a pod of a DaemonSet":        {running("p", "2", daemon), nodeWith("n1"), false},
		"a member of the gang":        {running("big-0", "3", group("big")), nodeWith("n1"), false},
		"a pod of a native pod group": {running("p", "2", func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{} }), nodeWith("n1"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plugin, cycle := &Coscheduling{store: store}, framework.NewCycleState()
			_, status := plugin.limit(cycle, test.pod, "")
			refused := !status.IsSkip() && !plugin.Filter(t.Context(), cycle, test.pod, test.node).IsSuccess()
			assert.Equal(t, test.barred, refused)
		})
	}
}

func TestFilterIsSkippedWhereNothingIsSetAside(t *testing.T) {
	plugin, cycle := &Coscheduling{store: state.New(clocktesting.NewFakeClock(time.Unix(0, 0)))}, framework.NewCycleState()
	_, status := plugin.limit(cycle, running("p", "1"), "")
	assert.True(t, status.IsSkip())
}

// storeWithAside has 3 CPUs of n1 set aside for the gang "big" of one pod.
func storeWithAside(t *testing.T) *state.Store {
	store := state.New(clocktesting.NewFakeClock(time.Unix(0, 0)))
	store.Serve("default-scheduler")
	store.Open()
	group := mustertesting.MakePodGroup("big").MinMember(1).UID("big").Phase("Inqueue").Obj()
	group.Namespace = ""
	store.SetPodGroup(group)
	scout := running("big-0", "3", func(p *corev1.Pod) {
		p.Namespace, p.Spec.SchedulerName = "", "default-scheduler"
		p.Annotations = map[string]string{"scheduling.k8s.io/group-name": "big"}
	})
	assert.Empty(t, store.Gate(scout))
	round := store.Judge(scout)
	store.SetAside(round, map[types.UID]string{"big-0": "n1"}, nil)
	return store
}
