package history

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
)

// Store is the history in a folder. Methods may be called at the same time.
type Store struct {
	dir          string
	limits       Limits
	segmentBytes int64
	clock        clock.PassiveClock
	create       func(path string) (file, error)

	mu     sync.Mutex
	active *segment // nil if none has been begun
	// isShort says that the disk is still full although a segment was deleted. No more are deleted for that then.
	isShort bool
}

// segment is the file that a Store appends to.
type segment struct {
	name  string
	file  file
	begun time.Time
	bytes int64
}

// file is what a segment is written with. A test has one that fails.
type file interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

func create(path string) (file, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o640)
}

// New makes a Store. Its folder is made with the first record.
func New(dir string, limits Limits) *Store {
	return &Store{dir: dir, limits: limits, segmentBytes: segmentBytes, clock: clock.RealClock{}, create: create}
}

// Append implements Sink.
func (s *Store) Append(record *historyv1alpha1.Record) error {
	line, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encoding a record: %w", err)
	}
	line = append(line, '\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.write(line)
	if isFull(err) && !s.isShort {
		if err := s.dropOldest(); err != nil {
			return err
		}
		err = s.write(line)
	}
	s.isShort = isFull(err)
	return err
}

// isFull says whether a disk or a quota of a disk is full.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// write appends a line to the active segment, or to a new one.
func (s *Store) write(line []byte) error {
	a := s.active
	if a == nil || a.bytes+int64(len(line)) > s.segmentBytes || s.clock.Since(a.begun) > segmentAge {
		if err := s.begin(); err != nil {
			return err
		}
	}
	_, err := s.active.file.Write(line)
	if err == nil {
		err = s.active.file.Sync()
	}
	if err != nil {
		s.abandon()
		return fmt.Errorf("writing to the history: %w", err)
	}
	s.active.bytes += int64(len(line))
	return nil
}

// begin begins a segment, after the others have been compressed and the oldest have been deleted.
func (s *Store) begin() error {
	full := s.end()
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return fmt.Errorf("making the folder of the history: %w", err)
	}
	if err := s.tidy(full); err != nil && !isFull(err) {
		return err
	}
	now := s.clock.Now()
	name := nameOf(now)
	file, err := s.create(filepath.Join(s.dir, name+plainSuffix))
	if err != nil {
		return fmt.Errorf("beginning a segment of the history: %w", err)
	}
	s.active = &segment{name: name, file: file, begun: now}
	return syncDir(s.dir)
}

// end ends the active segment, and returns its name. All that it has is on the disk already.
func (s *Store) end() (name string) {
	if s.active == nil {
		return ""
	}
	s.active.file.Close()
	name, s.active = s.active.name, nil
	return name
}

// abandon ends a segment after an error. It takes the rest of the failed line back. Where that fails, readers pass over it.
func (s *Store) abandon() {
	_ = s.active.file.Truncate(s.active.bytes)
	isEmpty := s.active.bytes == 0
	if name := s.end(); isEmpty {
		_ = os.Remove(filepath.Join(s.dir, name+plainSuffix))
	}
}

// Close ends the active segment.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// untouched is how long nothing was written to a segment of another program that is compressed.
const untouched = time.Hour

// tidy compresses full segments, and segments that other programs have left. It deletes the oldest ones beyond the limits.
func (s *Store) tidy(full string) error {
	segments, err := list(s.dir)
	if err != nil {
		return err
	}
	for i := range segments {
		one := &segments[i]
		if one.twin { // a crash has kept it from being deleted
			if err := os.Remove(filepath.Join(s.dir, one.name+plainSuffix)); err != nil {
				return fmt.Errorf("deleting a segment that was compressed: %w", err)
			}
		}
		if one.packed || one.name != full && s.clock.Since(one.changed) < untouched {
			continue
		}
		if err := pack(s.dir, one); err != nil {
			return err
		}
	}
	if segments, err = list(s.dir); err != nil {
		return err
	}
	return s.deleteBeyond(segments)
}

// deleteBeyond deletes the oldest segments until the limits hold with two more segments: the next one, and its compressed form.
func (s *Store) deleteBeyond(segments []found) error {
	var total int64
	for i := range segments {
		total += segments[i].bytes
	}
	for _, one := range segments {
		isOld := s.limits.Age > 0 && s.clock.Since(one.changed) > s.limits.Age
		if !isOld && total+2*s.segmentBytes <= s.limits.Bytes {
			return nil
		}
		if err := os.Remove(filepath.Join(s.dir, one.file())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("deleting a segment of the history: %w", err)
		}
		total -= one.bytes
	}
	return nil
}

// dropOldest deletes the oldest segment, unless it is the only one.
func (s *Store) dropOldest() error {
	segments, err := list(s.dir)
	if err != nil || len(segments) < 2 {
		return err
	}
	if err := os.Remove(filepath.Join(s.dir, segments[0].file())); err != nil {
		return fmt.Errorf("deleting a segment of the history: %w", err)
	}
	return nil
}

// Bytes is the size of all files.
func (s *Store) Bytes() (int64, error) {
	segments, err := list(s.dir)
	var total int64
	for i := range segments {
		total += segments[i].bytes
	}
	return total, err
}

// pack compresses a segment. The compressed file has the time of the last record.
func pack(dir string, one *found) error {
	plain := filepath.Join(dir, one.name+plainSuffix)
	data, err := os.ReadFile(plain)
	if err != nil {
		return fmt.Errorf("reading a segment of the history: %w", err)
	}
	temporary := filepath.Join(dir, one.name+temporarySuffix)
	if err := writePacked(temporary, data); err != nil {
		_ = os.Remove(temporary)
		return fmt.Errorf("compressing a segment of the history: %w", err)
	}
	if err := os.Chtimes(temporary, one.changed, one.changed); err != nil {
		return fmt.Errorf("compressing a segment of the history: %w", err)
	}
	if err := os.Rename(temporary, filepath.Join(dir, one.name+packedSuffix)); err != nil {
		return fmt.Errorf("compressing a segment of the history: %w", err)
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	if err := os.Remove(plain); err != nil {
		return fmt.Errorf("deleting a segment that was compressed: %w", err)
	}
	return nil
}

func writePacked(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	packer := gzip.NewWriter(file)
	_, err = io.Copy(packer, bytes.NewReader(data))
	return errors.Join(err, packer.Close(), file.Sync(), file.Close())
}

// syncDir has the names in a folder outlive a crash.
func syncDir(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("opening the folder of the history: %w", err)
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil {
		return fmt.Errorf("writing the folder of the history: %w", err)
	}
	return nil
}
