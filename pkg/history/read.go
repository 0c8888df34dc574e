package history

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
)

// Endings of the names of segments.
const (
	plainSuffix     = ".jsonl"
	packedSuffix    = ".jsonl.gz"
	temporarySuffix = ".jsonl.gz.tmp"
)

// timeFormat makes names whose order is that of time.
const timeFormat = "20060102T150405.000000000Z"

func nameOf(t time.Time) string { return t.UTC().Format(timeFormat) }

// found is a segment in a folder.
type found struct {
	name    string
	packed  bool
	twin    bool // it is packed, and exists without compression as well
	bytes   int64
	changed time.Time // when its last record was written
}

func (f *found) file() string {
	if f.packed {
		return f.name + packedSuffix
	}
	return f.name + plainSuffix
}

// list returns the segments of a folder, the oldest first. Of a segment that exists twice it returns the compressed form.
func list(dir string) ([]found, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // there is no record yet
	}
	if err != nil {
		return nil, fmt.Errorf("reading the folder of the history: %w", err)
	}
	byName := map[string]found{}
	for _, entry := range entries {
		name, isPacked := strings.CutSuffix(entry.Name(), packedSuffix)
		if !isPacked {
			var isPlain bool
			if name, isPlain = strings.CutSuffix(entry.Name(), plainSuffix); !isPlain {
				continue
			}
		}
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the folder of the history: %w", err)
		}
		one := found{name: name, packed: isPacked, bytes: info.Size(), changed: info.ModTime()}
		if other, exists := byName[name]; exists {
			one = merge(one, other)
		}
		byName[name] = one
	}
	segments := make([]found, 0, len(byName))
	for _, one := range byName {
		segments = append(segments, one)
	}
	slices.SortFunc(segments, func(a, b found) int { return cmp.Compare(a.name, b.name) })
	return segments, nil
}

// merge returns a segment that exists with compression and without.
func merge(a, b found) found {
	if b.packed {
		a, b = b, a
	}
	a.twin, a.bytes = true, a.bytes+b.bytes
	return a
}

// Position is the place of a record in the history.
type Position struct {
	// Segment that it is in.
	Segment string
	// Offset of its line in the segment.
	Offset int
}

// Scope bounds what is read.
type Scope struct {
	// Since leaves out segments of which all records ended before.
	Since time.Time
	// Namespace leaves out records of other namespaces, unless it is empty.
	Namespace string
	// Before leaves out the record at that position, and all later ones, unless it is zero.
	Before Position
}

// Read goes through the records of a scope, the newest first. A record that was written twice is returned once, if both are
// not far apart. An error ends it.
func (s *Store) Read(ctx context.Context, scope Scope) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		segments, err := list(s.dir)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		var known seen
		for _, one := range slices.Backward(segments) {
			if one.changed.Before(scope.Since) || scope.Before.Segment != "" && one.name > scope.Before.Segment {
				continue
			}
			data, err := s.load(&one)
			if err = errors.Join(err, ctx.Err()); err != nil {
				yield(Entry{}, err)
				return
			}
			if one.name == scope.Before.Segment {
				data = data[:min(len(data), scope.Before.Offset)]
			}
			if !eachBackward(data, scope.Namespace, func(offset int, record *historyv1alpha1.Record) bool {
				return !known.add(record.UID) || yield(Entry{Position{one.name, offset}, record}, nil)
			}) {
				return
			}
		}
	}
}

// Entry is a record and its place.
type Entry struct {
	Position
	Record *historyv1alpha1.Record
}

// eachBackward passes the records of a segment on, the last first, until one is refused. Lines that a crash has cut are passed over.
func eachBackward(data []byte, namespace string, do func(offset int, record *historyv1alpha1.Record) bool) bool {
	var mark []byte
	if namespace != "" {
		mark = []byte(`"namespace":"` + namespace + `"`) // saves the decoding of most lines
	}
	for end := len(data); end > 0; {
		begin := bytes.LastIndexByte(data[:end-1], '\n') + 1
		line := data[begin:end]
		end = begin
		if mark != nil && !bytes.Contains(line, mark) {
			continue
		}
		record := &historyv1alpha1.Record{}
		if json.Unmarshal(line, record) != nil || namespace != "" && record.Namespace != namespace {
			continue
		}
		if !do(begin, record) {
			return false
		}
	}
	return true
}

// load reads a segment into memory. One that was deleted meanwhile is empty.
func (s *Store) load(one *found) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, one.file()))
	if errors.Is(err, os.ErrNotExist) && !one.packed {
		one.packed = true // it was compressed meanwhile
		data, err = os.ReadFile(filepath.Join(s.dir, one.file()))
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil && one.packed {
		data, err = unpack(data)
	}
	if err != nil {
		return nil, fmt.Errorf("reading segment %s of the history: %w", one.file(), err)
	}
	return data, nil
}

func unpack(data []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(reader, 2*segmentBytes))
}
