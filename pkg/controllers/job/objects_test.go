package job

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/job/defaults"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestNewPodIsWhatClientsExpect(t *testing.T) {
	job := mustertesting.MakeJob("j").Namespace("ns").UID("u").Queue("q").PriorityClass("high").
		Label(batchv1alpha1.PodPreemptableKey, "true").Label("mine", "x").
		Annotation(batchv1alpha1.PodPreemptableKey, "true").Annotation(batchv1alpha1.JDBMaxUnavailableKey, "1").
		Annotation(batchv1alpha1.RevocableZoneKey, "z").
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/scratch"}).
		Status(batchv1alpha1.JobStatus{Version: 2, RetryCount: 3, PodGeneration: 7}).
		Task(mustertesting.MakeTask("a", 2).Label("role", "ps").Annotation("note", "y")).Obj()
	job.Spec.Tasks[0].TopologyPolicy = "best-effort"
	job.Spec.Tasks[0].Template.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i"}}
	job.Spec.Tasks[0].Template.Finalizers = []string{"not/copied"}
	filled := defaults.Job(job, "volcano")
	pod := newPod(filled, &filled.Spec.Tasks[0], 1)

	assert.Equal(t, "ns/j-a-1", pod.Namespace+"/"+pod.Name)
	assert.Equal(t, map[string]string{
		"role": "ps", "volcano.sh/task-index": "1", "volcano.sh/task-spec": "a", "volcano.sh/job-name": "j",
		"volcano.sh/job-namespace": "ns", "volcano.sh/queue-name": "q", "volcano.sh/preemptable": "true",
	}, pod.Labels)
	assert.Equal(t, map[string]string{
		"note": "y", "volcano.sh/task-index": "1", "volcano.sh/task-spec": "a", "volcano.sh/job-name": "j",
		"volcano.sh/queue-name": "q", "volcano.sh/job-version": "2", "volcano.sh/job-retry-count": "3", "muster.sh/pod-generation": "7",
		"volcano.sh/template-uid": "j-a", "scheduling.k8s.io/group-name": "j-u", "volcano.sh/preemptable": "true",
		"volcano.sh/jdb-max-unavailable": "1", "volcano.sh/revocable-zone": "z", "volcano.sh/numa-topology-policy": "best-effort",
	}, pod.Annotations)
	require.Len(t, pod.OwnerReferences, 1)
	assert.True(t, *pod.OwnerReferences[0].Controller && *pod.OwnerReferences[0].BlockOwnerDeletion)
	assert.Equal(t, "volcano", pod.Spec.SchedulerName)
	assert.Equal(t, "high", pod.Spec.PriorityClassName)
	assert.Empty(t, pod.Finalizers)
	assert.Equal(t, "/scratch", pod.Spec.Containers[0].VolumeMounts[0].MountPath)
	assert.Equal(t, pod.Spec.Volumes[0].Name, pod.Spec.InitContainers[0].VolumeMounts[0].Name)
	assert.NotNil(t, pod.Spec.Volumes[0].EmptyDir)
	assert.Empty(t, job.Spec.Tasks[0].Template.Spec.Volumes, "the Job is left alone")
}

// TestAPodNamesThePodGroupThatWasChangedForIt: only then might the scheduler know it as it was before; all other pods say nothing.
func TestAPodNamesThePodGroupThatWasChangedForIt(t *testing.T) {
	job := defaults.Job(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Obj(), "")
	group := mustertesting.MakePodGroup("g").Obj()
	group.ResourceVersion, group.Generation = "17", 1
	pod := newPod(job, &job.Spec.Tasks[0], 0)
	pod.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation] = "99" // of the template
	tie(pod, group)
	assert.NotContains(t, pod.Annotations, schedulingv1beta1.GroupResourceVersionAnnotation)
	group.Generation = 2
	tie(pod, group)
	assert.Equal(t, "17", pod.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation])
}

func TestTemplateGoesBeforeJob(t *testing.T) {
	job := defaults.Job(mustertesting.MakeJob("j").PriorityClass("low").SchedulerName("volcano").
		Task(mustertesting.MakeTask("a", 1).PriorityClass("high").SchedulerName("other")).Obj(), "")
	pod := newPod(job, &job.Spec.Tasks[0], 0)
	assert.Equal(t, "high", pod.Spec.PriorityClassName)
	assert.Equal(t, "other", pod.Spec.SchedulerName)
}

// TestMinResources has the vectors that Volcano's own behaviour gives.
func TestMinResources(t *testing.T) {
	job := func(least, minA, minB int32) *batchv1alpha1.JobSpec {
		return &defaults.Job(mustertesting.MakeJob("j").MinAvailable(least).
			Task(mustertesting.MakeTask("b", 2).MinAvailable(minB).Requests("cpu", "100m").PriorityClass("low")).
			Task(mustertesting.MakeTask("a", 2).MinAvailable(minA).Requests("cpu", "50m").PriorityClass("high")).Obj(), "").Spec
	}
	priorities := func(class string) int32 { return map[string]int32{"low": 1, "high": 2}[class] }
	for _, c := range []struct {
		min, minA, minB int32
		want            string
	}{{2, 2, 1, "100m"}, {3, 1, 1, "200m"}, {3, 1, 2, "250m"}, {2, 1, 1, "150m"}, {4, 1, 1, "300m"}} {
		got := minResources(job(c.min, c.minA, c.minB), priorities, additions{})
		assert.Equal(t, c.want, got.Cpu().String(), "%+v", c)
		assert.Equal(t, int64(c.min), got.Pods().Value())
	}
}

// TestMinResourcesOfHugeRequestsEndAtTheBound: products do not wrap, and the PodGroup takes the numbers and is not admitted.
func TestMinResourcesOfHugeRequestsEndAtTheBound(t *testing.T) {
	for _, quantity := range []string{"8Ei", "10E", "10000000000000000", "1e999", "5Pi"} {
		spec := &defaults.Job(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1000).Requests("cpu", quantity, "memory", quantity)).
			Task(mustertesting.MakeTask("b", 1000).Requests("memory", quantity)).Obj(), "").Spec
		got := minResources(spec, func(string) int32 { return 0 }, additions{})
		for _, name := range []corev1.ResourceName{"cpu", "memory", "requests.memory"} {
			amount := got[name]
			assert.Equal(t, "4Ei", amount.String(), "%s of %s", quantity, name)
		}
		group := &schedulingv1beta1.PodGroup{Spec: schedulingv1beta1.PodGroupSpec{MinResources: &got}}
		assert.Error(t, usage.MinimumOf(group).Validate(), quantity)
	}
}

func TestMinResourcesInTheNamesOfAQuota(t *testing.T) {
	task := mustertesting.MakeTask("a", 2)
	spec := &defaults.Job(mustertesting.MakeJob("j").Task(task).Obj(), "").Spec
	spec.Tasks[0].Template.Spec.Containers[0].Resources.Limits = mustertesting.Resources("cpu", "2", "memory", "1Gi", "nvidia.com/gpu", "4")
	got := map[string]string{}
	for name, amount := range minResources(spec, func(string) int32 { return 0 }, additions{}) {
		got[string(name)] = amount.String()
	}
	assert.Equal(t, map[string]string{
		"cpu": "4", "requests.cpu": "4", "limits.cpu": "4", "memory": "2Gi", "requests.memory": "2Gi", "limits.memory": "2Gi",
		"nvidia.com/gpu": "8", "requests.nvidia.com/gpu": "8", "pods": "2", "count/pods": "2",
	}, got, "limits are requests where there are none")
}

func TestGroupFollowsTheJob(t *testing.T) {
	job := defaults.Job(mustertesting.MakeJob("j").UID("u").Queue("q").PriorityClass("high").MinAvailable(3).Label("l", "1").
		Annotation("a", "2").Annotation(corev1.LastAppliedConfigAnnotation, "{}").
		Task(mustertesting.MakeTask("ps", 1)).Task(mustertesting.MakeTask("w", 4).MinAvailable(2)).Obj(), "")
	group := newGroup(job, func(string) int32 { return 0 }, additions{})
	assert.Equal(t, "j-u", group.Name)
	assert.Equal(t, int32(3), group.Spec.MinMember)
	assert.Equal(t, map[string]int32{"ps": 1, "w": 2}, group.Spec.MinTaskMember)
	assert.Equal(t, "q", group.Spec.Queue)
	assert.Equal(t, "high", group.Spec.PriorityClassName)
	assert.Equal(t, map[string]string{"l": "1"}, group.Labels)
	assert.Equal(t, map[string]string{"a": "2"}, group.Annotations)
}

// TestOnlyTheNotesOfTheSpecAreRemembered: however often it is changed. A note of it is given once.
func TestOnlyTheNotesOfTheSpecAreRemembered(t *testing.T) {
	recorder := record.NewFakeRecorder(100)
	c := &Controller{recorder: recorder}
	ps := &pluginState{}
	for generation := range int64(20) {
		job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Obj()
		for range generation / 2 {
			job.Spec.Policies = append(job.Spec.Policies, batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodFailedEvent, Action: busv1alpha1.AbortJobAction})
		}
		job.Spec.Policies = append(job.Spec.Policies, // where nothing is to be resumed
			batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodFailedEvent, Action: busv1alpha1.ResumeJobAction})
		job.Generation = 1 + generation
		ps.load(job)
		require.NotEmpty(t, ps.notes)
		c.tell(job, ps)
		require.Equal(t, sets.New(ps.notes...), ps.said)
	}
	assert.Len(t, recorder.Events, 10, "each once")
}

// TestObjectsChangeBeforeTheStatusThatAnnouncesThem (issue 40, 11): a client that sees a Job's new size in its status finds the hosts of that
// size. If they cannot be written, the status says so as soon as it shows the size.
func TestObjectsChangeBeforeTheStatusThatAnnouncesThem(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").Plugin("svc").Task(mustertesting.MakeTask("a", 2)), batchv1alpha1.Running, 0, 1)
	namesAll(&d.kube.Fake)
	settles := func() (err error) {
		for range 5 {
			_, err = d.looks()
			d.mirrors()
			d.time.SetTime(d.time.Now().Add(messageInterval))
		}
		return err
	}
	require.NoError(t, settles())
	hosts := func() int {
		config, err := d.kube.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), "j-svc", metav1.GetOptions{})
		require.NoError(t, err)
		return len(strings.Fields(config.Data["a.host"]))
	}
	var announced []int32
	fails := false
	d.muster.PrependReactor("update", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		status := action.(clienttesting.UpdateAction).GetObject().(*batchv1alpha1.Job).Status
		announced = append(announced, status.MinAvailable)
		if fails {
			assert.Equal(t, eventPluginError, status.State.Reason)
		} else {
			assert.EqualValues(t, status.MinAvailable, hosts())
		}
		return false, nil, nil
	})
	scale := func(n int32) {
		d.edit(func(spec *batchv1alpha1.JobSpec) { spec.Tasks[0].Replicas, spec.MinAvailable = n, n })
	}
	for _, n := range []int32{0, 3, 1} {
		scale(n)
		require.NoError(t, settles())
		require.NotEmpty(t, announced)
		assert.Equal(t, n, announced[len(announced)-1])
	}

	allow := refuses(&d.kube.Fake, "update", "configmaps")
	announced, fails = nil, true
	scale(2)
	require.Error(t, settles())
	assert.Contains(t, announced, int32(2), "the Job goes on")
	allow()
	fails = false
	require.NoError(t, settles())
	assert.Equal(t, 2, hosts())
}
