package worker

import "time"

const (
	// gatherChanges is how long changes of pods are gathered: pods come, run and end together.
	gatherChanges = 20 * time.Millisecond
	// lookPerPod is more than a look at one pod costs.
	lookPerPod = 10 * time.Microsecond
)

// LookPause is how long a controller waits after a change before it looks at that many pods. It follows the cost of such a look. One look
// after each change of an owner of 50,000 pods would occupy a processor.
func LookPause(pods int) time.Duration { return time.Duration(pods) * lookPerPod }

// GatherPause is how long a controller waits after a change of a pod before it looks at its owner's pods. So it sees many changes at once.
func GatherPause(pods int) time.Duration { return gatherChanges + LookPause(pods) }
