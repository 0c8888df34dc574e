package gang

import "time"

// FailedSearch is a search for victims that found none. It is not repeated before something happens that may change its answer.
type FailedSearch struct {
	Begun time.Time // zero: no search was made
	Again time.Time // a pod that had to stay may be evicted from then on; zero for none
}

// cacheDelay is how long the scheduler's cache may take to learn what the tracker knows. A search that began so soon after a change may not have
// seen it.
const cacheDelay = time.Second

// MayDiffer says whether another search may find more. changedAt is when something changed last.
func (f FailedSearch) MayDiffer(changedAt, now time.Time) bool {
	return f.IsDue(now) || !f.Begun.After(changedAt.Add(cacheDelay))
}

// IsDue says whether a pod may be evicted now that had to stay.
func (f FailedSearch) IsDue(now time.Time) bool { return !f.Again.IsZero() && !now.Before(f.Again) }
