package coscheduling

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func memberOf(change func(*corev1.Pod)) *gang.Member {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	change(pod)
	return &gang.Member{Pod: pod}
}

func TestShapesTellApartWhatFiltersCan(t *testing.T) {
	alike := newShapes("app")
	base := alike.of(memberOf(func(*corev1.Pod) {}))
	same := map[string]func(*corev1.Pod){
		"its name":                        func(p *corev1.Pod) { p.Name = "q" },
		"a label that nothing selects by": func(p *corev1.Pod) { p.Labels["index"] = "7" },
		"its hostname":                    func(p *corev1.Pod) { p.Spec.Hostname = "h" },
		"its environment": func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "RANK", Value: "1"}}
		},
		"its token": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-x7", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-x7"}}
		},
	}
	for name, change := range same {
		assert.Equal(t, base, alike.of(memberOf(change)), name)
	}
	different := map[string]func(*corev1.Pod){
		"a label":         func(p *corev1.Pod) { p.Labels["app"] = "b" },
		"a node selector": func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "z"} },
		"a claim": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		},
	}
	for name, change := range different {
		assert.NotEqual(t, base, alike.of(memberOf(change)), name)
	}
}

func TestShapesLeaveThePodsAsTheyAre(t *testing.T) {
	m := memberOf(func(p *corev1.Pod) {
		p.Spec.Hostname = "h"
		p.Spec.NodeSelector = map[string]string{"zone": "z", "disk": "ssd", "arch": "a"}
		p.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}, {Name: "v"}}
		p.Spec.InitContainers = []corev1.Container{{Name: "i", Command: []string{"true"}}}
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "RANK", Value: "1"}}
	})
	before := m.Pod.DeepCopy()
	all := newShapes("app", "index")
	first := all.of(m)
	for range 20 {
		assert.Equal(t, first, all.of(m), "the order of maps makes no difference")
	}
	assert.Equal(t, before, m.Pod)
}

func TestLabelsThatMatterAreThoseThatPodsSelectBy(t *testing.T) {
	selector := func(key string) *metav1.LabelSelector {
		return &metav1.LabelSelector{
			MatchLabels:      map[string]string{key: "x"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key + "-expression", Operator: metav1.LabelSelectorOpExists}},
		}
	}
	term := func(key string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{LabelSelector: selector(key), MatchLabelKeys: []string{key + "-match"}, MismatchLabelKeys: []string{key + "-mismatch"}}}
	}
	found := newShapes()
	found.addOwn(&corev1.PodSpec{
		Affinity: &corev1.Affinity{
			PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("near")},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("far")},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{LabelSelector: selector("spread"), MatchLabelKeys: []string{"spread-match"}}, {}},
	})
	assert.ElementsMatch(t, []string{
		"near", "near-expression", "near-match", "near-mismatch", "far", "far-expression", "far-match", "far-mismatch",
		"spread", "spread-expression", "spread-match",
	}, found.keys.UnsortedList())
}

func TestPodsThatKeepTheirLikeOffTheirNode(t *testing.T) {
	inNamespace := func() labels.Set { return labels.Set{"team": "a"} }
	assert.Equal(t, 0, maxPerNode(memberOf(func(*corev1.Pod) {}).Pod, inNamespace))
	assert.Equal(t, 1, maxPerNode(memberOf(func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
	}).Pod, inNamespace))
	tests := map[string]struct {
		app        string
		namespaces []string
		selector   *metav1.LabelSelector
		want       int
	}{
		"its kind":                                   {app: "a", want: 1},
		"another kind":                               {app: "another"},
		"its kind in its namespace by name":          {app: "a", namespaces: []string{"other", "ns"}, want: 1},
		"its kind in another namespace":              {app: "a", namespaces: []string{"other"}},
		"its kind in all namespaces":                 {app: "a", selector: &metav1.LabelSelector{}, want: 1},
		"its kind in namespaces like its own":        {app: "a", selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}, want: 1},
		"its kind in other namespaces, by label":     {app: "a", selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}},
		"its kind in those by label or its own name": {app: "a", namespaces: []string{"ns"}, selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}, want: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := memberOf(func(p *corev1.Pod) {
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
						TopologyKey: corev1.LabelHostname, Namespaces: test.namespaces, NamespaceSelector: test.selector,
						LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": test.app}},
					}},
				}}
			})
			assert.Equal(t, test.want, maxPerNode(m.Pod, inNamespace))
		})
	}
}

func TestExplain(t *testing.T) {
	worker := &gang.Member{Task: "worker", Pod: &corev1.Pod{}, Requests: resources.List{"nvidia.com/gpu": 4, corev1.ResourcePods: 1}}
	k := &cast{
		round:   &state.Round{Members: make([]*gang.Member, 8)},
		groups:  [][]*gang.Member{{worker}},
		demands: []plan.Demand{{Requests: worker.Requests, Count: 8}},
		nodes: []plan.Node{
			{Name: "node-6", Free: resources.List{"nvidia.com/gpu": 1, corev1.ResourcePods: 9}},
			{Name: "node-7", Free: resources.List{"nvidia.com/gpu": 3, corev1.ResourcePods: 9}},
		},
		reasons:  sets.New("1 node had a taint"),
		onlyRoom: func(int, int) bool { return true },
	}
	left := []resources.List{k.nodes[0].Free, k.nodes[1].Free}
	assert.Equal(t, `3 of 8 members of the gang fit; 5 more of task "worker" need 4 nvidia.com/gpu each; nearest: node-7 lacks 1 nvidia.com/gpu (1 node had a taint)`,
		k.explain(plan.Result{Seats: []int{3}, Left: left}))
}

func TestResourcesThatNoNodeHasAreLeftToTheFilters(t *testing.T) {
	with := func(name, scalar string) fwk.NodeInfo {
		info := framework.NewNodeInfo(running("p", "1"))
		info.SetNode(mustertesting.MakeNode(name).Allocatable("cpu", "4", scalar, "10").Obj())
		return info
	}
	nodes := []fwk.NodeInfo{with("a", "pods"), with("b", "nvidia.com/gpu")}
	requests := resources.List{corev1.ResourceCPU: 1, "nvidia.com/gpu": 1, "example.com/from-a-device-class": 1}
	wanted := advertised([]plan.Demand{{Requests: requests}}, nodes)
	assert.Equal(t, resources.List{corev1.ResourceCPU: 1, "nvidia.com/gpu": 1}, known(requests, wanted))
	assert.Equal(t, resources.List{corev1.ResourceCPU: 3000, "nvidia.com/gpu": 0}, freeOn(nodes[0], wanted))
	assert.Equal(t, resources.List{corev1.ResourceCPU: 3000, "nvidia.com/gpu": 10}, freeOn(nodes[1], wanted))
	assert.Empty(t, advertised([]plan.Demand{{Requests: requests}}, nil))
}
