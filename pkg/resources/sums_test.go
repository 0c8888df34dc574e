package resources

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// exactly is a sum as a number without a bound.
func exactly(s Sums, name corev1.ResourceName) *big.Int {
	sum := new(big.Int).Lsh(big.NewInt(s[name].high), 64)
	return sum.Add(sum, new(big.Int).SetUint64(s[name].low))
}

// anyAmount prefers the amounts at which arithmetic goes wrong.
var anyAmount = rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{
	0, 1, -1, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1, MaxAmount, -MaxAmount, 1 << 32,
}))

// TestSumsAreExact adds and takes back amounts in any order, and compares the sums with math/big after each step.
func TestSumsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []corev1.ResourceName{"a", "b"}
		sums, want := Sums{}, map[corev1.ResourceName]*big.Int{"a": {}, "b": {}}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			name, amount := rapid.SampledFrom(names).Draw(t, "name"), anyAmount.Draw(t, "amount")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				sums.Add(List{name: amount})
				want[name].Add(want[name], big.NewInt(amount))
			case 1:
				sums.Sub(List{name: amount})
				want[name].Sub(want[name], big.NewInt(amount))
			case 2:
				sums.AddSums(sums.Clone())
				doubled(want)
			case 3:
				other := Sums{}
				other.Add(List{name: amount})
				sums.SubSums(other)
				want[name].Sub(want[name], big.NewInt(amount))
			}
			for _, name := range names {
				require.Equal(t, want[name].String(), exactly(sums, name).String())
				require.Equal(t, clipped(want[name]), sums.List()[name])
				limit := anyAmount.Draw(t, "limit")
				require.Equal(t, clipped(new(big.Int).Sub(big.NewInt(limit), want[name])), sums.Left(name, limit))
			}
			require.Equal(t, want["a"].Sign() == 0 && want["b"].Sign() == 0, sums.IsZero())
		}
	})
}

func doubled(amounts map[corev1.ResourceName]*big.Int) {
	for _, amount := range amounts {
		amount.Add(amount, amount)
	}
}

func clipped(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

func TestSumsGiveBackWhatWasThere(t *testing.T) {
	sums := Sums{}
	sums.Add(List{corev1.ResourceMemory: 8 << 30})
	before := sums.Clone()
	for range 3 {
		sums.Add(List{corev1.ResourceMemory: math.MaxInt64})
	}
	assert.EqualValues(t, math.MinInt64, sums.Left(corev1.ResourceMemory, 10<<30))
	for range 3 {
		sums.Sub(List{corev1.ResourceMemory: math.MaxInt64})
	}
	assert.True(t, sums.Equal(before))
	assert.EqualValues(t, 2<<30, sums.Left(corev1.ResourceMemory, 10<<30))
}

// BenchmarkSums adds what a pod takes and takes it back: nothing is allocated.
func BenchmarkSums(b *testing.B) {
	sums, pod := Sums{}, List{corev1.ResourceCPU: 4000, corev1.ResourceMemory: 8 << 30, corev1.ResourcePods: 1}
	b.ReportAllocs()
	for b.Loop() {
		sums.Add(pod)
		sums.Sub(pod)
	}
}

// TestSumsForgetWhatIsGone: names that pods invented leave nothing behind.
func TestSumsForgetWhatIsGone(t *testing.T) {
	sums := Sums{}
	sums.Add(List{"example.com/zero": 0, "example.com/one": 1})
	assert.Len(t, sums, 1)
	sums.Sub(List{"example.com/zero": 0, "example.com/one": 1})
	assert.Empty(t, sums)
	sums.AddSums(Sums{"example.com/one": sum128{}})
	assert.Empty(t, sums)
}
