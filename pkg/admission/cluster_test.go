package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestOvercommitFactor(t *testing.T) {
	queue := mustertesting.MakeQueue("q").Obj()
	factor, err := OvercommitFactor(queue)
	require.NoError(t, err)
	assert.Zero(t, factor)
	for text, want := range map[string]float64{"1": 1, "1.5": 1.5, "1000": 1000} {
		queue.Annotations = map[string]string{"volcano.sh/overcommit-factor": text}
		factor, err := OvercommitFactor(queue)
		require.NoError(t, err, text)
		assert.InDelta(t, want, factor, 0)
	}
	for _, text := range []string{"", "much", "0.9", "-2", "NaN", "Inf", "1e9"} {
		queue.Annotations = map[string]string{"volcano.sh/overcommit-factor": text}
		factor, err := OvercommitFactor(queue)
		require.ErrorContains(t, err, `it must be a number from 1 to 1000, such as "1.2"`, text)
		assert.Zero(t, factor)
	}
}
