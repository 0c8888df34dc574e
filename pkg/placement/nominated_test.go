package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// nominating is a profile in which pods are nominated to nodes. Its filters count none of them: for one member they make no difference here.
type nominating struct {
	Profile
	pods map[string][]fwk.PodInfo
}

func (n *nominating) NominatedPodsForNode(node string) []fwk.PodInfo { return n.pods[node] }

// TestRoomIsLeftToNominatedPods: a node has room for two members, or for one beside a pod that is nominated to it.
func TestRoomIsLeftToNominatedPods(t *testing.T) {
	for name, c := range map[string]struct {
		priority int32
		own      bool
		want     Feasibility
	}{
		"of the same priority":  {0, false, Impossible},
		"of a higher priority":  {1, false, Impossible},
		"not of a lower one":    {-1, false, Possible},
		"not of the gang's own": {0, true, Possible},
	} {
		t.Run(name, func(t *testing.T) {
			planner, infos := plannerOn(t, []*corev1.Node{nodeIn("z", "n", 2)})
			info, err := framework.NewPodInfo(in("other", "nominated", func(p *corev1.Pod) { p.Spec.Priority = &c.priority }))
			require.NoError(t, err)
			planner.profile = &nominating{planner.profile, map[string][]fwk.PodInfo{"n": {info}}}
			problem := problemOf(some(2, "worker"))
			problem.SameGang = func(*corev1.Pod) bool { return c.own }
			decision := planner.Decide(t.Context(), problem, infos)
			assert.Equal(t, c.want, decision.Feasibility, decision.Message)
			assert.Nil(t, decision.Shortfall, "the nomination may end without an event")
		})
	}
}
