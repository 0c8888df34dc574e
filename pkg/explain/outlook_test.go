package explain

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// queued are facts of a queue team below a queue above. Its PodGroups start in so many hours; 0 for not known.
func queued(hours ...int) *Facts {
	f := waitingJob()
	f.Queues = []schedulingv1beta1.Queue{*mustertesting.MakeQueue("above").Obj(), *mustertesting.MakeQueue("team").Parent("above").Obj()}
	f.Groups = nil
	for i, in := range hours {
		f.Groups = append(f.Groups, groupLike(f, fmt.Sprint("g", i), func(g *schedulingv1beta1.PodGroup) {
			g.Spec.Queue = "team"
			if in > 0 {
				g.Status.Plan = planIn(time.Duration(in) * time.Hour)
			}
		}))
	}
	return &f
}

func TestTheOutlookOfAQueue(t *testing.T) {
	for want, f := range map[string]*Facts{
		"-": queued(), "in 5h": queued(1, 5, 2), "in 5h, 2 unknown": queued(0, 5, 0, 3), "unknown": queued(0),
	} {
		assert.Equal(t, want, Outlooks(f)["team"].Cell(f.Now))
		assert.Equal(t, Outlooks(f)["team"], Outlooks(f)["above"], "the queues below it count")
	}
	f := queued(1, 2)
	f.Groups[1].Status.Phase = schedulingv1beta1.PodGroupRunning
	assert.Equal(t, "in 60m", Outlooks(f)["team"].Cell(f.Now), "it has started")
	f.Own, f.Groups, f.Unread = f.Groups[:1], nil, []Part{PartGroups}
	assert.Equal(t, "in 60m", Outlooks(f)["team"].Cell(f.Now), "of the own namespace")
}

func TestWhatComesInAQueue(t *testing.T) {
	f := queued(2, 1, 0)
	lines := Coming(f, "team")
	assert.Equal(t, "Queue team: 3 wait. The last start that is known is expected in 120m, about 14:00:00 UTC on November 25. No start is known of 1 PodGroup.", lines[0])
	if assert.Len(t, lines, 3) {
		assert.Contains(t, lines[1], "g1")
		assert.Contains(t, lines[2], "g0")
	}
	assert.Equal(t, []string{"Queue team: nothing waits."}, Coming(queued(), "team"))
	many := make([]int, 100)
	for i := range many {
		many[i] = i + 1
	}
	assert.Len(t, Coming(queued(many...), "team"), 12, "ten, and how many more")
}
