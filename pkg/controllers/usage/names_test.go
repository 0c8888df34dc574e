package usage

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestGroupOf(t *testing.T) {
	assert.Equal(t, "default/g", PodGroupOf(mustertesting.MakePod("p").Group("g").Obj()))
	assert.Empty(t, PodGroupOf(mustertesting.MakePod("p").Obj()))
	assert.Empty(t, PodGroupOf(mustertesting.MakePod("p").Group("g").NativeGroup("native").Obj()), "it is the native plugin's")
	assert.Empty(t, PodGroupOf(mustertesting.MakePod("p").Group("g/x").Obj()), "no PodGroup can be called that")
}

func TestMinimumOf(t *testing.T) {
	tests := map[string]struct {
		given []string
		want  resources.List
	}{
		"nothing given: pods": {
			want: resources.List{corev1.ResourcePods: 3},
		},
		"plain names": {
			given: []string{"cpu", "1500m", "memory", "2Ki", "nvidia.com/gpu", "4"},
			want:  resources.List{"cpu": 1500, "memory": 2048, "nvidia.com/gpu": 4, "pods": 3},
		},
		"the names of a ResourceQuota": {
			given: []string{"requests.cpu", "1500m", "limits.cpu", "9", "count/pods", "5", "requests.nvidia.com/gpu", "4"},
			want:  resources.List{"cpu": 1500, "nvidia.com/gpu": 4, "pods": 5},
		},
		"both: the plain name counts": {
			given: []string{"cpu", "1", "requests.cpu", "2", "pods", "7", "count/pods", "8"},
			want:  resources.List{"cpu": 1000, "pods": 7},
		},
		"other counts": {
			given: []string{"count/services", "1", "cpu", "1"},
			want:  resources.List{"cpu": 1000, "pods": 3},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			group := mustertesting.MakePodGroup("g").MinMember(3)
			if test.given != nil {
				group.MinResources(test.given...)
			}
			assert.Equal(t, test.want, MinimumOf(group.Obj()))
		})
	}
}
