package cli

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestWhenAJobWouldStart: nothing is created for the question, and no question is left.
func TestWhenAJobWouldStart(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "64")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace).Capability("cpu", "4"))
	runs := s.CreateJob(mustertesting.MakeJob("runs").Queue(s.Namespace).Annotation(schedulingv1beta1.RunningEstimateAnnotation, "1h").
		Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "3")))
	s.JobPhase(runs, batchv1alpha1.Running)

	ask := func(args ...string) []string {
		return append([]string{"job", "run", "asked", "-q", s.Namespace, "--what-if"}, args...)
	}
	said := muster(s, ask("--requests", "cpu=1")...)
	const others = `(; \d+ others? waits? before it)?` // those of other tests
	assert.Regexp(t, `^job asked: it would start at once`+others+`; on 1 node\n$`, said)
	said = muster(s, ask("--requests", "cpu=2")...)
	assert.Regexp(t, `^job asked: expected to start about \d\d:\d\d:\d\d UTC on \w+ \d+, when runs ends; that is in (59|60)m.*in four of five cases`+others+`; on 1 node\n$`, said)
	said = muster(s, ask("--requests", "cpu=5")...)
	assert.Contains(t, said, "job asked: it would never start: its minimum can never fit queue \""+s.Namespace+"\": 5 cpu asked, its capability is 4")
	said = muster(s, "job", "run", "asked", "-q", "no-such-queue", "--what-if")
	assert.Contains(t, said, "queue no-such-queue does not exist: name another queue")

	var review musterv1alpha1.StartReview
	require.NoError(t, json.Unmarshal([]byte(muster(s, ask("--requests", "cpu=2", "-o", "json")...)), &review))
	assert.Equal(t, musterv1alpha1.StartsLater, review.Status.Answer)
	assert.Equal(t, []string{"runs"}, review.Status.Plan.WaitsFor)

	wrong := called(s, "muster", append(ask("--wait"), "-n", s.Namespace)...)
	assert.Equal(t, 1, wrong.code)
	assert.Contains(t, wrong.err, "--what-if: there is no Job to wait for")

	askWithoutTheRight(s, ask("--requests", "cpu=1"))

	jobs, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).List(s.Ctx, metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, jobs.Items, 1, "no Job was created")
	reviews, err := s.Muster.MusterV1alpha1().StartReviews(s.Namespace).List(s.Ctx, metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, reviews.Items)
}

// askWithoutTheRight asks as a user who may create Jobs only.
func askWithoutTheRight(s *harness.Story, ask []string) {
	t, user := s.T, "asks-"+s.Namespace
	_, err := s.Kube.RbacV1().Roles(s.Namespace).Create(s.Ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"batch.volcano.sh"}, Resources: []string{"jobs"}, Verbs: []string{"create"}}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = s.Kube.RbacV1().RoleBindings(s.Namespace).Create(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(collect *assert.CollectT) { // roles are known a moment later
		forbidden := called(s, "muster", append(ask, "-n", s.Namespace, "--as", user)...)
		assert.Equal(collect, 1, forbidden.code)
		assert.Contains(collect, forbidden.err, "user "+user+" may not create startreviews.muster.sh in the namespace")
	}, limit, time.Second)
}

// TestWhenAPhJobWouldStart in a group with two processors, of which another PhJob uses one.
func TestWhenAPhJobWouldStart(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "64", "memory", "64Gi")
	queue := mustertesting.MakeQueue(s.Namespace).Capability("cpu", "2").Obj()
	queue.Labels = map[string]string{primehubv1alpha1.GroupIDLabel: s.Namespace}
	_, err := s.Muster.SchedulingV1beta1().Queues().Create(s.Ctx, queue, metav1.CreateOptions{})
	require.NoError(t, err)
	for name, cpus := range map[string]float64{"small": 1, "large": 2, "huge": 3} {
		_, err := s.Muster.PrimehubV1alpha1().InstanceTypes(s.Namespace).Create(s.Ctx, &primehubv1alpha1.InstanceType{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: primehubv1alpha1.InstanceTypeSpec{LimitsCPU: cpus, LimitsMemory: "1Gi"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	_, err = s.Muster.PrimehubV1alpha1().Images(s.Namespace).Create(s.Ctx, &primehubv1alpha1.Image{
		ObjectMeta: metav1.ObjectMeta{Name: "base"}, Spec: primehubv1alpha1.ImageSpec{URL: "registry/base"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	runs := s.CreateJob(mustertesting.MakeJob("runs").Queue(s.Namespace).Annotation(schedulingv1beta1.RunningEstimateAnnotation, "1h").
		Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "1")))
	s.JobPhase(runs, batchv1alpha1.Running)

	ask := func(kind string) []string {
		return []string{"phjob", "run", "train", "-n", s.Namespace, "--user", "ada", "--group", s.Namespace, "--instance-type", kind, "--image", "base", "--what-if", "--", "true"}
	}
	said := func(kind string) string {
		got := called(s, "muster", ask(kind)...) // what stands behind -- is no flag
		require.Zero(t, got.code, got.err)
		return got.out
	}
	assert.Regexp(t, `^phjob train: it would start at once.*; on 1 node\n$`, said("small"))
	assert.Regexp(t, `^phjob train: expected to start about .*, when runs ends; that is in (59|60)m`, said("large"))
	assert.Contains(t, said("huge"), "phjob train: it would never start: its minimum can never fit queue")
	missing := called(s, "muster", ask("none")...)
	assert.Equal(t, 1, missing.code)
	assert.Contains(t, missing.err, `instancetypes.primehub.io "none" not found`)
	jobs, err := s.Muster.PrimehubV1alpha1().PhJobs(s.Namespace).List(s.Ctx, metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, jobs.Items)
	assert.Contains(t, called(s, "muster", "__complete", "phjob", "run", "-n", s.Namespace, "--instance-type", "sm").out, "small\n")
}
