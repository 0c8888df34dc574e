package indexes

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestStringWritesIntervals(t *testing.T) {
	for want, members := range map[string][]int32{
		"":          nil,
		"0":         {0},
		"0-1":       {1, 0},
		"0-4,7":     {7, 4, 2, 0, 1, 3},
		"1,3,5-6":   {6, 5, 3, 1, 1},
		"0,2-3,100": {100, 3, 2, 0},
	} {
		assert.Equal(t, want, Of(members...).String())
	}
}

// every returns the multiples of step below n.
func every(step, n int32) Set {
	var members []int32
	for i := int32(0); i < n; i += step {
		members = append(members, i)
	}
	return Of(members...)
}

func TestStringWritesABitmapWhereThatIsShorter(t *testing.T) {
	assert.Equal(t, "0,3,6,9,12,15,18,21,24,27,30,33,36,39,42,45,48,51,54,57,60,63", every(3, 66).String(), "short enough to read")
	// Bits 0, 3, 6 of the first byte, 9, 12, 15 of the second, 18 and 21 of the third. That is 0x49, 0x92, 0x24.
	assert.Equal(t, "base64:SZIkSZIkSZIkSQ", every(3, 79).String())
	assert.Equal(t, "0-99999", every(1, 100000).String())
	end := every(2, 100)
	end.Add(math.MaxInt32)
	assert.NotContains(t, end.String(), "base64", "a bitmap would take 360 MB")

	whole, err := Parse("base64:CQE") // 0x09, 0x01
	require.NoError(t, err)
	assert.Equal(t, "0,3,8", whole.String())
}

// TestTextIsBounded: any set of indexes below n takes a sixth of n as bytes.
func TestTextIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 5000).Draw(t, "n")
		set := Of(rapid.SliceOf(rapid.Int32Range(0, n-1)).Draw(t, "members")...)
		set.AddAll(every(rapid.Int32Range(1, 50).Draw(t, "step"), n))
		text := set.String()
		require.LessOrEqual(t, len(text), max(64, int(n)/6+9))
		again, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, set, again)
	})
}

func TestParseRefusesWhatStringNeverWrites(t *testing.T) {
	for _, text := range []string{"x", "-1", "3-1", "1,1", "2,1", "0-4,4", "1,", ",", "1-", "1-x", "4294967296", "base64:=", "base64:*", "base64:A"} {
		_, err := Parse(text)
		assert.Error(t, err, text)
	}
}

func TestParseMergesNeighbours(t *testing.T) {
	s, err := Parse("0-1,2,4")
	require.NoError(t, err)
	assert.Equal(t, "0-2,4", s.String())
}

// TestSetBehavesLikeAMap compares the set with the plain form over random changes.
func TestSetBehavesLikeAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set Set
		plain := map[int32]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			index := rapid.Int32Range(0, 25).Draw(t, "index")
			switch rapid.SampledFrom([]string{"add", "add", "add range", "add all", "remove", "remove all", "trim"}).Draw(t, "step") {
			case "add":
				set.Add(index)
				plain[index] = true
			case "add range":
				last := rapid.Int32Range(-1, 25).Draw(t, "last")
				set.AddRange(index, last)
				for i := index; i <= last; i++ {
					plain[i] = true
				}
			case "add all":
				others := rapid.SliceOf(rapid.Int32Range(0, 25)).Draw(t, "others")
				set.AddAll(Of(others...))
				for _, i := range others {
					plain[i] = true
				}
			case "remove all":
				others := rapid.SliceOf(rapid.Int32Range(0, 25)).Draw(t, "others")
				set.RemoveAll(Of(others...))
				for _, i := range others {
					delete(plain, i)
				}
			case "remove":
				set.Remove(index)
				delete(plain, index)
			case "trim":
				set.Trim(index)
				maps.DeleteFunc(plain, func(i int32, _ bool) bool { return i >= index })
			}
			requireSame(t, set, plain)
		}
	})
}

func requireSame(t *rapid.T, set Set, plain map[int32]bool) {
	require.Equal(t, int32(len(plain)), set.Len())
	for i := range int32(27) {
		require.Equal(t, plain[i], set.Has(i), "index %d of %s", i, set)
	}
	require.Equal(t, slices.Sorted(maps.Keys(plain)), slices.Collect(set.All()))
	again, err := Parse(set.String())
	require.NoError(t, err)
	require.Equal(t, set.String(), again.String())
	require.Len(t, again.Clone().spans, len(set.spans), "Parse merges as Add does")
}

// TestTheEndsOfWhatAnIndexMayBe: nothing overflows where a record says so.
func TestTheEndsOfWhatAnIndexMayBe(t *testing.T) {
	whole := Of()
	whole.AddRange(-5, math.MaxInt32)
	require.Equal(t, "0-2147483647", whole.String())
	end := Of(math.MaxInt32)
	whole.RemoveAll(end)
	assert.Equal(t, "0-2147483646", whole.String())
	whole.AddAll(end)
	assert.Equal(t, "0-2147483647", whole.String())
	whole.RemoveAll(whole.Clone())
	assert.Empty(t, whole.String())
	whole.Add(-1)
	assert.Empty(t, whole.String())
}
