package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// onceRules let each victim go once. They refuse a victim that was given back. The quota lacks what a certain victim frees.
type onceRules struct {
	taken, gone map[*Victim]bool
	forQuota    string // the name of the pod
}

func (r *onceRules) Take(v *Victim) bool {
	if r.gone[v] {
		return false
	}
	r.gone[v], r.taken[v] = true, true
	return true
}

func (r *onceRules) GiveBack(v *Victim) { delete(r.taken, v) }

func (r *onceRules) HasQuota() bool {
	for v := range r.taken {
		if v.AllPods()[0].Name == r.forQuota {
			return true
		}
	}
	return r.forQuota == ""
}

// TestNoSeatWithoutItsQuota: the rules refuse a victim that was given back for a try. Then the seat would lack quota, or room.
func TestNoSeatWithoutItsQuota(t *testing.T) {
	for name, test := range map[string]struct {
		free     string // CPUs of the node, where a and b have one each
		forQuota string
	}{
		"quota": {free: "9", forQuota: "a"},
		"room":  {free: "3"},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeIn("z1", "n1", 0)
			node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(test.free)
			planner, infos := plannerOn(t, []*corev1.Node{node}, in("a", "a", on("n1")), in("b", "b", on("n1")))
			rules := &onceRules{taken: map[*Victim]bool{}, gone: map[*Victim]bool{}, forQuota: test.forQuota}
			assert.Nil(t, planner.MakeRoom(t.Context(), problemOf(some(2, "m")), infos, singlesOn(infos), rules))
		})
	}
}

// singlesOn are all pods on some nodes, each of which may go by priority.
func singlesOn(infos []fwk.NodeInfo) (candidates []*Victim) {
	for _, info := range infos {
		for _, pod := range info.GetPods() {
			candidates = append(candidates, &Victim{Victim: preemption.NewPodVictim(pod, nil, nil), Kind: gang.SinglePod, Rule: quota.ByPriority})
		}
	}
	return candidates
}

// TestACheaperSeat compares seats whose victims are all of one class.
func TestACheaperSeat(t *testing.T) {
	_, infos := plannerOn(t, []*corev1.Node{nodeIn("z1", "n1", 9)}, in("p", "p", on("n1")))
	one := infos[0].GetPods()[0]
	seat := func(victims ...*Victim) *Seat {
		for _, v := range victims {
			v.Victim = preemption.NewPodVictim(one, nil, nil)
		}
		return &Seat{Victims: victims}
	}
	single := func() *Victim { return &Victim{Kind: gang.SinglePod, Rule: quota.ByPriority} }
	protected := func() *Victim { return &Victim{Kind: gang.SinglePod, Rule: quota.ByPriority, Protected: true} }
	whole := func(unseen ...*corev1.Pod) *Victim {
		return &Victim{Kind: gang.WholeGang, Rule: quota.ByPriority, Unseen: unseen}
	}
	leaving := func() *Victim { return &Victim{Kind: gang.SinglePod, Rule: quota.NotAllowed, Protected: true} }
	important := single()
	important.class = 1
	for name, seats := range map[string]struct{ cheaper, other *Seat }{
		"any number of a lower class":                {seat(protected(), whole(), single(), single()), seat(important)},
		"any number rather than one more protected":  {seat(whole(), single(), single(), single()), seat(protected())},
		"one protected rather than two":              {seat(protected(), single(), single()), seat(protected(), protected())},
		"any number rather than a gang":              {seat(single(), single(), single()), seat(whole())},
		"fewer pods":                                 {seat(single()), seat(single(), single())},
		"a gang of which fewer pods are not seen":    {seat(whole(one.GetPod())), seat(whole(one.GetPod(), one.GetPod()))},
		"a gang and a pod that is seen count as two": {seat(whole(), single()), seat(whole(one.GetPod(), one.GetPod()))},
		"what goes anyway costs nothing":             {seat(leaving(), leaving(), single()), seat(single(), single())},
	} {
		t.Run(name, func(t *testing.T) {
			assert.True(t, seats.cheaper.IsCheaperThan(seats.other))
			assert.False(t, seats.other.IsCheaperThan(seats.cheaper))
			assert.False(t, seats.cheaper.IsCheaperThan(seats.cheaper))
		})
	}
}

// boundedRules let every victim go, and fail a test that takes victims for ever.
type boundedRules struct {
	allow
	t     *testing.T
	takes int
}

func (r *boundedRules) Take(*Victim) bool {
	r.takes++
	require.Less(r.t, r.takes, 1000, "it goes on for ever")
	return true
}

// TestANodeThatTheFiltersRefuseIsLeftAlone: a pod on another node keeps the members out of the zone, whatever is evicted on the node itself.
func TestANodeThatTheFiltersRefuseIsLeftAlone(t *testing.T) {
	nodes := []*corev1.Node{nodeIn("z1", "n1", 1), nodeIn("z1", "n2", 1), nodeIn("z2", "n3", 1)}
	planner, infos := plannerOn(t, nodes, in("guard", "guard", on("n1"), awayFrom(zone, "m")), in("near", "near", on("n2")), in("far", "far", on("n3")))
	candidates := singlesOn(infos[1:])
	candidates[1].class = 1 // the pod in the other zone costs more
	seat := planner.MakeRoom(t.Context(), problemOf(some(1, "m")), infos, candidates, &boundedRules{t: t})
	require.NotNil(t, seat)
	assert.Equal(t, []string{"far"}, namesOf(seat.Victims))
}

// TestSurplusThatIsTakenCostsNothingMore: a gang goes with its surplus. Surplus that was taken before is in no offer again.
func TestSurplusThatIsTakenCostsNothingMore(t *testing.T) {
	w := roomCase{
		nodes: "3", pods: []string{"g0 0 1 gang=g", "g1 0 1 gang=g", "g2 0 1 gang=g"}, mins: map[string]int{"g": 1}, members: "1 1 1",
	}.town(t)
	problem := problemOf(w.waiting)
	r := newRoom(problem.on(t.Context(), w.planner.profile, membersOf(w.planner.profile, problem.Members), w.infos), w.candidates, w.rules())
	r.last = quota.FromOutside
	require.True(t, r.findUsable())
	n := &nodewise{room: r, left: []resources.List{{gpu: 0}}, placed: [][]int{{0}}, refused: make([]bool, len(w.candidates))}
	whole := r.whole["g"]
	require.ElementsMatch(t, append(r.surplus["g"], whole), n.withSurplus([]int{whole}))
	require.True(t, r.take(r.surplus["g"][0]))
	assert.ElementsMatch(t, []int{r.surplus["g"][1], whole}, n.withSurplus([]int{whole}))
	require.True(t, r.take(r.surplus["g"][1]))
	o := n.offer(0)
	assert.Equal(t, []int{whole}, o.victims)
	assert.Equal(t, cost{class: w.candidates[whole].class, wholeGangs: 1, pods: 1}, o.cost)
	assert.Equal(t, 1, o.gain)
}

// TestAMemberThatHasItsPlaceCountsOnItsNode: two members want the same host port. One finds room on n1 as it is, so a second place is needed on
// another node. Evictions on n1 do not help.
func TestAMemberThatHasItsPlaceCountsOnItsNode(t *testing.T) {
	port := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}
	small := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("500m")
	}
	nodes := []*corev1.Node{nodeIn("z1", "n1", 2), nodeIn("z1", "n2", 1), nodeIn("z1", "n3", 1)}
	planner, infos := plannerOn(t, nodes, in("a", "a", on("n1")), in("b", "b", on("n2")), in("c", "c1", on("n3"), small), in("c", "c2", on("n3"), small))
	all := singlesOn(infos)
	ranked := []*Victim{all[2], all[3], all[0], all[1]} // by rank alone, both pods of n3 would go
	seat := planner.MakeRoom(t.Context(), problemOf(some(2, "m", port)), infos, ranked, allow{})
	require.NotNil(t, seat)
	assert.Equal(t, []string{"b"}, namesOf(seat.Victims))
}
