package upstream

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// BindPod binds a pod as upstream's DefaultBinder does, and has the API server add annotations to the pod.
func BindPod(ctx context.Context, handle fwk.Handle, pod *corev1.Pod, node string, annotations map[string]string) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	writer := handle.APICacher()
	if writer == nil {
		return util.BindPod(ctx, handle.ClientSet(), binding)
	}
	finished, err := writer.BindPod(binding)
	if err != nil {
		return fmt.Errorf("queueing a binding: %w", err)
	}
	return writer.WaitOnFinish(ctx, finished)
}
