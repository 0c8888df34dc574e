package top

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/explain"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestTheAnswer: the text and the JSON say the same, and amounts are Kubernetes' own.
func TestTheAnswer(t *testing.T) {
	full, free := mustertesting.MakeQueue("full").Capability("cpu", "4").Obj(), mustertesting.MakeQueue("free").Obj()
	full.Status.Allocated = corev1.ResourceList{"cpu": resource.MustParse("2500m"), "pods": resource.MustParse("3")}
	full.Status.Reservation.Resource = mustertesting.Resources("cpu", "1")
	full.Status.Muster = &schedulingv1beta1.QueueStatusExtension{Running: 1, Waiting: 5, Deserved: mustertesting.Resources("cpu", "2")}
	root := mustertesting.MakeQueue("root").Obj()
	root.Status.Muster = &schedulingv1beta1.QueueStatusExtension{Running: 1, Waiting: 5, Deserved: mustertesting.Resources("cpu", "8")}
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	waits := mustertesting.MakePodGroup("waits").Queue("full").Obj()
	at := metav1.NewTime(now.Add(3 * time.Hour))
	waits.Status.Plan = &schedulingv1beta1.PodGroupPlan{ExpectedStart: &schedulingv1beta1.ExpectedStart{At: at, Earliest: at, Latest: at}}
	found := answerOf(&explain.Facts{Queues: []schedulingv1beta1.Queue{*free, *full, *root}, Groups: []schedulingv1beta1.PodGroup{*waits}, Now: now})

	printed, err := json.Marshal(found)
	require.NoError(t, err)
	assert.JSONEq(t, `{"queues": [
		{"name": "full", "fullPercent": 62, "scarcest": "cpu", "used": {"cpu": "2500m"}, "reserved": {"cpu": "1"}, "share": {"cpu": "2"}, "borrowed": {"cpu": "500m"},
			"running": 1, "waiting": 5, "nextStart": "2030-01-01T15:00:00Z", "lastStart": "2030-01-01T15:00:00Z"},
		{"name": "free", "used": {}, "running": 0, "waiting": 0},
		{"name": "root", "used": {}, "share": {"cpu": "8"}, "running": 1, "waiting": 5, "nextStart": "2030-01-01T15:00:00Z", "lastStart": "2030-01-01T15:00:00Z"}
	], "users": []}`, string(printed))

	var text bytes.Buffer
	require.NoError(t, found.print(&text))
	assert.Contains(t, text.String(), "62% of its cpu   2500m cpu   1 cpu      2 cpu   -           500m cpu   1         5         in 3h")
}

// TestNoUserIsListedWithoutTheRightToLook (issue 44, 1): a list that may not be read is missing, and the queues name the largest users.
func TestNoUserIsListedWithoutTheRightToLook(t *testing.T) {
	queue := mustertesting.MakeQueue("q").Obj()
	queue.Status.Muster = &schedulingv1beta1.QueueStatusExtension{Users: []schedulingv1beta1.UserUsage{
		{Name: "ann", Allocated: mustertesting.Resources("cpu", "1", "pods", "1")}, {Name: "bob", Allocated: mustertesting.Resources("cpu", "2")}}}
	for want, facts := range map[string]explain.Facts{
		`{"queues": [{"name": "q", "used": {}, "running": 0, "waiting": 0}],
			"users": [{"name": "bob", "queue": "q", "used": {"cpu": "2"}}, {"name": "ann", "queue": "q", "used": {"cpu": "1"}}]}`: {
			Queues: []schedulingv1beta1.Queue{*queue}, Unread: []explain.Part{explain.PartPods}},
		`{"users": []}`: {Unread: []explain.Part{explain.PartQueues}},
		`{}`:            {Unread: []explain.Part{explain.PartQueues, explain.PartGroups}},
	} {
		found := answerOf(&facts)
		printed, err := json.Marshal(found)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(printed))
		require.NoError(t, found.print(&bytes.Buffer{}))
	}
}
