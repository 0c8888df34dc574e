package state

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

func TestMembersTakeTurnsToBeBound(t *testing.T) {
	s := New(clock.RealClock{})
	pod := func(i int) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(strconv.Itoa(i))}}
	}
	for i := range bindsAtOnce {
		require.NoError(t, s.AwaitTurn(context.Background(), pod(i)))
	}

	impatient, giveUp := context.WithCancelCause(context.Background())
	giveUp(assert.AnError)
	require.ErrorIs(t, s.AwaitTurn(impatient, pod(bindsAtOnce)), assert.AnError, "there is no turn left")

	s.EndTurn(pod(bindsAtOnce)) // who holds none gives none back
	require.ErrorIs(t, s.AwaitTurn(impatient, pod(bindsAtOnce)), assert.AnError)

	next := make(chan error)
	go func() { next <- s.AwaitTurn(context.Background(), pod(bindsAtOnce)) }()
	s.EndTurn(pod(7))
	require.NoError(t, <-next)
	s.EndTurn(pod(7)) // once only
	assert.Len(t, s.binding.slots, bindsAtOnce)
}
