package placement

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// deviceProfile is a profile with a plugin that allocates devices of two kinds. A pod with the label "device" takes the first free device of
// that kind, or of any kind.
type deviceProfile struct {
	Profile
	t       require.TestingT
	devices map[string][]string // free on each node, in the order in which they are taken
	taken   map[types.UID]string
	onNode  map[types.UID]string
	late    bool // only Reserve sees that no device is left
	most    int  // how many pods held devices at the same time
	calls   int
}

func (d *deviceProfile) find(pod *corev1.Pod, node string) int {
	kind := pod.Labels["device"]
	return slices.IndexFunc(d.devices[node], func(free string) bool { return kind == "any" || kind == free })
}

func (d *deviceProfile) RunFilterPluginsWithNominatedPods(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if status := d.Profile.RunFilterPluginsWithNominatedPods(ctx, cycle, pod, node); !status.IsSuccess() {
		return status
	}
	if pod.Labels["device"] != "" && !d.late && d.find(pod, node.Node().Name) < 0 {
		return fwk.NewStatus(fwk.Unschedulable, "no device is free").WithPlugin("Devices")
	}
	return nil
}

func (d *deviceProfile) RunReservePluginsReserve(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	require.True(d.t, IsDryRun(cycle))
	require.NotContains(d.t, d.onNode, pod.UID)
	d.onNode[pod.UID] = node
	d.most = max(d.most, len(d.onNode))
	d.calls++
	i := d.find(pod, node)
	if i < 0 {
		return fwk.NewStatus(fwk.Unschedulable, "no device is left").WithPlugin("Devices")
	}
	d.taken[pod.UID] = d.devices[node][i]
	d.devices[node] = slices.Delete(slices.Clone(d.devices[node]), i, i+1)
	return nil
}

func (d *deviceProfile) RunReservePluginsUnreserve(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, node string) {
	require.True(d.t, IsDryRun(cycle))
	require.Equal(d.t, node, d.onNode[pod.UID])
	delete(d.onNode, pod.UID)
	if kind, ok := d.taken[pod.UID]; ok {
		d.devices[node] = append([]string{kind}, d.devices[node]...)
		delete(d.taken, pod.UID)
	}
}

// withDevices gives a planner's profile devices, by node.
func withDevices(t require.TestingT, planner *Planner, devices map[string][]string) *deviceProfile {
	d := &deviceProfile{Profile: planner.profile, t: t, devices: devices, taken: map[types.UID]string{}, onNode: map[types.UID]string{}}
	planner.profile = d
	return d
}

func claims(device string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels["device"] = device
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: device}}
	}
}

func TestMembersThatClaimDevicesAreReservedInADryRun(t *testing.T) {
	tests := map[string]struct {
		devices map[string][]string
		gang    []*corev1.Pod
		late    bool
		placed  int
		on      map[string]int
	}{
		"enough on two nodes":        {devices: map[string][]string{"n0": {"a", "a"}, "n1": {"a"}}, gang: some(3, "worker", claims("a")), placed: 3, on: map[string]int{"n0": 2, "n1": 1}},
		"one too few":                {devices: map[string][]string{"n0": {"a"}, "n1": {"a"}}, gang: some(3, "worker", claims("a")), placed: 2},
		"one too few, seen late":     {devices: map[string][]string{"n0": {"a"}, "n1": {"a"}}, gang: some(3, "worker", claims("a")), late: true, placed: 2},
		"enough, seen late":          {devices: map[string][]string{"n0": {"a"}, "n1": {"a", "a"}}, gang: some(3, "worker", claims("a")), late: true, placed: 3, on: map[string]int{"n0": 1, "n1": 2}},
		"none anywhere":              {devices: map[string][]string{}, gang: some(2, "worker", claims("a")), placed: 0},
		"those without claims go on": {devices: map[string][]string{"n1": {"a"}}, gang: append(some(5, "plain"), in("worker", "w", claims("a"))), placed: 6, on: map[string]int{"n1": 3, "n0": 3}},
		"the order of the classes decides": {devices: map[string][]string{"n0": {"a", "b"}, "n1": {}}, placed: 2, on: map[string]int{"n0": 2},
			gang: []*corev1.Pod{in("any", "any", claims("any")), in("a", "a", claims("a"))}},
		"the other order decides": {devices: map[string][]string{"n0": {"b", "a"}, "n1": {}}, placed: 2, on: map[string]int{"n0": 2},
			gang: []*corev1.Pod{in("b", "b", claims("b")), in("any", "any", claims("any"))}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			planner, infos := plannerOn(t, []*corev1.Node{nodeIn("z", "n0", 3), nodeIn("z", "n1", 3)})
			d := withDevices(t, planner, test.devices)
			d.late = test.late
			before := fmt.Sprint(kinds(test.devices))
			decision := planner.Decide(t.Context(), problemOf(test.gang), infos)
			assert.Empty(t, d.onNode, "all is undone")
			assert.Equal(t, before, fmt.Sprint(kinds(d.devices)))
			if test.placed < len(test.gang) {
				require.Equal(t, Impossible, decision.Feasibility)
				assert.Contains(t, decision.Message, fmt.Sprintf("room for %d of the %d members that start together", test.placed, len(test.gang)))
				assert.True(t, decision.Rejectors.Has("Devices"))
				return
			}
			require.Equal(t, Possible, decision.Feasibility, decision.Message)
			assert.Positive(t, d.calls)
			for node, count := range test.on {
				assert.Equal(t, count, countOf(decision.Places, node), "on %s", node)
			}
		})
	}
}

// TestReservedPlacesWithoutDevicesAreRenewed: the places have CPU and memory, and no devices come. They must not stay reserved for ever.
func TestReservedPlacesWithoutDevicesAreRenewed(t *testing.T) {
	planner, infos := plannerOn(t, []*corev1.Node{nodeIn("z", "n0", 3), nodeIn("z", "n1", 3)})
	withDevices(t, planner, map[string][]string{})
	problem := problemOf(some(2, "worker", claims("a")))
	problem.Reserved = map[types.UID]string{}
	for _, m := range problem.Members {
		problem.Reserved[m.UID] = "n0"
	}
	problem.Reserve, problem.Renew = true, true
	decision := planner.Decide(t.Context(), problem, infos)
	require.Equal(t, Impossible, decision.Feasibility)
	assert.True(t, decision.NoPlaces || decision.Reserve != nil, "other places are chosen, or the gang backs off")
}

// kinds are the numbers of free devices of each kind on each node.
func kinds(devices map[string][]string) map[string]int {
	counts := map[string]int{}
	for node, free := range devices {
		for _, kind := range free {
			counts[node+"/"+kind]++
		}
	}
	return counts
}

// TestDryRunIsExactForOneClass draws nodes with devices and room. A gang of one class fits if and only if the devices are there. Its places
// respect both, and nothing stays reserved.
func TestDryRunIsExactForOneClass(t *testing.T) {
	mustertesting.Histories(t, 100, func(r *rapid.T) {
		var nodes []*corev1.Node
		devices, slots, room := map[string][]string{}, 0, map[string]int{}
		for i := range rapid.IntRange(1, 4).Draw(r, "nodes") {
			name := fmt.Sprint("n", i)
			room[name] = rapid.IntRange(1, 4).Draw(r, "room")
			nodes = append(nodes, nodeIn("z", name, room[name]))
			for range rapid.IntRange(0, 3).Draw(r, "devices") {
				devices[name] = append(devices[name], "a")
			}
			room[name] = min(room[name], len(devices[name]))
			slots += room[name]
		}
		planner, infos := plannerOn(t, nodes)
		d := withDevices(r, planner, devices)
		d.late = rapid.Bool().Draw(r, "late")
		count := rapid.IntRange(1, 6).Draw(r, "members")
		decision := planner.Decide(t.Context(), problemOf(some(count, "worker", claims("a"))), infos)
		require.Equal(r, count <= slots, decision.Feasibility == Possible, decision.Message)
		require.Empty(r, d.onNode)
		require.Empty(r, d.taken)
		if decision.Feasibility == Possible {
			require.Equal(r, count, d.most)
			for name := range room {
				require.LessOrEqual(r, countOf(decision.Places, name), room[name])
			}
		}
	})
}

// TestAResourceThatNoNodeHasIsTriedInADryRun: a device class may stand for it.
func TestAResourceThatNoNodeHasIsTriedInADryRun(t *testing.T) {
	planner, infos := plannerOn(t, []*corev1.Node{nodeIn("z", "n0", 3)})
	d := withDevices(t, planner, map[string][]string{"n0": {"a"}})
	problem := problemOf(some(2, "worker", func(p *corev1.Pod) { p.Labels["device"] = "a" }))
	require.Equal(t, Possible, planner.Decide(t.Context(), problem, infos).Feasibility, "no member claims devices")
	assert.Zero(t, d.calls)
	for _, m := range problem.Members {
		m.Requests["example.com/device"] = 1
	}
	assert.Equal(t, Impossible, planner.Decide(t.Context(), problem, infos).Feasibility)
	assert.Empty(t, d.onNode)
}
