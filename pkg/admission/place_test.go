package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

func TestCoarsePositions(t *testing.T) {
	for position, want := range map[int]int32{1: 1, 10: 10, 11: 20, 20: 20, 21: 50, 51: 100, 100: 100, 101: 200, 999: 1000, 1001: 2000, 10_000: 10_000, 10_001: 20_000} {
		assert.Equal(t, want, coarse(position), position)
	}
}

// TestOnlyWhatWaitsHasAPlace: the place goes when the gang starts. It stays while a new process has found none yet.
func TestOnlyWhatWaitsHasAPlace(t *testing.T) {
	written := &schedulingv1beta1.PodGroupPlace{Position: 7}
	found := &Place{PodGroupPlace: schedulingv1beta1.PodGroupPlace{Position: 3}}
	for phase, want := range map[schedulingv1beta1.PodGroupPhase][2]int32{
		"": {7, 3}, schedulingv1beta1.PodGroupPending: {7, 3}, schedulingv1beta1.PodGroupInqueue: {7, 3},
		schedulingv1beta1.PodGroupRunning: {}, schedulingv1beta1.PodGroupUnknown: {}, schedulingv1beta1.PodGroupCompleted: {},
	} {
		for i, found := range []*Place{nil, found} {
			status := &schedulingv1beta1.PodGroupStatus{Phase: phase, Place: written.DeepCopy()}
			WithPlace(status, found)
			if want[i] == 0 {
				assert.Nil(t, status.Place, phase)
			} else {
				assert.Equal(t, want[i], status.Place.Position, phase)
			}
		}
	}
}
