package runtimes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestKindOf(t *testing.T) {
	tests := map[string]string{
		"train": "train", "train-7": "train", "train7": "train", "train-2026-11-27": "train", "train.v2": "train.v",
		"train-x7k2p": "train", "train-bcdfg": "train", "train-large": "train-large", "resnet50": "resnet", "resnet-50-train": "resnet-50-train",
		"web-6d4cf56db6": "web", "web-6d4cf56db6-x7k2p": "web", "job-20261127-a1b2c3d": "job", "7": "7", "7-8": "7", "": "",
	}
	for name, want := range tests {
		assert.Equal(t, want, KindOf(name), name)
	}
}

// runOf is a run of a user. Numbers at the end of the name do not matter.
func runOf(user, name string) Run {
	return Run{Owner: user, Queue: "research", Name: name, Size: "worker=4"}
}

func TestTheLastTwoRunsCount(t *testing.T) {
	var h Past
	mean := func(r Run) time.Duration {
		m, _ := h.Mean(r)
		return m
	}
	assert.Zero(t, mean(runOf("ada", "train-1")), "nothing is known")
	h.Ended(runOf("ada", "train-1"), 10*time.Minute, 0)
	assert.Equal(t, 10*time.Minute, mean(runOf("ada", "train-2")))
	h.Ended(runOf("ada", "train-2"), 20*time.Minute, 0)
	assert.Equal(t, 15*time.Minute, mean(runOf("ada", "train-3")))
	h.Ended(runOf("ada", "train-3"), 40*time.Minute, 0)
	assert.Equal(t, 30*time.Minute, mean(runOf("ada", "train-4")), "older ones do not count")
	h.Ended(runOf("ada", "train-4"), -time.Minute, 0) // the clock was set back
	assert.Equal(t, 30*time.Minute, mean(runOf("ada", "train-5")))
	h.Ended(runOf("ada", "blink"), 0, 0)
	assert.Equal(t, time.Second, mean(runOf("ada", "blink")), "it began and ended in one second")

	other := runOf("ada", "train-5")
	for _, change := range []func(*Run){
		func(r *Run) { r.Owner = "bob" }, func(r *Run) { r.Queue = "prod" }, func(r *Run) { r.Name = "test-5" }, func(r *Run) { r.Size = "worker=8" },
	} {
		r := other
		change(&r)
		assert.Zero(t, mean(r), "%+v is of another kind", r)
	}
}

func TestSourcesOfEstimates(t *testing.T) {
	known := func() *Past {
		h := &Past{}
		h.Ended(runOf("ada", "train-1"), 20*time.Minute, 0)
		h.Ended(runOf("ada", "train-2"), 40*time.Minute, 0)
		return h
	}
	liar := known()
	for range 3 {
		liar.Ended(runOf("ada", "test-1"), 21*time.Minute, 10*time.Minute)
	}
	all := Facts{Run: runOf("ada", "train-3"), Stated: time.Hour, Limit: 3 * time.Hour, QueueDefault: 2 * time.Hour}
	without := func(change func(*Facts)) Facts {
		f := all
		change(&f)
		return f
	}
	silent := func(f *Facts) { f.Stated = 0 }
	tests := map[string]struct {
		history *Past
		facts   Facts
		want    Estimate
		says    string
	}{
		"the word of the user":      {known(), all, Estimate{time.Hour, User, 3 * time.Hour}, "as its user says"},
		"earlier runs":              {known(), without(silent), Estimate{30 * time.Minute, History, 3 * time.Hour}, "the mean of the last two runs of this kind"},
		"the limit":                 {&Past{}, without(silent), Estimate{3 * time.Hour, Limit, 3 * time.Hour}, "it is ended then, by its activeDeadlineSeconds"},
		"the queue":                 {&Past{}, without(func(f *Facts) { f.Stated, f.Limit = 0, 0 }), Estimate{2 * time.Hour, Queue, 0}, "the defaultRuntime of its queue"},
		"nothing":                   {&Past{}, Facts{Run: all.Run}, Estimate{}, ""},
		"no word beyond the limit":  {known(), without(func(f *Facts) { f.Limit = time.Minute }), Estimate{time.Minute, User, time.Minute}, "as its user says"},
		"no past beyond the limit":  {known(), Facts{Run: all.Run, Limit: time.Minute}, Estimate{time.Minute, History, time.Minute}, "the mean of the last two runs of this kind"},
		"no default beyond a limit": {&Past{}, Facts{Run: all.Run, QueueDefault: time.Hour, Limit: time.Minute}, Estimate{time.Minute, Limit, time.Minute}, "it is ended then, by its activeDeadlineSeconds"},
		"a word that counts for nothing": {&Past{}, Facts{Run: all.Run, Problem: assert.AnError}, Estimate{},
			assert.AnError.Error()},
		"one who understates": {liar, all, Estimate{30 * time.Minute, History, 3 * time.Hour},
			"the mean of the last two runs of this kind; the estimate of its user, 1h0m0s, is not used: runs of late took more than twice as long as estimated"},
		"one who understates a new kind": {liar, Facts{Run: runOf("ada", "new"), Stated: time.Minute}, Estimate{},
			"the estimate of its user, 1m0s, is not used: runs of late took more than twice as long as estimated"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := test.history.Find(test.facts)
			assert.Equal(t, test.want, found.Estimate)
			assert.Equal(t, test.says, found.Message)
			assert.Equal(t, strings.Contains(found.Message, "is not used"), found.Distrusted)
		})
	}
}

// TestALieGainsNothing: after three runs of more than twice the estimate the word of the user is not used. It is used again after three others.
func TestALieGainsNothing(t *testing.T) {
	var h Past
	r := runOf("ada", "train")
	ended := func(took time.Duration) bool {
		h.Ended(r, took, 10*time.Minute)
		return h.Distrusts(r)
	}
	assert.False(t, ended(21*time.Minute))
	assert.False(t, ended(time.Hour))
	assert.False(t, ended(20*time.Minute), "twice as long is no lie")
	assert.False(t, ended(time.Hour))
	assert.True(t, ended(time.Hour))
	assert.True(t, ended(5*time.Minute))
	assert.True(t, ended(10*time.Minute))
	assert.True(t, ended(time.Hour), "one lie more")
	assert.True(t, ended(time.Minute))
	h.Ended(r, time.Minute, 0)
	assert.True(t, h.Distrusts(r), "a run without a word says nothing of it")
	assert.False(t, ended(time.Minute))
	assert.False(t, h.Distrusts(runOf("bob", "train")))
}

// TestOneOwnerTakesNoEntriesOfOthers: more names than a history has entries, of one owner, remove entries of that owner.
func TestOneOwnerTakesNoEntriesOfOthers(t *testing.T) {
	var h Past
	for i := range 50 {
		h.Ended(runOf("ada", word(i)), time.Hour, 30*time.Minute)
	}
	for i := range 3 * MaxEntries {
		h.Ended(runOf("flood", word(i)), time.Second, 0)
	}
	again, broken := Read(h.String())
	require.Zero(t, broken)
	for _, h := range []*Past{&h, again} {
		assert.Equal(t, MaxEntries, h.Len())
		for i := range 50 {
			mean, _ := h.Mean(runOf("ada", word(i)))
			assert.Equal(t, time.Hour, mean)
		}
		_, runs := h.Mean(runOf("flood", word(3*MaxEntries-1)))
		assert.Equal(t, 1, runs, "its own newest ones are kept")
		_, runs = h.Mean(runOf("flood", word(0)))
		assert.Zero(t, runs)
	}
}

// word is a name without numbers at its end.
func word(i int) string { return fmt.Sprintf("a%d-large", i) }

// TestEntriesOfEarlierVersionsAreRead. They have no owner, and count as those of one until they are used.
func TestEntriesOfEarlierVersionsAreRead(t *testing.T) {
	var text strings.Builder
	for i := range MaxEntries {
		fmt.Fprintf(&text, "%s 1000 0 0 false\n", runOf("ada", word(i)).kind())
	}
	h, broken := Read(text.String())
	require.Zero(t, broken)
	require.Equal(t, MaxEntries, h.Len())
	_, runs := h.Mean(runOf("ada", word(0)))
	require.Equal(t, 1, runs)
	again, broken := Read(h.String())
	require.Zero(t, broken)
	for i := range MaxEntries / 2 {
		again.Ended(runOf("flood", word(i)), time.Second, 0)
	}
	for i, want := range []int{1, 0} {
		_, runs = again.Mean(runOf("ada", word(i)))
		assert.Equal(t, want, runs, "the one that was used has its owner, and is kept")
	}
}

// TestAHistoryIsBounded: it keeps the entries that were used last. It is the same after it was written and read.
func TestAHistoryIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Past
		users := rapid.IntRange(1, 2*MaxEntries).Draw(t, "users")
		if rapid.Bool().Draw(t, "full") {
			for i := range MaxEntries {
				h.Ended(runOf(fmt.Sprint("filler", i), "x"), time.Hour, 0)
			}
		}
		for range rapid.IntRange(0, 200).Draw(t, "runs") {
			r := runOf(fmt.Sprint(rapid.IntRange(0, users).Draw(t, "user")), rapid.SampledFrom([]string{"train", "test"}).Draw(t, "name"))
			took := time.Duration(rapid.Int64().Draw(t, "took"))
			stated := time.Duration(rapid.Int64().Draw(t, "stated"))
			h.Ended(r, took, stated)
			mean, runs := h.Mean(r)
			if took >= 0 {
				require.Positive(t, runs, "what was used last is kept")
				require.Positive(t, mean)
			}
			require.LessOrEqual(t, mean, Longest)
			require.LessOrEqual(t, h.Len(), MaxEntries)
			require.Equal(t, h.Len(), h.order.Len())
			require.Equal(t, h.Len(), sum(h.counts))
		}
		text := h.String()
		require.Less(t, len(text), 200_000, "far below what an object may have")
		again, broken := Read(text)
		require.Zero(t, broken)
		require.Equal(t, text, again.String())
		h.Ended(runOf("new", "new"), time.Hour, 0)
		again.Ended(runOf("new", "new"), time.Hour, 0)
		require.Equal(t, h.String(), again.String(), "the same entry goes when there is one too many")
	})
}

func sum(counts map[Key]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// TestWhatIsBrokenIsLeftOut: anybody may have written the text.
func TestWhatIsBrokenIsLeftOut(t *testing.T) {
	good := key("x")
	tests := map[string]int{
		"":        0,
		"rubbish": 1,
		string(good) + " 1 2 0 false\nrubbish\n" + string(key("y")) + " 1 2 3 true\n": 1,
		string(good) + " -1 2 0 false":                   1,
		string(good) + " 99999999999999999999 2 0 false": 1,
		string(good) + " 9223372036854775807 2 0 false":  1,
		string(good) + " 1 2 4 false":                    1,
		string(good) + " 1 2 0 maybe":                    1,
		"short 1 2 0 false":                              1,
		string(good) + " 1 2 0 false short":              1,
		strings.Repeat("x\n", MaxEntries+5):              MaxEntries + 5,
	}
	for text, want := range tests {
		h, broken := Read(text)
		assert.Equal(t, want, broken, "%.80q", text)
		left := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { _, err := parse(line); return err != nil })
		assert.Equal(t, len(left), h.Len(), "%.80q", text)
	}
	rapid.Check(t, func(t *rapid.T) {
		h, _ := Read(rapid.String().Draw(t, "text"))
		require.LessOrEqual(t, h.Len(), MaxEntries)
	})
}
