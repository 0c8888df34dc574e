package gangs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/scheduler/gangs"
)

func TestProfilesHaveOneSetOfArguments(t *testing.T) {
	tr := gangs.New(clock.RealClock{})
	require.NoError(t, tr.Configure("one", testArgs))
	require.NoError(t, tr.Configure("two", testArgs))
	other := testArgs
	other.PermitTimeout.Duration++
	require.ErrorContains(t, tr.Configure("three", other), `permitTimeout has another value in profile "three" than in profile "one"`)
	assert.Equal(t, testArgs, tr.Settings.Args, "arguments that are refused do not hold")

	tr = gangs.New(clock.RealClock{})
	require.NoError(t, tr.Configure("one", testArgs))
	require.NoError(t, tr.Configure("one", other), "a scheduler that is made anew in the same process")
	assert.Equal(t, other, tr.Settings.Args)
}

func TestPodsOfOtherSchedulersAreNoMembersUntilTheyAreBound(t *testing.T) {
	tr := openTracker(t)
	pods := gangOf(tr, "g", 1, 0)
	require.Empty(t, pods)
	foreign := memberNamed("foreign").SchedulerName("another").Obj()
	tr.SetPod(foreign)
	assert.Zero(t, tr.Gangs[theGang].Len())
	tr.SetPod(on(foreign, "node"))
	assert.Equal(t, 1, tr.Gangs[theGang].Len())
}
