package scheme

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/pkg/apis/config/validation"
)

func decode(t *testing.T, yaml string) (runtime.Object, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, AddToScheme(scheme))
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	obj, _, err := codecs.UniversalDecoder(internal).Decode([]byte("apiVersion: "+GroupName+"/v1\n"+yaml), nil, nil)
	return obj, err
}

func TestArgumentsAreDefaulted(t *testing.T) {
	obj, err := decode(t, "kind: CoschedulingArgs\npermitTimeout: 5s\n")
	require.NoError(t, err)
	args := obj.(*config.CoschedulingArgs)
	assert.Equal(t, config.AdmissionRequired, args.Admission)
	assert.Equal(t, 5*time.Second, args.PermitTimeout.Duration)
	assert.Equal(t, time.Minute, args.PartialGangTimeout.Duration)
	assert.Equal(t, time.Second, args.InitialBackoff.Duration)
	assert.Equal(t, 10*time.Second, args.MaxBackoff.Duration)
	assert.Equal(t, int32(100), args.MaxOvertakes)
	assert.Equal(t, 10*time.Minute, args.MaxOvertakeTime.Duration)
	assert.Equal(t, int32(1), args.ReservationDepth)
	assert.NoError(t, validation.ValidateCoschedulingArgs(field.NewPath("args"), args))
}

func TestABoundOfZeroIsNotTakenForOneThatIsNotSet(t *testing.T) {
	obj, err := decode(t, "kind: CoschedulingArgs\nmaxOvertakes: 0\nmaxOvertakeTime: 0s\n")
	require.NoError(t, err)
	args := obj.(*config.CoschedulingArgs)
	assert.Zero(t, args.MaxOvertakes)
	assert.Zero(t, args.MaxOvertakeTime)
	assert.NoError(t, validation.ValidateCoschedulingArgs(field.NewPath("args"), args))
}

func TestArgumentsOfPreemptionAreThoseOfUpstream(t *testing.T) {
	obj, err := decode(t, "kind: GangPreemptionArgs\nminCandidateNodesAbsolute: 7\n")
	require.NoError(t, err)
	args := obj.(*config.GangPreemptionArgs)
	assert.EqualValues(t, 10, args.MinCandidateNodesPercentage)
	assert.EqualValues(t, 7, args.MinCandidateNodesAbsolute)
	assert.True(t, args.EvictOutsideQueues)
	obj, err = decode(t, "kind: GangPreemptionArgs\nevictOutsideQueues: false\n")
	require.NoError(t, err)
	assert.False(t, obj.(*config.GangPreemptionArgs).EvictOutsideQueues)
}

func TestUnknownArgumentsAreRefusedByName(t *testing.T) {
	for _, kind := range []string{"CoschedulingArgs", "CapacityArgs", "TaskPriorityArgs", "GangPreemptionArgs"} {
		_, err := decode(t, "kind: "+kind+"\nscheduleTimeoutSeconds: 3\n")
		assert.ErrorContains(t, err, `unknown field "scheduleTimeoutSeconds"`, kind)
	}
}

func TestWrongArgumentsAreAllNamed(t *testing.T) {
	args := &config.CoschedulingArgs{
		Admission:          "Never",
		PermitTimeout:      metav1.Duration{Duration: time.Hour},
		PartialGangTimeout: metav1.Duration{},
		InitialBackoff:     metav1.Duration{Duration: time.Minute},
		MaxBackoff:         metav1.Duration{Duration: time.Second},
		MaxOvertakes:       -1,
		MaxOvertakeTime:    metav1.Duration{Duration: -time.Second},
		ReservationDepth:   2,
	}
	err := validation.ValidateCoschedulingArgs(field.NewPath("args"), args)
	for _, text := range []string{
		`args.admission: Unsupported value: "Never"`, `args.permitTimeout: Invalid value: "1h0m0s": must be at most 15m`,
		"args.partialGangTimeout: Invalid value: \"0s\": must be greater than 0", "args.maxBackoff", "must be at least initialBackoff",
		"args.maxOvertakes: Invalid value: -1: must not be negative", `args.maxOvertakeTime: Invalid value: "-1s": must not be negative`,
		"args.reservationDepth: Invalid value: 2: must be 0 or 1",
	} {
		assert.ErrorContains(t, err, text)
	}
}
