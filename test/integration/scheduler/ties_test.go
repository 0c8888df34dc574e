package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// role is the label that the rules of these tests' pods select by.
const role = "role"

func hasRole(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, role, value) }
}

// nearRole has a pod go only to a domain where there is one of a role.
func nearRole(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{role: value}},
			}},
		}}
	}
}

// spreadOver has no domain hold two more pods of a role than another.
func spreadOver(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{role: value}},
		}}
	}
}

func inZone(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }
}

func withCPUs(cpus string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(cpus) }
}

// TestWorkersThatNeedAnotherMemberStartWithIt: no pod that the workers may be near is there before the gang itself has begun. The member
// that they need is the last in the gang's own order.
func TestWorkersThatNeedAnotherMemberStartWithIt(t *testing.T) {
	for name, key := range map[string]string{"on its node": corev1.LabelHostname, "in its zone": corev1.LabelTopologyZone} {
		t.Run(name, func(t *testing.T) {
			w := newQuietWorld(t, 0)
			w.addNode(0, inZone("a"))
			w.addNode(1, inZone("b"), withCPUs("9"))
			before := w.metric(rolledBack)
			w.createGroup("g", 3, "")
			for i := range 2 {
				w.create(w.pod(fmt.Sprintf("g-%d", i), "g", hasRole("worker"), nearRole(key, "ps")))
			}
			w.create(w.pod("g-ps", "g", hasRole("ps")))
			w.expectBound("g", 3)
			require.Equal(t, w.namespace+"-1", w.nodeOf("g-ps"), "nowhere else is there room for all three")
			require.Equal(t, before, w.metric(rolledBack), "rounds that failed")
		})
	}
}

// TestAGangThatIsSpreadFillsTheEmptierZoneFirst: the zone with room has one such pod already, and the other zone has room for one.
func TestAGangThatIsSpreadFillsTheEmptierZoneFirst(t *testing.T) {
	w := newQuietWorld(t, 0)
	w.addNode(0, inZone("a"), withCPUs("12"))
	w.addNode(1, inZone("b"), withCPUs("3"))
	w.create(w.pod("first", "", hasRole("worker"), func(p *corev1.Pod) { p.Spec.NodeName = w.namespace + "-0" }))
	before := w.metric(rolledBack)
	w.createGroup("g", 2, "")
	w.createGang("g", 2, hasRole("worker"), spreadOver(corev1.LabelTopologyZone, "worker"))
	w.expectBound("g", 2)
	require.Equal(t, before, w.metric(rolledBack), "rounds that failed")
}

// TestAGangThatMustBeInOneZoneWaitsForOneThatIsLargeEnough: there is room for it in three zones, and in none.
func TestAGangThatMustBeInOneZoneWaitsForOneThatIsLargeEnough(t *testing.T) {
	w := newQuietWorld(t, 0)
	for i := range 3 {
		w.addNode(i, inZone(fmt.Sprint("z", i)), withCPUs("15"))
	}
	before := w.metric(rolledBack)
	w.createGroup("g", 8, "")
	w.createGang("g", 8, hasRole("worker"), nearRole(corev1.LabelTopologyZone, "worker"))
	w.expectHeld("g", "room for 5 of the 8 members that start together",
		"3 more need 3 cpu each where the inter-pod constraints of the gang let them go",
		"node(s) didn't match pod affinity rules")
	require.Equal(t, before, w.metric(rolledBack), "it was tried though it cannot start")
	w.addNode(3, inZone("z1"), withCPUs("9"))
	w.expectBound("g", 8)
	require.Equal(t, before, w.metric(rolledBack), "rounds that failed")
}

func (w *world) nodeOf(name string) string {
	w.t.Helper()
	pod, err := kube.CoreV1().Pods(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return pod.Spec.NodeName
}
