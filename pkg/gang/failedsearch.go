package gang

import "time"

// FailedSearch is what is known of the searches for victims that found none, for a gang or for similar pods. None is repeated before something
// happens that may change its answer.
type FailedSearch struct {
	Count   int       // searches in a row that found none
	At      time.Time // the next is not made before
	Pending bool      // one is to be made that could not be made yet
	Begun   time.Time // of the last; zero: none was made
	Again   time.Time // a pod that had to stay may be evicted from then on; zero for none
}

const (
	// FirstSearchPause is the pause after a search that found no victims; the pause doubles up to LongestSearchPause. A queue may come
	// above its share without any event that helps a waiting gang.
	FirstSearchPause = time.Second
	// LongestSearchPause is the end of the doubling.
	LongestSearchPause = 30 * time.Second
)

// cacheDelay is how long the scheduler's cache may take to learn what the tracker knows. A search that began so soon after a change may not have
// seen it.
const cacheDelay = time.Second

// Failed notes that a search found none, or could find none by the rules. The next is delayed: twice as long each time.
func (f *FailedSearch) Failed(begun, again, now time.Time) {
	f.Begun, f.Again, f.Pending = begun, again, false
	f.At = now.Add(min(LongestSearchPause, FirstSearchPause<<min(f.Count, 10)))
	f.Count++
}

// MayDiffer says whether another search may find more, or is to be made at last. changedAt is when something changed last.
func (f *FailedSearch) MayDiffer(changedAt, now time.Time) bool {
	return f.IsDue(now) || !f.Begun.After(changedAt.Add(cacheDelay))
}

// IsDue says whether a search is to be made although nothing has changed. It is pending, or a pod may be evicted now that had to stay.
func (f *FailedSearch) IsDue(now time.Time) bool {
	return f.Pending || !f.Again.IsZero() && !now.Before(f.Again)
}
