package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/apis/config"
)

func TestProfilesHaveOneSetOfArguments(t *testing.T) {
	s := New(clock.RealClock{})
	args := config.CoschedulingArgs{Admission: config.AdmissionRequired, PermitTimeout: metav1.Duration{Duration: time.Minute}}
	assert.NoError(t, s.Configure("one", args))
	assert.NoError(t, s.Configure("two", args))
	other := args
	other.PermitTimeout.Duration++
	assert.ErrorContains(t, s.Configure("three", other), `permitTimeout has another value in profile "three" than in profile "one"`)
	assert.Equal(t, args, s.args, "what is refused does not hold")

	s = New(clock.RealClock{})
	assert.NoError(t, s.Configure("one", args))
	assert.NoError(t, s.Configure("one", other), "a scheduler that is made anew in the same process")
	assert.Equal(t, other, s.args)
}
