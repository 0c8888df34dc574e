// Package history keeps a record of each Job and PhJob that has ended. The records are in files of one folder.
//
// # Shape
//
// A record is a line of JSON. Lines are appended to a segment, a file that is named for the time at which it was begun. A full segment is
// compressed with gzip. The oldest are deleted when there are too many bytes, or when they are too old. No index and no record stays in
// memory. A reader goes through the segments, the latest first, and has one of them in memory at a time.
//
// # Crashes
//
// A program never appends to the segment of another one. After an error it begins a new one. So a line that a crash has cut
// is the last of its segment, and a reader passes over it. A segment is compressed beside itself and renamed. As long as both exist, the
// compressed one counts.
//
// # Twice
//
// A record may be written twice. A controller that begins anew may do that, and two replicas at a change of the leader. Both have the same UID. A
// controller that begins asks which of the ended Jobs that still exist have a record. Readers drop a UID that they have seen a while ago.
//
// # A full disk
//
// The oldest segments are deleted to hold the limit of bytes. So a volume of that size does not become full by records alone. If it is full
// all the same, one more segment is deleted. If that does not help, Append fails and deletes no more. Its caller tries again later.
//
// # Replicas
//
// Only the leader appends. Each replica that has the folder can read.
package history

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"

	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
)

// Sink takes records.
type Sink interface {
	// Append writes a record. It is there after a crash if there is no error.
	Append(record *historyv1alpha1.Record) error
}

// Limits bound what is kept.
type Limits struct {
	// Bytes of all files. It is at least [LeastBytes].
	Bytes int64
	// Age after which records are deleted; 0 for never.
	Age time.Duration
}

// segmentBytes is the size at which a segment is full. A reader has one in memory.
const segmentBytes = 8 << 20

// LeastBytes is the smallest limit of bytes. A segment and its compressed form exist beside older ones.
const LeastBytes = 4 * segmentBytes

// segmentAge is the age at which a segment is full, so that few records outlive the limit of age.
const segmentAge = 24 * time.Hour

// seen has the latest UIDs of a reader. It forgets the older half when it is full.
type seen struct{ recent, older map[types.UID]bool }

// mostSeen is how many UIDs each half has.
const mostSeen = 1 << 15

// add says whether the UID is new.
func (s *seen) add(uid types.UID) bool {
	if s.recent[uid] || s.older[uid] {
		return false
	}
	if s.recent == nil || len(s.recent) >= mostSeen {
		s.recent, s.older = map[types.UID]bool{}, s.recent
	}
	s.recent[uid] = true
	return true
}

// Lines is a Sink that writes each record as a line of JSON, for clusters that collect logs.
type Lines struct{ io.Writer }

// Append implements Sink.
func (l Lines) Append(record *historyv1alpha1.Record) error {
	line, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encoding a record: %w", err)
	}
	if _, err := l.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	return nil
}
