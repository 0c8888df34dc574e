package runtimes

import (
	"container/list"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// ConfigMap has the text of a Past.
	ConfigMap = "muster-run-times"
	// ConfigMapKey is its key there.
	ConfigMapKey = "runs"
	// MaxEntries bounds a Past. In text it stays far below what an object may have.
	MaxEntries = 2000
	// shortest is the shortest run. The API has times in whole seconds.
	shortest = time.Second
	// understated is how many times as long as the user says is much too long.
	understated = 2
	// patience is the number of understated runs after which estimates of the user are not used. They are used again after as many other runs.
	patience = 3
)

// Past remembers how long runs took that were successful. It has at most MaxEntries entries. The one goes first that was used longest ago. The
// zero value is empty. It is not safe for concurrent use.
type Past struct {
	entries map[Key]*list.Element
	order   list.List // of entries, the one used last in front
}

// entry is what is known of a kind of runs, or of an owner.
type entry struct {
	key  Key
	last [2]time.Duration // how long the last runs of a kind took, the last one first; 0 for none
	// lies is a counter from 0 to patience. A run that took much longer than its owner stated adds one, and any other run takes one away.
	lies       int
	distrusted bool // lies has reached patience: estimates of the owner are not used
}

// Ended notes that a run was successful and took some time. Stated is how long it should have run by the word of its user, 0 for no word.
func (h *Past) Ended(r Run, took, stated time.Duration) {
	if took < 0 { // the clock was set back
		return
	}
	e := h.use(r.kind())
	e.last = [2]time.Duration{min(max(took, shortest), Longest), e.last[0]}
	if stated > 0 {
		h.use(r.owner()).judge(isUnderstated(took, stated))
	}
}

// Failed notes that a run took some time and was not successful. It says nothing of how long others take. But one that took much longer than
// stated shows what the word of its user is worth. It says whether anything was noted.
func (h *Past) Failed(r Run, took, stated time.Duration) bool {
	if !isUnderstated(took, stated) {
		return false
	}
	h.use(r.owner()).judge(true)
	return true
}

func isUnderstated(took, stated time.Duration) bool { return stated > 0 && took/understated > stated }

// judge notes whether a run took much longer than stated.
func (e *entry) judge(lie bool) {
	if lie {
		e.lies = min(e.lies+1, patience)
	} else {
		e.lies = max(e.lies-1, 0)
	}
	switch e.lies {
	case patience:
		e.distrusted = true
	case 0:
		e.distrusted = false
	}
}

// Mean is how long the last runs like this took on average: two, or one if there were no more. Runs is their number.
func (h *Past) Mean(r Run) (mean time.Duration, runs int) {
	known, ok := h.entries[r.kind()]
	if !ok {
		return 0, 0
	}
	h.order.MoveToFront(known)
	last := known.Value.(*entry).last
	if last[1] == 0 {
		return last[0], min(1, int(last[0]))
	}
	return (last[0] + last[1]) / 2, 2
}

// Distrusts says whether the word of an owner is not used for a while. Runs of the owner have taken much longer than stated.
func (h *Past) Distrusts(r Run) bool {
	known, ok := h.entries[r.owner()]
	return ok && known.Value.(*entry).distrusted
}

// use returns an entry, which it makes if needed.
func (h *Past) use(k Key) *entry {
	if known, ok := h.entries[k]; ok {
		h.order.MoveToFront(known)
		return known.Value.(*entry)
	}
	if h.entries == nil {
		h.entries = map[Key]*list.Element{}
	}
	e := &entry{key: k}
	h.entries[k] = h.order.PushFront(e)
	if len(h.entries) > MaxEntries {
		oldest := h.order.Back()
		delete(h.entries, oldest.Value.(*entry).key)
		h.order.Remove(oldest)
	}
	return e
}

// Len is the number of entries.
func (h *Past) Len() int { return len(h.entries) }

// String writes the history: a line for each entry, the one that was used longest ago first.
func (h *Past) String() string {
	var text strings.Builder
	for at := h.order.Back(); at != nil; at = at.Prev() {
		e := at.Value.(*entry)
		fmt.Fprintf(&text, "%s %d %d %d %t\n", e.key, e.last[0].Milliseconds(), e.last[1].Milliseconds(), e.lies, e.distrusted)
	}
	return text.String()
}

// Read makes a history of the text of another. It leaves out lines that it cannot read, and says how many these are.
func Read(text string) (h *Past, broken int) {
	h = &Past{}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	for _, line := range lines[max(0, len(lines)-MaxEntries):] {
		e, err := parse(line)
		if err != nil {
			broken++
			continue
		}
		*h.use(e.key) = *e
	}
	return h, broken + max(0, len(lines)-MaxEntries)
}

// parse reads an entry.
func parse(line string) (*entry, error) {
	fields := strings.Fields(line)
	if len(fields) != 5 || len(fields[0]) != 2*keyBytes {
		return nil, fmt.Errorf("%.100q is no entry", line)
	}
	e := &entry{key: Key(fields[0])}
	for i := range e.last {
		ms, err := strconv.ParseInt(fields[1+i], 10, 64)
		if err != nil || ms < 0 || ms > Longest.Milliseconds() {
			return nil, fmt.Errorf("%.100q is no run time", fields[1+i])
		}
		e.last[i] = time.Duration(ms) * time.Millisecond
	}
	lies, err := strconv.Atoi(fields[3])
	if err != nil || lies < 0 || lies > patience || !slices.Contains([]string{"true", "false"}, fields[4]) {
		return nil, fmt.Errorf("%.100q does not say what the word of an owner is worth", line)
	}
	e.lies, e.distrusted = lies, fields[4] == "true"
	return e, nil
}
