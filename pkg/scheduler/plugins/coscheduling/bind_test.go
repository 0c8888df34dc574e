package coscheduling

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestBindingIsLimited(t *testing.T) {
	l := newBindLimiter()
	pod := func(i int) types.UID { return types.UID(strconv.Itoa(i)) }
	for i := range bindsAtOnce {
		require.NoError(t, l.acquire(context.Background(), pod(i)))
	}

	ended, end := context.WithCancelCause(context.Background())
	end(assert.AnError)
	require.ErrorIs(t, l.acquire(ended, pod(bindsAtOnce)), assert.AnError, "there is no slot left")

	l.release(pod(bindsAtOnce)) // a pod that holds no slot gives none back
	require.ErrorIs(t, l.acquire(ended, pod(bindsAtOnce)), assert.AnError)

	next := make(chan error)
	go func() { next <- l.acquire(context.Background(), pod(bindsAtOnce)) }()
	l.release(pod(7))
	require.NoError(t, <-next)
	l.release(pod(7)) // once only
	assert.Len(t, l.slots, bindsAtOnce)
}
