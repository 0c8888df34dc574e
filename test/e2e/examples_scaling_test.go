package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// scale changes the replicas of a Job's first task, and its minimums if minimum is not negative.
func scale(replicas, minimum int32) change {
	return func(job *batchv1alpha1.Job) {
		job.Spec.Tasks[0].Replicas = replicas
		if minimum >= 0 {
			job.Spec.MinAvailable = minimum
			job.Spec.Tasks[0].MinAvailable = &minimum
		}
	}
}

// elastic is a training Job that can do with fewer workers than it would like.
func elastic(replicas, minimum int32) *mustertesting.JobWrapper {
	return mustertesting.MakeJob("elastic").MinAvailable(minimum).Plugin("svc").
		Task(mustertesting.MakeTask("worker", replicas).MinAvailable(minimum))
}

// TestExampleOfScaling: an elastic training Job grows, shrinks, stops for a while and goes on. Any eviction would restart it.
func TestExampleOfScaling(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	slots(s, "110")
	job := s.CreateJob(elastic(3, 2).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction))
	s.JobPhase(job, batchv1alpha1.Running)
	first := s.Pods(3, "three run", s.In(harness.Running))
	expectHosts(s, 3)
	expectMinMember(s, job, 2)

	require.NoError(t, s.EditJob(job, scale(5, 4)))
	second := s.Pods(5, "five run", s.In(harness.Running))
	expectHosts(s, 5)
	expectMinMember(s, job, 4)
	expectSame(t, first, second)
	for _, pod := range second {
		expectPeers(t, s, pod.Name)
	}

	require.NoError(t, s.EditJob(job, scale(2, 1)))
	third := s.Pods(2, "two run", s.In(harness.Running))
	expectHosts(s, 2)
	expectMinMember(s, job, 1)
	expectSame(t, third, first) // the lower indexes stay

	require.NoError(t, s.EditJob(job, scale(0, 0)))
	s.Pods(0, "all pods are gone", s.In(func(p watchlog.Pod) bool { return p.Gone.IsZero() }))
	expectHosts(s, 0)
	expectMinMember(s, job, 0)
	s.Stays("the Job does not end", func() bool { return s.Log.Job(job).Phase == batchv1alpha1.Running }, func() any { return s.Log.JobStates(job) })

	require.NoError(t, s.EditJob(job, scale(4, 4)))
	s.Pods(4, "four run", s.In(harness.Running))
	s.JobPhase(job, batchv1alpha1.Running)
	expectHosts(s, 4)
	expectMinMember(s, job, 4)
	assert.Zero(t, s.Job(job).Status.RetryCount, "scaling is no eviction")
	require.Empty(t, watchlog.StatusViolations(s.Log.JobStates(job)))
}

// expectSame checks that the earlier pods are among the present ones.
func expectSame(t testing.TB, were, are []watchlog.Pod) {
	t.Helper()
	uids := map[string]types.UID{}
	for _, pod := range are {
		uids[pod.Name] = pod.UID
	}
	for _, pod := range were {
		assert.Equal(t, pod.UID, uids[pod.Name], "%s runs on", pod.Name)
	}
}

// expectMinMember waits until the PodGroup of a Job has a minimum.
func expectMinMember(s *harness.Story, job types.NamespacedName, minimum int32) {
	s.T.Helper()
	s.Soon("the PodGroup follows", func() bool { return s.GroupOf(job).Spec.MinMember == minimum }, func() any { return s.GroupOf(job).Spec })
}

// expectHosts waits until the files in /etc/volcano have that many hosts, the ones of the lowest indexes.
func expectHosts(s *harness.Story, count int) {
	s.T.Helper()
	var want []string
	for i := range count {
		want = append(want, fmt.Sprintf("elastic-worker-%d.elastic", i))
	}
	data := map[string]string{
		"worker.host":     strings.Join(want, "\n"),
		"VC_WORKER_HOSTS": strings.Join(want, ","),
		"VC_WORKER_NUM":   strconv.Itoa(count),
	}
	hosts := func() map[string]string {
		config, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Get(s.Ctx, "elastic-svc", metav1.GetOptions{})
		if err != nil {
			return map[string]string{"error": err.Error()}
		}
		return config.Data
	}
	s.Soon("the hosts follow", func() bool { return assert.ObjectsAreEqual(data, hosts()) }, func() any { return hosts() })
}

// expectPeers checks that a pod has what the plugin svc gives it: its name, the files and the variables.
func expectPeers(t *testing.T, s *harness.Story, name string) {
	t.Helper()
	pod := s.Pod(name)
	assert.Equal(t, name, pod.Spec.Hostname)
	assert.Equal(t, "elastic", pod.Spec.Subdomain)
	volumes := map[string]string{}
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap != nil {
			volumes[volume.Name] = volume.ConfigMap.Name
		}
	}
	mounts := map[string]string{}
	for _, mount := range pod.Spec.Containers[0].VolumeMounts {
		mounts[mount.MountPath] = volumes[mount.Name]
	}
	assert.Equal(t, "elastic-svc", mounts["/etc/volcano"], "the ConfigMap that %s has mounted", name)
	sources := map[string]corev1.ConfigMapKeySelector{}
	for _, variable := range pod.Spec.Containers[0].Env {
		if variable.ValueFrom != nil && variable.ValueFrom.ConfigMapKeyRef != nil {
			sources[variable.Name] = *variable.ValueFrom.ConfigMapKeyRef
		}
	}
	for _, key := range []string{"VC_WORKER_HOSTS", "VC_WORKER_NUM"} {
		assert.Equal(t, "elastic-svc", sources[key].Name, "%s has the variable %s", name, key)
		assert.Equal(t, key, sources[key].Key)
	}
}

// TestExampleOfScalingWithLittleRoom: pods without room wait, and running pods are left alone. Each new pod beyond the minimum starts if it
// has room; pods within the minimum start together. While the rest of a gang waits it is Unknown, which the policy here does not answer.
func TestExampleOfScalingWithLittleRoom(t *testing.T) {
	t.Parallel()
	grown := func(t *testing.T, room string, minimum int32) (*harness.Story, types.NamespacedName, []watchlog.Pod) {
		t.Parallel()
		s := harness.New(t)
		slots(s, room)
		job := s.CreateJob(elastic(3, 2).Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartJobAction))
		s.JobPhase(job, batchv1alpha1.Running)
		before := s.Pods(3, "three run", s.In(harness.Running))
		require.NoError(t, s.EditJob(job, scale(6, minimum)))
		return s, job, before
	}
	expectWhole := func(s *harness.Story, job types.NamespacedName, before []watchlog.Pod) {
		after := s.Pods(6, "six run", s.In(harness.Running))
		s.JobPhase(job, batchv1alpha1.Running)
		expectSame(s.T, before, after)
		assert.Zero(s.T, s.Job(job).Status.RetryCount)
		require.Empty(s.T, watchlog.StatusViolations(s.Log.JobStates(job)))
	}
	t.Run("beyond the minimum", func(t *testing.T) {
		s, job, before := grown(t, "4", 2)
		s.Pods(4, "there is room for four", s.In(harness.Running))
		s.PodsStay(2, "two wait", s.In(harness.Unbound))
		s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running)
		expectMinMember(s, job, 2)
		slots(s, "2")
		expectWhole(s, job, before)
	})
	t.Run("with the minimum", func(t *testing.T) {
		// There is room for one of the three. It must not start even if the scheduler hears of it before the new minimum.
		s, job, before := grown(t, "4", 6)
		s.Pods(3, "three wait", s.In(harness.Unbound))
		s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Pending)
		expectMinMember(s, job, 6)
		s.PodsStay(3, "three wait", s.In(harness.Unbound))
		slots(s, "1")
		s.PodsStay(3, "room for two of three is not enough", s.In(harness.Unbound))
		slots(s, "1")
		expectWhole(s, job, before)
	})
}

// TestExampleOfScalingWithAClaim: the claim of a Job stays as it is, and new pods mount it.
func TestExampleOfScalingWithAClaim(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	slots(s, "110")
	job := s.CreateJob(elastic(2, 1).Volume(ownClaim(s)).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction))
	s.Pods(2, "two run", s.In(harness.Running))
	s.JobPhase(job, batchv1alpha1.Running)
	type claim struct {
		name   string
		uid    types.UID
		owners []metav1.OwnerReference
		spec   corev1.PersistentVolumeClaimSpec
		phase  corev1.PersistentVolumeClaimPhase
	}
	claims := func() (all []claim) {
		for _, one := range claimsOf(s) {
			all = append(all, claim{one.Name, one.UID, one.OwnerReferences, one.Spec, one.Status.Phase})
		}
		return all
	}
	before, volumes := claims(), s.Job(job).Spec.Volumes
	require.Len(t, before, 1)
	require.Equal(t, corev1.ClaimBound, before[0].phase)
	for _, replicas := range []int32{4, 1, 0, 3} {
		require.NoError(t, s.EditJob(job, scale(replicas, min(replicas, 1))))
		pods := s.Pods(int(replicas), "as many run as are asked for", s.In(harness.Running))
		assert.Equal(t, before, claims(), "with %d replicas", replicas)
		assert.Equal(t, volumes, s.Job(job).Spec.Volumes)
		for _, pod := range pods {
			assert.Equal(t, before[0].name, mountedAt(s.Pod(pod.Name), "/out"), "what %s has at /out", pod.Name)
		}
	}
	assert.Zero(t, s.Job(job).Status.RetryCount)
}

// mountedAt is the claim that the first container of a pod has mounted at a path.
func mountedAt(pod *corev1.Pod, path string) string {
	for _, mount := range pod.Spec.Containers[0].VolumeMounts {
		for _, volume := range pod.Spec.Volumes {
			if mount.MountPath == path && mount.Name == volume.Name && volume.PersistentVolumeClaim != nil {
				return volume.PersistentVolumeClaim.ClaimName
			}
		}
	}
	return ""
}

// TestExampleOfWhatMayNotScale: replicas and minimums of a running Job may change, while they fit together. Any other change is refused,
// and the Job runs on.
func TestExampleOfWhatMayNotScale(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	slots(s, "110")
	name := s.CreateJob(mustertesting.MakeJob("elastic").MinAvailable(4).Plugin("svc").
		Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("worker", 5).MinAvailable(1)))
	s.JobPhase(name, batchv1alpha1.Running)
	before := s.Pods(5, "all run", s.In(harness.Running))
	job := s.Job(name)

	// The API server learns of its policies a moment after they are stored.
	s.Soon("fixed fields are guarded", func() bool {
		changed := s.Job(name)
		changed.Spec.Queue = "other"
		_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Update(s.Ctx, changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(err)
	}, func() any { return "changes are stored" })

	const (
		total = "job 'minAvailable' should not be greater than total replicas in tasks"
		tasks = "job updates may not add or remove tasks"
		fixed = " immutable: job updates may not change fields other than"
	)
	for what, c := range map[string]struct {
		change change
		says   string
	}{
		"fewer replicas than the minimum": {scale(3, -1), total},
		"a minimum above the replicas":    {func(job *batchv1alpha1.Job) { job.Spec.MinAvailable = 6 }, total},
		"a minimum below zero":            {func(job *batchv1alpha1.Job) { job.Spec.MinAvailable = -1 }, "should be greater than or equal to 0"},
		"a task's minimum above its replicas": {func(job *batchv1alpha1.Job) { *job.Spec.Tasks[0].MinAvailable = 6 },
			"'minAvailable' is greater than 'replicas' in task: worker"},
		"one task more": {func(job *batchv1alpha1.Job) {
			job.Spec.Tasks = append(job.Spec.Tasks, *mustertesting.MakeTask("more", 1).Obj())
		}, tasks},
		"another image": {func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].Template.Spec.Containers[0].Image = "other" },
			"spec.tasks[*].template is" + fixed},
		"another policy": {func(job *batchv1alpha1.Job) { job.Spec.Policies[0].Action = busv1alpha1.AbortJobAction },
			"spec.policies is" + fixed},
		"a policy of a task": {func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].Policies = job.Spec.Policies },
			"spec.tasks[*].policies is" + fixed},
		"another queue":     {func(job *batchv1alpha1.Job) { job.Spec.Queue = "other" }, "spec.queue is" + fixed},
		"another scheduler": {func(job *batchv1alpha1.Job) { job.Spec.SchedulerName = "volcano" }, "spec.schedulerName is" + fixed},
		"more runs":         {func(job *batchv1alpha1.Job) { job.Spec.MaxRetry = 9 }, "spec.maxRetry is" + fixed},
		"no plugin":         {func(job *batchv1alpha1.Job) { job.Spec.Plugins = nil }, "spec.plugins is" + fixed},
		"a volume":          {func(job *batchv1alpha1.Job) { job.Spec.Volumes = []batchv1alpha1.VolumeSpec{{MountPath: "/out"}} }, "spec.volumes is" + fixed},
		"a task that waits": {func(job *batchv1alpha1.Job) {
			job.Spec.Tasks[0].DependsOn = &batchv1alpha1.DependsOn{Name: []string{"worker"}}
		}, "spec.tasks[*].dependsOn is" + fixed},
		"an image, at scale": {func(job *batchv1alpha1.Job) {
			scale(6, 4)(job)
			job.Spec.Tasks[0].Template.Spec.Containers[0].Image = "other"
		}, "spec.tasks[*].template is" + fixed},
	} {
		require.ErrorContains(t, s.EditJob(name, c.change), c.says, what)
	}
	assert.Equal(t, job.Spec, s.Job(name).Spec)
	s.PodsStay(5, "all run on", s.In(harness.Running))
	expectSame(t, before, s.Log.Pods(s.In(harness.Running)))
	require.NoError(t, s.EditJob(name, scale(4, -1)), "as many as the minimum are allowed")
	expectSame(t, s.Pods(4, "four run", s.In(harness.Running)), before)
}

// TestExampleOfJobUpdated: with a policy for JobUpdated, scaling starts all pods anew, and counts as a run.
func TestExampleOfJobUpdated(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	slots(s, "110")
	job := s.CreateJob(mustertesting.MakeJob("elastic").MinAvailable(1).Plugin("svc").
		Policy(busv1alpha1.JobUpdatedEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("worker", 3)))
	s.JobPhase(job, batchv1alpha1.Running)
	before := s.Pods(3, "three run", s.In(harness.Running))

	require.NoError(t, s.EditJob(job, func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].Replicas = 5 }))
	s.JobPhases(job, restarted...)
	after := s.Pods(5, "five run", s.In(harness.Running, func(p watchlog.Pod) bool { return p.Version == "1" }))
	for _, pod := range before {
		assert.NotEqual(t, pod.UID, s.Pod(pod.Name).UID, "%s is a new pod", pod.Name)
	}
	s.Pods(5, "and no others", s.In(harness.Running))
	assert.Len(t, s.Log.PodsOf(job), len(before)+len(after), "no pod was made that the restart took away")
	expectHosts(s, 5)
	status := s.Job(job).Status
	assert.EqualValues(t, 1, status.RetryCount)
	var reasons []string
	for _, condition := range status.Conditions {
		if condition.Status == batchv1alpha1.Restarting {
			reasons = append(reasons, condition.Reason)
			assert.Equal(t, "the spec was changed; spec.policies[0]: RestartJob", condition.Message)
		}
	}
	assert.Equal(t, []string{string(busv1alpha1.JobUpdatedEvent)}, reasons)
	s.WholeGangs(s.Namespace, window)
}
