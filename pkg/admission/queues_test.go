package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

const (
	openState    = schedulingv1beta1.QueueStateOpen
	closedState  = schedulingv1beta1.QueueStateClosed
	closingState = schedulingv1beta1.QueueStateClosing
)

// TestAQueueTakesWorkIfItAndAllAboveItAreOpen has the queues org, team below it, and leaf below that.
func TestAQueueTakesWorkIfItAndAllAboveItAreOpen(t *testing.T) {
	for name, c := range map[string]struct {
		org, team, leaf schedulingv1beta1.QueueState
		want            string
	}{
		"all are open":                    {openState, openState, openState, ""},
		"it is closed":                    {openState, openState, closedState, `queue "leaf" is Closed`},
		"it is closing":                   {openState, openState, closingState, `queue "leaf" is Closing`},
		"it has no state yet":             {openState, openState, "", `queue "leaf" is not open yet`},
		"its parent is closed":            {openState, closedState, openState, `queue "team", above queue "leaf", is Closed`},
		"the parent of that is closing":   {closingState, openState, openState, `queue "org", above queue "leaf", is Closing`},
		"its parent has no state yet":     {openState, "", openState, ""},
		"of two the nearest is named":     {closedState, closingState, openState, `queue "team", above queue "leaf", is Closing`},
		"the queue itself is named first": {closedState, closedState, closedState, `queue "leaf" is Closed`},
	} {
		t.Run(name, func(t *testing.T) {
			queues := QueuesOf([]*schedulingv1beta1.Queue{
				mustertesting.MakeQueue("root").State(openState).Obj(),
				mustertesting.MakeQueue("org").Parent("root").State(c.org).Obj(),
				mustertesting.MakeQueue("team").Parent("org").State(c.team).Obj(),
				mustertesting.MakeQueue("leaf").Parent("team").State(c.leaf).Obj(),
			})
			assert.Equal(t, c.want, queues.notOpen([]string{"leaf", "team", "org", "root"}))
		})
	}
	assert.Equal(t, `queue "none" does not exist`, Queues{}.notOpen([]string{"none", "root"}))
}
