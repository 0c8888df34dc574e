package testing

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// checksFlag is rapid's own flag for how often a property is checked.
const checksFlag = "rapid.checks"

// withDetector is the part of the histories that the race detector looks at. Few of them start goroutines, and hack/test.sh runs all of them
// without it.
const withDetector = 10

// Histories checks a property on n random histories, or on as many as -rapid.checks says. With the race detector it checks a tenth. Rapid
// prints the seed of one that fails. It must not run in parallel with other tests of rapid: they share the flag.
func Histories(t *testing.T, n int, property func(*rapid.T)) {
	t.Helper()
	n, _ = Share(n)
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == checksFlag })
	if !given {
		checks := flag.Lookup(checksFlag)
		before := checks.Value.String()
		if err := checks.Value.Set(strconv.Itoa(n)); err != nil {
			t.Fatalf("setting -%s: %v", checksFlag, err)
		}
		defer func() { _ = checks.Value.Set(before) }()
	}
	rapid.Check(t, property)
}

// Share returns how many of n histories a test goes through, and whether these are all. With the race detector it is a tenth.
func Share(n int) (int, bool) {
	if raceDetector {
		return max(1, n/withDetector), false
	}
	return n, true
}

// maxRepeats is how often HistoriesUntil draws, at most.
const maxRepeats = 20

// HistoriesUntil checks a property as Histories does, and again while not enough was seen in them. So a test that asks for a rare case does not
// fail by chance. A case that never comes is still found: the test looks for it afterwards.
func HistoriesUntil(t *testing.T, n int, enough func() bool, property func(*rapid.T)) {
	t.Helper()
	for range maxRepeats {
		Histories(t, n, property)
		if t.Failed() || enough() {
			return
		}
	}
}
