package gangs

import "time"

// failedSearch is a search for victims that found none. It is not repeated before something happens that may change its answer.
type failedSearch struct {
	begun time.Time // zero: no search was made
	again time.Time // a pod that had to stay may be evicted from then on; zero for none
}

// cacheDelay is how long the scheduler's cache may take to learn what the tracker knows. A search that began so soon after a change may not have
// seen it.
const cacheDelay = tickPeriod

// mayDiffer says whether another search may find more. changedAt is when something changed last.
func (f failedSearch) mayDiffer(changedAt, now time.Time) bool {
	return f.isDue(now) || !f.begun.After(changedAt.Add(cacheDelay))
}

// isDue says whether a pod may be evicted now that had to stay.
func (f failedSearch) isDue(now time.Time) bool { return !f.again.IsZero() && !now.Before(f.again) }

// searchInput counts the changes of what searches depend on: of pods with a node, gangs, queues, nodes, charges, waiting demand and held room.
type searchInput struct {
	changes   int64     // without those of the ledger
	noted     int64     // as of the last tick
	changedAt time.Time // when a tick noted the last change
}

// noteChanges compares the counts with those of the last tick.
func (v *Victims) noteChanges(now time.Time) {
	if changes := v.input.changes + v.t.Quota.Ledger.Changes(); changes != v.input.noted {
		v.input.noted, v.input.changedAt = changes, now
	}
}
