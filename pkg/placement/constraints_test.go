package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
)

func TestReasonsAreThoseOfUpstream(t *testing.T) {
	assert.Equal(t, interpodaffinity.ErrReasonAffinityRulesNotMatch, reasonAffinity)
	assert.Equal(t, interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch, reasonExistingAntiAffinity)
	assert.Equal(t, podtopologyspread.ErrReasonConstraintsNotMatch, reasonSpread)
}

// TestNamespacesAreSelectedByTheirLabels: a term selects the pods of a namespace by its labels, as the namespace lister has them.
func TestNamespacesAreSelectedByTheirLabels(t *testing.T) {
	planner, infos := plannerOn(t, []*corev1.Node{nodeIn("a", "n0", 4)})
	for _, test := range []struct {
		label string
		max   int
	}{{corev1.LabelMetadataName, 0}, {"team", 1}} {
		pods := some(2, "worker", awayFrom(corev1.LabelHostname, "worker"), func(p *corev1.Pod) {
			p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector =
				&metav1.LabelSelector{MatchLabels: map[string]string{test.label: "a"}}
		})
		assert.Equal(t, test.max, viewOf(t, planner, problemOf(pods), infos).demands[0].MaxPerNode)
	}
	assert.Nil(t, namespaceLabels(planner.profile, "unknown"))
}

func TestPodsOfAClassThatExcludeEachOther(t *testing.T) {
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
		"its class":                                   {app: "a", want: 1},
		"another class":                               {app: "another"},
		"its class in its namespace by name":          {app: "a", namespaces: []string{"other", "ns"}, want: 1},
		"its class in another namespace":              {app: "a", namespaces: []string{"other"}},
		"its class in all namespaces":                 {app: "a", selector: &metav1.LabelSelector{}, want: 1},
		"its class in namespaces like its own":        {app: "a", selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}, want: 1},
		"its class in other namespaces, by label":     {app: "a", selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}},
		"its class in those by label or its own name": {app: "a", namespaces: []string{"ns"}, selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}, want: 1},
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
