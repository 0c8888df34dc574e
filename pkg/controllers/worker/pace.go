package worker

import "time"

// LeastStatusInterval is the least time between two writes of a status that are about the same phase.
const LeastStatusInterval = 200 * time.Millisecond

// CountsInterval is how long changes of counts are gathered before a status is written. Upstream's Job controller has the same.
const CountsInterval = time.Second

const intervalPerPod = 2 * time.Millisecond

// StatusInterval is the least time between two status writes that only change counts, for an object with so many pods. It grows with the
// pods. Creating ten thousand takes long, and a write every second costs more than it tells.
func StatusInterval(pods int) time.Duration {
	return max(CountsInterval, time.Duration(pods)*intervalPerPod)
}
