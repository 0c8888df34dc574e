package histories_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/text"
	"github.com/muster-sched/muster/test/simulation"
)

// total is how many writes of plans there were.
func (s *starts) total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, writes := range s.writes {
		n += writes
	}
	return n
}

// TestTenThousandGangsWithoutEstimates: those that are first in line are told why no start is known, once, and ten a second. The first still starts
// when there is room.
func TestTenThousandGangsWithoutEstimates(t *testing.T) {
	const gangs, planned = 10_000, 1000
	runStarts(t, 1, func(s *starts) {
		s.submit("runs", 1, "")
		s.pass(time.Second)
		s.submit("first", 1, "")
		s.pass(2 * time.Second)
		for i := range gangs {
			group := mustertesting.MakePodGroup(fmt.Sprint("waits-", i)).MinMember(1).MinResources("cpu", "1").Phase(schedulingv1beta1.PodGroupPending).Obj()
			group.UID = types.UID(group.Name)
			group.CreationTimestamp.Time = time.Now()
			require.NoError(s.t, s.api.Create(simulation.PodGroups, group, namespace))
		}
		before := s.total()
		s.pass(10 * time.Second)
		assert.LessOrEqual(t, s.total()-before, 10*10+30, "ten a second, and what was saved up")
		s.pass(3 * time.Minute)
		assert.LessOrEqual(t, s.total(), planned+2, "each is told once")
		plan := s.plan("waits-0")
		require.NotNil(t, plan)
		assert.Contains(t, plan.Message, text.NoStart+": ")
		assert.EqualValues(t, 2, plan.Position)
		assert.Nil(t, s.plan(fmt.Sprint("waits-", gangs-1)))
		told := s.total()
		s.pass(2 * time.Minute)
		assert.Equal(t, told, s.total(), "nothing has changed")

		s.end("runs", 1)
		s.pass(10 * time.Second)
		assert.True(t, s.isBound("first-0"), "the first in line starts")
	})
}

// TestARunThatOutlivesItsEstimateAHundredTimes: what waits for it has a start in the future, which moves a few times. It starts when the run ends.
func TestARunThatOutlivesItsEstimateAHundredTimes(t *testing.T) {
	runStarts(t, 1, func(s *starts) {
		began := time.Now()
		s.submit("runs", 1, "1m")
		s.pass(time.Second)
		s.submit("waits", 1, "1m")
		seen := map[string]bool{}
		for time.Since(began) < 100*time.Minute {
			s.pass(time.Minute)
			plan := s.plan("waits")
			require.NotNil(t, plan)
			require.NotNil(t, plan.ExpectedStart, plan.Message)
			assert.Equal(t, []string{"runs"}, plan.WaitsFor)
			assert.Contains(t, plan.Message, text.StartsAbout)
			assert.Greater(t, time.Until(plan.ExpectedStart.At.Time), -90*time.Second, "it lies in the future when it is written, and is written again within a minute")
			seen[plan.ExpectedStart.At.String()] = true
		}
		assert.LessOrEqual(t, len(seen), 15, "1.5 times as long each time")
		assert.LessOrEqual(t, s.writes["waits"], 16)
		s.end("runs", 1)
		s.pass(10 * time.Second)
		assert.True(t, s.isBound("waits-0"))
	})
}

// TestNodesThatComeAndGo: an autoscaler takes a node and gives it back each minute. Plans are written once a minute for a gang at most. They say a
// start, or why there is none. A gang that fits each time starts.
func TestNodesThatComeAndGo(t *testing.T) {
	runStarts(t, 1, func(s *starts) {
		s.submit("runs", 1, "10h")
		s.pass(time.Second)
		s.submit("wide", 2, "1m")
		s.pass(5 * time.Second)
		node := func(i int) *schedulingv1beta1.PodGroupPlan {
			name := fmt.Sprint("comes-", i)
			node := mustertesting.MakeNode(name).Allocatable("cpu", "1", "memory", "1Ti", "pods", "10").Obj()
			node.UID = types.UID(name)
			require.NoError(s.t, s.api.Create(simulation.Nodes, node, ""))
			s.submit(fmt.Sprint("brief-", i), 1, "30s")
			s.pass(30 * time.Second)
			assert.True(t, s.isBound(fmt.Sprintf("brief-%d-0", i)), "it ends before wide can start")
			s.end(fmt.Sprint("brief-", i), 1)
			require.NoError(s.t, s.api.Delete(simulation.Nodes, "", name))
			s.pass(30 * time.Second)
			return s.plan("wide")
		}
		for i := range 30 {
			plan := node(i)
			require.NotNil(t, plan)
			if plan.ExpectedStart == nil {
				assert.Contains(t, plan.Message, text.NoStart+": ")
			} else {
				assert.Contains(t, plan.Message, text.StartsAbout)
			}
		}
		assert.LessOrEqual(t, s.writes["wide"], 31, "once a minute at most")
	})
}
