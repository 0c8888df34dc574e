package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// inQueue has a pod take so much memory, and name a queue unless it is of a gang.
func inQueue(queue, memory string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = mustertesting.Resources("memory", memory)
		if p.Annotations["scheduling.k8s.io/group-name"] == "" {
			p.Annotations = map[string]string{"scheduling.volcano.sh/queue-name": queue}
		}
	}
}

// TestPodsOfAbsurdSizeDoNotSwitchQuotaOff: three pods of 8Ei are put on nodes by hand, and go. A second gang must not start beside the first.
func TestPodsOfAbsurdSizeDoNotSwitchQuotaOff(t *testing.T) {
	w := newQuietWorld(t, 4)
	queue := mustertesting.MakeQueue(w.namespace).Capability("memory", "10Gi").Obj()
	_, err := muster.SchedulingV1beta1().Queues().Create(w.ctx, queue, metav1.CreateOptions{})
	require.NoError(t, err)
	w.createGroup("first", 1, w.namespace)
	w.createGang("first", 1, inQueue(w.namespace, "8Gi"))
	w.expectBound("first", 1)

	for i := range 3 {
		w.create(w.pod(fmt.Sprint("huge-", i), "", inQueue(w.namespace, "8Ei"), func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.NodeSelector = fmt.Sprintf("%s-%d", w.namespace, i), nil
		}))
		taken := []byte(`{"status":{"conditions":[{"type":"PodScheduled","status":"True"}]}}`) // by the kubelet
		_, err := kube.CoreV1().Pods(w.namespace).Patch(w.ctx, fmt.Sprint("huge-", i), types.MergePatchType, taken, metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	w.create(w.pod("small", "", inQueue(w.namespace, "1Gi")))
	w.expectHeld("small", fmt.Sprintf("queue %q has no memory free", w.namespace), "1Gi needed")
	for i := range 3 {
		w.remove(fmt.Sprint("huge-", i))
	}
	w.expectBound("small", 1)
	w.createGroup("second", 1, w.namespace)
	w.createGang("second", 1, inQueue(w.namespace, "8Gi"))
	w.expectHeld("second", fmt.Sprintf("queue %q has 1Gi memory free of its capability, 8Gi needed", w.namespace))
	w.remove("first-0")
	w.expectBound("second", 1)
}

// TestPodsOfAbsurdSizeAreToldSo: NodeResourcesFit would find room for some of them on every node.
func TestPodsOfAbsurdSizeAreToldSo(t *testing.T) {
	w := newWorld(t, 1)
	for name, memory := range map[string]string{"sum": "3Ei", "one": "10E"} {
		w.createGroup(name, 2, "")
		w.createGang(name, 2, inQueue("", memory))
		w.expectHeld(name, "the gang asks for 4Ei or more of memory, which no cluster has")
	}
	w.create(w.pod("single", "", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = mustertesting.Resources("cpu", "10000000000000000")
	}))
	w.expectHeld("single", "the pod asks for 4611686018427387904m or more of cpu, which no cluster has")
}
