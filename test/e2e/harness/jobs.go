package harness

import (
	"os"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// ReadJob reads the Job of a file, with no field that Jobs do not have. Tasks whose template the file leaves out get one
// container.
func (s *Story) ReadJob(file string) *batchv1alpha1.Job {
	s.T.Helper()
	text, err := os.ReadFile(file)
	require.NoError(s.T, err)
	job := &batchv1alpha1.Job{}
	require.NoError(s.T, yaml.UnmarshalStrict(text, job), file)
	for i := range job.Spec.Tasks {
		if spec := &job.Spec.Tasks[i].Template.Spec; len(spec.Containers) == 0 {
			spec.Containers = []corev1.Container{{Name: "main", Image: "busybox"}}
			spec.RestartPolicy = corev1.RestartPolicyNever
		}
	}
	return job
}

// ApplyFile creates the Job of a file in the test's namespace, after the given changes. Its pods go to the test's nodes. A field that the
// API server would drop is an error.
func (s *Story) ApplyFile(file string, changes ...func(*batchv1alpha1.Job)) types.NamespacedName {
	s.T.Helper()
	job := s.ReadJob(file)
	for _, change := range changes {
		change(job)
	}
	// Last, for what a change puts in the place of a pod template is at home here, too.
	_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Create(s.Ctx, s.home(job), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	require.NoError(s.T, err)
	return s.Name(job.Name)
}

// Job reads a Job.
func (s *Story) Job(name types.NamespacedName) *batchv1alpha1.Job {
	s.T.Helper()
	job, err := s.Muster.BatchV1alpha1().Jobs(name.Namespace).Get(s.Ctx, name.Name, metav1.GetOptions{})
	require.NoError(s.T, err)
	return job
}

// EditJob changes a Job as `kubectl edit` does, and returns what the API server says to it.
func (s *Story) EditJob(name types.NamespacedName, change func(*batchv1alpha1.Job)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		job := s.Job(name)
		change(job)
		_, err := s.Muster.BatchV1alpha1().Jobs(name.Namespace).Update(s.Ctx, job, metav1.UpdateOptions{})
		return err
	})
}

// Command asks something of a Job, as the CLI does.
func (s *Story) Command(name types.NamespacedName, action busv1alpha1.Action) {
	s.T.Helper()
	s.command(s.Job(name), batchv1alpha1.SchemeGroupVersion.WithKind("Job"), action)
}

// CommandQueue asks something of a Queue, as the CLI does.
func (s *Story) CommandQueue(name string, action busv1alpha1.Action) {
	s.T.Helper()
	s.command(s.Queue(name), schedulingv1beta1.SchemeGroupVersion.WithKind("Queue"), action)
}

func (s *Story) command(target metav1.Object, kind schema.GroupVersionKind, action busv1alpha1.Action) {
	s.T.Helper()
	command := &busv1alpha1.Command{
		ObjectMeta:   metav1.ObjectMeta{GenerateName: target.GetName() + "-"},
		Action:       string(action),
		TargetObject: metav1.NewControllerRef(target, kind),
	}
	_, err := s.Muster.BusV1alpha1().Commands(s.Namespace).Create(s.Ctx, command, metav1.CreateOptions{})
	require.NoError(s.T, err)
}

// GroupOf reads the PodGroup of a Job.
func (s *Story) GroupOf(name types.NamespacedName) *schedulingv1beta1.PodGroup {
	s.T.Helper()
	job := s.Job(name)
	group, err := s.Muster.SchedulingV1beta1().PodGroups(name.Namespace).Get(s.Ctx, job.Name+"-"+string(job.UID), metav1.GetOptions{})
	require.NoError(s.T, err)
	return group
}

// Pod reads a pod.
func (s *Story) Pod(name string) *corev1.Pod {
	s.T.Helper()
	pod, err := s.Kube.CoreV1().Pods(s.Namespace).Get(s.Ctx, name, metav1.GetOptions{})
	require.NoError(s.T, err)
	return pod
}

// refusal is what the API server says to a write that a test forbids.
const refusal = "the test forbids it"

// RefuseGroupStatuses has the API server refuse the statuses of the PodGroups of the test's namespace, until allow is called.
func (s *Story) RefuseGroupStatuses() (allow func()) {
	s.T.Helper()
	allow = clients.Refuse(s.T, s.Kube, clients.Refusal{
		Namespace: s.Namespace, Group: schedulingv1beta1.GroupName, Version: "*", Resource: "podgroups/status",
		Operation: admissionregistrationv1.Update, Message: refusal,
	})
	s.awaitRefusal()
	return allow
}

// awaitRefusal waits until the API server refuses the status of a PodGroup of the test. It takes a moment to learn of a policy.
func (s *Story) awaitRefusal() {
	s.T.Helper()
	groups := s.Muster.SchedulingV1beta1().PodGroups(s.Namespace)
	const name = "probe"
	_, err := groups.Create(s.Ctx, mustertesting.MakePodGroup(name).Namespace(s.Namespace).Queue("no-such-queue").Obj(), metav1.CreateOptions{})
	require.NoError(s.T, err)
	require.Eventually(s.T, func() bool {
		probe, err := groups.Get(s.Ctx, name, metav1.GetOptions{})
		if err == nil {
			_, err = groups.UpdateStatus(s.Ctx, probe, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		}
		return err != nil && strings.Contains(err.Error(), refusal)
	}, mustertesting.Timeout, 50*time.Millisecond, "the policy is in force")
	require.NoError(s.T, groups.Delete(s.Ctx, name, metav1.DeleteOptions{}))
}
