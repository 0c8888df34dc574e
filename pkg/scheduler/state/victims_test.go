package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/apis/config"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// storeWithGang has a gang g of a minimum with so many bound members, and one that waits: surplus.
func storeWithGang(minMember int32, bound int) (*Store, *clocktesting.FakeClock, *corev1.Pod) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	s := New(clock)
	s.args.Admission = config.AdmissionIgnore
	s.Serve("muster")
	s.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").MinMember(minMember).Obj())
	for i := range bound {
		s.SetPod(mustertesting.MakePod(fmt.Sprint("g", i)).UID(fmt.Sprint("g", i)).Group("g").Node("node").Obj())
	}
	waiting := mustertesting.MakePod("late").UID("late").Group("g").SchedulerName("muster").Obj()
	s.SetPod(waiting)
	s.Open()
	return s, clock, waiting
}

func TestVictimsOfOthersCountAsGone(t *testing.T) {
	s, clock, _ := storeWithGang(2, 4)
	held := func() int {
		standing, ok := s.Standing(Key{Namespace: "default", Name: "g"})
		require.True(t, ok)
		return len(standing.Holding)
	}
	require.Equal(t, 4, held())
	s.ClaimVictims("a", []types.UID{"g0"})
	require.Equal(t, 3, held())
	assert.True(t, s.BeginEviction("b", []types.UID{"g1"}, false), "two are left")
	assert.False(t, s.BeginEviction("c", []types.UID{"g2"}, false), "one would be left")
	assert.True(t, s.BeginEviction("c", []types.UID{"g2", "g3"}, false), "none would be left")
	s.DropClaims("b")
	s.DropClaims("c")
	require.Equal(t, 3, held())
	clock.Step(claimFor)
	require.Equal(t, 4, held(), "a claim of which nothing comes does not stand for ever")
}

func TestClaimsEndWithTheirPods(t *testing.T) {
	s, _, _ := storeWithGang(2, 3)
	s.ClaimVictims("a", []types.UID{"g0", "g1", "nobody's"})
	require.Len(t, s.claims, 2)
	s.SetPod(mustertesting.MakePod("g0").UID("g0").Group("g").Node("node").Terminating(time.Unix(1000, 0)).Obj())
	s.DeletePod(mustertesting.MakePod("g1").UID("g1").Group("g").Obj())
	s.check()
	assert.Empty(t, s.claims)
}

func TestSurplusDoesNotJoinAGangThatIsBeingEvicted(t *testing.T) {
	s, clock, late := storeWithGang(2, 3)
	require.Empty(t, s.Gate(late), "surplus may come")
	s.ClaimVictims("a", []types.UID{"g0"})
	require.Empty(t, s.Gate(late), "the gang stays")
	s.ClaimVictims("a", []types.UID{"g0", "g1", "g2"})
	require.Equal(t, beingPreempted, s.Gate(late))

	called := func() bool { return len(s.next(Key{Namespace: "default", Name: "g"}).activate) > 0 }
	called() // whatever was to be done before
	require.False(t, called())
	clock.Step(claimFor)
	s.check()
	require.Empty(t, s.Gate(late))
	assert.True(t, called(), "what was held at the gate is called when the claim ends")
}

func TestGangWithoutPodGroupNeedsNoCare(t *testing.T) {
	s, _, _ := storeWithGang(2, 2)
	s.SetPod(mustertesting.MakePod("h0").UID("h0").Group("h").Node("node").Obj())
	_, ok := s.Standing(Key{Namespace: "default", Name: "h"})
	assert.False(t, ok)
	assert.True(t, s.BeginEviction("a", []types.UID{"h0", "single"}, false))
}
