package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestOnlyWhatNeverReachedItsMinimumIsTakenDown: a gang that was bound as a whole is not evicted when it loses a member later, also if
// its PodGroup's status does not say that it was: the status is written when there is time for it.
func TestOnlyWhatNeverReachedItsMinimumIsTakenDown(t *testing.T) {
	for name, c := range map[string]struct {
		bound int // of three
		taken int
	}{
		"whole, and then it lost one": {bound: 3, taken: 0},
		"never whole":                 {bound: 2, taken: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := newTestStore()
			pg := testGroup("g", 3)
			pg.Spec.Queue = "q"
			s.SetPodGroup(pg)
			pods := testPods("g", 3)
			for i, pod := range pods {
				if i < c.bound {
					pod = on(pod, "node")
				}
				s.SetPod(pod)
			}
			s.DeletePod(pods[2])
			evict, _ := s.check()
			assert.Empty(t, evict, "there is time to complete it")
			clock.Step(2 * time.Hour)
			evict, _ = s.check()
			assert.Len(t, evict, c.taken)
			assert.NotContains(t, namesOf(evict), pods[2].Name)
		})
	}
}
