package top

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/explain"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestTheAnswer: the text and the JSON say the same, and amounts are Kubernetes' own.
func TestTheAnswer(t *testing.T) {
	full, free := mustertesting.MakeQueue("full").Capability("cpu", "4").Obj(), mustertesting.MakeQueue("free").Obj()
	full.Status.Allocated = corev1.ResourceList{"cpu": resource.MustParse("2500m"), "pods": resource.MustParse("3")}
	full.Status.Running, full.Status.Pending, full.Status.Inqueue = 1, 2, 3
	found := answerOf(explain.Facts{Queues: []schedulingv1beta1.Queue{*free, *full}})

	printed, err := json.Marshal(found)
	require.NoError(t, err)
	assert.JSONEq(t, `{"queues": [
		{"name": "full", "fullPercent": 62, "scarcest": "cpu", "used": {"cpu": "2500m"}, "running": 1, "waiting": 5},
		{"name": "free", "used": {}, "running": 0, "waiting": 0}
	], "users": []}`, string(printed))

	var text bytes.Buffer
	require.NoError(t, found.print(&text))
	assert.Contains(t, text.String(), "62% of its cpu   2500m cpu   1         5")
}
