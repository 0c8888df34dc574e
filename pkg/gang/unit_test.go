package gang

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/resources"
)

// TestUnits: what is true of surplus is true of the whole gang, as the surplus goes with it.
func TestUnits(t *testing.T) {
	holding := make([]*Member, 3)
	for i, name := range []string{"needed", "also-needed", "spare"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(int64(300-100*i), 0)}}
		holding[i] = &Member{UID: pod.UID, Pod: pod, Priority: int32(i), Requests: resources.List{corev1.ResourceCPU: 1000}}
	}
	asks := func(pod *corev1.Pod) bool { return pod.Name == "spare" }
	spare := Unit{Kind: SurplusMember, Members: holding[2:], Priority: 2, Since: time.Unix(100, 0), AsksToStay: true, Requests: holding[2].Requests}
	for name, test := range map[string]struct {
		spare   []*Member
		floor   int32
		surplus []*Unit
		rest    *Unit
	}{
		"one can be spared": {holding[2:], -1, []*Unit{&spare},
			&Unit{Kind: WholeGang, Members: holding[:2], Priority: 2, Since: time.Unix(100, 0), AsksToStay: true, Requests: resources.List{corev1.ResourceCPU: 2000}}},
		"none can be spared": {nil, 5, nil,
			&Unit{Kind: WholeGang, Members: holding, Priority: 5, Since: time.Unix(100, 0), AsksToStay: true, Requests: resources.List{corev1.ResourceCPU: 3000}}},
	} {
		t.Run(name, func(t *testing.T) {
			surplus, rest := Units(holding, test.spare, test.floor, asks)
			assert.Equal(t, test.surplus, surplus)
			assert.Equal(t, test.rest, rest)
		})
	}
	surplus, rest := Units(holding, holding, 7, asks)
	assert.Len(t, surplus, 3)
	assert.Equal(t, int32(7), surplus[0].Priority)
	assert.Nil(t, rest, "nothing is needed")
}
