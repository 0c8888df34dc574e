package coscheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
)

// ties are what the members of a gang ask of each other's places: required affinity and anti-affinity between pods, and spread
// constraints that must hold. What is asked of other pods alone is no tie: no plan changes that.
type ties struct {
	minds []bool             // of each demand: whether its pods may go to a node depends on where other members are
	keys  []sets.Set[string] // of each demand: the topologies that the rules of its pods speak of
	shuns [][]shun           // of each demand: whom its pods keep off
	nears []sets.Set[string] // of each demand: topologies in which its pods want to be near other members
	near  sets.Set[string]   // all of these
	far   sets.Set[string]   // topologies in which members keep each other off
}

// shun is an anti-affinity that keeps the pods of a demand out of a domain of a topology.
type shun struct {
	key    string
	demand int
}

// newTies finds the ties between the demands of which these are pods. It returns nil for a gang without, or with none that the planner
// does not see to by itself: that pods keep their own kind off their node.
func newTies(pods []*corev1.Pod, namespace func() labels.Set) *ties {
	if !slices.ContainsFunc(pods, hasRules) {
		return nil
	}
	n := len(pods)
	t := &ties{minds: make([]bool, n), keys: make([]sets.Set[string], n), shuns: make([][]shun, n), nears: make([]sets.Set[string], n)}
	t.near, t.far = sets.New[string](), sets.New[string]()
	own := namespace()
	for d, pod := range pods {
		t.keys[d], t.nears[d] = sets.New[string](), sets.New[string]()
		if !hasRules(pod) {
			continue
		}
		t.addSpreading(d, pods)
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			continue // the filters say so
		}
		t.addAffinity(d, info, pods, own)
		t.addAntiAffinity(d, info, pods, own)
	}
	if !slices.Contains(t.minds, true) {
		return nil
	}
	return t
}

// hasRules says whether a pod asks for anything with regard to other pods that must hold.
func hasRules(pod *corev1.Pod) bool {
	if affinity := pod.Spec.Affinity; affinity != nil {
		if near := affinity.PodAffinity; near != nil && len(near.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
		if far := affinity.PodAntiAffinity; far != nil && len(far.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, mustHold)
}

func mustHold(c corev1.TopologySpreadConstraint) bool {
	return c.WhenUnsatisfiable == corev1.DoNotSchedule
}

func (t *ties) addSpreading(d int, pods []*corev1.Pod) {
	for _, c := range pods[d].Spec.TopologySpreadConstraints {
		if !mustHold(c) {
			continue
		}
		t.keys[d].Insert(c.TopologyKey)
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err == nil && slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return selector.Matches(labels.Set(p.Labels)) }) {
			t.minds[d] = true
		}
	}
}

func (t *ties) addAffinity(d int, info fwk.PodInfo, pods []*corev1.Pod, namespace labels.Set) {
	for _, term := range info.GetRequiredAffinityTerms() {
		t.keys[d].Insert(term.TopologyKey)
		if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return term.Matches(p, namespace) }) {
			t.minds[d] = true
			t.nears[d].Insert(term.TopologyKey)
			t.near.Insert(term.TopologyKey)
		}
	}
}

func (t *ties) addAntiAffinity(d int, info fwk.PodInfo, pods []*corev1.Pod, namespace labels.Set) {
	for _, term := range info.GetRequiredAntiAffinityTerms() {
		t.keys[d].Insert(term.TopologyKey)
		for other, pod := range pods {
			if !term.Matches(pod, namespace) {
				continue
			}
			t.shuns[d] = append(t.shuns[d], shun{key: term.TopologyKey, demand: other})
			if other != d || term.TopologyKey != corev1.LabelHostname {
				t.minds[d], t.minds[other] = true, true
				t.far.Insert(term.TopologyKey)
			}
		}
	}
}

// mindsFellows says whether a filter may have refused a pod of a demand only because of where the other members are, or are not yet.
// More pods never make an anti-affinity hold.
func (t *ties) mindsFellows(demand int, status *fwk.Status) bool {
	return t != nil && t.minds[demand] && !status.IsSuccess() && mayComeTrue(status)
}

// mayComeTrue says whether a filter has refused a pod for a rule of its own that may come true when others have been placed.
func mayComeTrue(status *fwk.Status) bool {
	switch status.Plugin() {
	case names.InterPodAffinity:
		return slices.Contains(status.Reasons(), interpodaffinity.ErrReasonAffinityRulesNotMatch)
	case names.PodTopologySpread:
		return slices.Contains(status.Reasons(), podtopologyspread.ErrReasonConstraintsNotMatch)
	}
	return false
}

// namespaceOf returns the labels of the gang's namespace, by which other namespaces' rules may select it.
func (k *cast) namespaceOf() labels.Set {
	namespaces := k.plugin.handle.SharedInformerFactory().Core().V1().Namespaces().Lister()
	return interpodaffinity.GetNamespaceLabelsSnapshot(klog.FromContext(k.ctx), k.round.Members[0].Pod.Namespace, namespaces)
}
