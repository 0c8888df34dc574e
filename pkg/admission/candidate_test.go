package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestGroupOf(t *testing.T) {
	assert.Equal(t, "default/g", PodGroupOf(mustertesting.MakePod("p").Group("g").Obj()))
	assert.Empty(t, PodGroupOf(mustertesting.MakePod("p").Obj()))
	assert.Empty(t, PodGroupOf(mustertesting.MakePod("p").Group("g").NativeGroup("native").Obj()), "it is the native plugin's")
	assert.Empty(t, PodGroupOf(mustertesting.MakePod("p").Group("g/x").Obj()), "no PodGroup can be called that")
}

func TestWaitingTime(t *testing.T) {
	for _, name := range []string{"volcano.sh/sla-waiting-time", "sla-waiting-time"} {
		group := mustertesting.MakePodGroup("g").Obj()
		wait, err := WaitingTime(group)
		require.NoError(t, err)
		assert.Zero(t, wait)
		group.Annotations = map[string]string{name: "1h2m3s"}
		wait, err = WaitingTime(group)
		require.NoError(t, err)
		assert.Equal(t, time.Hour+2*time.Minute+3*time.Second, wait)
		for _, text := range []string{"", "soon", "0s", "-1h", "30"} {
			group.Annotations[name] = text
			_, err = WaitingTime(group)
			require.ErrorContains(t, err, "annotation "+name+" is ", text)
			require.ErrorContains(t, err, `it must be a duration above 0, such as "1h30m"`)
		}
	}
	both := mustertesting.MakePodGroup("g").Obj()
	both.Annotations = map[string]string{"sla-waiting-time": "1h", "volcano.sh/sla-waiting-time": "2h"}
	wait, _ := WaitingTime(both)
	assert.Equal(t, 2*time.Hour, wait)
}

// TestALookForgetsTheLast: the turn and the PhJob of a candidate, and members that have finished.
func TestALookForgetsTheLast(t *testing.T) {
	high := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 100}
	member := func(name string, priority int32, phase corev1.PodPhase) *corev1.Pod {
		return mustertesting.MakePod(name).UID(name).Priority(priority).Phase(phase).Obj()
	}
	c := NewCandidate(mustertesting.MakePodGroup("g").PriorityClass("high").Obj())
	c.Turn, c.ByQuotaAlone, c.IsEarly = time.Minute, true, true
	c.Look([]*corev1.Pod{member("ended", 100, corev1.PodSucceeded), member("waits", 5, corev1.PodPending)}, NewClasses([]*schedulingv1.PriorityClass{high}))
	assert.False(t, c.Turn != 0 || c.ByQuotaAlone || c.IsEarly)
	assert.Equal(t, int32(5), c.Rank.Priority)
}
