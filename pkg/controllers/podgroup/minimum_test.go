package podgroup

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestTheMinimumCountsWhatAdmissionAdds: minResources are worked out from templates, which ask for 1 CPU a pod.
func TestTheMinimumCountsWhatAdmissionAdds(t *testing.T) {
	group := mustertesting.MakePodGroup("g").MinMember(3).MinResources("cpu", "3").Obj()
	group.Spec.MinTaskMember = map[string]int32{"lead": 1, "work": 2}
	undivided := mustertesting.MakePodGroup("g").MinMember(3).MinResources("cpu", "3").Obj()
	pod := func(task, cpu string) *mustertesting.PodWrapper {
		return mustertesting.MakePod("p").Annotation(batchv1alpha1.TaskSpecKey, task).Requests("cpu", cpu)
	}
	withSidecar := pod("work", "1").Obj()
	sidecar := withSidecar.Spec.Containers[0]
	sidecar.Name = "sidecar"
	withSidecar.Spec.Containers = append(withSidecar.Spec.Containers, sidecar)
	withOverhead := pod("work", "1").Obj()
	withOverhead.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: mustertesting.Resources("cpu", "500m")[corev1.ResourceCPU]}
	for name, c := range map[string]struct {
		pods      []*corev1.Pod
		undivided bool
		want      int64
	}{
		"no pods yet":                     {nil, false, 3000},
		"as the templates say":            {[]*corev1.Pod{pod("lead", "1").Obj(), pod("work", "1").Obj()}, false, 3000},
		"a sidecar":                       {[]*corev1.Pod{pod("lead", "1").Obj(), withSidecar}, false, 5000},
		"a sidecar, and no lead yet":      {[]*corev1.Pod{withSidecar}, false, 4000},
		"overhead":                        {[]*corev1.Pod{pod("lead", "1").Obj(), withOverhead}, false, 4000},
		"less than the templates say":     {[]*corev1.Pod{pod("lead", "100m").Obj(), pod("work", "100m").Obj()}, false, 3000},
		"pods of no minimum":              {[]*corev1.Pod{pod("other", "9").Obj()}, false, 3000},
		"without tasks":                   {[]*corev1.Pod{pod("", "2").Obj()}, true, 6000},
		"of different pods what all have": {[]*corev1.Pod{pod("", "2").Obj(), pod("", "9").Obj()}, true, 6000},
	} {
		t.Run(name, func(t *testing.T) {
			g := group
			if c.undivided {
				g = undivided
			}
			assert.Equal(t, c.want, max(usage.MinimumOf(g)[corev1.ResourceCPU], askedFor(g, c.pods, resources.PodRequests)[corev1.ResourceCPU]))
		})
	}
}

// TestRoomIsKeptForWhatAdmissionAdds: the first pod of an admitted gang of two has a sidecar. So the gang wants 4 of the 5 CPUs.
func TestRoomIsKeptForWhatAdmissionAdds(t *testing.T) {
	s := newStage(t)
	s.usage.Ledger().SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "5").Obj())
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).MinResources("cpu", "2").Phase(inqueue).Obj()
	s.serve(group)
	s.cache(group)
	free := func(cpu int64) bool {
		return s.usage.Ledger().Room("q", resources.List{corev1.ResourceCPU: cpu}) == nil
	}
	sync := func() {
		_, err := s.Sync(t.Context(), "default/g")
		require.NoError(t, err)
	}
	sync()
	require.True(t, free(3000))
	s.cache(mustertesting.MakePod("a").UID("a").Group("g").Requests("cpu", "2").Obj())
	sync()
	assert.False(t, free(2000), "the gang will take it")
	assert.True(t, free(1000))
}

// TestAPodHoldsNoRoomThatOthersHave: every user with the right to create pods can have one ask for anything. The minimum of its gang, 2 of
// 5 CPUs, is kept. The rest stays free, and is held for what admission adds once it is there.
func TestAPodHoldsNoRoomThatOthersHave(t *testing.T) {
	s := newStage(t)
	s.usage.Ledger().SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "5").Obj())
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).MinResources("cpu", "2").Phase(inqueue).Obj()
	s.serve(group)
	s.cache(group)
	for _, cpu := range []string{"1000000000", "3", "2"} {
		s.cache(mustertesting.MakePod("a").UID("a").Group("g").Requests("cpu", cpu).Obj())
		_, err := s.Sync(t.Context(), "default/g")
		require.NoError(t, err)
		free := int64(3000)
		if cpu == "2" {
			free = 1000
		}
		assert.Nil(t, s.usage.Ledger().Room("q", resources.List{corev1.ResourceCPU: free}), cpu)
		assert.NotNil(t, s.usage.Ledger().Room("q", resources.List{corev1.ResourceCPU: free + 1}), cpu)
	}
}
