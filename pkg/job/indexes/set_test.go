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

func TestParseRefusesWhatStringNeverWrites(t *testing.T) {
	for _, text := range []string{"x", "-1", "3-1", "1,1", "2,1", "0-4,4", "1,", ",", "1-", "1-x", "4294967296"} {
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
