package coscheduling

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestRoomThatAnEventFrees(t *testing.T) {
	pod := mustertesting.MakePod("p").Requests("cpu", "2").Node("n").Obj()
	resized := pod.DeepCopy()
	resized.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizeInProgress}}
	pending := pod.DeepCopy()
	pending.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending}}
	node := func(cpu string) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	var nothing *corev1.Node
	nominated, nowhere := pod.DeepCopy(), pod.DeepCopy()
	nominated.Spec.NodeName, nominated.Status.NominatedNodeName = "", "n"
	nowhere.Spec.NodeName = ""
	tests := map[string]struct {
		oldObj, newObj any
		node           string
		want           resources.List
		known          bool
	}{
		"a pod is deleted":             {oldObj: pod, node: "n", want: resources.List{corev1.ResourceCPU: 2000, corev1.ResourcePods: 1}, known: true},
		"a nomination ends":            {oldObj: nominated, node: "n", want: resources.List{corev1.ResourceCPU: 2000, corev1.ResourcePods: 1}, known: true},
		"a pod without a node":         {oldObj: nowhere},
		"a pod that may hold more":     {oldObj: resized},
		"a pod that may hold more yet": {oldObj: pending},
		"a node is added":              {newObj: node("4"), want: resources.List{corev1.ResourceCPU: 4000}, known: true},
		"a node grows":                 {oldObj: node("4"), newObj: node("6"), want: resources.List{corev1.ResourceCPU: 6000}, known: true},
		"a pod changes":                {oldObj: pod, newObj: resized},
		"a node is deleted":            {oldObj: node("4")},
		"no object at all":             {},
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

func TestTheAnswerThatIsKeptIsOfTheSameEvent(t *testing.T) {
	var f freed
	small, large := mustertesting.MakePod("p").Requests("cpu", "1").Node("n").Obj(), mustertesting.MakePod("p").Requests("cpu", "2").Node("n").Obj()
	first, _ := f.by(small, nil)
	second, _ := f.by(large, nil)
	assert.EqualValues(t, 1000, first.amount[corev1.ResourceCPU])
	assert.EqualValues(t, 2000, second.amount[corev1.ResourceCPU])
	_, known := f.by(large, small)
	assert.False(t, known)
}
