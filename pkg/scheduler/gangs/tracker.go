// Package gangs has the steps of gangs in the scheduler. There is one Tracker in a process; the plugins of all profiles share it.
//
// Informers tell it of pods, PodGroups and queues (SetPod and the like). A scheduling cycle of a gang's scout takes a Snapshot, has package
// placement decide, and calls Commit. The cycles of the members that start then call Reserve and Permit. Package dispatch asks what each
// gang needs that has changed. Package state has the data and the lock.
package gangs

import "k8s.io/utils/clock"

// Tracker is what all plugins share. Start it with Feed.Start. It has one part for each of its users. Arrows point down: the parts use the
// store, and the store its own parts. Below all of them is the state, which knows none of them.
type Tracker struct {
	*store
	// Feed tells the tracker what is in the API.
	Feed *Feed
	// Decisions are the steps of a scout's cycle.
	Decisions *Decisions
	// Hints are the tracker's answers to queueing hints.
	Hints *Hints
}

// New makes an empty tracker.
func New(c clock.Clock) *Tracker {
	s := newStore(c)
	return &Tracker{store: s, Feed: newFeed(s), Decisions: &Decisions{s}, Hints: &Hints{s}}
}
