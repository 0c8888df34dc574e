package queue

import (
	"testing"

	"github.com/stretchr/testify/assert"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestNoQueueIsLeftOutOfTheTree: neither one whose parent is gone nor those of a circle.
func TestNoQueueIsLeftOutOfTheTree(t *testing.T) {
	var queues []schedulingv1beta1.Queue
	for name, parent := range map[string]string{"root": "", "b": "", "a": "root", "a-child": "a", "orphan": "gone", "circle-1": "circle-2", "circle-2": "circle-1"} {
		queues = append(queues, *mustertesting.MakeQueue(name).Parent(parent).Obj())
	}
	var names []string
	for _, row := range treeOf(queues).table().Rows {
		names = append(names, row.Cells[0].(string))
	}
	assert.Equal(t, []string{"orphan", "root", "  a", "    a-child", "  b", "circle-1", "  circle-2"}, names)
}
