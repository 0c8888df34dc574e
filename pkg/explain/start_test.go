package explain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// planIn is a plan of 5 seconds ago that expects a start in so long.
func planIn(wait time.Duration) *schedulingv1beta1.PodGroupPlan {
	return &schedulingv1beta1.PodGroupPlan{
		Position: 2, Message: "expected to start soon, when train-7 ends", WaitsFor: []string{"train-7"}, ComputedAt: metav1.NewTime(now.Add(-5 * time.Second)),
		ExpectedStart: &schedulingv1beta1.ExpectedStart{At: metav1.NewTime(now.Add(wait)), Earliest: metav1.NewTime(now.Add(wait / 2)), Latest: metav1.NewTime(now.Add(2 * wait))},
	}
}

func TestAPageSaysWhenAGangStarts(t *testing.T) {
	f := waitingJob()
	assert.Empty(t, section(Job(f), headingStart), "nothing is known yet")
	f.Group.Status.Plan = planIn(time.Hour)
	page := Job(f)
	assert.Equal(t, []string{
		"It is expected to start soon, when train-7 ends (found 5s ago).",
		"That is in 60m. Four of five such gangs start between 12:30:00 and 14:00:00 UTC on November 25.",
	}, section(page, headingStart))
	assert.Equal(t, f.Group.Status.Plan, page.Wait.Plan)
	assert.Equal(t, section(page, headingStart), section(PodGroup(f), headingStart))

	f.Group.Status.Plan = planIn(72 * time.Hour)
	assert.Equal(t, "That is in 3d. Four of five such gangs start between 00:00:00 UTC on November 27 and 12:00:00 UTC on December 1.",
		section(Job(f), headingStart)[1])

	f.Group.Status.Plan.ExpectedStart, f.Group.Status.Plan.Message = nil, "no start is known"
	assert.Equal(t, []string{"No start is known (found 5s ago)."}, section(Job(f), headingStart))
	f.Group.Status.Phase = schedulingv1beta1.PodGroupRunning
	assert.Empty(t, section(PodGroup(f), headingStart), "it has started")
}

func TestAPageOfAQueueHasItsNextHours(t *testing.T) {
	f := waitingJob()
	queue := mustertesting.MakeQueue("team").Obj()
	f.Queues = []schedulingv1beta1.Queue{*queue}
	later := groupLike(f, "later", func(g *schedulingv1beta1.PodGroup) { g.Status.Plan = planIn(2 * time.Hour) })
	sooner := groupLike(f, "sooner", func(g *schedulingv1beta1.PodGroup) { g.Status.Plan = planIn(time.Hour) })
	unknown := groupLike(f, "unknown", nil)
	for _, g := range []*schedulingv1beta1.PodGroup{&later, &sooner, &unknown} {
		g.Spec.Queue = "team"
	}
	f.Groups = []schedulingv1beta1.PodGroup{later, sooner, unknown}
	lines := section(Queue(f, "team"), headingNext)
	if assert.Len(t, lines, 2) {
		assert.Contains(t, lines[0], "sooner")
		assert.Contains(t, lines[1], "later")
	}
}
