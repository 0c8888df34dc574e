package gangs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestOrder(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	inOrder := []gangs.OrderKey{
		{Rank: gangs.RankCritical, JobPriority: 2000000000, Since: late},
		{Rank: gangs.RankPartial, JobPriority: 1, Since: late, Seen: 1},
		{Rank: gangs.RankNormal, JobPriority: 9, Since: late, Seen: 2},
		{Rank: gangs.RankNormal, JobPriority: 9, Share: 1, Since: late, Seen: 9},
		{Rank: gangs.RankNormal, JobPriority: 9, Share: 2, Since: early, Seen: 1},
		{Rank: gangs.RankNormal, JobPriority: 5, Since: early, Seen: 3, TaskPriority: 7, Index: 3},
		{Rank: gangs.RankNormal, JobPriority: 5, Since: early, Seen: 3, TaskPriority: 5, Index: 0},
		{Rank: gangs.RankNormal, JobPriority: 5, Since: early, Seen: 3, TaskPriority: 5, Index: 1},
		{Rank: gangs.RankNormal, JobPriority: 5, Since: early, Seen: 4, TaskPriority: 9},
		{Rank: gangs.RankNormal, JobPriority: 5, Since: late, Seen: 1},
		{Rank: gangs.RankNormal, JobPriority: 5, Share: 1, Since: early, Seen: 1},
	}
	for i := range inOrder {
		for j := range inOrder {
			assert.Equal(t, i < j, inOrder[i].Before(&inOrder[j]), "%d before %d", i, j)
		}
	}
}

// TestOrderIsAStrictWeakOrder: a heap goes wrong silently with anything less.
func TestOrderIsAStrictWeakOrder(t *testing.T) {
	small := rapid.IntRange(0, 1)
	draw := func(t *rapid.T, label string) *gangs.OrderKey {
		return &gangs.OrderKey{
			Rank: small.Draw(t, label), JobPriority: int32(small.Draw(t, "priority")),
			Share: small.Draw(t, "share"), Since: time.Unix(int64(small.Draw(t, "since")), 0), Seen: int64(small.Draw(t, "seen")),
			TaskPriority: int32(small.Draw(t, "taskPriority")), Index: small.Draw(t, "index"),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := draw(t, "a"), draw(t, "b"), draw(t, "c")
		assert.False(t, a.Before(a))
		assert.False(t, a.Before(b) && b.Before(a))
		if a.Before(b) && b.Before(c) {
			assert.True(t, a.Before(c))
		}
		if !a.Before(b) && !b.Before(a) && !b.Before(c) && !c.Before(b) {
			assert.False(t, a.Before(c) || c.Before(a))
		}
	})
}

func TestPodsWithoutAGangAreOrderedByPriorityAndTheTimeTheyCame(t *testing.T) {
	tr := openTracker(t)
	pod := func(name string, priority int32) *corev1.Pod {
		return mustertesting.MakePod(name).UID(name).Priority(priority).Obj()
	}
	first := tr.Order.OrderKey(pod("a", 0), time.Unix(1, 0))
	second := tr.Order.OrderKey(pod("b", 0), time.Unix(2, 0))
	urgent := tr.Order.OrderKey(pod("c", 10), time.Unix(3, 0))
	assert.True(t, first.Before(&second))
	assert.True(t, urgent.Before(&first))
	// A pod of a native pod group that carries our annotation as well is no member.
	assert.False(t, gang.IsMember(mustertesting.MakePod("d").NativeGroup("native").Group("ours").Obj()))
}

// queued has pods pass the gate, and returns their names in the order in which the queue tries them.
func queued(t *testing.T, tr *gangs.Tracker, pods ...*corev1.Pod) []string {
	t.Helper()
	for _, pod := range pods {
		require.Empty(t, tr.Gate(pod), pod.Name)
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		x, y := tr.Order.OrderKey(a, time.Time{}), tr.Order.OrderKey(b, time.Time{})
		if x.Before(&y) {
			return -1
		}
		return 1
	})
	return namesOf(pods)
}

// runningGang has a gang of a minimum of one whose first members are bound, and returns those that wait.
func runningGang(tr *gangs.Tracker, name string, created time.Time, n, bound int) []*corev1.Pod {
	tr.SetPodGroup(mustertesting.MakePodGroup(name).UID(name).MinMember(1).Created(created).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	var waiting []*corev1.Pod
	for i := range n {
		member := name + string(rune('0'+i))
		pod := mustertesting.MakePod(member).UID(member).Group(name).SchedulerName("muster").Annotation("volcano.sh/task-index", string(rune('0'+i))).Obj()
		if i < bound {
			tr.SetPod(on(pod, "node"))
			continue
		}
		tr.SetPod(pod)
		waiting = append(waiting, pod)
	}
	return waiting
}

func TestTheSurplusOfEqualGangsAlternates(t *testing.T) {
	old, young := time.Unix(1, 0), time.Unix(2, 0)
	for name, tc := range map[string]struct {
		boundA, boundB int
		want           []string
	}{
		"both at their minimum": {1, 1, []string{"a1", "b1", "a2", "b2", "a3", "b3"}},
		"one is ahead":          {3, 1, []string{"b1", "b2", "a3", "b3"}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			pods := append(runningGang(tr, "b", young, 4, tc.boundB), runningGang(tr, "a", old, 4, tc.boundA)...)
			assert.Equal(t, tc.want, queued(t, tr, pods...))
		})
	}
}

func TestTheMinimumOfAGangGoesBeforeTheSurplusOfAnother(t *testing.T) {
	tr := openTracker(t)
	surplus := runningGang(tr, "a", time.Unix(1, 0), 2, 1)
	minimum := runningGang(tr, "b", time.Unix(2, 0), 1, 0)
	assert.Equal(t, []string{"b0", "a1"}, queued(t, tr, append(surplus, minimum...)...))
}

// TestGangsOfTheSameSecondGoInTheOrderInWhichTheyWereSeen: creation times have no fractions.
func TestGangsOfTheSameSecondGoInTheOrderInWhichTheyWereSeen(t *testing.T) {
	tr := openTracker(t)
	second := time.Unix(1, 0)
	var pods []*corev1.Pod
	for _, name := range []string{"z", "m", "a"} {
		pods = append(pods, runningGang(tr, name, second, 1, 0)...)
	}
	older := runningGang(tr, "older", time.Unix(0, 0), 1, 0)
	assert.Equal(t, []string{"older0", "z0", "m0", "a0"}, queued(t, tr, append(pods, older...)...))
}

// TestThePositionOfAQueuedPodIsFixed: a heap whose keys change is no heap.
func TestThePositionOfAQueuedPodIsFixed(t *testing.T) {
	tr := openTracker(t)
	pods := runningGang(tr, "a", time.Unix(1, 0), 3, 1)
	require.Empty(t, tr.Gate(pods[1]))
	before := tr.Order.OrderKey(pods[1], time.Time{})
	tr.SetPod(on(pods[0], "node"))
	assert.Equal(t, before, tr.Order.OrderKey(pods[1], time.Time{}))
	require.Empty(t, tr.Gate(pods[1]))
	assert.Equal(t, before.Share, tr.Order.OrderKey(pods[1], time.Time{}).Share, "one more runs, and one fewer waits before it")
	tr.Order.Bound(pods[1].UID)
	assert.Equal(t, time.Unix(7, 0), tr.Order.OrderKey(pods[1], time.Unix(7, 0)).Since, "it is forgotten")
}
