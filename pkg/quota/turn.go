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

// TurnLeft says how much of its turn is left to a gang that has lacked quota for so long. It is 0 if the gang has none. The first turn begins
// after one unit. So long others could bypass the gang. A turn ends, because quota that is kept for a gang may never be enough. It is lost to
// all then, for example in a queue in which a pod runs for ever.
func TurnLeft(unit, waited time.Duration) time.Duration {
	if unit <= 0 || waited < unit {
		return 0
	}
	waited -= unit
	for inVain := 0; ; inVain++ {
		own, others := Turn(unit, inVain)
		if inVain >= LongestTurn {
			waited %= own + others
		}
		if waited < own {
			return own - waited
		}
		if waited -= own; waited < others {
			return 0
		}
		waited -= others
	}
}
