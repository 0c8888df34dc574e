package worker

import "time"

// LeastStatusInterval is the least time between two writes of a status that are about the same phase.
const LeastStatusInterval = 200 * time.Millisecond

const intervalPerPod = 2 * time.Millisecond

// StatusInterval is the least time between two status writes that only change counts, for an object with so many pods. It grows with the
// pods. Creating a thousand takes long, and a write for every fifth of a second costs more than it tells.
func StatusInterval(pods int) time.Duration {
	return max(LeastStatusInterval, time.Duration(pods)*intervalPerPod)
}
