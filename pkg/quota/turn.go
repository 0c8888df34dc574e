package quota

import "time"

const (
	// firstTurn is the first turn, in units.
	firstTurn = 4
	// LongestTurn is the number of failed turns after which turns do not become longer any more.
	LongestTurn = 4
)

// Turn is for how long quota is reserved for a gang that has had so many turns without success, and for how long others may take it after
// that. After each failed turn the gang's own turn doubles, so that in the end it is longer than anything that ends, and the others' turn
// becomes four times as long, so that a gang that can never start costs its queue less and less. The others' first turn is one unit.
func Turn(unit time.Duration, inVain int) (own, others time.Duration) {
	longer := min(inVain, LongestTurn)
	return firstTurn * unit << longer, unit << (2 * longer)
}
