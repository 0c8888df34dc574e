package worker

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

func TestLastKnown(t *testing.T) {
	pod := &corev1.Pod{}
	for name, tc := range map[string]struct {
		told any
		want bool
	}{
		"an object":                           {pod, true},
		"one whose deletion was missed":       {cache.DeletedFinalStateUnknown{Key: "ns/p", Obj: pod}, true},
		"another kind":                        {&corev1.Node{}, false},
		"another kind, gone":                  {cache.DeletedFinalStateUnknown{Obj: &corev1.Node{}}, false},
		"gone, and nothing is known about it": {cache.DeletedFinalStateUnknown{Key: "ns/p"}, false},
	} {
		got, ok := LastKnown[*corev1.Pod](tc.told)
		assert.Equal(t, tc.want, ok, name)
		if tc.want {
			assert.Same(t, pod, got, name)
		} else {
			assert.Nil(t, got, name)
		}
	}
}
