package runs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// notedKey is the key of the ConfigMap under which it says which runs the history has.
	notedKey = "noted"
	// late is how long after its end a run is noted, at most.
	late = 2 * time.Minute
	// maxNoted is how many runs are kept by ID at most.
	maxNoted = 2000
)

// noted is the set of runs that are in the history. The next leader adds the runs that the last one had no time for, and no run twice. The zero
// value is empty.
type noted struct {
	through int64            // Unix time: runs that ended at this time or before count as noted
	runs    map[string]int64 // ID of each noted run that ended later -> Unix time of its end
}

// add notes a run. It returns false if that was done before.
func (n *noted) add(id string, ended time.Time) bool {
	if _, known := n.runs[id]; known {
		return false
	}
	if n.runs == nil {
		n.runs = map[string]int64{}
	}
	n.runs[id] = ended.Unix()
	return true
}

// has says whether a run was noted that ended at some time.
func (n *noted) has(id string, ended time.Time) bool {
	_, known := n.runs[id]
	return known || ended.Unix() <= n.through
}

// prune forgets runs that ended long ago, and all but the last ones: they count as noted.
func (n *noted) prune(now time.Time) {
	n.raise(now.Add(-late).Unix())
	if more := len(n.runs) - maxNoted; more > 0 {
		n.raise(slices.Sorted(maps.Values(n.runs))[more-1])
	}
}

// raise has all runs count as noted that ended up to some time.
func (n *noted) raise(through int64) {
	if through < n.through {
		return
	}
	n.through = through
	maps.DeleteFunc(n.runs, func(_ string, ended int64) bool { return ended <= through })
}

// String has the time first, and then a line for each run.
func (n *noted) String() string {
	var text strings.Builder
	fmt.Fprintln(&text, n.through)
	for _, id := range slices.Sorted(maps.Keys(n.runs)) {
		fmt.Fprintln(&text, n.runs[id], id)
	}
	return text.String()
}

// readNoted reads a text. It leaves out lines that it cannot read. It returns false if the text does not begin with a time.
func readNoted(text string) (n noted, ok bool) {
	lines := strings.Split(text, "\n")
	through, err := strconv.ParseInt(lines[0], 10, 64)
	if err != nil {
		return noted{}, false
	}
	n.through = through
	for _, line := range lines[1:] {
		at, id, _ := strings.Cut(line, " ")
		if ended, err := strconv.ParseInt(at, 10, 64); err == nil && id != "" {
			n.add(id, time.Unix(ended, 0))
		}
	}
	return n, true
}
