// Package tenants plays two teams that share a cluster and do not trust each other. All programs run, and the policies of manifests/tenancy
// are in force.
package tenants

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-sched/muster/manifests"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m, localcluster.Options{Nodes: 2}) }

// team is a user with a namespace and a queue, all of one name.
type team struct {
	name   string
	kube   kubernetes.Interface
	muster versioned.Interface
}

// newTeam makes the namespace and the queue of a team. Its user gets the role edit in the namespace and the verb use on the queue.
func newTeam(t *testing.T, s *harness.Story, name string) *team {
	t.Helper()
	_, err := s.Kube.CoreV1().Namespaces().Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	s.CreateQueue(mustertesting.MakeQueue(name).Capability("cpu", "4"))
	user := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}
	rbac := s.Kube.RbacV1()
	_, err = rbac.RoleBindings(name).Create(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: user,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	use := rbacv1.PolicyRule{APIGroups: []string{schedulingv1beta1.SchemeGroupVersion.Group}, Resources: []string{"queues"}, ResourceNames: []string{name}, Verbs: []string{"use"}}
	_, err = rbac.ClusterRoles().Create(s.Ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "use-" + name}, Rules: []rbacv1.PolicyRule{use}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rbac.ClusterRoleBindings().Create(s.Ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "use-" + name}, Subjects: user,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "use-" + name},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	config := adminConfig(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	return &team{name: name, kube: kubernetes.NewForConfigOrDie(config), muster: versioned.NewForConfigOrDie(config)}
}

func adminConfig(t *testing.T) *rest.Config {
	t.Helper()
	config, err := harness.Shared().RESTConfig()
	require.NoError(t, err)
	return rest.CopyConfig(config)
}

// separateTenants installs the policies that are off by default.
func separateTenants(t *testing.T) {
	t.Helper()
	client, err := dynamic.NewForConfig(adminConfig(t))
	require.NoError(t, err)
	files, err := fs.Glob(manifests.FS, "tenancy/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		text, err := manifests.FS.ReadFile(file)
		require.NoError(t, err)
		for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			resource := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
			if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
				resource.Resource = "validatingadmissionpolicybindings"
			}
			_, err = client.Resource(resource).Create(t.Context(), object, metav1.CreateOptions{})
			require.NoError(t, err)
		}
	}
}

func (m *team) createJob(ctx context.Context, wrapper *mustertesting.JobWrapper) error {
	_, err := m.muster.BatchV1alpha1().Jobs(m.name).Create(ctx, wrapper.Namespace(m.name).Obj(), metav1.CreateOptions{})
	return err
}

func sleeper(name, queue string) *mustertesting.JobWrapper {
	return mustertesting.MakeJob(name).Queue(queue).Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1"))
}

// TestABadNeighbourIsRefused: red works in its queue, and tries whatever would take what is blue's. Each attempt is refused with the field and
// what to do, and blue's Job runs on.
func TestABadNeighbourIsRefused(t *testing.T) {
	s := harness.New(t)
	separateTenants(t)
	red, blue := newTeam(t, s, "red"), newTeam(t, s, "blue")
	awaitSeparation(t, s, red, blue)
	blueJob := sleeper("good", "blue").Namespace("blue").Obj()
	require.NoError(t, blue.createJob(s.Ctx, sleeper("good", "blue")))
	name := metav1.ObjectMeta{Name: blueJob.Name, Namespace: blueJob.Namespace}
	require.NoError(t, red.createJob(s.Ctx, sleeper("own", "red")))
	for _, job := range []metav1.ObjectMeta{name, {Name: "own", Namespace: "red"}} {
		s.Soon("the Job "+job.Name+" runs", func() bool {
			found, err := s.Muster.BatchV1alpha1().Jobs(job.Namespace).Get(s.Ctx, job.Name, metav1.GetOptions{})
			return err == nil && found.Status.State.Phase == batchv1alpha1.Running
		}, func() any { return s.Log.Job(types.NamespacedName{Namespace: job.Namespace, Name: job.Name}) })
	}
	for attempt, c := range attempts(t, s, red, name) {
		t.Run(attempt, func(t *testing.T) {
			err := c.do()
			require.True(t, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, c.says)
		})
	}
	found, err := s.Muster.BatchV1alpha1().Jobs("blue").Get(s.Ctx, "good", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, batchv1alpha1.Running, found.Status.State.Phase)
	assert.EqualValues(t, 2, found.Status.Running)
	queue, err := s.Muster.SchedulingV1beta1().Queues().Get(s.Ctx, "blue", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, schedulingv1beta1.QueueStateOpen, queue.Status.State)
	requireLimited(t, s, red)
}

// awaitSeparation waits until the policies and the rights of the teams are in force.
func awaitSeparation(t *testing.T, s *harness.Story, red, blue *team) {
	t.Helper()
	try := func(m *team, job *mustertesting.JobWrapper) error {
		_, err := m.muster.BatchV1alpha1().Jobs(m.name).Create(s.Ctx, job.Namespace(m.name).Obj(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.ErrorContains(c, try(red, sleeper("probe", "blue")), "may not use queue")
		assert.ErrorContains(c, try(red, sleeper("probe", "red").Label("muster.sh/user", "blue")), "may not act for user")
		assert.NoError(c, try(red, sleeper("probe", "red")))
		assert.NoError(c, try(blue, sleeper("probe", "blue")))
	}, 2*time.Minute, 200*time.Millisecond)
}

type attempt struct {
	do   func() error
	says string
}

// attempts are what red tries against blue.
func attempts(t *testing.T, s *harness.Story, red *team, good metav1.ObjectMeta) map[string]attempt {
	t.Helper()
	queue, err := s.Muster.SchedulingV1beta1().Queues().Get(s.Ctx, "blue", metav1.GetOptions{})
	require.NoError(t, err)
	api, core, bus := red.muster.SchedulingV1beta1(), red.kube.CoreV1(), red.muster.BusV1alpha1()
	create, noOptions := metav1.CreateOptions{}, metav1.DeleteOptions{}
	pod := func() *mustertesting.PodWrapper { return mustertesting.MakePod("stray").Namespace("red") }
	return map[string]attempt{
		"a Job in blue's queue":      {func() error { return red.createJob(s.Ctx, sleeper("a", "blue")) }, "spec.queue: red may not use queue blue: name another queue"},
		"a Job in the default queue": {func() error { return red.createJob(s.Ctx, sleeper("b", "default")) }, "spec.queue: red may not use queue default"},
		"a Job in the root":          {func() error { return red.createJob(s.Ctx, sleeper("c", "root")) }, "root"},
		"a Job in blue's name":       {func() error { return red.createJob(s.Ctx, sleeper("d", "red").Label("muster.sh/user", "blue")) }, "red may not act for user blue"},
		"a Job in blue's namespace": {func() error {
			_, err := red.muster.BatchV1alpha1().Jobs("blue").Create(s.Ctx, sleeper("e", "red").Namespace("blue").Obj(), create)
			return err
		}, "cannot create resource"},
		"a PodGroup in blue's queue": {func() error {
			_, err := api.PodGroups("red").Create(s.Ctx, mustertesting.MakePodGroup("f").Namespace("red").Queue("blue").Obj(), create)
			return err
		}, "spec.queue: red may not use queue blue"},
		"a pod that charges blue": {func() error {
			_, err := core.Pods("red").Create(s.Ctx, pod().Annotation("scheduling.volcano.sh/queue-name", "blue").Obj(), create)
			return err
		}, "may use queue blue"},
		"a pod in blue's name": {func() error {
			_, err := core.Pods("red").Create(s.Ctx, pod().Label("muster.sh/user", "blue").Obj(), create)
			return err
		}, "red may not act for user blue"},
		"deleting blue's Job":   {func() error { return red.muster.BatchV1alpha1().Jobs("blue").Delete(s.Ctx, good.Name, noOptions) }, "cannot delete resource"},
		"deleting blue's queue": {func() error { return api.Queues().Delete(s.Ctx, "blue", noOptions) }, "cannot delete resource"},
		"closing blue's queue":  {func() error { _, err := bus.Commands("red").Create(s.Ctx, closing(queue), create); return err }, "target: red may not order anything of queue blue"},
		"a wrong disruption budget": {func() error {
			_, err := core.Pods("red").Create(s.Ctx, pod().Annotation("volcano.sh/jdb-min-available", "0").Obj(), create)
			return err
		}, "it must be a positive integer"},
		"forging the state of a queue": {func() error { _, err := api.Queues().UpdateStatus(s.Ctx, queue, metav1.UpdateOptions{}); return err }, "cannot update resource"},
	}
}

func closing(queue *schedulingv1beta1.Queue) *busv1alpha1.Command {
	return &busv1alpha1.Command{
		ObjectMeta: metav1.ObjectMeta{Name: "close", Namespace: "red"}, Action: string(busv1alpha1.CloseQueueAction),
		TargetObject: metav1.NewControllerRef(queue, schedulingv1beta1.SchemeGroupVersion.WithKind("Queue")),
	}
}

// requireLimited: an administrator limits how many Jobs a team has.
func requireLimited(t *testing.T, s *harness.Story, red *team) {
	t.Helper()
	const counted = corev1.ResourceName("count/jobs.batch.volcano.sh")
	quotas := s.Kube.CoreV1().ResourceQuotas("red")
	_, err := quotas.Create(s.Ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "jobs"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: resource.MustParse("1")}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		quota, err := quotas.Get(s.Ctx, "jobs", metav1.GetOptions{})
		used := quota.Status.Used[counted]
		return err == nil && used.Value() == 1
	}, 2*time.Minute, 100*time.Millisecond, "red's Job is counted")
	require.ErrorContains(t, red.createJob(s.Ctx, sleeper("second", "red")), "exceeded quota: jobs")
}
