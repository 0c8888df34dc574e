package coscheduling

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/clock"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// elastic is a gang of which fewer have to start than wait. Its members are created in this order.
func elastic(store *state.Store, minMember int32, change ...func(*corev1.Pod)) (pods []*corev1.Pod) {
	store.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").MinMember(minMember).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	for i, change := range change {
		name := fmt.Sprintf("m%d", i)
		pod := mustertesting.MakePod(name).UID(name).Group("g").SchedulerName("muster").Requests("cpu", "1").Obj()
		change(pod)
		store.SetPod(pod)
		pods = append(pods, pod)
	}
	return pods
}

// A gang that needs fewer members than it has starts with those that fit, whichever these are.
func TestOthersStartInPlaceOfMembersThatDoNotFit(t *testing.T) {
	plain, lost := func(*corev1.Pod) {}, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "lost"} }
	large := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("9")
	}
	var none []string
	for name, tc := range map[string]struct {
		minMember int32
		members   []func(*corev1.Pod)
		start     []string
	}{
		"the first, if they fit":                          {2, []func(*corev1.Pod){plain, plain, lost}, []string{"m0", "m1"}},
		"one cannot be placed anywhere":                   {3, []func(*corev1.Pod){lost, plain, plain, plain}, []string{"m1", "m2", "m3"}},
		"two kinds cannot":                                {2, []func(*corev1.Pod){lost, large, plain, plain}, []string{"m2", "m3"}},
		"as many of a kind as find room, and then others": {3, []func(*corev1.Pod){needsDisk, needsDisk, needsDisk, plain}, []string{"m0", "m1", "m3"}},
		"there are too few others":                        {3, []func(*corev1.Pod){lost, lost, plain, plain}, none},
		"all are alike":                                   {3, []func(*corev1.Pod){lost, lost, lost, lost}, none},
	} {
		t.Run(name, func(t *testing.T) {
			c, nodes := pluginOn(t, []*corev1.Node{nodeIn("a", "n0", 2), withDisk(nodeIn("a", "n1", 2))})
			c.store = state.New(clock.RealClock{})
			c.store.Serve("muster")
			c.store.Open()
			pods := elastic(c.store, tc.minMember, tc.members...)
			require.Empty(t, c.store.Gate(pods[0]))
			require.Equal(t, state.Scout, c.store.Enter(pods[0]).Role)
			_, status := c.judge(t.Context(), framework.NewCycleState(), pods[0], nodes)
			var start []string
			for _, pod := range pods {
				if c.store.Enter(pod).Role == state.Chosen {
					start = append(start, pod.Name)
				}
			}
			assert.Equal(t, tc.start, start)
			if tc.start == nil {
				assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
			}
		})
	}
}

// Who was judged in vain in place of others is asked about events, too.
func TestAGangWakesForThoseWhoWereJudgedInPlaceOfOthers(t *testing.T) {
	lost, disk := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "lost"} }, needsDisk
	c, nodes := pluginOn(t, []*corev1.Node{nodeIn("a", "n0", 2)})
	c.store = state.New(clock.RealClock{})
	c.store.Serve("muster")
	c.store.Open()
	pods := elastic(c.store, 1, lost, disk)
	require.Empty(t, c.store.Gate(pods[0]))
	_, status := c.judge(t.Context(), framework.NewCycleState(), pods[0], nodes)
	require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	assert.Contains(t, status.Message(), "0 of 1 members of the gang fit")
	asked, parked := c.store.MayBeHelpedBy(pods[0], names.NodeAffinity)
	require.True(t, parked)
	assert.ElementsMatch(t, []string{"m0", "m1"}, []string{asked[0].Name, asked[1].Name})
	assert.True(t, c.store.MayBeEnough(pods[0], "", nil), "nobody knows what is room for whom")
}
