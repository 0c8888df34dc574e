package worker

import "time"

const (
	// gatherChanges is how long changes of pods are gathered: pods come, run and end together.
	gatherChanges = 20 * time.Millisecond
	// lookPerPod is three times what a look at one pod costs on a busy machine (measured with 50,000).
	lookPerPod = 30 * time.Microsecond
)

// LookPause is how long a controller waits after a change before it looks at that many pods. It follows the cost of such a look. One look
// after each change of an owner of 50,000 pods would occupy a processor. With this pause it takes a quarter of one.
func LookPause(pods int) time.Duration { return time.Duration(pods) * lookPerPod }

// GatherPause is how long a controller waits after a change of a pod before it looks at its owner's pods. So it sees many changes at once.
func GatherPause(pods int) time.Duration { return gatherChanges + LookPause(pods) }
