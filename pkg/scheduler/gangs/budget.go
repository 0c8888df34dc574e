package gangs

import "time"

const (
	// searchPart: searches for victims take at most this part of the scheduling loop's time, one fifth.
	searchPart = 5
	// searchBurst is how long searches may take in a row before that bound holds.
	searchBurst = 500 * time.Millisecond
)

// searchBudget bounds the time that all searches for victims take of the scheduling loop: each is paced by itself, but hundreds of gangs and
// pods may come at once. It is what has been spent and is not earned back yet.
type searchBudget struct {
	spent time.Duration
	at    time.Time // when spent was this
}

// spend notes that a search took a time.
func (b *searchBudget) spend(took time.Duration, now time.Time) {
	b.spent, b.at = b.left(now)+took, now
}

// left is how much is not earned back yet.
func (b *searchBudget) left(now time.Time) time.Duration {
	return max(0, b.spent-now.Sub(b.at)/searchPart)
}

// restIn is how long no search is made; 0 if one may be made now.
func (b *searchBudget) restIn(now time.Time) time.Duration {
	return max(0, b.left(now)-searchBurst) * searchPart
}

// isScarce says whether few searches can be made before the bound holds.
func (b *searchBudget) isScarce(now time.Time) bool { return b.left(now) > searchBurst/2 }
