package placement

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// The reasons that upstream's filters give. The packages that define them are not part of the plugin interface; a test compares the texts.
const (
	reasonAffinity             = "node(s) didn't match pod affinity rules"
	reasonExistingAntiAffinity = "node(s) didn't satisfy existing pods anti-affinity rules"
	reasonSpread               = "node(s) didn't match pod topology spread constraints"
)

// constraints are the inter-pod constraints between the members of a gang: required affinity and anti-affinity, and required spreading. A
// constraint that selects only pods outside the gang does not count. The places of the members do not change it.
type constraints struct {
	dependent []bool             // of each demand: whether its pods may go to a node depends on the places of other members
	keys      []sets.Set[string] // of each demand: the topology keys of its pods' constraints
	repels    [][]repulsion      // of each demand: which demands its pods keep off
	attracted []sets.Set[string] // of each demand: topology keys by which its pods must be near other members
	near      sets.Set[string]   // all of these
	apart     sets.Set[string]   // topology keys by which members keep each other off
}

// repulsion is an anti-affinity that keeps the pods of a demand out of a domain of a topology.
type repulsion struct {
	key    string
	demand int
}

// newConstraints finds the constraints between the demands, of which one pod each is given. It returns nil if there are none, or only
// constraints that Demand.MaxPerNode expresses.
func newConstraints(pods []*corev1.Pod, namespace func() labels.Set) *constraints {
	if !slices.ContainsFunc(pods, isConstrained) {
		return nil
	}
	n := len(pods)
	c := &constraints{
		dependent: make([]bool, n), keys: make([]sets.Set[string], n), repels: make([][]repulsion, n), attracted: make([]sets.Set[string], n),
		near: sets.New[string](), apart: sets.New[string](),
	}
	own := namespace()
	for d, pod := range pods {
		c.keys[d], c.attracted[d] = sets.New[string](), sets.New[string]()
		if !isConstrained(pod) {
			continue
		}
		c.addSpreading(d, pods)
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			continue // the filters reject the pod
		}
		c.addAffinity(d, info, pods, own)
		c.addAntiAffinity(d, info, pods, own)
	}
	if !slices.Contains(c.dependent, true) {
		return nil
	}
	return c
}

// isConstrained says whether a pod has a required constraint about other pods.
func isConstrained(pod *corev1.Pod) bool {
	if affinity := pod.Spec.Affinity; affinity != nil {
		if near := affinity.PodAffinity; near != nil && len(near.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
		if apart := affinity.PodAntiAffinity; apart != nil && len(apart.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, isRequired)
}

func isRequired(c corev1.TopologySpreadConstraint) bool {
	return c.WhenUnsatisfiable == corev1.DoNotSchedule
}

func (c *constraints) addSpreading(d int, pods []*corev1.Pod) {
	for _, spread := range pods[d].Spec.TopologySpreadConstraints {
		if !isRequired(spread) {
			continue
		}
		c.keys[d].Insert(spread.TopologyKey)
		selector, err := metav1.LabelSelectorAsSelector(spread.LabelSelector)
		if err == nil && slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return selector.Matches(labels.Set(p.Labels)) }) {
			c.dependent[d] = true
		}
	}
}

func (c *constraints) addAffinity(d int, info fwk.PodInfo, pods []*corev1.Pod, namespace labels.Set) {
	for _, term := range info.GetRequiredAffinityTerms() {
		c.keys[d].Insert(term.TopologyKey)
		if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return term.Matches(p, namespace) }) {
			c.dependent[d] = true
			c.attracted[d].Insert(term.TopologyKey)
			c.near.Insert(term.TopologyKey)
		}
	}
}

func (c *constraints) addAntiAffinity(d int, info fwk.PodInfo, pods []*corev1.Pod, namespace labels.Set) {
	for _, term := range info.GetRequiredAntiAffinityTerms() {
		c.keys[d].Insert(term.TopologyKey)
		for other, pod := range pods {
			if !term.Matches(pod, namespace) {
				continue
			}
			c.repels[d] = append(c.repels[d], repulsion{key: term.TopologyKey, demand: other})
			if other != d || term.TopologyKey != corev1.LabelHostname {
				c.dependent[d], c.dependent[other] = true, true
				c.apart.Insert(term.TopologyKey)
			}
		}
	}
}

// mayPassLater says whether a filter rejected a pod of a demand only because other members have no places yet. More pods never satisfy
// an anti-affinity.
func (c *constraints) mayPassLater(demand int, status *fwk.Status) bool {
	return c != nil && c.dependent[demand] && !status.IsSuccess() && isSatisfiable(status)
}

// isSatisfiable says whether a filter rejected a pod for a constraint that further pods may satisfy.
func isSatisfiable(status *fwk.Status) bool {
	switch status.Plugin() {
	case names.InterPodAffinity:
		return slices.Contains(status.Reasons(), reasonAffinity)
	case names.PodTopologySpread:
		return slices.Contains(status.Reasons(), reasonSpread)
	}
	return false
}

// maxPerNode is 1 for a pod that keeps its class off its node, by host port or anti-affinity. 0 means any number. The labels are the labels
// of the pod's namespace. The API server has made matchLabelKeys part of the selectors.
func maxPerNode(pod *corev1.Pod, namespace func() labels.Set) int {
	if len(hostPorts(pod)) > 0 {
		return 1
	}
	if affinity := pod.Spec.Affinity; affinity == nil || affinity.PodAntiAffinity == nil {
		return 0
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return 0 // the filters reject the pod
	}
	for _, term := range info.GetRequiredAntiAffinityTerms() {
		if term.TopologyKey == corev1.LabelHostname && term.Matches(pod, namespace()) {
			return 1
		}
	}
	return 0
}

// MaxPerNode is how many pods like this one a node may hold. Host ports and anti-affinity bound it. 0 means any number.
func MaxPerNode(pod *corev1.Pod) int { return maxPerNode(pod, func() labels.Set { return nil }) }

// hostPorts are the ports of the node that a pod takes for as long as it runs. Sidecars are init containers that are always restarted.
func hostPorts(pod *corev1.Pod) (ports []string) {
	containers := slices.Clone(pod.Spec.Containers)
	for _, container := range pod.Spec.InitContainers {
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, container)
		}
	}
	for _, container := range containers {
		for _, port := range container.Ports {
			if port.HostPort > 0 {
				ports = append(ports, strconv.Itoa(int(port.HostPort)))
			}
		}
	}
	return ports
}
