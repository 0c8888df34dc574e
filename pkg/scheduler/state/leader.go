package state

// AwaitLeadership keeps the Store from writing to the API until Lead is called. Without it the Store takes itself for the
// only one.
func (s *Store) AwaitLeadership() {
	s.follows.Store(true)
}

// Lead says that this process schedules. It may be called any number of times.
func (s *Store) Lead() {
	if !s.follows.CompareAndSwap(true, false) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gangs {
		g.lookedFor = false
		s.reportLater(g)
	}
}
