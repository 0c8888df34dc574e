package worker

import "time"

// LeastStatusInterval is the least time between two writes of a status that are about the same phase.
const LeastStatusInterval = 200 * time.Millisecond

const intervalPerPod = 2 * time.Millisecond

// StatusInterval is the least time between two writes of the status of something with so many pods, as long as only its counts
// change. It grows with the pods: bringing a thousand of them up takes long, and a write for every fifth of a second of it
// would cost more than it tells.
func StatusInterval(pods int) time.Duration {
	return max(LeastStatusInterval, time.Duration(pods)*intervalPerPod)
}
