package gang

import "maps"

// Roll counts the members of a gang that hold room, so as to tell which of them can be spared.
type Roll struct {
	gang  Gang
	there seats
}

// Call makes the roll of a gang from what it asks for (Gang.Asks) and the members that hold room. Which of them count is for the caller to
// say.
func Call(spec Spec, holding []*Member) *Roll {
	r := &Roll{gang: Gang{Spec: spec}}
	r.there = *r.gang.seatsOf(holding)
	return r
}

// Len is the number of members on the roll.
func (r *Roll) Len() int { return r.there.total }

// Seated says whether the members on the roll, with those that have succeeded, are the minimum and that of every task.
func (r *Roll) Seated() bool { return r.there.short(&r.gang) == 0 }

// AtRest says whether a gang may be left like this: whole, or not at all.
func (r *Roll) AtRest() bool { return r.Len() == 0 || r.Seated() }

// Strike takes a member off the roll.
func (r *Roll) Strike(m *Member) {
	r.there.ofTask[m.Task]--
	r.there.total--
}

// Spare returns those of some members without all of which the gang stays seated, as many as can be, in the given order
// of who goes first. It returns none for a gang that is not seated. The roll stays as it is.
func (r *Roll) Spare(goFirst []*Member) []*Member {
	if !r.Seated() {
		return nil
	}
	left := &Roll{gang: r.gang, there: r.there}
	left.there.ofTask = maps.Clone(r.there.ofTask)
	var spare []*Member
	for _, m := range goFirst {
		left.Strike(m)
		if left.Seated() {
			spare = append(spare, m)
			continue
		}
		left.there.take(m)
	}
	return spare
}
