package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestTheMinimumCountsWhatAdmissionAdds: minResources are worked out from templates, which ask for 1 CPU a pod.
func TestTheMinimumCountsWhatAdmissionAdds(t *testing.T) {
	group := mustertesting.MakePodGroup("g").MinMember(3).MinResources("cpu", "3").Obj()
	group.Spec.MinTaskMember = map[string]int32{"lead": 1, "work": 2}
	undivided := mustertesting.MakePodGroup("g").MinMember(3).MinResources("cpu", "3").Obj()
	pod := func(task, cpu string) *mustertesting.PodWrapper {
		return mustertesting.MakePod("p").Annotation(batchv1alpha1.TaskSpecKey, task).Requests("cpu", cpu)
	}
	withSidecar := pod("work", "1").Obj()
	sidecar := withSidecar.Spec.Containers[0]
	sidecar.Name = "sidecar"
	withSidecar.Spec.Containers = append(withSidecar.Spec.Containers, sidecar)
	withOverhead := pod("work", "1").Obj()
	withOverhead.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: mustertesting.Resources("cpu", "500m")[corev1.ResourceCPU]}
	goes := pod("", "9").Obj()
	goes.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		pods      []*corev1.Pod
		undivided bool
		want      int64
	}{
		"no pods yet":                     {nil, false, 3000},
		"as the templates say":            {[]*corev1.Pod{pod("lead", "1").Obj(), pod("work", "1").Obj()}, false, 3000},
		"a sidecar":                       {[]*corev1.Pod{pod("lead", "1").Obj(), withSidecar}, false, 5000},
		"a sidecar, and no lead yet":      {[]*corev1.Pod{withSidecar}, false, 4000},
		"overhead":                        {[]*corev1.Pod{pod("lead", "1").Obj(), withOverhead}, false, 4000},
		"less than the templates say":     {[]*corev1.Pod{pod("lead", "100m").Obj(), pod("work", "100m").Obj()}, false, 3000},
		"pods of no minimum":              {[]*corev1.Pod{pod("other", "9").Obj()}, false, 3000},
		"without tasks":                   {[]*corev1.Pod{pod("", "2").Obj()}, true, 6000},
		"not of a pod that goes":          {[]*corev1.Pod{goes}, true, 3000},
		"of different pods what all have": {[]*corev1.Pod{pod("", "2").Obj(), pod("", "9").Obj()}, true, 6000},
	} {
		t.Run(name, func(t *testing.T) {
			g := group
			if c.undivided {
				g = undivided
			}
			assert.Equal(t, c.want, max(MinimumOf(g)[corev1.ResourceCPU], AskedFor(g, c.pods, resources.PodRequests)[corev1.ResourceCPU]))
		})
	}
}

// app is a PodGroup with a minimum of one member, and minResources of so many CPUs.
func app(cpu string) *mustertesting.PodGroupWrapper {
	return mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(1).MinResources("cpu", cpu)
}

// TestPurposeOfMinResources: further members count against the total of the cluster, a minimum alone does not.
func TestPurposeOfMinResources(t *testing.T) {
	pod := func(name, cpu string) *corev1.Pod {
		return mustertesting.MakePod(name).UID(name).Group("g").Requests("cpu", cpu).Obj()
	}
	job := mustertesting.MakeJob("j").UID("job").Obj()
	for name, c := range map[string]struct {
		group *mustertesting.PodGroupWrapper
		pods  []*corev1.Pod
		want  Purpose
	}{
		"a driver, and executors are to come":    {app("3"), []*corev1.Pod{pod("a", "1")}, ForMore},
		"the driver is to come":                  {app("3"), nil, NotKnown},
		"the minimum":                            {app("3").MinMember(3), []*corev1.Pod{pod("a", "1"), pod("b", "1"), pod("c", "1")}, ForMinimum},
		"a minimum of members that differ":       {app("5").MinMember(2), []*corev1.Pod{pod("a", "4"), pod("b", "1")}, ForMinimum},
		"a part of the minimum is to come":       {app("3").MinMember(3), []*corev1.Pod{pod("a", "1"), pod("b", "1")}, NotKnown},
		"a Job of ours":                          {app("3").Owner(job), []*corev1.Pod{pod("a", "1")}, ForMinimum},
		"no minResources":                        {mustertesting.MakePodGroup("g").MinMember(1), []*corev1.Pod{pod("a", "1")}, ForMinimum},
		"more members than the minimum exist":    {app("3"), []*corev1.Pod{pod("a", "1"), pod("b", "2")}, ForMinimum},
		"members that request more than is said": {app("3"), []*corev1.Pod{pod("a", "4")}, ForMinimum},
	} {
		assert.Equal(t, c.want, PurposeOf(c.group.Obj(), c.pods, resources.PodRequests), name)
	}
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
