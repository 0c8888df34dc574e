package placement

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/gang"
)

// classifier finds the demand classes of members: two members are of one class if no filter distinguishes them.
type classifier struct {
	// labels are the keys of the labels that affinity, anti-affinity and spreading select by. Other labels make no difference, and many
	// controllers give each pod a label of its own, such as its index.
	labels sets.Set[string]
	// examples are one member of each class found so far among the pods of each template.
	examples map[template][]example
}

// template is what the pods of a Job's task were made from.
type template struct {
	name, version string
	priority      int32
}

// example is one member of a demand class. Pods of one template may differ. Webhooks, controllers that assign ranks to nodes, and the
// API server (matchLabelKeys) change single pods.
type example struct {
	member *gang.Member
	rules  []byte // see rulesOf
	class  string
}

// maxExamples is the number of examples of a template that a pod is compared with. If more pods differ, each further pod is written in
// full.
const maxExamples = 4

func newClassifier(labels ...string) classifier {
	return classifier{labels: sets.New(labels...), examples: map[template][]example{}}
}

// classifierFor makes a classifier for some members among the pods of the snapshot.
func classifierFor(profile Profile, members []*gang.Member) classifier {
	c := newClassifier()
	for _, m := range members {
		c.addSelected(&m.Pod.Spec)
	}
	nodes, err := profile.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList()
	if err != nil {
		return c // the snapshot is in memory and does not fail
	}
	for _, node := range nodes {
		for _, pod := range node.GetPodsWithRequiredAntiAffinity() {
			for _, term := range pod.GetRequiredAntiAffinityTerms() {
				requirements, _ := term.Selector.Requirements()
				for _, requirement := range requirements {
					c.labels.Insert(requirement.Key())
				}
			}
		}
	}
	return c
}

// addSelected adds the label keys that a pod's constraints select by.
func (c classifier) addSelected(spec *corev1.PodSpec) {
	for i := range spec.TopologySpreadConstraints {
		c.addSelector(spec.TopologySpreadConstraints[i].LabelSelector, spec.TopologySpreadConstraints[i].MatchLabelKeys)
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
		c.addSelector(terms[i].LabelSelector, slices.Concat(terms[i].MatchLabelKeys, terms[i].MismatchLabelKeys))
	}
}

func (c classifier) addSelector(selector *metav1.LabelSelector, keys []string) {
	c.labels.Insert(keys...)
	if selector == nil {
		return
	}
	for key := range selector.MatchLabels {
		c.labels.Insert(key)
	}
	for _, expression := range selector.MatchExpressions {
		c.labels.Insert(expression.Key)
	}
}

// classOf returns a key that is equal for members of one class. Most pods of a template are alike. Comparing two takes a tenth of the time
// of writing one in full.
func (c classifier) classOf(m *gang.Member) string {
	made := template{m.Pod.Annotations[batchv1alpha1.PodTemplateKey], m.Pod.Annotations[batchv1alpha1.JobVersionKey], m.Priority}
	if made.name == "" {
		return c.fullKey(m)
	}
	known, added := c.examples[made], example{member: m, rules: rulesOf(&m.Pod.Spec)}
	for i := range known {
		if c.alike(&known[i], &added) {
			return known[i].class
		}
	}
	added.class = made.name + "\x00" + c.fullKey(m) // tasks are told apart, as messages name them
	if len(known) < maxExamples {
		c.examples[made] = append(known, added)
	}
	return added.class
}

// fullKey writes every field that a filter may read.
func (c classifier) fullKey(m *gang.Member) string {
	key, err := partForFilters(&m.Pod.Spec).Marshal() // many times as fast as JSON, and deterministic
	if err != nil {
		return string(m.UID)
	}
	for _, label := range sets.List(c.labels) {
		value, ok := m.Pod.Labels[label]
		key = fmt.Appendf(key, "\x00%s=%t:%s", label, ok, value)
	}
	return string(key)
}

// alike says whether no filter can tell two members of one template apart.
func (c classifier) alike(a, b *example) bool {
	for label := range c.labels {
		x, hasX := a.member.Pod.Labels[label]
		y, hasY := b.member.Pod.Labels[label]
		if x != y || hasX != hasY {
			return false
		}
	}
	samePorts := func(x, y corev1.Container) bool { return slices.Equal(x.Ports, y.Ports) } // requests are compared as a sum
	x, y := &a.member.Pod.Spec, &b.member.Pod.Spec
	return maps.Equal(a.member.Requests, b.member.Requests) &&
		maps.Equal(x.NodeSelector, y.NodeSelector) &&
		slices.EqualFunc(x.Tolerations, y.Tolerations, func(a, b corev1.Toleration) bool { return a.MatchToleration(&b) }) &&
		slices.EqualFunc(x.Containers, y.Containers, samePorts) &&
		slices.EqualFunc(x.InitContainers, y.InitContainers, samePorts) &&
		bytes.Equal(a.rules, b.rules)
}

// rulesOf writes the parts of a spec that are costly to compare; nil for a pod without them.
func rulesOf(spec *corev1.PodSpec) []byte {
	rules := corev1.PodSpec{
		Affinity: spec.Affinity, TopologySpreadConstraints: spec.TopologySpreadConstraints, ResourceClaims: spec.ResourceClaims,
		Volumes: constrainingVolumes(spec),
	}
	if rules.Affinity == nil && len(rules.TopologySpreadConstraints) == 0 && len(rules.ResourceClaims) == 0 && len(rules.Volumes) == 0 {
		return nil
	}
	written, _ := rules.Marshal() // it fails for no pod that was read from the API
	return written
}

// DemandOf writes what filters may read of a pod's spec.
func DemandOf(spec *corev1.PodSpec) string {
	written, _ := partForFilters(spec).Marshal() // it fails for no pod that was read from the API
	return string(written)
}

// partForFilters is a spec without fields that differ from pod to pod and that no filter reads. It shares the rest.
func partForFilters(spec *corev1.PodSpec) *corev1.PodSpec {
	part := *spec
	part.Hostname, part.Subdomain, part.EphemeralContainers = "", "", nil
	part.Volumes = constrainingVolumes(spec)
	part.InitContainers, part.Containers = slices.Clone(part.InitContainers), slices.Clone(part.Containers)
	for _, containers := range [][]corev1.Container{part.InitContainers, part.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Env, c.EnvFrom, c.Command, c.Args, c.VolumeMounts = nil, nil, nil, nil, nil
		}
	}
	return &part
}

// constrainingVolumes are the volumes that cannot be mounted on every node. The names of other volumes differ from pod to pod, for example
// that of the service account's token.
func constrainingVolumes(spec *corev1.PodSpec) (volumes []corev1.Volume) {
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.Projected == nil && v.ConfigMap == nil && v.Secret == nil && v.EmptyDir == nil && v.DownwardAPI == nil &&
			v.HostPath == nil {
			volumes = append(volumes, *v)
		}
	}
	return volumes
}
