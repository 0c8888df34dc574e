package quota

import "time"

const (
	// firstTurn is the first turn, in units.
	firstTurn = 4
	// LongestTurn is how many turns have been in vain when they do not become longer any more.
	LongestTurn = 4
)

// Turn is for how long quota is set aside for one who has had so many turns in vain, and for how long others take what there is after
// that. From one turn in vain to the next the own becomes twice as long, so that in the end it outlasts all that ends, and that of the
// others four times, so that one who can never start costs its queue less and less. The others' first takes one unit.
func Turn(unit time.Duration, inVain int) (own, others time.Duration) {
	longer := min(inVain, LongestTurn)
	return firstTurn * unit << longer, unit << (2 * longer)
}
