package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

func TestOrder(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	inOrder := []OrderKey{
		{Rank: rankCritical, JobPriority: 2000000000, Since: late},
		{Rank: rankBroken, JobPriority: 1, Since: late, Gang: "g0"},
		{Rank: rankNormal, JobPriority: 9, Since: late, Gang: "g1"},
		{Rank: rankNormal, JobPriority: 9, Surplus: true, Since: early, Gang: "g0"},
		{Rank: rankNormal, JobPriority: 5, Since: early, Gang: "g2", TaskPriority: 7, Index: 3},
		{Rank: rankNormal, JobPriority: 5, Since: early, Gang: "g2", TaskPriority: 5, Index: 0},
		{Rank: rankNormal, JobPriority: 5, Since: early, Gang: "g2", TaskPriority: 5, Index: 1},
		{Rank: rankNormal, JobPriority: 5, Since: early, Gang: "g3", TaskPriority: 9},
		{Rank: rankNormal, JobPriority: 5, Since: late, Gang: "g0"},
		{Rank: rankNormal, JobPriority: 5, Surplus: true, Since: early, Gang: "g0"},
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
	draw := func(t *rapid.T, label string) *OrderKey {
		return &OrderKey{
			Rank: small.Draw(t, label), JobPriority: int32(small.Draw(t, "priority")), Surplus: rapid.Bool().Draw(t, "surplus"),
			Since: time.Unix(int64(small.Draw(t, "since")), 0), Gang: types.UID(rapid.SampledFrom([]string{"", "g"}).Draw(t, "gang")),
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
	store := New(clock.RealClock{})
	pod := func(name string, priority int32) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{Priority: ptr.To(priority)}}
	}
	first := store.OrderKey(pod("a", 0), time.Unix(1, 0))
	second := store.OrderKey(pod("b", 0), time.Unix(2, 0))
	urgent := store.OrderKey(pod("c", 10), time.Unix(3, 0))
	assert.True(t, first.Before(&second))
	assert.True(t, urgent.Before(&first))
	// A pod of the native gang plugin that carries our annotation as well is none of ours.
	native := pod("d", 0)
	native.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("native")}
	native.Annotations = map[string]string{"scheduling.k8s.io/group-name": "ours"}
	_, ours := groupOf(native)
	assert.False(t, ours)
}
