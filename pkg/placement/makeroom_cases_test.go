package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// podFrom reads a pod: its name, node and GPUs, and then queue=, gang=, priority=, since=, "protected" or "leaving".
func (w *town) podFrom(t *testing.T, text string) *corev1.Pod {
	fields := strings.Fields(text)
	node, err := strconv.Atoi(fields[1])
	require.NoError(t, err)
	p := pod(fields[0], "", node, "0")
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{gpu: resource.MustParse(fields[2])}
	for _, field := range fields[3:] {
		name, value, _ := strings.Cut(field, "=")
		number, _ := strconv.Atoi(value)
		switch name {
		case "queue", "gang":
			p.Annotations[name] = value
		case "priority":
			p.Spec.Priority = new(int32(number))
		case "since":
			p.CreationTimestamp = metav1.NewTime(time.Unix(int64(number), 0))
		case "protected":
			w.budgets = append(w.budgets, budgetFor(p))
		case "leaving":
			w.leaving.Insert(p.Name)
		default:
			t.Fatalf("a pod with %s", field)
		}
	}
	return p
}

// roomCase is a gang that lacks room. It has priority 5 and waits in the queue "own".
type roomCase struct {
	nodes   string // GPUs of each, with an x if it is of the pool x
	pods    []string
	mins    map[string]int   // of the gangs
	shares  map[string]int64 // of the other queues
	quota   int64            // of the queue, 100 if 0
	queues  string           // in place of shares and quota: with it the real rules of reclaim count
	held    map[string]int64 // GPUs on nodes
	members string           // GPUs of each, with an x if it must go to the pool x
	want    string           // the victims; "none" if there are none
}

func (c roomCase) town(t *testing.T) *town {
	w := &town{specs: map[string]gangSpec{}, held: map[string]resources.List{}, shares: c.shares, quota: c.quota, leaving: sets.New[string]()}
	if w.quota == 0 {
		w.quota = 100
	}
	for i, size := range strings.Fields(c.nodes) {
		gpus, special := strings.CutSuffix(size, "x")
		node := mustertesting.MakeNode(nodeName(i)).Allocatable(string(gpu), gpus, "pods", "50").Obj()
		if special {
			node.Labels["pool"] = "x"
		}
		w.nodes = append(w.nodes, node)
	}
	if c.queues != "" {
		w.queues = treeFrom(t, c.queues)
	}
	for node, gpus := range c.held {
		w.held[node] = resources.List{gpu: gpus}
	}
	for name, least := range c.mins {
		w.specs[name] = gangSpec{min: least}
	}
	for _, text := range c.pods {
		w.pods = append(w.pods, w.podFrom(t, text))
	}
	for i, size := range strings.Fields(c.members) {
		gpus, special := strings.CutSuffix(size, "x")
		name := fmt.Sprintf("m%d", i)
		p := mustertesting.MakePod(name).UID(name).Requests(string(gpu), gpus).Obj()
		if special {
			p.Spec.NodeSelector, p.Labels = map[string]string{"pool": "x"}, map[string]string{"pool": "x"}
		}
		w.waiting = append(w.waiting, p)
	}
	w.open(t)
	return w
}

func (c roomCase) run(t *testing.T) {
	w := c.town(t)
	seat := w.makeRoom(w.candidates)
	if c.want == "none" {
		require.Nil(t, seat)
		return
	}
	require.NotNil(t, seat)
	require.Equal(t, c.want, strings.Join(namesOf(seat.Victims), " "))
	require.Empty(t, w.check(seat.Victims))
}

func TestRoomOnNodes(t *testing.T) {
	for name, test := range map[string]roomCase{
		"one pod of ten makes room for one":                       {nodes: "10", pods: []string{"a 0 1", "b 0 1", "c 0 1", "d 0 1", "e 0 1", "f 0 1", "g 0 1", "h 0 1", "i 0 1", "j 0 1 since=9"}, members: "1", want: "j"},
		"a large pod rather than many small ones":                 {nodes: "4 4", pods: []string{"a 0 1", "b 0 1", "c 0 1", "d 0 1", "z 1 4"}, members: "4", want: "z"},
		"one large pod for many small members":                    {nodes: "4 4", pods: []string{"a 0 1", "b 0 1", "c 0 1", "d 0 1", "z 1 4"}, members: "1 1 1 1", want: "z"},
		"the node that needs the fewest evictions":                {nodes: "4 4", pods: []string{"a 0 1", "b 0 1", "c 0 1", "y 1 1"}, members: "4", want: "y"},
		"the small pods stay where the large one is enough":       {nodes: "5", pods: []string{"a 0 1", "b 0 1", "c 0 3"}, members: "3", want: "c"},
		"the smallest pod that is enough completes a slot":        {nodes: "6", pods: []string{"a 0 3", "b 0 2", "c 0 1"}, members: "4", want: "a c"},
		"free room is used first":                                 {nodes: "2 2", pods: []string{"a 0 2"}, members: "1 1 1", want: "a"},
		"nothing is evicted if all fits":                          {nodes: "2 2", pods: []string{"a 0 2"}, members: "1 1", want: ""},
		"a gang on several nodes":                                 {nodes: "4 4 4", pods: []string{"a 0 4", "b 1 4", "c 2 4 priority=1"}, members: "4 4", want: "a b"},
		"no victim if one member has no place":                    {nodes: "4 4", pods: []string{"a 0 4", "b 1 4 priority=9"}, members: "4 4", want: "none"},
		"no victim for a pod larger than any node":                {nodes: "4 4", pods: []string{"a 0 4", "b 1 4"}, members: "5", want: "none"},
		"a victim in the only pool, not a cheaper one":            {nodes: "4 4x", pods: []string{"a 0 4", "b 1 4 priority=3"}, members: "4x", want: "b"},
		"no victim outside the pool":                              {nodes: "4 4x", pods: []string{"a 0 4", "b 1 4 priority=8"}, members: "4x", want: "none"},
		"what others hold is no room":                             {nodes: "4", pods: []string{"a 0 2"}, held: map[string]int64{"node0": 2}, members: "2", want: "a"},
		"what others hold may leave too little":                   {nodes: "4", pods: []string{"a 0 2"}, held: map[string]int64{"node0": 2}, members: "3", want: "none"},
		"a pod that is about to go is counted as gone":            {nodes: "2 2", pods: []string{"a 0 2", "b 1 2 leaving"}, members: "2", want: "b"},
		"a pod that is about to go and one more":                  {nodes: "2 2", pods: []string{"a 0 2", "b 1 2 leaving"}, members: "2 2", want: "a b"},
		"a pod that is about to go, whatever its priority":        {nodes: "2", pods: []string{"b 0 2 leaving priority=9"}, members: "2", want: "b"},
		"a master and workers of different sizes":                 {nodes: "4 4 4", pods: []string{"a 0 4", "b 1 3 priority=1", "c 2 2", "d 2 2"}, members: "1 4 2", want: "a c"},
		"members of two sizes that share a node":                  {nodes: "6", pods: []string{"a 0 2", "b 0 2", "c 0 2 priority=3"}, members: "3 1", want: "a b"},
		"no place for the smaller task, no eviction for the rest": {nodes: "4 1x", pods: []string{"a 0 4", "b 1 1 priority=7"}, members: "4 1x", want: "none"},
	} {
		t.Run(name, test.run)
	}
}

func TestWhichVictimsMakeRoom(t *testing.T) {
	for name, test := range map[string]roomCase{
		"the pod of lower priority":                     {nodes: "4", pods: []string{"a 0 2 priority=2", "b 0 2 priority=1"}, members: "2", want: "b"},
		"two of low priority rather than one of higher": {nodes: "4", pods: []string{"a 0 2 priority=2", "b 0 1", "c 0 1"}, members: "2", want: "b c"},
		"not one of the same priority":                  {nodes: "4", pods: []string{"a 0 4 priority=5"}, members: "2", want: "none"},
		"not one of a higher priority":                  {nodes: "4", pods: []string{"a 0 4 priority=6"}, members: "2", want: "none"},
		"the one that started last":                     {nodes: "3", pods: []string{"a 0 1 since=1", "b 0 1 since=3", "c 0 1 since=2"}, members: "1", want: "b"},
		"the one that started last, on another node":    {nodes: "1 1 1", pods: []string{"a 0 1 since=1", "b 1 1 since=3", "c 2 1 since=2"}, members: "1", want: "b"},
		"not the one that a disruption budget protects": {nodes: "2", pods: []string{"a 0 1 protected", "b 0 1 priority=4"}, members: "1", want: "b"},
		"the protected one if there is no other":        {nodes: "2", pods: []string{"a 0 1 protected", "b 0 1 priority=7"}, members: "1", want: "a"},
		"surplus before a single pod":                   {nodes: "4", pods: []string{"g0 0 2 gang=g", "g1 0 1 gang=g", "a 0 1"}, mins: map[string]int{"g": 1}, members: "1", want: "g1"},
		"a single pod before a gang":                    {nodes: "4", pods: []string{"g0 0 2 gang=g", "a 0 2"}, mins: map[string]int{"g": 1}, members: "2", want: "a"},
		"a gang of lower priority before a single pod":  {nodes: "4", pods: []string{"g0 0 2 gang=g", "a 0 2 priority=1"}, mins: map[string]int{"g": 1}, members: "2", want: "g0"},
		"a gang goes whole, on all nodes":               {nodes: "2 2", pods: []string{"g0 0 2 gang=g", "g1 1 2 gang=g"}, mins: map[string]int{"g": 2}, members: "2", want: "g0 g1"},
		"the surplus goes with its gang":                {nodes: "2 2 2", pods: []string{"g0 0 2 gang=g", "g1 1 2 gang=g", "g2 2 2 gang=g"}, mins: map[string]int{"g": 2}, members: "2 2", want: "g0 g1 g2"},
		"all surplus, and the minimum stays":            {nodes: "2 2 2", pods: []string{"g0 0 2 gang=g", "g1 1 2 gang=g", "g2 2 2 gang=g"}, mins: map[string]int{"g": 1}, members: "2 2", want: "g1 g2"},
		"the surplus of two gangs":                      {nodes: "4 4", pods: []string{"g0 0 2 gang=g", "g1 0 2 gang=g", "h0 1 2 gang=h", "h1 1 2 gang=h"}, mins: map[string]int{"g": 1, "h": 1}, members: "2 2", want: "g1 h1"},
		"surplus and a single pod":                      {nodes: "4", pods: []string{"g0 0 1 gang=g", "g1 0 1 gang=g", "a 0 2"}, mins: map[string]int{"g": 1}, members: "1 2", want: "a g1"},
		"one gang that has all slots rather than two":   {nodes: "2 2 1 1", pods: []string{"g0 0 2 gang=g", "g1 1 2 gang=g", "h0 2 1 gang=h", "i0 3 1 gang=i"}, mins: map[string]int{"g": 2, "h": 1, "i": 1}, members: "1 1", want: "g0 g1"},
		"a gang with a member as important stays":       {nodes: "2 2", pods: []string{"g0 0 2 gang=g", "g1 1 2 gang=g priority=5"}, mins: map[string]int{"g": 2}, members: "2", want: "none"},
		"a gang with protected surplus is protected":    {nodes: "2 2 1", pods: []string{"g0 0 2 gang=g priority=2", "g1 2 1 gang=g protected", "a 1 2 priority=4"}, mins: map[string]int{"g": 1}, members: "2", want: "a"},
		"a queue above its share gives back":            {nodes: "4", pods: []string{"a 0 2 queue=a", "b 0 2 queue=a"}, shares: map[string]int64{"a": 2}, members: "2", want: "a"},
		"a queue at its share gives nothing":            {nodes: "4", pods: []string{"a 0 2 queue=a", "b 0 2 queue=a"}, shares: map[string]int64{"a": 4}, members: "2", want: "none"},
		"no more than the queue has too much":           {nodes: "4", pods: []string{"a 0 2 queue=a", "b 0 2 queue=a"}, shares: map[string]int64{"a": 2}, members: "2 2", want: "none"},
		"whole nodes, where the queue gives too little for a pod on each": {
			nodes: "2 2 2 2", shares: map[string]int64{"a": 4}, members: "2 2", want: "e f g h",
			pods: []string{
				"a 0 1 queue=a since=1", "b 0 1 queue=a since=5", "c 1 1 queue=a since=2", "d 1 1 queue=a since=6",
				"e 2 1 queue=a since=3", "f 2 1 queue=a since=7", "g 3 1 queue=a since=4", "h 3 1 queue=a since=8",
			},
		},
		"a pod that is partly above the share":               {nodes: "4", pods: []string{"a 0 4 queue=a"}, shares: map[string]int64{"a": 3}, members: "2", want: "a"},
		"a high priority does not protect above the share":   {nodes: "4", pods: []string{"a 0 4 queue=a priority=9"}, shares: map[string]int64{"a": 1}, members: "2", want: "a"},
		"the queue that is furthest above its share":         {nodes: "4 4", pods: []string{"a 0 4 queue=a", "b 1 4 queue=b"}, shares: map[string]int64{"a": 3, "b": 2}, members: "4", want: "b"},
		"victims of several queues on several nodes":         {nodes: "4 4", pods: []string{"a 0 4 queue=a", "b 1 4 queue=b"}, shares: map[string]int64{"a": 1, "b": 1}, members: "4 4", want: "a b"},
		"surplus of a queue less far above its share":        {nodes: "3 2", pods: []string{"g0 0 1 gang=g queue=a", "g1 0 2 gang=g queue=a", "b 1 2 queue=b"}, mins: map[string]int{"g": 1}, shares: map[string]int64{"a": 2, "b": 1}, members: "2", want: "g1"},
		"other queues before lower priority in the own":      {nodes: "2 2", pods: []string{"a 0 2 queue=a", "b 1 2 queue=own"}, shares: map[string]int64{"a": 1}, members: "2", want: "a"},
		"a gang stays whose surplus is not due":              {nodes: "3", pods: []string{"g0 0 2 gang=g queue=a", "g1 0 1 gang=g queue=a"}, mins: map[string]int{"g": 1}, shares: map[string]int64{"a": 3}, members: "2", want: "none"},
		"what is due on a useless node blocks nothing":       {nodes: "2 2x", pods: []string{"a 0 2 queue=a since=9", "b 1 2 queue=a"}, shares: map[string]int64{"a": 2}, members: "2x", want: "b"},
		"quota alone: an own pod of lower priority":          {nodes: "4 4", pods: []string{"a 0 4 queue=own"}, quota: 4, members: "2", want: "a"},
		"quota alone: other queues cannot help":              {nodes: "4 4", pods: []string{"a 0 4 queue=own priority=9", "b 1 2 queue=b"}, shares: map[string]int64{"b": 0}, quota: 4, members: "2", want: "none"},
		"one victim for room and quota rather than two":      {nodes: "2 2", pods: []string{"a 0 2 queue=a", "b 1 2 queue=own"}, shares: map[string]int64{"a": 1}, quota: 2, members: "2", want: "b"},
		"a victim for the room and another one for quota":    {nodes: "2x 2", pods: []string{"a 0 2 queue=a", "b 1 2 queue=own"}, shares: map[string]int64{"a": 1}, quota: 2, members: "2x", want: "a b"},
		"quota: the least important pods, no more than that": {nodes: "9", pods: []string{"a 0 1 queue=own priority=1", "b 0 1 queue=own", "c 0 1 queue=own"}, quota: 3, members: "2", want: "b c"},
	} {
		t.Run(name, test.run)
	}
}

// TestPodsOutsideAllQueuesGoLast: what is lent is taken back first, however many pods that takes, then pods of the own queue go.
func TestPodsOutsideAllQueuesGoLast(t *testing.T) {
	for name, test := range map[string]roomCase{
		"many pods of a borrower rather than one outside": {
			nodes: "4 4", pods: []string{"a 0 1 queue=a", "b 0 1 queue=a", "c 0 1 queue=a", "d 0 1 queue=a", "x 1 4"},
			shares: map[string]int64{"a": 0}, members: "4", want: "a b c d",
		},
		"pods of a borrower that are together, where it gives too little for any others": {
			nodes: "2 2 2", shares: map[string]int64{"a": 2, "b": 9}, members: "2", want: "a b",
			pods: []string{"a 0 1 queue=a since=1", "b 0 1 queue=a since=5", "c 1 1 queue=a since=2", "d 1 1 queue=b since=6", "e 2 1 queue=a since=8", "x 2 1"},
		},
		"a protected pod of a borrower": {
			nodes: "2 2", pods: []string{"a 0 2 queue=a protected", "x 1 2"}, shares: map[string]int64{"a": 0}, members: "2", want: "a",
		},
		"a protected pod of a borrower rather than one of the own queue": {
			nodes: "2 2", pods: []string{"a 0 2 queue=a protected", "b 1 2 queue=own"}, shares: map[string]int64{"a": 0}, members: "2", want: "a",
		},
		"a protected pod of the own queue": {
			nodes: "2 2", pods: []string{"a 0 2 queue=own protected priority=4", "x 1 2"}, members: "2", want: "a",
		},
		"a gang of a borrower": {
			nodes: "2 2 2", pods: []string{"g0 0 2 queue=a gang=g", "g1 1 2 queue=a gang=g", "x 2 2"}, mins: map[string]int{"g": 2},
			shares: map[string]int64{"a": 0}, members: "2", want: "g0 g1",
		},
		"if nothing else helps": {
			nodes: "2 2", pods: []string{"a 0 2 queue=a", "x 1 2"}, shares: map[string]int64{"a": 2}, members: "2", want: "x",
		},
		"no more of them than needed": {
			nodes: "2 2", pods: []string{"a 0 2 queue=a", "x 1 2"}, shares: map[string]int64{"a": 0}, members: "2 2", want: "a x",
		},
		"none of the same priority": {
			nodes: "2 2", pods: []string{"a 0 2 queue=a", "x 1 2 priority=5"}, shares: map[string]int64{"a": 2}, members: "2", want: "none",
		},
	} {
		t.Run(name, test.run)
	}
}

// TestRoomForRealFilters asks the upstream filters. Every pod on the nodes may go.
func TestRoomForRealFilters(t *testing.T) {
	port := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}
	two := []*corev1.Node{nodeIn("z1", "n1", 2), nodeIn("z2", "n2", 2)}
	tests := map[string]struct {
		nodes   []*corev1.Node
		pods    []*corev1.Pod
		members []*corev1.Pod
		want    string
		ordered bool
	}{
		"the pod with the host port": {nodes: two[:1], pods: []*corev1.Pod{in("a", "a", on("n1"), port)}, members: some(1, "m", port), want: "a"},
		"a pod that keeps members out of its zone, from another node": {nodes: []*corev1.Node{nodeIn("z1", "n1", 1), nodeIn("z1", "n2", 2)},
			pods: []*corev1.Pod{in("a", "a", on("n1"), awayFrom(zone, "m"))}, members: some(2, "m"), want: "a"},
		"a node for each of two members": {nodes: two, pods: []*corev1.Pod{in("a", "a", on("n1")), in("b", "b", on("n2")), in("c", "c", on("n2"))},
			members: some(2, "m", awayFrom(corev1.LabelHostname, "m")), want: "c"},
		"members that must share a zone: few victims, not the fewest": {nodes: two, pods: []*corev1.Pod{in("a", "a", on("n1")), in("b", "b", on("n2")), in("c", "c", on("n2"))},
			members: some(2, "m", near(zone, "m")), want: "b c", ordered: true},
		"members that are spread over zones": {nodes: two, pods: []*corev1.Pod{in("a", "a", on("n2")), in("b", "b", on("n2"))},
			members: some(2, "m", spread(zone, "m")), want: "b", ordered: true},
		"not enough in any zone": {nodes: two, members: some(3, "m", near(zone, "m")), want: "none"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			planner, infos := plannerOn(t, test.nodes, test.pods...)
			var candidates []*Victim
			for _, info := range infos {
				for _, pod := range info.GetPods() {
					candidates = append(candidates, &Victim{Victim: preemption.NewPodVictim(pod, nil, nil), Kind: gang.SinglePod, Rule: quota.ByPriority})
				}
			}
			slices.SortFunc(candidates, func(a, b *Victim) int { return -cmp.Compare(namesOf([]*Victim{a})[0], namesOf([]*Victim{b})[0]) })
			seat := planner.MakeRoom(t.Context(), problemOf(test.members), infos, candidates, allow{})
			if test.want == "none" {
				require.Nil(t, seat)
				return
			}
			require.NotNil(t, seat)
			require.Equal(t, test.want, strings.Join(namesOf(seat.Victims), " "))
			require.Len(t, seat.Places, len(test.members))
			require.Equal(t, test.ordered, seat.Order != nil)
		})
	}
}

// TestVictimsByPriorityAreFound tries all sets of victims for members that are alike, where no shares are concerned. MakeRoom finds victims if
// there are any, and none of a more important class than needed.
func TestVictimsByPriorityAreFound(t *testing.T) {
	found, none := 0, 0
	mustertesting.HistoriesUntil(t, 2000, func() bool { return found > 0 && none > 0 }, func(t *rapid.T) {
		w := drawTown(t)
		w.open(t)
		byShare := slices.ContainsFunc(w.candidates, func(v *Victim) bool { return v.Rule == quota.ByShare })
		if byShare || len(w.candidates) > 9 || sets.New(podKinds(w.waiting)...).Len() > 1 {
			return
		}
		lowest := math.MaxInt
		for _, solution := range w.solutions() {
			lowest = min(lowest, classOfAll(solution))
		}
		seat := w.makeRoom(w.candidates)
		if seat == nil {
			none++
			require.Equal(t, math.MaxInt, lowest, "there are victims")
			return
		}
		found++
		require.LessOrEqual(t, classOfAll(seat.Victims), lowest, "less important victims are enough")
	})
	require.Positive(t, found)
	require.Positive(t, none)
}

func classOfAll(victims []*Victim) (class int) {
	for _, v := range victims {
		class = max(class, v.class)
	}
	return class
}
