package v1beta1

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParentOf(t *testing.T) {
	assert.Empty(t, ParentOf(RootQueue, ""))
	assert.Empty(t, ParentOf(RootQueue, "q"), "the root has no parent")
	assert.Equal(t, RootQueue, ParentOf("q", ""))
	assert.Equal(t, "p", ParentOf("q", "p"))
}

func TestShutQueues(t *testing.T) {
	for state, want := range map[QueueState]bool{"": false, QueueStateOpen: false, QueueStateClosing: true, QueueStateClosed: true} {
		assert.Equal(t, want, state.IsShut(), state)
	}
}

func TestTheCurrentConditionOfAPodGroup(t *testing.T) {
	at := func(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(seconds, 0)) }
	assert.Nil(t, CurrentCondition(nil))
	conditions := []PodGroupCondition{
		{Reason: "a", LastTransitionTime: at(1)}, {Reason: "b", LastTransitionTime: at(3)}, {Reason: "c", LastTransitionTime: at(3)}, {Reason: "d", LastTransitionTime: at(2)},
	}
	assert.Equal(t, "c", CurrentCondition(conditions).Reason, "the last one of two at the same time")
}
