package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

// desk is a Syncer whose keys have work to do, or a report to write, or both.
type desk struct {
	reports *Reports
	worker  *Worker

	mu      sync.Mutex
	work    map[string]int // key -> how much
	pending map[string]int // key -> how much a report would tell that is not told yet
	written []string       // keys whose reports were written, in order
}

func newDesk(reports *Reports) *desk {
	d := &desk{reports: reports, work: map[string]int{}, pending: map[string]int{}}
	d.worker = New("test", d)
	reports.Share(d.worker)
	return d
}

func (d *desk) add(key string, work, pending int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.work[key] += work
	d.pending[key] += pending
	d.worker.Enqueue(key)
}

func (d *desk) Sync(_ context.Context, key string) (time.Duration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.work[key] > 0 {
		d.work[key]--
		d.pending[key]++
		d.worker.Enqueue(key)
	}
	if d.pending[key] > 0 && d.reports.MayWrite(d.worker, key) {
		d.pending[key] = 0
		d.written = append(d.written, key)
	}
	return 0, nil
}

// syncs takes one key after the other until none waits.
func (d *desk) syncs(t require.TestingT) {
	for range 100_000 {
		if d.worker.queue.Len() == 0 {
			return
		}
		d.worker.syncNext(context.Background())
	}
	require.Fail(t, "there is no end to it")
}

func (d *desk) told() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.written)
}

func TestWithoutReportsAllIsWrittenAtOnce(t *testing.T) {
	var none *Reports
	d := newDesk(none)
	d.add("a", 0, 1)
	d.add("b", 0, 1)
	d.syncs(t)
	assert.Equal(t, []string{"a", "b"}, d.told())
}

func TestAReportIsWrittenAtOnceWhileNothingWaits(t *testing.T) {
	d := newDesk(newReports(testingclock.NewFakeClock(time.Now())))
	d.add("a", 0, 1)
	d.worker.syncNext(t.Context())
	assert.Equal(t, []string{"a"}, d.told())
}

// TestReportsGiveWayToWork: while keys wait, also keys of another worker, reports wait, too. Afterwards all are written, in the order in
// which they came to wait, and what came together is written once.
func TestReportsGiveWayToWork(t *testing.T) {
	c := testingclock.NewFakePassiveClock(time.Now())
	reports := newReports(c)
	tells, works := newDesk(reports), newDesk(reports)
	works.add("work", 1, 0)
	for _, key := range []string{"a", "b", "c"} {
		tells.add(key, 0, 1)
	}
	tells.add("a", 0, 1)
	tells.syncs(t)
	assert.Empty(t, tells.told())
	tells.add("a", 0, 1)
	tells.syncs(t)
	assert.Empty(t, tells.told(), "however often it is looked at")

	works.syncs(t)
	assert.Empty(t, works.told(), "its own report comes last")
	assert.Equal(t, reportsAtOnce, tells.worker.queue.Len(), "workers are left for what comes")
	tells.syncs(t)
	works.syncs(t)
	assert.Equal(t, []string{"a", "b", "c"}, tells.told())
	assert.Equal(t, []string{"work"}, works.told())
	assert.Empty(t, reports.spaces)
}

// TestReportsInProgressCount: syncs that end while two reports are in progress release no third one.
func TestReportsInProgressCount(t *testing.T) {
	c := testingclock.NewFakePassiveClock(time.Now())
	reports := newReports(c)
	d, works := newDesk(reports), newDesk(reports)
	works.add("work", 0, 0)
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		d.add(key, 0, 1)
	}
	d.syncs(t)
	require.Empty(t, d.told())
	works.syncs(t)

	var inProgress []string
	for range reportsAtOnce {
		require.Positive(t, d.worker.queue.Len())
		key, _ := d.worker.queue.Get()
		reports.begin(d.worker, key)
		inProgress = append(inProgress, key)
	}
	require.Equal(t, []string{"a", "b"}, inProgress)
	for range 3 {
		works.add("work", 0, 0)
		works.syncs(t)
		require.Zero(t, d.worker.queue.Len(), "a third report was released")
	}
	d.worker.queue.Done("a")
	reports.end(d.worker, "a")
	require.Equal(t, 1, d.worker.queue.Len(), "one has ended, so the next is released")
	key, _ := d.worker.queue.Get()
	require.Equal(t, "c", key)
}

// TestSomeReportsAreWrittenHoweverMuchThereIsToDo: users see progress also while work never ends: one report is written in every
// interval, each key in turn.
func TestSomeReportsAreWrittenHoweverMuchThereIsToDo(t *testing.T) {
	c := testingclock.NewFakePassiveClock(time.Now())
	reports := newReports(c)
	d := newDesk(reports)
	for _, key := range []string{"a", "b", "c"} {
		d.add(key, 1_000_000, 0)
	}
	for range 10 {
		d.worker.syncNext(t.Context())
	}
	assert.Empty(t, d.told())
	for range 6 {
		c.SetTime(c.Now().Add(reportInterval))
		for range 20 {
			d.worker.syncNext(t.Context())
		}
	}
	assert.Equal(t, []string{"a", "b", "c", "a", "b", "c"}, d.told())
}

// TestReportsOfANamespaceDoNotWaitForAnother: a namespace with much work and many reports delays no report of another
// one.
func TestReportsOfANamespaceDoNotWaitForAnother(t *testing.T) {
	c := testingclock.NewFakePassiveClock(time.Now())
	reports := newReports(c)
	d := newDesk(reports)
	for i := range 100 {
		d.add(fmt.Sprintf("busy/%d", i), 1_000_000, 0)
	}
	for range 200 {
		d.worker.syncNext(t.Context())
	}
	require.Empty(t, d.told(), "the busy one's own reports wait")
	d.add("other/a", 0, 1)
	d.add("other/b", 0, 1)
	for range 8 { // each of the two waits for the other once
		d.worker.syncNext(t.Context())
	}
	assert.Equal(t, []string{"other/a", "other/b"}, d.told())
}

// TestEveryReportIsWrittenInTheEnd: all reports are written once all is done, for any work and any number of workers.
func TestEveryReportIsWrittenInTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := testingclock.NewFakePassiveClock(time.Now())
		reports := newReports(c)
		desks := []*desk{newDesk(reports), newDesk(reports)}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			d := rapid.SampledFrom(desks).Draw(t, "desk")
			switch rapid.SampledFrom([]string{"add", "add", "sync", "wait"}).Draw(t, "what") {
			case "add":
				key := fmt.Sprintf("%d/%d", rapid.IntRange(0, 1).Draw(t, "namespace"), rapid.IntRange(0, 3).Draw(t, "key"))
				d.add(key, rapid.IntRange(0, 2).Draw(t, "work"), rapid.IntRange(0, 1).Draw(t, "pending"))
			case "sync":
				if d.worker.queue.Len() > 0 {
					d.worker.syncNext(context.Background())
				}
			case "wait":
				c.SetTime(c.Now().Add(reportInterval / 2))
			}
		}
		for desks[0].worker.queue.Len()+desks[1].worker.queue.Len() > 0 {
			desks[0].syncs(t)
			desks[1].syncs(t)
		}
		for _, d := range desks {
			for key, pending := range d.pending {
				require.Zero(t, pending, "%s has something to tell", key)
			}
		}
		require.Empty(t, reports.spaces)
	})
}

// TestReportsOfWorkersThatRun: the same with workers that run side by side.
func TestReportsOfWorkersThatRun(t *testing.T) {
	reports := NewReports()
	desks := []*desk{newDesk(reports), newDesk(reports)}
	const keys = 200
	for i := range keys {
		for _, d := range desks {
			d.add(fmt.Sprint(i), 3, 0)
		}
	}
	for _, d := range desks {
		start(t, d.worker, 4)
	}
	for _, d := range desks {
		assert.Eventually(t, func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			for i := range keys {
				if key := fmt.Sprint(i); d.work[key] > 0 || d.pending[key] > 0 {
					return false
				}
			}
			return true
		}, 30*time.Second, 5*time.Millisecond)
	}
}
