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

// Past remembers how long runs took that were successful. It has at most MaxEntries entries. Of the owner with the most, the entry goes first that
// was used longest ago. So many runs of one owner take no entries of others. The zero value is empty. It is not safe for concurrent use.
type Past struct {
	entries map[Key]*list.Element
	order   list.List   // of entries, the one used last in front
	counts  map[Key]int // of the entries of each owner
}

// entry is what is known of a kind of runs, or of an owner.
type entry struct {
	key  Key
	of   Key              // the owner; "" if an earlier version has written the entry, and it was not used since
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
	e := h.use(r.kind(), r.holder())
	e.last = [2]time.Duration{min(max(took, shortest), Longest), e.last[0]}
	if stated > 0 {
		h.use(r.owner(), r.holder()).judge(isUnderstated(took, stated))
	}
}

// Failed notes that a run took some time and was not successful. It says nothing of how long others take. But one that took much longer than
// stated shows what the word of its user is worth. It says whether anything was noted.
func (h *Past) Failed(r Run, took, stated time.Duration) bool {
	if !isUnderstated(took, stated) {
		return false
	}
	h.use(r.owner(), r.holder()).judge(true)
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
	last := h.touch(known, r.holder()).last
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

// use returns an entry of an owner, which it makes if needed.
func (h *Past) use(k, of Key) *entry {
	if known, ok := h.entries[k]; ok {
		return h.touch(known, of)
	}
	if h.entries == nil {
		h.entries, h.counts = map[Key]*list.Element{}, map[Key]int{}
	}
	e := &entry{key: k, of: of}
	h.entries[k] = h.order.PushFront(e)
	h.counts[of]++
	if len(h.entries) > MaxEntries {
		h.forget()
	}
	return e
}

// touch notes that an entry of an owner is used.
func (h *Past) touch(known *list.Element, of Key) *entry {
	h.order.MoveToFront(known)
	e := known.Value.(*entry)
	h.uncount(e)
	e.of = of
	h.counts[of]++
	return e
}

// forget removes the entry that was used longest ago, of those whose owner has the most, or one fewer. So what an owner has just used is kept.
func (h *Past) forget() {
	most := 0
	for _, count := range h.counts {
		most = max(most, count)
	}
	oldest := h.order.Back()
	for h.counts[oldest.Value.(*entry).of] < most-1 {
		oldest = oldest.Prev()
	}
	e := h.order.Remove(oldest).(*entry)
	delete(h.entries, e.key)
	h.uncount(e)
}

func (h *Past) uncount(e *entry) {
	if h.counts[e.of]--; h.counts[e.of] == 0 {
		delete(h.counts, e.of)
	}
}

// Len is the number of entries.
func (h *Past) Len() int { return len(h.entries) }

// String writes the history: a line for each entry, the one that was used longest ago first.
func (h *Past) String() string {
	var text strings.Builder
	for at := h.order.Back(); at != nil; at = at.Prev() {
		e := at.Value.(*entry)
		fmt.Fprintf(&text, "%s %d %d %d %t %s\n", e.key, e.last[0].Milliseconds(), e.last[1].Milliseconds(), e.lies, e.distrusted, e.of)
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
		*h.use(e.key, e.of) = *e
	}
	return h, broken + max(0, len(lines)-MaxEntries)
}

// parse reads an entry. Those of earlier versions have no owner.
func parse(line string) (*entry, error) {
	fields := strings.Fields(line)
	if len(fields) == 5 {
		fields = append(fields, "")
	}
	if len(fields) != 6 || len(fields[0]) != 2*keyBytes || fields[5] != "" && len(fields[5]) != 2*keyBytes {
		return nil, fmt.Errorf("%.100q is no entry", line)
	}
	e := &entry{key: Key(fields[0]), of: Key(fields[5])}
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
