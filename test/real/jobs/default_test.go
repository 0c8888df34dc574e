//go:build real

package jobs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestOrdinaryWorkloads runs a Deployment, a DaemonSet and a StatefulSet that name no scheduler: muster-scheduler is in the place of the
// default one.
func TestOrdinaryWorkloads(t *testing.T) {
	s := begin(t)
	labels := map[string]string{"app": "ordinary"}
	template := func(kind string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
		labels := map[string]string{"kind": kind, "app": labels["app"]}
		return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: ptr.To[int64](1),
				Containers: []corev1.Container{{
					Name: "main", Image: image, ImagePullPolicy: corev1.PullNever, Command: []string{"sleep", "1000000"},
				}},
			},
		}
	}
	apps := s.Kube.AppsV1()

	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "deployment"}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)}}
	deployment.Spec.Selector, deployment.Spec.Template = template("deployment")
	_, err := apps.Deployments(s.Namespace).Create(s.Ctx, deployment, metav1.CreateOptions{})
	require.NoError(t, err)
	daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "daemons"}}
	daemons.Spec.Selector, daemons.Spec.Template = template("daemons")
	_, err = apps.DaemonSets(s.Namespace).Create(s.Ctx, daemons, metav1.CreateOptions{})
	require.NoError(t, err)
	stateful := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "stateful"}, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2)}}
	stateful.Spec.Selector, stateful.Spec.Template = template("stateful")
	_, err = apps.StatefulSets(s.Namespace).Create(s.Ctx, stateful, metav1.CreateOptions{})
	require.NoError(t, err)

	assert.Eventually(t, func() bool {
		d, errD := apps.Deployments(s.Namespace).Get(s.Ctx, "deployment", metav1.GetOptions{})
		n, errN := apps.DaemonSets(s.Namespace).Get(s.Ctx, "daemons", metav1.GetOptions{})
		f, errF := apps.StatefulSets(s.Namespace).Get(s.Ctx, "stateful", metav1.GetOptions{})
		return errD == nil && errN == nil && errF == nil &&
			d.Status.ReadyReplicas == 2 && n.Status.NumberReady == 1 && f.Status.ReadyReplicas == 2
	}, patience, 200*time.Millisecond, "all pods are ready")
	pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(s.Ctx, metav1.ListOptions{LabelSelector: "app=ordinary"})
	require.NoError(t, err)
	for i := range pods.Items {
		assert.Equal(t, corev1.DefaultSchedulerName, pods.Items[i].Spec.SchedulerName)
	}
}
