//go:build real

// Package install runs Muster inside a cluster, from its own image, as docs/install.md says. Its pods are containers of the real node, and
// no program of Muster runs on the host. `make test-real` runs it; it needs root and the packages of docs/real-node.md.
package install

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/localcluster/realnode"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
	"github.com/muster-sched/muster/test/installation"
	"github.com/muster-sched/muster/test/real/workloads"
)

const (
	root   = "../../.."
	deploy = root + "/manifests/deploy"
	// beside and upgradeSteps are sections of docs/install.md.
	beside, upgradeSteps = "Beside the default scheduler", "Upgrade"
	// timeout is how long pods and Jobs may take.
	timeout = 5 * time.Minute
	// look is the pause between two looks at the cluster.
	look = 50 * time.Millisecond
)

func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{
		RealNode: true,
		// The stock scheduler places Muster's own pods.
		Scheduler: localcluster.KubeScheduler, Without: []string{localcluster.MusterController},
		Nodes: 4, NodeCPU: "8", Timeout: timeout,
	})
}

// importImages gives the node Muster's image and busybox, once for all tests.
var importImages = sync.OnceValue(func() error {
	cluster := harness.Shared().Cluster
	if err := workloads.ImportBusybox(context.Background(), cluster); err != nil {
		return err
	}
	return workloads.ImportMuster(context.Background(), cluster, root, "dev")
})

// begin gives a test its namespace, on a node that has the images.
func begin(t *testing.T) (*harness.Story, installation.Kubectl) {
	t.Helper()
	require.NoError(t, importImages())
	k := installation.Kubectl{T: t, Cluster: harness.Shared().Cluster, Root: root}
	s := harness.New(t)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		out, _ := k.Try(context.Background(), "", "describe", "pods", "-n", localcluster.SystemNamespace)
		logs, _ := k.Try(context.Background(), "", "logs", "-n", localcluster.SystemNamespace, "-l", "app.kubernetes.io/name=muster", "--prefix", "--tail=100")
		t.Logf("the pods of Muster:\n%s\n%s", out, logs)
	})
	return s, k
}

// install does the steps of a section of docs/install.md with a kustomization. It waits until both Deployments run what that says.
func install(ctx context.Context, k installation.Kubectl, section, folder string) error {
	if err := k.Follow(ctx, section, folder); err != nil {
		return err
	}
	for _, component := range installation.Components {
		out, err := k.Try(ctx, "", "rollout", "status", "-n", localcluster.SystemNamespace, "deployment/muster-"+component)
		if err != nil {
			return fmt.Errorf("waiting for muster-%s: %w: %s", component, err, out)
		}
	}
	return nil
}

// replicas are the pods of a component that are not being deleted.
func replicas(s *harness.Story, component string) ([]corev1.Pod, error) {
	list, err := s.Kube.CoreV1().Pods(localcluster.SystemNamespace).List(s.Ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component})
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			pods = append(pods, list.Items[i])
		}
	}
	return pods, nil
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// eventually waits until a condition is met. An error is kept, and tried again.
func eventually(s *harness.Story, limit time.Duration, what string, met func() (bool, error)) {
	s.T.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.Ctx, look, limit, true, func(context.Context) (bool, error) {
		var done bool
		done, last = met()
		return done && last == nil, nil
	})
	require.NoError(s.T, err, "%s: %v", what, last)
}

// simulated sends the pods of a Job to simulated nodes.
func simulated(job *batchv1alpha1.Job) {
	for i := range job.Spec.Tasks {
		spec := &job.Spec.Tasks[i].Template.Spec
		spec.Tolerations = []corev1.Toleration{{Key: localcluster.SimulatedNodeTaint, Operator: corev1.TolerationOpExists}}
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{realnode.NodeName}},
				},
			}}},
		}}
	}
}

// contained makes the containers of a Job run busybox on the real node. They go at once when they are deleted.
func contained(job *batchv1alpha1.Job) {
	grace := int64(1)
	for i := range job.Spec.Tasks {
		spec := &job.Spec.Tasks[i].Template.Spec
		spec.TerminationGracePeriodSeconds = &grace
		for j := range spec.Containers {
			spec.Containers[j].Image, spec.Containers[j].ImagePullPolicy = workloads.Busybox, corev1.PullNever
		}
	}
}

// create creates a Job. For some seconds after its installation the API server may not know the admission policies yet; it refuses Jobs then.
func create(s *harness.Story, wrapper *mustertesting.JobWrapper, change func(*batchv1alpha1.Job)) string {
	s.T.Helper()
	job := wrapper.Obj()
	job.Namespace = s.Namespace
	change(job)
	eventually(s, mustertesting.Timeout, "creating Job "+job.Name, func() (bool, error) {
		_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Create(s.Ctx, job, metav1.CreateOptions{})
		return err == nil, err
	})
	return job.Name
}

// gang is a Job of four simulated pods of a CPU each, which end after two seconds.
func gang(name string) *mustertesting.JobWrapper {
	return mustertesting.MakeJob(name).MinAvailable(4).Task(mustertesting.MakeTask("member", 4).Requests("cpu", "1").ExitAfter(2*time.Second, 0))
}

// awaitPhase waits until a Job is in a phase.
func awaitPhase(s *harness.Story, job string, phase batchv1alpha1.JobPhase) {
	s.T.Helper()
	name := s.Name(job)
	s.Within(timeout, job+" is "+string(phase),
		func() bool { return s.Log.Job(name).Phase == phase }, func() any { return s.Log.JobStates(name) })
}
