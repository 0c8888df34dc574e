package cluster

import (
	"bytes"
	"encoding/json"
	"testing"

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
	amounts := func(cpu string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(cpu)} }
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: amounts("1500m")},
	}}}}
	onNode := pod.DeepCopy()
	onNode.Spec.NodeName = "n"
	facts := explain.Facts{
		Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("8"), "pods": resource.MustParse("10")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}}},
		Bound:  []corev1.Pod{*onNode},
		Queues: []schedulingv1beta1.Queue{*mustertesting.MakeQueue("q").Capability("cpu", "3").Obj()},
	}
	found := answerOf(facts, pod, "q")
	printed, err := json.Marshal(found)
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"nodes": [{"name": "n", "state": "ready", "free": {"cpu": "6500m", "pods": "9"}, "allocatable": {"cpu": "8", "pods": "10"}}],
		"largestGang": {"size": 2, "onNodes": 4, "inQueue": 2, "limitedBy": "q"}
	}`, string(printed))
	var text bytes.Buffer
	require.NoError(t, found.print(&text))
	assert.Contains(t, text.String(), "n      ready   6500m/8")
	assert.Contains(t, text.String(), "would start now has 2: the nodes have room for 4, queue q for 2.\n")

	assert.Nil(t, answerOf(facts, nil, "").Gang)
	assert.Nil(t, answerOf(facts, pod, "").Gang.InQueue)
}

// TestNoGangIsMeasuredWithoutTheRightToLook (issue 44, 1): a missing right is no room for 0.
func TestNoGangIsMeasuredWithoutTheRightToLook(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
	}}}}
	queues := []schedulingv1beta1.Queue{*mustertesting.MakeQueue("q").Capability("cpu", "3").Obj()}
	for want, facts := range map[string]explain.Facts{
		`{"largestGang": {"inQueue": 3, "limitedBy": "q"}}`: {Queues: queues, Unread: []explain.Part{explain.PartNodes}},
		`{"largestGang": {}}`:                               {Unread: []explain.Part{explain.PartPods, explain.PartQueues}},
		`{"nodes": [], "largestGang": {"onNodes": 0}}`:      {Unread: []explain.Part{explain.PartQueues}},
	} {
		found := answerOf(facts, pod, "q")
		printed, err := json.Marshal(found)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(printed))
		var text bytes.Buffer
		require.NoError(t, found.print(&text))
		assert.NotContains(t, text.String(), "would start now has")
	}
}
