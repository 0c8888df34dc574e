package chaos

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestT18_WithoutTheControllerOthersAreUnaffected: while muster-controller is down, other users' pods are created, changed, scheduled and
// deleted, and a running gang runs on. Requests to Muster meanwhile are handled when it is back.
func TestT18_WithoutTheControllerOthersAreUnaffected(t *testing.T) {
	s := harness.New(t)
	s.AddNodes(2, "cpu", "16")
	running := s.CreateJob(mustertesting.MakeJob("running").Task(mustertesting.MakeTask("a", 2).Requests("cpu", "1")))
	s.JobPhase(running, batchv1alpha1.Running)
	s.Pods(2, "the gang runs", s.In(harness.Running))
	require.NoError(t, s.Kill(localcluster.MusterController, syscall.SIGKILL))
	require.NoError(t, s.AwaitEnd(s.Ctx, localcluster.MusterController))

	s.CreatePod(mustertesting.MakePod("bare").Requests("cpu", "1"))
	labels := map[string]string{"app": "web"}
	replicas := int32(3)
	template := mustertesting.MakePod("").Requests("cpu", "1").Obj()
	template.Spec.RestartPolicy = ""
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	deployment.Spec.Template.Labels, deployment.Spec.Template.Spec = labels, template.Spec
	_, err := s.Kube.AppsV1().Deployments(s.Namespace).Create(s.Ctx, deployment, metav1.CreateOptions{})
	require.NoError(t, err)
	waiting := s.CreateJob(mustertesting.MakeJob("waiting").Task(mustertesting.MakeTask("a", 2).Requests("cpu", "1")))
	s.Pods(4, "pods of others run", s.In(harness.Running, harness.Of("")))
	s.DeletePod("bare")
	s.Pods(3, "a pod is deleted", s.In(harness.Running, harness.Of("")))
	s.PodsStay(2, "the gang runs on", s.In(harness.Running, harness.Of("running")))

	require.NoError(t, s.Start(s.Ctx, localcluster.MusterController))
	s.JobPhase(waiting, batchv1alpha1.Running)
	s.Pods(2, "the gang has not been touched", s.In(harness.Of("running")))
}
