package gang

import "maps"

// Remaining counts the members of a gang that hold room, to tell which of them the gang can do without.
type Remaining struct {
	gang  Gang
	seats seats
}

// NewRemaining starts with what a gang asks for (Gang.Asks) and the members that hold room. The caller says which of them count.
func NewRemaining(spec Spec, holding []*Member) *Remaining {
	r := &Remaining{gang: Gang{Spec: spec}}
	r.seats = *r.gang.seatsOf(holding)
	return r
}

// Len is the number of members that remain.
func (r *Remaining) Len() int { return r.seats.total }

// Seated says whether the remaining members and the succeeded ones meet the minimum and that of every task.
func (r *Remaining) Seated() bool { return r.seats.short(&r.gang) == 0 }

// IsWholeOrGone says whether a gang may be left like this.
func (r *Remaining) IsWholeOrGone() bool { return r.Len() == 0 || r.Seated() }

// Remove takes a member out.
func (r *Remaining) Remove(m *Member) {
	r.seats.add(m, -1)
}

// Spare returns as many of some members as can go together while the gang stays seated, in the given order. It returns none for a gang that
// is not seated. It changes nothing.
func (r *Remaining) Spare(inOrder []*Member) []*Member {
	if !r.Seated() {
		return nil
	}
	left := &Remaining{gang: r.gang, seats: r.seats}
	left.seats.ofTask, left.seats.ofGroup = maps.Clone(r.seats.ofTask), maps.Clone(r.seats.ofGroup)
	var spare []*Member
	for _, m := range inOrder {
		left.Remove(m)
		if left.Seated() {
			spare = append(spare, m)
			continue
		}
		left.seats.take(m)
	}
	return spare
}
