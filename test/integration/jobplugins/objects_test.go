package jobplugins_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// team is a Job of two workers that find each other and log in to each other.
func team() *mustertesting.JobWrapper {
	return mustertesting.MakeJob("j").Plugin("svc").Plugin("ssh").Plugin("env").Task(mustertesting.MakeTask("w", 2))
}

func TestObjectsAreThereBeforeThePodsThatNeedThem(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(team())
	o := s.awaitOwned("j")
	for _, object := range []metav1.Object{o.service, o.hosts, o.secret, o.policy} {
		assert.True(t, metav1.IsControlledBy(object, job), object.GetName())
		assert.Equal(t, map[string]string{"volcano.sh/job-name": "j", "volcano.sh/job-namespace": s.namespace}, object.GetLabels())
	}
	assert.Equal(t, "None", o.service.Spec.ClusterIP)
	assert.Equal(t, "j-w-0.j\nj-w-1.j", o.hosts.Data["w.host"])
	assert.Contains(t, string(o.secret.Data["config"]), "Host j-w-1\n")

	s.admit(job)
	pod := s.pod("j-w-1")
	assert.Equal(t, "j-w-1", pod.Spec.Hostname)
	assert.Equal(t, "j", pod.Spec.Subdomain)
	env := map[string]string{}
	for _, v := range pod.Spec.Containers[0].Env {
		env[v.Name] = v.Value
	}
	assert.Equal(t, "1", env["VC_TASK_INDEX"])
	assert.Contains(t, env, "VC_W_HOSTS")
	s.expectControlled("j", map[string]string{"plugin-svc": "svc", "plugin-ssh": "ssh", "plugin-env": "env"})
}

// TestRestartsLeaveTheObjectsAlone: restarts of pods, of tasks and of the whole Job, suspended and resumed, also by another controller.
func TestRestartsLeaveTheObjectsAlone(t *testing.T) {
	s := newStage(t)
	job := s.apply(team().MaxRetry(10).
		LifecyclePolicy(batchv1alpha1.LifecyclePolicy{ExitCode: ptr.To[int32](1), Action: busv1alpha1.RestartPodAction}).
		LifecyclePolicy(batchv1alpha1.LifecyclePolicy{ExitCode: ptr.To[int32](2), Action: busv1alpha1.RestartTaskAction}).
		LifecyclePolicy(batchv1alpha1.LifecyclePolicy{ExitCode: ptr.To[int32](3), Action: busv1alpha1.RestartJobAction}))
	before := s.awaitOwned("j")
	s.admit(job)
	s.run("j-w-0", "j-w-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	for _, c := range []struct {
		exitCode int32
		restarts []string
	}{{1, []string{"j-w-0"}}, {2, []string{"j-w-0", "j-w-1"}}, {3, []string{"j-w-0", "j-w-1"}}} {
		s.end("j-w-0", c.exitCode)
		s.reap(len(c.restarts) - 1) // the failed one goes at once
		s.run(c.restarts...)
		s.JobPhase(s.name("j"), batchv1alpha1.Running)
		assert.Equal(t, before, s.owned("j"), "after exit code %d: not one write", c.exitCode)
	}
	whileDown(func() {})
	s.edit("j", func(j *batchv1alpha1.Job) { j.Spec.Suspend = ptr.To(true) })
	s.reap(2)
	s.JobPhase(s.name("j"), batchv1alpha1.Aborted)
	assert.Equal(t, before, s.owned("j"), "aborted")
	s.edit("j", func(j *batchv1alpha1.Job) { j.Spec.Suspend = nil })
	s.admit(job)
	s.run("j-w-0", "j-w-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	assert.Equal(t, before, s.owned("j"), "resumed")
}

func TestObjectsGoWhenTheJobHasEnded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(team())
	s.admit(job)
	s.run("j-w-0", "j-w-1")
	s.end("j-w-0", 0)
	assert.True(t, s.owned("j").isWhole(), "one pod still runs")
	s.end("j-w-1", 0)
	s.JobPhase(s.name("j"), batchv1alpha1.Completed)
	s.poll("the objects are gone", func(context.Context) bool { return s.owned("j").isEmpty() })
}

func TestObjectsThatUsersDeleteOrChangeAreMadeAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.apply(team())
	before := s.awaitOwned("j")
	require.NoError(t, kube.CoreV1().Services(s.namespace).Delete(t.Context(), "j", metav1.DeleteOptions{}))
	s.poll("another Service", func(context.Context) bool {
		o := s.owned("j")
		return o.service != nil && o.service.UID != before.service.UID
	})
	changed := before.hosts.DeepCopy()
	changed.Data["w.host"] = "nobody"
	changed.Labels = nil
	_, err := kube.CoreV1().ConfigMaps(s.namespace).Update(t.Context(), changed, metav1.UpdateOptions{})
	require.NoError(t, err)
	s.poll("the hosts again", func(context.Context) bool {
		o := s.owned("j")
		return assert.ObjectsAreEqual(before.hosts.Data, o.hosts.Data) && o.hosts.Labels["volcano.sh/job-name"] == "j"
	})
	// A RoleBinding is made again, too: without it the Secret could not be read.
	bindings := kube.RbacV1().RoleBindings(s.namespace)
	require.NoError(t, bindings.Delete(t.Context(), "j-ssh", metav1.DeleteOptions{}))
	s.poll("another RoleBinding", func(ctx context.Context) bool {
		_, err := bindings.Get(ctx, "j-ssh", metav1.GetOptions{})
		return err == nil
	})
}

// TestAChangedSecretIsRepairedBeforePodsAreCreated: it keeps its key. The controller does not watch Secrets.
func TestAChangedSecretIsRepairedBeforePodsAreCreated(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(team())
	before := s.awaitOwned("j")
	changed := before.secret.DeepCopy()
	changed.Labels = nil
	delete(changed.Data, "config")
	_, err := kube.CoreV1().Secrets(s.namespace).Update(t.Context(), changed, metav1.UpdateOptions{})
	require.NoError(t, err)
	s.admit(job)
	s.pod("j-w-0")
	o := s.owned("j")
	assert.Equal(t, before.secret.UID, o.secret.UID)
	assert.Equal(t, before.secret.Data, o.secret.Data)
}

func TestAnObjectOfAnotherOwnerIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "j-ssh"}, StringData: map[string]string{"id_rsa": "mine"}}
	_, err := kube.CoreV1().Secrets(s.namespace).Create(t.Context(), mine, metav1.CreateOptions{})
	require.NoError(t, err)
	job := s.apply(team())
	s.admit(job)
	state := s.JobReason(s.name("j"), "PluginObjectNameTaken")
	assert.Contains(t, state.Message, "secrets j-ssh")
	s.Event("Job", s.name("j"), func(e watchlog.Event) bool {
		return e.Reason == "PluginObjectNameTaken" && strings.Contains(e.Message, "secrets j-ssh")
	})
	s.PodsStay(0, "no pod is created", s.in())
	assert.Equal(t, "mine", string(s.owned("j").secret.Data["id_rsa"]))

	require.NoError(t, kube.CoreV1().Secrets(s.namespace).Delete(t.Context(), "j-ssh", metav1.DeleteOptions{}))
	s.pod("j-w-0")
	assert.Contains(t, string(s.awaitOwned("j").secret.Data["id_rsa"]), "PRIVATE KEY")
}

// TestNotesAreEvents: arguments that a plugin does not know are tolerated, and people are told once.
func TestNotesAreEvents(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Plugin("ssh", "--no-root").Task(mustertesting.MakeTask("w", 1)))
	s.Event("Job", s.name("j"), func(e watchlog.Event) bool {
		return e.Reason == "PluginArgumentIgnored" && strings.Contains(e.Message, "--no-root") && e.Type == corev1.EventTypeWarning
	})
	s.admit(job)
	s.pod("j-w-0")
}

// TestAJobThatGrowsBeyondItsPlugins keeps what it has and says why it grows no further.
func TestAJobThatGrowsBeyondItsPlugins(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	long := strings.Repeat("j", 48)
	job := s.apply(mustertesting.MakeJob(long).MinAvailable(1).Plugin("svc").Task(mustertesting.MakeTask("w", 1)))
	s.admit(job)
	s.run(long + "-w-0")
	s.JobPhase(s.name(long), batchv1alpha1.Running)
	s.edit(long, func(j *batchv1alpha1.Job) { j.Spec.Tasks[0].Replicas = 12000 })
	state := s.JobReason(s.name(long), "PluginError")
	assert.Contains(t, state.Message, "lower the replicas")
	assert.Equal(t, batchv1alpha1.Running, state.Phase)
	s.Event("Job", s.name(long), func(e watchlog.Event) bool { return e.Reason == "PluginError" })
	s.PodsStay(1, "no pod is created, and none goes", s.in())

	s.edit(long, func(j *batchv1alpha1.Job) { j.Spec.Tasks[0].Replicas = 2 })
	s.pod(long + "-w-1")
}

// in tells which pods of the test exist and are not going.
func (s *stage) in() func(watchlog.Pod) bool {
	return func(p watchlog.Pod) bool {
		return p.Namespace == s.namespace && p.Gone.IsZero() && p.Deleting.IsZero()
	}
}

// TestHostsAreWrittenBeforeTheStatusThatShowsTheirNumber (issue 40, 11): a Job is scaled to zero and up again. With each status, the list
// of hosts of that resource version has as many as the status shows.
func TestHostsAreWrittenBeforeTheStatusThatShowsTheirNumber(t *testing.T) {
	s := newStage(t)
	job := s.apply(team())
	before := s.awaitOwned("j")
	s.admit(job)
	s.run("j-w-0", "j-w-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)

	from := metav1.ListOptions{ResourceVersion: before.hosts.ResourceVersion, FieldSelector: "metadata.name=j-svc"}
	configMaps, err := kube.CoreV1().ConfigMaps(s.namespace).Watch(t.Context(), from)
	require.NoError(t, err)
	defer configMaps.Stop()
	from.FieldSelector = "metadata.name=j"
	jobs, err := muster.BatchV1alpha1().Jobs(s.namespace).Watch(t.Context(), from)
	require.NoError(t, err)
	defer jobs.Stop()

	sizes := []int32{0, 4, 1, 0, 3}
	for _, n := range sizes {
		s.edit("j", func(j *batchv1alpha1.Job) {
			j.Spec.Tasks[0].Replicas, j.Spec.MinAvailable = n, n
			j.Spec.Tasks[0].MinAvailable = nil
		})
		s.poll("the status has the new size", func(context.Context) bool { return s.get("j").Status.MinAvailable == n })
	}
	last := version(t, s.get("j"))
	lists := map[uint64]int{version(t, before.hosts): 2} // resource version of the list -> its hosts
	for len(lists) < 1+len(sizes) {
		list := next[*corev1.ConfigMap](t, configMaps)
		lists[version(t, list)] = len(strings.Fields(list.Data["w.host"]))
	}
	hostsAt := func(at uint64) int {
		newest := uint64(0)
		for v := range lists {
			if v <= at {
				newest = max(newest, v)
			}
		}
		return lists[newest]
	}
	shown := int32(-1)
	for at := uint64(0); at < last; {
		state := next[*batchv1alpha1.Job](t, jobs)
		if at = version(t, state); state.Status.MinAvailable != shown && at > version(t, before.hosts) {
			shown = state.Status.MinAvailable
			assert.EqualValues(t, shown, hostsAt(at), "the hosts with the first status that shows %d", shown)
		}
	}
	assert.Equal(t, sizes[len(sizes)-1], shown)
}

// version is the resource version of an object.
func version(t *testing.T, object metav1.Object) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	require.NoError(t, err)
	return v
}

// next waits for the next object of a watch.
func next[T any](t *testing.T, w watch.Interface) T {
	t.Helper()
	select {
	case event := <-w.ResultChan():
		object, isObject := event.Object.(T)
		require.True(t, isObject, "%v", event)
		return object
	case <-time.After(mustertesting.Timeout):
		require.Fail(t, "the watch delivers nothing more")
		panic("unreachable")
	}
}
