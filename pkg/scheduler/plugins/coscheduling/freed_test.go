package coscheduling

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-sched/muster/pkg/resources"
)

func TestWhatAnEventSetsFree(t *testing.T) {
	pod := memberOf(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		p.Spec.NodeName = "n"
	}).Pod
	resized := pod.DeepCopy()
	resized.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizeInProgress}}
	node := func(cpu string) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	var nothing *corev1.Node
	tests := map[string]struct {
		oldObj, newObj any
		node           string
		want           resources.List
		known          bool
	}{
		"a pod goes":                   {oldObj: pod, node: "n", want: resources.List{corev1.ResourceCPU: 2000, corev1.ResourcePods: 1}, known: true},
		"a pod that may hold more":     {oldObj: resized},
		"a node comes":                 {newObj: node("4"), want: resources.List{corev1.ResourceCPU: 4000}, known: true},
		"a node grows":                 {oldObj: node("4"), newObj: node("6"), want: resources.List{corev1.ResourceCPU: 6000}, known: true},
		"a pod changes":                {oldObj: pod, newObj: resized},
		"a node goes":                  {oldObj: node("4")},
		"nobody knows what it is":      {},
		"an object that is nil inside": {oldObj: nothing},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var f freed
			for range 2 { // the second answer is the one that was kept
				r, known := f.by(test.oldObj, test.newObj)
				assert.Equal(t, test.known, known)
				assert.Equal(t, room{test.node, test.want}, r)
			}
		})
	}
}
