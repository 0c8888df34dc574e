package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/apis/config"
)

func TestProfilesHaveOneSetOfArguments(t *testing.T) {
	s := New(clock.RealClock{})
	args := config.CoschedulingArgs{Admission: config.AdmissionRequired, PermitTimeout: metav1.Duration{Duration: time.Minute}}
	require.NoError(t, s.Configure("one", args))
	require.NoError(t, s.Configure("two", args))
	other := args
	other.PermitTimeout.Duration++
	require.ErrorContains(t, s.Configure("three", other), `permitTimeout has another value in profile "three" than in profile "one"`)
	assert.Equal(t, args, s.args, "what is refused does not hold")

	s = New(clock.RealClock{})
	require.NoError(t, s.Configure("one", args))
	require.NoError(t, s.Configure("one", other), "a scheduler that is made anew in the same process")
	assert.Equal(t, other, s.args)
}
