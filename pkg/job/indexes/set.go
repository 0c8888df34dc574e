// Package indexes holds sets of pod indexes. As text they are in the interval notation of batch/v1's completedIndexes ("0-4,7"), or
// a bitmap where that is shorter.
package indexes

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// span is a run of neighbouring indexes, both ends included.
type span struct{ first, last int32 }

// Set is a set of indexes that are 0 or greater. Its zero value is empty and ready to use. It costs memory and time
// by the number of gaps, not by the number of indexes. Methods that change the set must not run at the same time as
// others.
type Set struct {
	spans []span // sorted, with at least one missing index between two
}

// Of returns the set of the given indexes. Its cost does not depend on their order.
func Of(members ...int32) Set {
	var s Set
	for _, i := range slices.Sorted(slices.Values(members)) {
		s.Add(i)
	}
	return s
}

// Bitmaps are written where the interval notation is longer than they are, and longer than people like to read.
const (
	bitmapPrefix = "base64:"
	readable     = 64 // bytes
)

// Parse reads what String writes: a bitmap, or interval notation with indexes in ascending order without overlap.
func Parse(text string) (Set, error) {
	var s Set
	if text == "" {
		return s, nil
	}
	if bitmap, isBitmap := strings.CutPrefix(text, bitmapPrefix); isBitmap {
		return parseBitmap(bitmap)
	}
	for part := range strings.SplitSeq(text, ",") {
		next, err := parseSpan(part)
		if err != nil {
			return Set{}, fmt.Errorf("parsing indexes %q: %w", text, err)
		}
		if n := len(s.spans); n > 0 && next.first <= s.spans[n-1].last {
			return Set{}, fmt.Errorf("parsing indexes %q: %q is out of order", text, part)
		}
		s.append(next)
	}
	return s, nil
}

func parseBitmap(text string) (Set, error) {
	bitmap, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return Set{}, fmt.Errorf("parsing a bitmap of indexes: %w", err)
	}
	var s Set
	for i, bits := range bitmap {
		for bit := range 8 {
			if bits&(1<<bit) != 0 {
				index := int32(8*i + bit)
				s.append(span{index, index})
			}
		}
	}
	return s, nil
}

func parseSpan(part string) (span, error) {
	from, to, isRange := strings.Cut(part, "-")
	first, err := strconv.ParseInt(from, 10, 32)
	if err != nil || first < 0 {
		return span{}, fmt.Errorf("%q is not an index", from)
	}
	if !isRange {
		return span{int32(first), int32(first)}, nil
	}
	last, err := strconv.ParseInt(to, 10, 32)
	if err != nil || last < first {
		return span{}, fmt.Errorf("%q is not the end of an interval that starts at %d", to, first)
	}
	return span{int32(first), int32(last)}, nil
}

// append adds a span beyond the last one, and merges them when they touch.
func (s *Set) append(next span) {
	if n := len(s.spans); n > 0 && s.spans[n-1].last+1 == next.first {
		s.spans[n-1].last = next.last
		return
	}
	s.spans = append(s.spans, next)
}

// String writes the set in interval notation, or as "base64:" and a bitmap where that is shorter. The empty set is "". Bit i%8 of the
// bitmap's byte i/8, counted from the least significant one, stands for index i. Indexes below n take at most max(64, n/6+9) bytes.
func (s Set) String() string {
	intervals := s.intervals()
	if len(intervals) <= readable {
		return intervals
	}
	size := int(s.spans[len(s.spans)-1].last)/8 + 1
	if len(intervals) <= len(bitmapPrefix)+base64.RawStdEncoding.EncodedLen(size) {
		return intervals
	}
	bitmap := make([]byte, size)
	for index := range s.All() {
		bitmap[index/8] |= 1 << (index % 8)
	}
	return bitmapPrefix + base64.RawStdEncoding.EncodeToString(bitmap)
}

func (s Set) intervals() string {
	var b strings.Builder
	for n, one := range s.spans {
		if n > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(one.first)))
		if one.last > one.first {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(int(one.last)))
		}
	}
	return b.String()
}

// Has tells whether the index is in the set.
func (s Set) Has(index int32) bool {
	_, found := s.find(index)
	return found
}

// find returns the position of the span that holds the index, or else of the first span behind it.
func (s Set) find(index int32) (int, bool) {
	return slices.BinarySearchFunc(s.spans, index, func(one span, index int32) int {
		switch {
		case one.last < index:
			return -1
		case one.first > index:
			return 1
		default:
			return 0
		}
	})
}

// Len returns the number of indexes in the set.
func (s Set) Len() int32 {
	var n int32
	for _, one := range s.spans {
		n += one.last - one.first + 1
	}
	return n
}

// Add puts the index into the set. A negative index is ignored. It moves all later spans: use AddAll to add many.
func (s *Set) Add(index int32) { s.AddRange(index, index) }

// AddRange puts the indexes from the first to the last into the set. Negative ones are ignored.
func (s *Set) AddRange(first, last int32) {
	first = max(first, 0)
	if first > last {
		return
	}
	// The spans that the new one overlaps or touches become one with it.
	from, _ := s.find(max(first, 1) - 1)
	to := from
	for ; to < len(s.spans) && s.spans[to].first-1 <= last; to++ {
		first, last = min(first, s.spans[to].first), max(last, s.spans[to].last)
	}
	s.spans = slices.Replace(s.spans, from, to, span{first, last})
}

// AddAll puts all indexes of another set into the set. It costs time by the number of gaps of both.
func (s *Set) AddAll(others Set) {
	if len(others.spans) == 0 {
		return
	}
	var union Set
	mine, theirs := s.spans, others.spans
	for len(mine)+len(theirs) > 0 {
		next := &mine
		if len(mine) == 0 || len(theirs) > 0 && theirs[0].first < mine[0].first {
			next = &theirs
		}
		union.AddRange((*next)[0].first, (*next)[0].last)
		*next = (*next)[1:]
	}
	s.spans = union.spans
}

// RemoveAll takes all indexes of another set out of the set. It costs time by the number of gaps of both.
func (s *Set) RemoveAll(others Set) {
	var rest []span
	theirs := others.spans
	for _, one := range s.spans {
		for len(theirs) > 0 && theirs[0].last < one.first {
			theirs = theirs[1:]
		}
		rest = one.appendWithout(theirs, rest)
	}
	s.spans = rest
}

// appendWithout appends the rest of a span without other spans, which are in ascending order.
func (one span) appendWithout(others, rest []span) []span {
	for _, gone := range others {
		if gone.first > one.last {
			break
		}
		if gone.first > one.first {
			rest = append(rest, span{one.first, gone.first - 1})
		}
		if gone.last >= one.last {
			return rest
		}
		one.first = gone.last + 1
	}
	return append(rest, one)
}

// Remove takes the index out of the set.
func (s *Set) Remove(index int32) {
	at, found := s.find(index)
	if !found {
		return
	}
	one := s.spans[at]
	switch {
	case one.first == one.last:
		s.spans = slices.Delete(s.spans, at, at+1)
	case one.first == index:
		s.spans[at].first++
	case one.last == index:
		s.spans[at].last--
	default:
		s.spans[at].last = index - 1
		s.spans = slices.Insert(s.spans, at+1, span{index + 1, one.last})
	}
}

// Trim takes every index out of the set that is not smaller than the limit.
func (s *Set) Trim(limit int32) {
	for n, one := range s.spans {
		if one.last < limit {
			continue
		}
		if one.first < limit {
			s.spans[n].last = limit - 1
			n++
		}
		s.spans = s.spans[:n]
		return
	}
}

// Clone returns a copy that shares nothing with the set.
func (s Set) Clone() Set { return Set{slices.Clone(s.spans)} }

// All returns the indexes in ascending order.
func (s Set) All() func(yield func(int32) bool) {
	return func(yield func(int32) bool) {
		for _, one := range s.spans {
			for i := int64(one.first); i <= int64(one.last); i++ {
				if !yield(int32(i)) {
					return
				}
			}
		}
	}
}
