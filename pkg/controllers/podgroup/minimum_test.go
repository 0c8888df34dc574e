package podgroup

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

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
