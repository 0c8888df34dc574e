package coscheduling

import (
	"fmt"
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
}

func (c *Coscheduling) newShapes(members []*gang.Member) shapes {
	s := shapes{keys: sets.New[string]()}
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

// of is equal for members that the filters cannot tell apart.
func (s shapes) of(m *gang.Member) string {
	if template := m.Pod.Annotations[batchv1alpha1.PodTemplateKey]; template != "" && !claimsOfItsOwn(m.Pod) {
		return fmt.Sprintf("%s/%s/%d", template, m.Pod.Annotations[batchv1alpha1.JobVersionKey], m.Priority)
	}
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

// essence is a spec without what differs from pod to pod and no filter looks at. It shares what stays with the spec.
func essence(spec *corev1.PodSpec) *corev1.PodSpec {
	e := *spec
	e.Hostname, e.Subdomain, e.EphemeralContainers = "", "", nil
	// Names differ from pod to pod (that of the service account's token, for one); what can confine a pod to nodes stays.
	e.Volumes = slices.DeleteFunc(slices.Clone(e.Volumes), func(v corev1.Volume) bool {
		return v.Projected != nil || v.ConfigMap != nil || v.Secret != nil || v.EmptyDir != nil || v.DownwardAPI != nil || v.HostPath != nil
	})
	e.InitContainers, e.Containers = slices.Clone(e.InitContainers), slices.Clone(e.Containers)
	for _, containers := range [][]corev1.Container{e.InitContainers, e.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Env, c.EnvFrom, c.Command, c.Args, c.VolumeMounts = nil, nil, nil, nil, nil
		}
	}
	return &e
}
