package nodegroup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// newPlugin is the plugin beside four queues. There "a" requires the group a, "child" is its child, "open" prefers b, and "any" names none.
func newPlugin(t *testing.T) (*NodeGroup, *gangs.Tracker) {
	t.Helper()
	tracker := gangs.New(clocktesting.NewFakeClock(time.Unix(1000, 0)))
	require.NoError(t, tracker.Configure("muster", config.CoschedulingArgs{Admission: config.AdmissionRequired}))
	tracker.Feed.Open()
	tracker.SetQueue(mustertesting.MakeQueue("a").NodeGroups("a").Obj())
	tracker.SetQueue(mustertesting.MakeQueue("child").Parent("a").Obj())
	open := mustertesting.MakeQueue("open").Obj()
	open.Spec.Affinity = &schedulingv1beta1.Affinity{NodeGroupAffinity: &schedulingv1beta1.NodeGroupAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []string{"b"}}}
	tracker.SetQueue(open)
	tracker.SetQueue(mustertesting.MakeQueue("any").Obj())
	return &NodeGroup{tracker: tracker}, tracker
}

func inQueue(queue string) *corev1.Pod {
	return mustertesting.MakePod("p").UID("p").SchedulerName("muster").QueueName(queue).Requests("cpu", "1").Obj()
}

func nodeOf(group string) *corev1.Node {
	node := mustertesting.MakeNode("n-" + group)
	if group != "" {
		node = node.Label(schedulingv1beta1.NodeGroupLabel, group)
	}
	return node.Obj()
}

// passes are the groups to which a pod may go; nil if it skips the plugin.
func passes(t *testing.T, n *NodeGroup, pod *corev1.Pod) (groups []string) {
	t.Helper()
	cycle := framework.NewCycleState()
	_, status := n.PreFilter(t.Context(), cycle, pod, nil)
	if status.IsSkip() {
		return nil
	}
	require.True(t, status.IsSuccess())
	for _, group := range []string{"", "a", "b"} {
		info := framework.NewNodeInfo()
		info.SetNode(nodeOf(group))
		status := n.Filter(t.Context(), cycle, pod, info)
		if status.IsSuccess() {
			groups = append(groups, group)
			continue
		}
		assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), "no victim helps")
		assert.Equal(t, []string{`node(s) are not in the node groups of queue "a" (a)`}, status.Reasons())
	}
	return groups
}

func TestPodsGoToTheNodeGroupsOfTheirQueue(t *testing.T) {
	n, tracker := newPlugin(t)
	assert.Equal(t, []string{"a"}, passes(t, n, inQueue("a")))
	assert.Equal(t, []string{"a"}, passes(t, n, inQueue("child")), "a child is in the groups of its parent")
	assert.Equal(t, []string{"", "a", "b"}, passes(t, n, inQueue("open")))
	assert.Nil(t, passes(t, n, inQueue("any")), "the plugin is skipped")
	assert.Nil(t, passes(t, n, inQueue("")), "a pod without a queue")

	member := mustertesting.MakePod("m").UID("m").SchedulerName("muster").Group("g").QueueName("any").Requests("cpu", "1").Obj()
	tracker.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").MinMember(1).Queue("a").Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	tracker.SetPod(member)
	assert.Equal(t, []string{"a"}, passes(t, n, member), "the queue of a member is that of its PodGroup")
}

func TestPreferredGroupsComeFirst(t *testing.T) {
	n, _ := newPlugin(t)
	scores := func(queue string) (scores []int64) {
		pod, cycle := inQueue(queue), framework.NewCycleState()
		n.PreFilter(t.Context(), cycle, pod, nil)
		if n.PreScore(t.Context(), cycle, pod, nil).IsSkip() {
			return nil
		}
		for _, group := range []string{"", "a", "b"} {
			info := framework.NewNodeInfo()
			info.SetNode(nodeOf(group))
			score, status := n.Score(t.Context(), cycle, pod, info)
			require.True(t, status.IsSuccess())
			scores = append(scores, score)
		}
		return scores
	}
	assert.Equal(t, []int64{50, 50, 100}, scores("open"))
	assert.Nil(t, scores("a"), "it prefers no group")
	assert.Nil(t, scores("any"))
}

// TestPodsOfOtherGroupsAreFilteredByThemselves: upstream filters pods of one signature once.
func TestPodsOfOtherGroupsAreFilteredByThemselves(t *testing.T) {
	n, _ := newPlugin(t)
	sign := func(queue string) []fwk.SignFragment {
		fragments, status := n.SignPod(t.Context(), inQueue(queue))
		require.True(t, status.IsSuccess())
		return fragments
	}
	assert.Empty(t, sign("any"))
	assert.Equal(t, sign("a"), sign("child"))
	assert.NotEqual(t, sign("a"), sign("open"))
}

func TestANodeThatComesToAGroupWakesItsPods(t *testing.T) {
	n, _ := newPlugin(t)
	hint := func(queue string, from, to *corev1.Node) fwk.QueueingHint {
		var oldObj any
		if from != nil {
			oldObj = from
		}
		answer, err := n.mayGoTo(klog.Background(), inQueue(queue), oldObj, to)
		require.NoError(t, err)
		return answer
	}
	assert.Equal(t, fwk.Queue, hint("a", nil, nodeOf("a")))
	assert.Equal(t, fwk.Queue, hint("a", nodeOf("b"), nodeOf("a")))
	assert.Equal(t, fwk.QueueSkip, hint("a", nil, nodeOf("b")))
	assert.Equal(t, fwk.QueueSkip, hint("a", nodeOf("a"), nodeOf("b")))
	assert.Equal(t, fwk.QueueSkip, hint("a", nodeOf("a"), nodeOf("a")), "it was in the group before")
}
