package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestWhatOfAGangMayBeEvicted: its surplus, those first that do not ask to stay. The rest goes as a whole, or not at all.
func TestWhatOfAGangMayBeEvicted(t *testing.T) {
	ordinary := func(*corev1.Pod) {}
	critical := func(pod *corev1.Pod) { pod.Spec.Priority = new(int32(2_000_000_000)) }
	stays := func(pod *corev1.Pod) { pod.Annotations[batchv1alpha1.PodPreemptableKey] = "false" }
	type unit struct {
		cores int64
		stays bool
	}
	for name, c := range map[string]struct {
		minimum int32
		members []func(*corev1.Pod)
		want    []unit
	}{
		"a minimum":                                {2, []func(*corev1.Pod){ordinary, ordinary}, []unit{{2, false}}},
		"one of it is critical":                    {2, []func(*corev1.Pod){ordinary, critical}, nil},
		"surplus":                                  {1, []func(*corev1.Pod){ordinary, ordinary}, []unit{{1, false}, {1, false}}},
		"one asks to stay, so the other goes":      {1, []func(*corev1.Pod){stays, ordinary}, []unit{{1, false}, {1, true}}},
		"the same, in another order":               {1, []func(*corev1.Pod){ordinary, stays}, []unit{{1, false}, {1, true}}},
		"one is critical, so it is in the minimum": {1, []func(*corev1.Pod){critical, ordinary}, []unit{{1, false}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &Load{Groups: []*schedulingv1beta1.PodGroup{mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(c.minimum).Obj()}}
			for i, change := range c.members {
				name := string(rune('a' + i))
				pod := mustertesting.MakePod(name).UID(name).Group("g").Node("n").Requests("cpu", "1").Obj()
				change(pod)
				l.Pods = append(l.Pods, pod)
			}
			l.Charged = func(types.UID) (string, resources.List, bool) {
				return "q", resources.List{corev1.ResourceCPU: 1000}, true
			}
			var got []unit
			for _, e := range l.Evictables() {
				assert.Equal(t, "q", e.Account)
				got = append(got, unit{e.Requests[corev1.ResourceCPU] / 1000, e.AsksToStay})
			}
			assert.Equal(t, c.want, got)
		})
	}
}
