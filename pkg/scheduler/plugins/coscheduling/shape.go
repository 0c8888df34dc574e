package coscheduling

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/gang"
)

// shapes tells which members of a gang are alike.
type shapes struct {
	// keys of the labels that some filter may look at: those that affinity, anti-affinity and spreading select by. Other labels
	// make no difference, and many a controller gives each pod one of its own: its index.
	keys sets.Set[string]
	// kinds are those found so far among the members made from each template.
	kinds map[template][]kind
}

// template is what a Job's pods were made from.
type template struct {
	name, version string
	priority      int32
}

// kind is a member of each of those of a template that are not alike. Somebody may have changed pods of a Job one by one: a webhook,
// an assigner of ranks to nodes, or the API server, which makes the labels that a rule speaks of (matchLabelKeys) part of the rule.
type kind struct {
	example *gang.Member
	rules   []byte // see rulesOf
	shape   string
}

// mostKinds of a template are compared with. Where pods have been changed one by one, all that comes beyond is spelled out.
const mostKinds = 4

func newShapes(keys ...string) shapes {
	return shapes{keys: sets.New(keys...), kinds: map[template][]kind{}}
}

func (c *Coscheduling) shapesOf(members []*gang.Member) shapes {
	s := newShapes()
	for _, m := range members {
		s.addOwn(&m.Pod.Spec)
	}
	nodes, err := c.handle.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList()
	if err != nil {
		return s
	}
	for _, node := range nodes {
		for _, pod := range node.GetPodsWithRequiredAntiAffinity() {
			for _, term := range pod.GetRequiredAntiAffinityTerms() {
				requirements, _ := term.Selector.Requirements()
				for _, requirement := range requirements {
					s.keys.Insert(requirement.Key())
				}
			}
		}
	}
	return s
}

// addOwn adds the keys that a pod's own rules select by.
func (s shapes) addOwn(spec *corev1.PodSpec) {
	for i := range spec.TopologySpreadConstraints {
		s.addSelector(spec.TopologySpreadConstraints[i].LabelSelector, spec.TopologySpreadConstraints[i].MatchLabelKeys)
	}
	if spec.Affinity == nil {
		return
	}
	var terms []corev1.PodAffinityTerm
	if affinity := spec.Affinity.PodAffinity; affinity != nil {
		terms = append(terms, affinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if affinity := spec.Affinity.PodAntiAffinity; affinity != nil {
		terms = append(terms, affinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	for i := range terms {
		s.addSelector(terms[i].LabelSelector, slices.Concat(terms[i].MatchLabelKeys, terms[i].MismatchLabelKeys))
	}
}

func (s shapes) addSelector(selector *metav1.LabelSelector, keys []string) {
	s.keys.Insert(keys...)
	if selector == nil {
		return
	}
	for key := range selector.MatchLabels {
		s.keys.Insert(key)
	}
	for _, expression := range selector.MatchExpressions {
		s.keys.Insert(expression.Key)
	}
}

// of is equal for members that the filters cannot tell apart. To spell a pod out takes many times as long as to see that it is like
// another one, as most of a template are.
func (s shapes) of(m *gang.Member) string {
	made := template{m.Pod.Annotations[batchv1alpha1.PodTemplateKey], m.Pod.Annotations[batchv1alpha1.JobVersionKey], m.Priority}
	if made.name == "" {
		return s.spellOut(m)
	}
	known, ofIt := s.kinds[made], kind{example: m, rules: rulesOf(&m.Pod.Spec)}
	for i := range known {
		if s.alike(&known[i], &ofIt) {
			return known[i].shape
		}
	}
	ofIt.shape = made.name + "\x00" + s.spellOut(m) // members of two tasks are told apart for the sake of what is reported
	if len(known) < mostKinds {
		s.kinds[made] = append(known, ofIt)
	}
	return ofIt.shape
}

// spellOut writes down what makes a difference.
func (s shapes) spellOut(m *gang.Member) string {
	spec, err := essence(&m.Pod.Spec).Marshal() // many times as fast as JSON, and as repeatable
	if err != nil {
		return string(m.UID)
	}
	var shape strings.Builder
	shape.Write(spec)
	for _, key := range sets.List(s.keys) {
		value, ok := m.Pod.Labels[key]
		fmt.Fprintf(&shape, "\x00%s=%t:%s", key, ok, value)
	}
	return shape.String()
}

// alike says whether no filter can tell two members of a template apart.
func (s shapes) alike(a, b *kind) bool {
	x, y := &a.example.Pod.Spec, &b.example.Pod.Spec
	return maps.Equal(a.example.Requests, b.example.Requests) &&
		maps.Equal(x.NodeSelector, y.NodeSelector) &&
		slices.EqualFunc(x.Tolerations, y.Tolerations, sameToleration) &&
		samePorts(x.Containers, y.Containers) && samePorts(x.InitContainers, y.InitContainers) &&
		bytes.Equal(a.rules, b.rules) &&
		s.sameLabels(a.example.Pod.Labels, b.example.Pod.Labels)
}

// rulesOf writes down what has many parts, which costs a tenth of comparing these; nil for a pod without.
func rulesOf(spec *corev1.PodSpec) []byte {
	rules := corev1.PodSpec{Affinity: spec.Affinity, TopologySpreadConstraints: spec.TopologySpreadConstraints, ResourceClaims: spec.ResourceClaims}
	for i := range spec.Volumes {
		if !confinesNobody(&spec.Volumes[i]) {
			rules.Volumes = append(rules.Volumes, spec.Volumes[i])
		}
	}
	if rules.Affinity == nil && len(rules.TopologySpreadConstraints) == 0 && len(rules.ResourceClaims) == 0 && len(rules.Volumes) == 0 {
		return nil
	}
	written, _ := rules.Marshal() // it fails for no pod that was read
	return written
}

func (s shapes) sameLabels(a, b map[string]string) bool {
	for key := range s.keys {
		x, hasX := a[key]
		y, hasY := b[key]
		if x != y || hasX != hasY {
			return false
		}
	}
	return true
}

func sameToleration(a, b corev1.Toleration) bool { return a.MatchToleration(&b) }

// samePorts says whether containers have the same ports. What they ask for has been added up.
func samePorts(a, b []corev1.Container) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !slices.Equal(a[i].Ports, b[i].Ports) {
			return false
		}
	}
	return true
}

// essence is a spec without what differs from pod to pod and no filter looks at. It shares what stays with the spec.
func essence(spec *corev1.PodSpec) *corev1.PodSpec {
	e := *spec
	e.Hostname, e.Subdomain, e.EphemeralContainers = "", "", nil
	// Names differ from pod to pod (that of the service account's token, for one); what can confine a pod to nodes stays.
	e.Volumes = slices.DeleteFunc(slices.Clone(e.Volumes), func(v corev1.Volume) bool { return confinesNobody(&v) })
	e.InitContainers, e.Containers = slices.Clone(e.InitContainers), slices.Clone(e.Containers)
	for _, containers := range [][]corev1.Container{e.InitContainers, e.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Env, c.EnvFrom, c.Command, c.Args, c.VolumeMounts = nil, nil, nil, nil, nil
		}
	}
	return &e
}

// confinesNobody says that a volume can be mounted on every node.
func confinesNobody(v *corev1.Volume) bool {
	return v.Projected != nil || v.ConfigMap != nil || v.Secret != nil || v.EmptyDir != nil || v.DownwardAPI != nil || v.HostPath != nil
}
