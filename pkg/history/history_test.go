package history

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
)

// enough is a limit that no test reaches by accident.
var enough = Limits{Bytes: 1 << 30}

// store opens a store with small segments.
func store(t testing.TB, dir string, limits Limits, segmentBytes int64) *Store {
	t.Helper()
	s := New(dir, limits)
	s.segmentBytes, s.clock = segmentBytes, clocktesting.NewFakeClock(time.Now())
	s.create = func(path string) (file, error) {
		opened, err := os.Create(path)
		return memory{opened}, err
	}
	t.Cleanup(s.Close)
	return s
}

// memory is a file that is not written to the disk at once, which would take most of the time.
type memory struct{ *os.File }

// Sync implements file.
func (memory) Sync() error { return nil }

// tick has the next segment another name.
func (s *Store) tick() { s.clock.(*clocktesting.FakeClock).Step(time.Millisecond) }

func record(n int) *historyv1alpha1.Record {
	began := time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC)
	started := metav1.NewTime(began.Add(3 * time.Second))
	random := sha256.Sum256(fmt.Append(nil, n)) // UIDs are random, and cannot be compressed
	return &historyv1alpha1.Record{
		Kind: historyv1alpha1.KindJob, Namespace: fmt.Sprintf("team-%d", n%3), Name: fmt.Sprintf("training-%d", n),
		UID:  types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", random[:4], random[4:6], random[6:8], random[8:10], random[10:16])),
		User: fmt.Sprintf("user-%d", n%200), Queue: fmt.Sprintf("queue-%d", n%30), PriorityClass: "normal", Phase: "Completed",
		Reason: "Completed", Message: "all tasks have completed",
		Created: metav1.NewTime(began), Started: &started, Ended: metav1.NewTime(began.Add(time.Hour)), WaitSeconds: 3, RunSeconds: 3597, Pods: 8,
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"), "nvidia.com/gpu": resource.MustParse("8")},
		ResourceSeconds: map[corev1.ResourceName]float64{
			corev1.ResourceCPU: 115104 + float64(n), corev1.ResourceMemory: 988748674924544 + float64(random[16])*1e9, "nvidia.com/gpu": 28776 + float64(random[17])},
	}
}

// names reads the names of all records in a scope.
func names(t testing.TB, s *Store, scope Scope) []string {
	t.Helper()
	read := []string{}
	for entry, err := range s.Read(t.Context(), scope) {
		require.NoError(t, err)
		read = append(read, strings.TrimPrefix(entry.Record.Name, "training-"))
	}
	return read
}

func appendAll(t testing.TB, s *Store, numbers ...int) {
	t.Helper()
	for _, n := range numbers {
		require.NoError(t, s.Append(record(n)))
		s.tick()
	}
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestRecordsAreReadLatestFirst(t *testing.T) {
	dir := t.TempDir()
	s := store(t, dir, enough, 2000) // two or three records in each segment
	appendAll(t, s, 0, 1, 2, 3, 4, 5, 6)
	assert.Equal(t, []string{"6", "5", "4", "3", "2", "1", "0"}, names(t, s, Scope{}))
	assert.Equal(t, []string{"4", "1"}, names(t, s, Scope{Namespace: "team-1"}))
	for entry, err := range s.Read(t.Context(), Scope{}) {
		require.NoError(t, err)
		want := record(6)
		want.Requests, entry.Record.Requests = nil, nil // equal amounts may be stored in several ways
		assert.True(t, want.Ended.Equal(&entry.Record.Ended))
		assert.Equal(t, want.ResourceSeconds, entry.Record.ResourceSeconds)
		break
	}
	packed := 0
	for _, name := range files(t, dir) {
		if strings.HasSuffix(name, packedSuffix) {
			packed++
		}
	}
	assert.Equal(t, len(files(t, dir))-1, packed, "all segments but the last are compressed: %v", files(t, dir))
}

func TestAReaderGoesOnWhereItStopped(t *testing.T) {
	s := store(t, t.TempDir(), enough, 2000)
	appendAll(t, s, 0, 1, 2, 3, 4, 5, 6)
	var read []string
	var before Position
	for range 7 {
		for entry, err := range s.Read(t.Context(), Scope{Before: before}) {
			require.NoError(t, err)
			read, before = append(read, strings.TrimPrefix(entry.Record.Name, "training-")), entry.Position
			break
		}
		appendAll(t, s, 100+len(read)) // later records change nothing
	}
	assert.Equal(t, []string{"6", "5", "4", "3", "2", "1", "0"}, read)
}

// TestALineThatACrashHasCutIsPassedOver: whatever part of the last line is on the disk, all others are read, and more can be written.
func TestALineThatACrashHasCutIsPassedOver(t *testing.T) {
	whole := t.TempDir()
	appendAll(t, store(t, whole, enough, 1<<20), 0, 1, 2)
	name := files(t, whole)[0]
	data, err := os.ReadFile(filepath.Join(whole, name))
	require.NoError(t, err)
	lastLine := strings.LastIndexByte(string(data[:len(data)-1]), '\n') + 1
	for cut := lastLine; cut < len(data); cut += 7 {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data[:cut], 0o600))
		s := store(t, dir, enough, 1<<20)
		s.tick()
		assert.Equal(t, []string{"1", "0"}, names(t, s, Scope{}), "cut at %d of %d", cut, len(data))
		appendAll(t, s, 3)
		assert.Equal(t, []string{"3", "1", "0"}, names(t, s, Scope{}), "cut at %d of %d", cut, len(data))
	}
}

func TestACrashWhileASegmentIsCompressedLosesNothing(t *testing.T) {
	for name, crash := range map[string]func(t *testing.T, dir string, one *found){
		"the compressed file is not complete": func(t *testing.T, dir string, one *found) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, one.name+temporarySuffix), []byte("half"), 0o600))
		},
		"both files exist": func(t *testing.T, dir string, one *found) {
			plain, err := os.ReadFile(filepath.Join(dir, one.file()))
			require.NoError(t, err)
			require.NoError(t, pack(dir, one))
			require.NoError(t, os.WriteFile(filepath.Join(dir, one.file()), plain, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := store(t, dir, enough, 1<<20)
			appendAll(t, first, 0, 1, 2)
			first.Close()
			segments, err := list(dir)
			require.NoError(t, err)
			crash(t, dir, &segments[0])

			next := store(t, dir, enough, 1<<20)
			next.clock.(*clocktesting.FakeClock).Step(2 * untouched)
			appendAll(t, next, 3)
			assert.Equal(t, []string{"3", "2", "1", "0"}, names(t, next, Scope{}))
			assert.NotContains(t, files(t, dir), segments[0].name+temporarySuffix)
			assert.NotContains(t, files(t, dir), segments[0].name+plainSuffix, "it is compressed now")
		})
	}
}

// TestTwoReplicasNeverWriteToOneSegment: at a change of the leader both may write for a moment.
func TestTwoReplicasNeverWriteToOneSegment(t *testing.T) {
	dir := t.TempDir()
	a, b := store(t, dir, enough, 2000), store(t, dir, enough, 2000)
	b.tick()
	for n := range 12 {
		appendAll(t, a, n)
		b.tick()
		appendAll(t, b, n) // the same end
		a.tick()
	}
	for _, reader := range []*Store{a, b} {
		assert.Equal(t, []string{"11", "10", "9", "8", "7", "6", "5", "4", "3", "2", "1", "0"}, names(t, reader, Scope{}), "each is read once")
	}
}

func TestTheLimitOfBytesHolds(t *testing.T) {
	dir := t.TempDir()
	limits := Limits{Bytes: 40_000}
	s := store(t, dir, limits, 8_000)
	for n := range 2000 {
		appendAll(t, s, n)
		bytes, err := s.Bytes()
		require.NoError(t, err)
		require.LessOrEqual(t, bytes, limits.Bytes)
	}
	read := names(t, s, Scope{})
	assert.Equal(t, "1999", read[0])
	assert.Greater(t, len(read), 100, "the limit is used")
	assert.Less(t, len(read), 2000)
}

func TestOldRecordsAreDeleted(t *testing.T) {
	dir := t.TempDir()
	s := store(t, dir, Limits{Bytes: 1 << 30, Age: 30 * 24 * time.Hour}, 1<<20)
	appendAll(t, s, 0)
	s.clock.(*clocktesting.FakeClock).Step(20 * 24 * time.Hour)
	appendAll(t, s, 1)
	segments, err := list(dir)
	require.NoError(t, err)
	require.Len(t, segments, 2, "a day is the most that a segment spans")
	changed := s.clock.Now()
	require.NoError(t, os.Chtimes(filepath.Join(dir, segments[1].file()), changed, changed))
	s.clock.(*clocktesting.FakeClock).Step(20 * 24 * time.Hour)
	appendAll(t, s, 2)
	assert.Equal(t, []string{"2", "1"}, names(t, s, Scope{}))
}

// smallDisk is full when the files of its folder have more bytes than fit.
type smallDisk struct {
	memory
	dir  string
	room *int64
}

func (d smallDisk) Write(line []byte) (int, error) {
	segments, err := list(d.dir)
	if err != nil {
		return 0, err
	}
	used := int64(0)
	for _, one := range segments {
		used += one.bytes
	}
	if used+int64(len(line)) > *d.room {
		n, _ := d.File.Write(line[:len(line)/2])
		return n, syscall.ENOSPC
	}
	return d.File.Write(line)
}

func TestAFullDiskCostsTheOldestRecords(t *testing.T) {
	dir, room := t.TempDir(), int64(30_000)
	s := store(t, dir, enough, 8_000)
	s.create = func(path string) (file, error) {
		opened, err := os.Create(path)
		return smallDisk{memory{opened}, dir, &room}, err
	}
	for n := range 600 {
		appendAll(t, s, n)
	}
	read := names(t, s, Scope{})
	assert.Equal(t, "599", read[0])
	assert.Less(t, len(read), 600)

	room = 10 // another program has taken what was left
	for range 100 {
		require.ErrorIs(t, s.Append(record(600)), syscall.ENOSPC)
		s.tick()
	}
	assert.Greater(t, len(names(t, s, Scope{})), len(read)/2, "no more is deleted if that does not help")
	room = 30_000
	s.tick()
	appendAll(t, s, 601)
	assert.Equal(t, "601", names(t, s, Scope{})[0], "it goes on as soon as there is room")
}

// TestAMillionRecordsFit scales a million down: records of 40,000 Jobs must take no more than a 25th of 512 MiB. A reader has a few segments
// in memory.
func TestAMillionRecordsFit(t *testing.T) {
	const scale = 25
	records := 1_000_000 / scale
	s := store(t, t.TempDir(), enough, segmentBytes)
	for n := range records {
		line := record(n)
		require.NoError(t, s.Append(line))
		if n%1000 == 0 {
			s.tick()
		}
	}
	bytes, err := s.Bytes()
	require.NoError(t, err)
	assert.Less(t, bytes, int64(512<<20/scale))

	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read, most := 0, uint64(0)
	for _, err := range s.Read(t.Context(), Scope{}) {
		require.NoError(t, err)
		if read++; read%5000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc)
		}
	}
	assert.Equal(t, records, read)
	assert.Less(t, int64(most)-int64(before.HeapAlloc), int64(64<<20))
	t.Logf("%d records take %d bytes; a reader has %d KiB in memory", read, bytes, (int64(most)-int64(before.HeapAlloc))>>10)
}

func TestSumsBySomething(t *testing.T) {
	a, b, c := record(0), record(1), record(2)
	a.User, b.User, c.User = "ada", "bob", "ada"
	c.Phase, c.Evictions = "Failed", 2
	for by, want := range map[string][]string{
		historyv1alpha1.ByUser: {"ada", "bob"}, historyv1alpha1.ByQueue: {"queue-2", "queue-1", "queue-0"}, historyv1alpha1.ByNamespace: {"team-2", "team-1", "team-0"},
	} {
		sums, err := SumBy(by)
		require.NoError(t, err)
		for _, r := range []*historyv1alpha1.Record{a, b, c} {
			sums.Add(r)
		}
		report := sums.Report()
		var got []string
		for _, row := range report.Rows {
			got = append(got, row.Name)
		}
		assert.Equal(t, want, got, "the most CPU time first")
		if by != historyv1alpha1.ByUser {
			continue
		}
		assert.Equal(t, historyv1alpha1.ReportRow{
			Name: "ada", Jobs: 2, Succeeded: 1, WaitSeconds: 6, RunSeconds: 2 * 3597, Evictions: 2,
			ResourceSeconds: map[corev1.ResourceName]float64{
				"cpu": 2*115104 + 2, "memory": a.ResourceSeconds["memory"] + c.ResourceSeconds["memory"],
				"nvidia.com/gpu": a.ResourceSeconds["nvidia.com/gpu"] + c.ResourceSeconds["nvidia.com/gpu"]},
		}, report.Rows[0])
	}
	_, err := SumBy("moon")
	assert.ErrorContains(t, err, `"moon" is none of user, queue and namespace`)
}

// TestAReportIsBounded: users are labels, of which a tenant may write any number.
func TestAReportIsBounded(t *testing.T) {
	sums, err := SumBy(historyv1alpha1.ByUser)
	require.NoError(t, err)
	for n := range mostRows + 500 {
		r := record(n)
		r.User = fmt.Sprint("user-", n)
		sums.Add(r)
	}
	report := sums.Report()
	assert.Len(t, report.Rows, mostRows+1)
	jobs := int64(0)
	for _, row := range report.Rows {
		jobs += row.Jobs
		if row.Name == others {
			assert.EqualValues(t, 500, row.Jobs)
		}
	}
	assert.EqualValues(t, mostRows+500, jobs)
}
