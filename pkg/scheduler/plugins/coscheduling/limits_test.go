package coscheduling

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"

	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func running(name, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := mustertesting.MakePod(name).Requests("cpu", cpu).UID(name).SchedulerName("muster").Obj()
	for _, change := range change {
		change(pod)
	}
	return pod
}

func urgent(pod *corev1.Pod) { pod.Spec.Priority = new(int32(10)) }
func daemon(pod *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: new(true)}}
}

func queued(pod *corev1.Pod) {
	pod.Annotations = map[string]string{"scheduling.volcano.sh/queue-name": "q"}
}

// withReservation has 3 CPUs of n1 reserved for the gang "big" of one pod.
func withReservation(t *testing.T) *Coscheduling {
	t.Helper()
	tracker := openTracker(t)
	scout := gangIn(tracker, "big", "", 1, 1, "3")[0]
	refuse(t, tracker, scout, &placement.Decision{Rejected: []*corev1.Pod{scout}, Reserve: &placement.Places{Of: map[types.UID]string{scout.UID: "n1"}}})
	return &Coscheduling{binds: newBindLimiter(), tracker: tracker}
}

// TestRoomThatIsReservedIsKept has room reserved for a gang, and asks Filter about all sorts of pods.
func TestRoomThatIsReservedIsKept(t *testing.T) {
	member := func(p *corev1.Pod) { p.Annotations = map[string]string{"scheduling.k8s.io/group-name": "big"} }
	native := func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{} }
	nominated := func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" }
	tests := map[string]struct {
		pod    *corev1.Pod
		node   fwk.NodeInfo
		barred bool
	}{
		"room that is reserved":       {running("p", "2"), nodeWith("n1"), true},
		"room beside it":              {running("p", "1"), nodeWith("n1"), false},
		"another node":                {running("p", "4"), nodeWith("n2"), false},
		"room that is to come free":   {running("p", "1"), nodeWith("n1", running("q", "2")), true},
		"a pod that requests no room": {running("p", "0"), nodeWith("n1", running("q", "2")), false},
		"a more important pod":        {running("p", "2", urgent), nodeWith("n1"), false},
		"a pod of a DaemonSet":        {running("p", "2", daemon), nodeWith("n1"), false},
		"one that is in a queue":      {running("p", "2", daemon, queued), nodeWith("n1"), true},
		"a member of the gang":        {running("big-0", "3", member), nodeWith("n1"), false},
		"a pod of a native pod group": {running("p", "2", native), nodeWith("n1"), false},
		"a pod that is nominated":     {running("p", "2", nominated), nodeWith("n1"), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plugin, cycle := withReservation(t), framework.NewCycleState()
			_, status := limit(cycle, test.pod, plugin.tracker.Enter(test.pod), plugin.tracker.EndOf)
			refused := !status.IsSkip() && !plugin.Filter(t.Context(), cycle, test.pod, test.node).IsSuccess()
			assert.Equal(t, test.barred, refused)
		})
	}
}

func TestFilterIsSkippedWhereNothingIsReserved(t *testing.T) {
	cycle, pod := framework.NewCycleState(), running("p", "1")
	_, status := limit(cycle, pod, openTracker(t).Enter(pod), nil)
	assert.True(t, status.IsSkip())
	assert.True(t, (&Coscheduling{}).Filter(t.Context(), cycle, pod, nodeWith("n1")).IsSuccess())
}

// TestAPodThatAReservationKeptOutWaitsForItsEnd: no event of the cluster reports that.
func TestAPodThatAReservationKeptOutWaitsForItsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		node   string
		waits  bool
		reason string
	}{
		"refused because of it": {"n1", true, roomReserved},
		"not refused":           {"n2", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, pod, cycle := withReservation(t), running("p", "2"), newCycle()
			_, status := plugin.PreFilter(t.Context(), cycle, pod, nil)
			require.True(t, status.IsSuccess(), status)
			filtered := plugin.Filter(t.Context(), cycle.Clone(), pod, nodeWith(test.node)) // nodes are tried with copies of the state
			assert.Equal(t, test.reason, filtered.Message())
			result, status := plugin.PostFilter(t.Context(), cycle, pod, nil)
			assert.Nil(t, result)
			assert.Equal(t, fwk.Unschedulable, status.Code(), "the plugins behind may preempt for it")
			assert.Equal(t, test.waits, plugin.tracker.Hints.IsBlocked(pod))
		})
	}
}

// need is what a waiting gang needs: all room of one node.
type need string

func (n need) IsHurtBy(node string, _, requests resources.List) bool {
	return node == string(n) && requests[corev1.ResourceCPU] > 0
}

func (n need) Kind() string { return string(n) }

func TestSurplusLeavesTheRoomThatAWaitingMinimumNeeds(t *testing.T) {
	pod, cycle := running("p", "1"), newCycle()
	plugin := withReservation(t)
	_, status := limit(cycle, pod, state.Entry{Holds: []reservations.Need{need("n2"), need("n3")}}, nil)
	require.True(t, status.IsSuccess(), status)
	for node, reason := range map[string]string{"n1": "", "n2": minimumWaits, "n3": minimumWaits} {
		assert.Equal(t, reason, plugin.Filter(t.Context(), cycle, pod, nodeWith(node)).Message(), node)
	}
	_, status = plugin.PostFilter(t.Context(), cycle, pod, nil)
	assert.Equal(t, fwk.Unschedulable, status.Code())
	assert.True(t, plugin.tracker.Hints.IsBlocked(pod))

	// A node that was nominated for the pod is kept for it anyway: no gang would get its room.
	pod.Status.NominatedNodeName = "n2"
	cycle = newCycle()
	_, status = limit(cycle, pod, state.Entry{Holds: []reservations.Need{need("n2"), need("n3")}}, nil)
	require.True(t, status.IsSuccess(), status)
	for node, reason := range map[string]string{"n2": "", "n3": minimumWaits} {
		assert.Equal(t, reason, plugin.Filter(t.Context(), cycle, pod, nodeWith(node)).Message(), node)
	}
}

// TestAMemberGoesToItsNode: a nominated node or a hint is tried before the nodes that PreFilter leaves, and regardless of them.
func TestAMemberGoesToItsNode(t *testing.T) {
	pod, cycle := running("p", "1"), newCycle()
	result, status := limit(cycle, pod, state.Entry{Node: "n1"}, nil)
	require.True(t, status.IsSuccess(), status)
	assert.Equal(t, []string{"n1"}, result.NodeNames.UnsortedList())
	plugin := &Coscheduling{}
	assert.True(t, plugin.Filter(t.Context(), cycle, pod, nodeWith("n1")).IsSuccess())
	elsewhere := plugin.Filter(t.Context(), cycle, pod, nodeWith("n2"))
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, elsewhere.Code(), "no victim helps there")
	assert.Equal(t, otherNodeOnly, elsewhere.Message())
}
