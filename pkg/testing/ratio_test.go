package testing

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// TestARatioIsJudgedByItsSample: one at its limit passes, whatever the size of the sample. A worse one is found, the sooner the worse it is.
func TestARatioIsJudgedByItsSample(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	// failures counts how many of some samples are judged to be above 2 %. Bad pods come several at a time.
	failures := func(samples, histories int, rate float64) (n int) {
		for range samples {
			var r Ratio
			for range histories {
				pods := 1 + random.IntN(5)
				bad := 0
				if random.Float64() < rate {
					bad = pods
				}
				r.Add(bad, pods)
			}
			if r.IsAbove(0.02) {
				n++
			}
		}
		return n
	}
	for _, histories := range []int{2, 10, 100, 1000} {
		assert.Zero(t, failures(10000, histories, 0.02), "%d histories at the limit", histories)
		assert.Zero(t, failures(1000, histories, 0.006), "%d histories below it", histories)
	}
	assert.Equal(t, 100, failures(100, 100, 0.7))
	assert.Equal(t, 100, failures(100, 1000, 0.12))
	assert.Equal(t, 100, failures(100, 10000, 0.04))
	assert.Equal(t, 100, failures(100, 40, 1), "all are bad")
}

func TestARatioOfNothingIsNoSuccess(t *testing.T) {
	var r Ratio
	mock := &testing.T{}
	r.AtMost(mock, 2, "nothing")
	assert.True(t, mock.Failed())
	assert.False(t, r.IsAbove(0))
}

// TestHistoriesAreDrawnUntilEnoughWasSeen: a rare case comes in the end.
func TestHistoriesAreDrawnUntilEnoughWasSeen(t *testing.T) {
	histories, rounds := 0, 0
	HistoriesUntil(t, 10, func() bool { rounds++; return rounds == 3 }, func(*rapid.T) { histories++ })
	assert.Equal(t, 3, rounds)
	assert.Zero(t, histories%3)
	rounds = -1000
	HistoriesUntil(t, 1, func() bool { rounds++; return false }, func(*rapid.T) {})
	assert.Equal(t, -1000+maxRepeats, rounds, "a case that never comes is looked for no longer")
}
