package quota

import "time"

const (
	// firstTurn is the first turn, in units.
	firstTurn = 4
	// LongestTurn is the number of failed turns after which turns do not become longer any more.
	LongestTurn = 4
)

// Turn returns the length of a gang's turn, for which quota is reserved for it, after so many failed turns. It also returns how long other
// gangs may take the quota after that. After each failed turn the gang's own turn doubles. So in the end it is longer than any pod that
// ends. The turn of other gangs becomes four times as long. A gang that can never start costs its queue less and less. Their first turn is
// one unit.
func Turn(unit time.Duration, inVain int) (own, others time.Duration) {
	longer := min(inVain, LongestTurn)
	return firstTurn * unit << longer, unit << (2 * longer)
}
