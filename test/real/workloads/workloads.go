// Package workloads has what several packages of tests run in the containers of a real node.
package workloads

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/localcluster/realnode"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// Busybox is an image with nothing in it but /busybox.
const Busybox = "muster.local/busybox:1"

// ImportBusybox makes that image of the machine's own busybox, and gives it to the real node.
func ImportBusybox(ctx context.Context, cluster *localcluster.Cluster) error {
	dir, err := os.MkdirTemp("", "muster-busybox-")
	if err != nil {
		return fmt.Errorf("making a folder for an image: %w", err)
	}
	defer os.RemoveAll(dir)
	layer, archive := filepath.Join(dir, "layer.tar"), filepath.Join(dir, "image.tar")
	if err := realnode.WriteLayer(layer, "/bin/busybox", "busybox"); err != nil {
		return err
	}
	if err := (realnode.Image{Name: Busybox, Layers: []string{layer}, Env: []string{"PATH=/"}}).Write(archive); err != nil {
		return err
	}
	return cluster.ImportImage(ctx, archive)
}

// RunOrdinary runs a Deployment, a DaemonSet and a StatefulSet that name no scheduler. It waits until all their pods are ready. Their
// container must not end.
func RunOrdinary(s *harness.Story, timeout time.Duration, container corev1.Container) {
	s.T.Helper()
	container.Name, container.ImagePullPolicy = "main", corev1.PullNever
	const app = "ordinary"
	template := func(kind string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
		labels := map[string]string{"kind": kind, "app": app}
		return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](1), Containers: []corev1.Container{container}},
		}
	}
	apps := s.Kube.AppsV1()

	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "deployment"}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)}}
	deployment.Spec.Selector, deployment.Spec.Template = template("deployment")
	_, err := apps.Deployments(s.Namespace).Create(s.Ctx, deployment, metav1.CreateOptions{})
	require.NoError(s.T, err)
	daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "daemons"}}
	daemons.Spec.Selector, daemons.Spec.Template = template("daemons")
	_, err = apps.DaemonSets(s.Namespace).Create(s.Ctx, daemons, metav1.CreateOptions{})
	require.NoError(s.T, err)
	stateful := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "stateful"}, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2)}}
	stateful.Spec.Selector, stateful.Spec.Template = template("stateful")
	_, err = apps.StatefulSets(s.Namespace).Create(s.Ctx, stateful, metav1.CreateOptions{})
	require.NoError(s.T, err)

	require.Eventually(s.T, func() bool {
		d, errD := apps.Deployments(s.Namespace).Get(s.Ctx, "deployment", metav1.GetOptions{})
		n, errN := apps.DaemonSets(s.Namespace).Get(s.Ctx, "daemons", metav1.GetOptions{})
		f, errF := apps.StatefulSets(s.Namespace).Get(s.Ctx, "stateful", metav1.GetOptions{})
		return errD == nil && errN == nil && errF == nil &&
			d.Status.ReadyReplicas == 2 && n.Status.NumberReady == 1 && f.Status.ReadyReplicas == 2
	}, timeout, 200*time.Millisecond, "all pods are ready")
	pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(s.Ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	require.NoError(s.T, err)
	assert.Len(s.T, pods.Items, 5)
	for i := range pods.Items {
		assert.Equal(s.T, corev1.DefaultSchedulerName, pods.Items[i].Spec.SchedulerName)
		assert.Equal(s.T, realnode.NodeName, pods.Items[i].Spec.NodeName)
	}
}
