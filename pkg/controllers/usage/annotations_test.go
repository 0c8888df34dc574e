package usage

import (
	"testing"
	"time"

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

func TestWaitingTime(t *testing.T) {
	for _, name := range []string{"volcano.sh/sla-waiting-time", "sla-waiting-time"} {
		group := mustertesting.MakePodGroup("g").Obj()
		wait, err := WaitingTime(group)
		require.NoError(t, err)
		assert.Zero(t, wait)
		group.Annotations = map[string]string{name: "1h2m3s"}
		wait, err = WaitingTime(group)
		require.NoError(t, err)
		assert.Equal(t, time.Hour+2*time.Minute+3*time.Second, wait)
		for _, text := range []string{"", "soon", "0s", "-1h", "30"} {
			group.Annotations[name] = text
			_, err = WaitingTime(group)
			require.ErrorContains(t, err, "annotation "+name+" is ", text)
			require.ErrorContains(t, err, `it must be a duration above 0, such as "1h30m"`)
		}
	}
	both := mustertesting.MakePodGroup("g").Obj()
	both.Annotations = map[string]string{"sla-waiting-time": "1h", "volcano.sh/sla-waiting-time": "2h"}
	wait, _ := WaitingTime(both)
	assert.Equal(t, 2*time.Hour, wait)
}
