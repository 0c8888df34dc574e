package resources

import (
	"math/big"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// longExponent is what the CRDs do not take, as it takes minutes to parse.
var longExponent = regexp.MustCompile("[eE][+-]?[0-9]{4}")

// exactAmount is a quantity in the unit of its resource, rounded away from zero, as a number without a bound.
func exactAmount(name corev1.ResourceName, quantity resource.Quantity) *big.Int {
	dec := quantity.DeepCopy()
	exact := new(big.Rat).SetInt(dec.AsDec().UnscaledBig())
	if name == corev1.ResourceCPU {
		exact.Mul(exact, big.NewRat(1000, 1))
	}
	scale := int64(dec.AsDec().Scale())
	power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(scale, -scale)), nil))
	if scale > 0 {
		power.Inv(power)
	}
	exact.Mul(exact, power)
	amount, rest := new(big.Int).QuoRem(exact.Num(), exact.Denom(), new(big.Int))
	return amount.Add(amount, big.NewInt(int64(rest.Sign())))
}

// bound is a number, or the bound that it is beyond.
func bound(n *big.Int) int64 {
	most := big.NewInt(MaxAmount)
	switch {
	case n.Cmp(most) > 0:
		return MaxAmount
	case n.Cmp(most.Neg(most)) < 0:
		return -MaxAmount
	}
	return n.Int64()
}

// FuzzQuantity takes two quantities as users write them, and compares amounts and sums with exact ones.
func FuzzQuantity(f *testing.F) {
	for _, seed := range []string{"0", "100m", "1Gi", "8Ei", "10E", "10000000000000000", "4611686018427387904", "1e999", "-8Ei", ".5", "1.5Ki", "999n"} {
		f.Add(seed, "1")
		f.Add("4611686018427387903", seed)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if longExponent.MatchString(a) || longExponent.MatchString(b) {
			return
		}
		first, err := resource.ParseQuantity(a)
		if err != nil {
			return
		}
		second, err := resource.ParseQuantity(b)
		if err != nil {
			return
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, "x.com/y"} {
			checkAmount(t, name, first)
			checkAmount(t, name, second)
			x, y := Amount(name, first), Amount(name, second)
			switch order := exactAmount(name, first).Cmp(exactAmount(name, second)); {
			case order == 0:
				require.Equal(t, x, y)
			case order < 0:
				require.LessOrEqual(t, x, y)
			default:
				require.GreaterOrEqual(t, x, y)
			}
			if x < y { // whole units decide
				require.Negative(t, first.Cmp(second))
			}
			checkSums(t, name, x, y)
		}
	})
}

func checkAmount(t *testing.T, name corev1.ResourceName, quantity resource.Quantity) {
	amount := Amount(name, quantity)
	require.Equal(t, bound(exactAmount(name, quantity)), amount)
	back := Quantity(name, amount)
	require.Equal(t, amount, Amount(name, back))
	parsed, err := resource.ParseQuantity(back.String())
	require.NoError(t, err)
	require.Equal(t, amount, Amount(name, parsed))
	require.Equal(t, amount >= MaxAmount, List{name: amount}.Validate() != nil)
}

func checkSums(t *testing.T, name corev1.ResourceName, x, y int64) {
	sums, want := Sums{}, new(big.Int)
	for range 5 {
		sums.Add(List{name: x})
		sums.Add(List{name: y})
		want.Add(want, big.NewInt(x)).Add(want, big.NewInt(y))
	}
	require.Equal(t, want.String(), exactly(sums, name).String())
	for range 5 {
		sums.Sub(List{name: x})
	}
	for range 5 {
		sums.Sub(List{name: y})
	}
	require.True(t, sums.IsZero())
}
