package placement

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/gang"
)

// classifier finds the demand classes of members: two members are of one class if no filter can tell them apart. It is the set of the keys
// of the labels that affinity, anti-affinity and spreading select by. Other labels make no difference, and many controllers give each
// pod a label of its own, such as its index.
type classifier sets.Set[string]

// classifierFor makes a classifier for some members among the pods of the snapshot.
func classifierFor(profile Profile, members []*gang.Member) classifier {
	c := classifier{}
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
					sets.Set[string](c).Insert(requirement.Key())
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
	labels := sets.Set[string](c)
	labels.Insert(keys...)
	if selector == nil {
		return
	}
	for key := range selector.MatchLabels {
		labels.Insert(key)
	}
	for _, expression := range selector.MatchExpressions {
		labels.Insert(expression.Key)
	}
}

// classOf returns a key that is equal for members of one class.
func (c classifier) classOf(m *gang.Member) string {
	name, version := m.Pod.Annotations[batchv1alpha1.PodTemplateKey], m.Pod.Annotations[batchv1alpha1.JobVersionKey]
	part := partForFilters
	if name != "" {
		part = changeablePart
	}
	written, err := part(&m.Pod.Spec).Marshal() // many times as fast as JSON, and deterministic
	if err != nil {
		return string(m.UID)
	}
	// Tasks are told apart, as messages name them.
	key := fmt.Appendf(written, "\x00%s\x00%s\x00%d", name, version, m.Priority)
	for _, resource := range slices.Sorted(maps.Keys(m.Requests)) {
		key = fmt.Appendf(key, "\x00%s=%d", resource, m.Requests[resource])
	}
	for _, label := range slices.Sorted(maps.Keys(c)) {
		value, ok := m.Pod.Labels[label]
		key = fmt.Appendf(key, "\x00%s=%t:%s", label, ok, value)
	}
	return string(key)
}

// changeablePart is what may differ between pods of one template: webhooks, controllers that assign ranks to nodes, and the API server
// (matchLabelKeys) change single pods. Requests are compared as a sum.
func changeablePart(spec *corev1.PodSpec) *corev1.PodSpec {
	return &corev1.PodSpec{
		NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations, Affinity: spec.Affinity,
		TopologySpreadConstraints: spec.TopologySpreadConstraints, ResourceClaims: spec.ResourceClaims, Volumes: constrainingVolumes(spec),
		InitContainers: portsOf(spec.InitContainers), Containers: portsOf(spec.Containers),
	}
}

func portsOf(containers []corev1.Container) []corev1.Container {
	ports := make([]corev1.Container, len(containers))
	for i := range containers {
		ports[i].Ports = containers[i].Ports
	}
	return ports
}

// partForFilters is a spec without what differs from pod to pod and no filter looks at. It shares the rest.
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

// constrainingVolumes are the volumes that cannot be mounted on every node. The names of the others differ from pod to pod, for example
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
