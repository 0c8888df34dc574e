package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// drain empties a node as `kubectl drain` does: nothing is scheduled to it any more, and its pods are evicted.
func drain(t *testing.T, s *harness.Story, node string) {
	t.Helper()
	_, err := s.Kube.CoreV1().Nodes().Patch(s.Ctx, node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	for _, pod := range s.Log.Pods(s.In(harness.Running, func(p watchlog.Pod) bool { return p.Node == node })) {
		require.NoError(t, s.Kube.PolicyV1().Evictions(s.Namespace).Evict(s.Ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: pod.Name}}))
	}
}

// TestT14_AGangThatIsDrainedBelowItsMinimumIsRepaired: without another policy, the pods that a drain has removed are created anew. They
// start at once if there is room, or as soon as there is; the remaining pods run on.
func TestT14_AGangThatIsDrainedBelowItsMinimumIsRepaired(t *testing.T) {
	t.Parallel()
	for name, spare := range map[string]int{"there is room elsewhere": 1, "room comes later": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			s.AddNodes(3+spare, "cpu", "4")
			job := s.CreateJob(mustertesting.MakeJob("gang").Task(mustertesting.MakeTask("rank", 3).Requests("cpu", "3")))
			s.JobPhase(job, batchv1alpha1.Running)
			before := s.Pods(3, "all run", s.In(harness.Running))
			lost := before[1]
			drain(t, s, lost.Node)
			if spare == 0 {
				s.Pods(1, "the new pod waits", s.In(harness.Unbound))
				s.AddNodes(1, "cpu", "4")
			}
			running := s.Pods(3, "all run again", s.In(harness.Running, func(p watchlog.Pod) bool { return p.UID != lost.UID }))
			s.JobPhase(job, batchv1alpha1.Running)
			kept := 0
			for _, pod := range running {
				for _, old := range before {
					if pod.UID == old.UID {
						kept++
					}
				}
			}
			assert.Equal(t, 2, kept, "the others run on: %v", running)
			assert.Zero(t, s.Log.Job(job).Retries)
		})
	}
}
