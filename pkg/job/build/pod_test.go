package build

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/admission"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
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
	pod := Pod(filled, &filled.Spec.Tasks[0], 1)

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
	pod := Pod(job, &job.Spec.Tasks[0], 0)
	pod.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation] = "99" // of the template
	Tie(pod, group)
	assert.NotContains(t, pod.Annotations, schedulingv1beta1.GroupResourceVersionAnnotation)
	group.Generation = 2
	Tie(pod, group)
	assert.Equal(t, "17", pod.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation])
}

func TestTemplateGoesBeforeJob(t *testing.T) {
	job := defaults.Job(mustertesting.MakeJob("j").PriorityClass("low").SchedulerName("volcano").
		Task(mustertesting.MakeTask("a", 1).PriorityClass("high").SchedulerName("other")).Obj(), "")
	pod := Pod(job, &job.Spec.Tasks[0], 0)
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
		got := minResources(job(c.min, c.minA, c.minB), priorities, Additions{})
		assert.Equal(t, c.want, got.Cpu().String(), "%+v", c)
		assert.Equal(t, int64(c.min), got.Pods().Value())
	}
}

// TestMinResourcesOfHugeRequestsEndAtTheBound: products do not wrap, and the PodGroup takes the numbers and is not admitted.
func TestMinResourcesOfHugeRequestsEndAtTheBound(t *testing.T) {
	for _, quantity := range []string{"8Ei", "10E", "10000000000000000", "1e999", "5Pi"} {
		spec := &defaults.Job(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1000).Requests("cpu", quantity, "memory", quantity)).
			Task(mustertesting.MakeTask("b", 1000).Requests("memory", quantity)).Obj(), "").Spec
		got := minResources(spec, func(string) int32 { return 0 }, Additions{})
		for _, name := range []corev1.ResourceName{"cpu", "memory", "requests.memory"} {
			amount := got[name]
			assert.Equal(t, "4Ei", amount.String(), "%s of %s", quantity, name)
		}
		group := &schedulingv1beta1.PodGroup{Spec: schedulingv1beta1.PodGroupSpec{MinResources: &got}}
		assert.Error(t, admission.MinimumOf(group).Validate(), quantity)
	}
}

func TestMinResourcesInTheNamesOfAQuota(t *testing.T) {
	task := mustertesting.MakeTask("a", 2)
	spec := &defaults.Job(mustertesting.MakeJob("j").Task(task).Obj(), "").Spec
	spec.Tasks[0].Template.Spec.Containers[0].Resources.Limits = mustertesting.Resources("cpu", "2", "memory", "1Gi", "nvidia.com/gpu", "4")
	got := map[string]string{}
	for name, amount := range minResources(spec, func(string) int32 { return 0 }, Additions{}) {
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
	group := PodGroup(job, func(string) int32 { return 0 }, Additions{})
	assert.Equal(t, "j-u", group.Name)
	assert.Equal(t, int32(3), group.Spec.MinMember)
	assert.Equal(t, map[string]int32{"ps": 1, "w": 2}, group.Spec.MinTaskMember)
	assert.Equal(t, "q", group.Spec.Queue)
	assert.Equal(t, "high", group.Spec.PriorityClassName)
	assert.Equal(t, map[string]string{"l": "1"}, group.Labels)
	assert.Equal(t, map[string]string{"a": "2"}, group.Annotations)
}

// TestTheEstimateFollowsTheJob: the field counts before the annotation. Zero is no estimate.
func TestTheEstimateFollowsTheJob(t *testing.T) {
	const key = "muster.sh/running-estimate"
	for name, test := range map[string]struct {
		annotation string
		field      time.Duration
		want       string
	}{
		"none": {}, "the field": {field: 90 * time.Minute, want: "1h30m0s"}, "the annotation": {annotation: "5m", want: "5m"},
		"both": {"5m", time.Hour, "1h0m0s"},
	} {
		wrapper := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("w", 1))
		if test.annotation != "" {
			wrapper.Annotation(key, test.annotation)
		}
		job := wrapper.Obj()
		job.Spec.RunningEstimate = &metav1.Duration{Duration: test.field}
		group := PodGroup(defaults.Job(job, ""), func(string) int32 { return 0 }, Additions{})
		assert.Equal(t, test.want, group.Annotations[key], name)
		assert.Equal(t, test.annotation, job.Annotations[key], "the Job stays as it is")
	}
}

// TestTopologyFollowsTheJob: the constraint of the Job and those of its partitions. A tier's number counts before its name.
func TestTopologyFollowsTheJob(t *testing.T) {
	hard, soft, two := schedulingv1beta1.HardNetworkTopologyMode, schedulingv1beta1.SoftNetworkTopologyMode, 2
	for name, c := range map[string]struct {
		asked *batchv1alpha1.NetworkTopologySpec
		want  *schedulingv1beta1.NetworkTopologySpec
	}{
		"none":          {nil, nil},
		"no mode":       {&batchv1alpha1.NetworkTopologySpec{}, &schedulingv1beta1.NetworkTopologySpec{Mode: hard}},
		"a tier":        {&batchv1alpha1.NetworkTopologySpec{Mode: soft, HighestTierAllowed: &two}, &schedulingv1beta1.NetworkTopologySpec{Mode: soft, HighestTierAllowed: &two}},
		"a tier's name": {&batchv1alpha1.NetworkTopologySpec{Mode: hard, HighestTierName: "rack"}, &schedulingv1beta1.NetworkTopologySpec{Mode: hard, HighestTierName: "rack"}},
		"both": {&batchv1alpha1.NetworkTopologySpec{Mode: hard, HighestTierAllowed: &two, HighestTierName: "rack"},
			&schedulingv1beta1.NetworkTopologySpec{Mode: hard, HighestTierAllowed: &two}},
	} {
		t.Run(name, func(t *testing.T) {
			divided := mustertesting.MakeTask("w", 4).Partitions(2, 2)
			job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("ps", 1)).Task(divided).Annotation(schedulingv1beta1.NarrowTopologyAnnotation, "1@10m").Obj()
			job.Spec.NetworkTopology, job.Spec.Tasks[1].PartitionPolicy.NetworkTopology = c.asked, c.asked
			group := PodGroup(defaults.Job(job, ""), func(string) int32 { return 0 }, Additions{})
			assert.Equal(t, c.want, group.Spec.NetworkTopology)
			assert.Equal(t, []schedulingv1beta1.SubGroupPolicySpec{{
				Name: "w", SubGroupSize: ptr.To[int32](2), MinSubGroups: ptr.To[int32](0), NetworkTopology: c.want,
				LabelSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{"volcano.sh/task-spec": "w"}},
				MatchLabelKeys: []string{"volcano.sh/partition-id"},
			}}, group.Spec.SubGroupPolicy)
			assert.Equal(t, map[string]int32{"ps": 1, "w": 4}, group.Spec.MinTaskMember)
			assert.Equal(t, "1@10m", group.Annotations[schedulingv1beta1.NarrowTopologyAnnotation])
		})
	}
}

// TestTheClassOfAPodGroup: it is the Job's, unless each template names a lower class.
func TestTheClassOfAPodGroup(t *testing.T) {
	values := map[string]int32{"high": 100, "mid": 50, "low": 10}
	for name, test := range map[string]struct {
		job, want string
		templates []string
	}{
		"of pods that take the Job's":     {"high", "high", []string{"", ""}},
		"of a Job without one":            {"", "", []string{"high"}},
		"of some pods that take it":       {"high", "high", []string{"low", ""}},
		"of pods that have it":            {"high", "high", []string{"low", "high"}},
		"of pods that have a higher one":  {"mid", "mid", []string{"high"}},
		"of pods that have lower ones":    {"high", "mid", []string{"low", "mid"}},
		"of pods whose class is unknown":  {"high", "other", []string{"other"}},
		"that is not known, but its pods": {"other", "other", []string{"low"}},
	} {
		job := mustertesting.MakeJob("j").Obj()
		job.Spec.PriorityClassName = test.job
		for _, class := range test.templates {
			task := batchv1alpha1.TaskSpec{}
			task.Template.Spec.PriorityClassName = class
			job.Spec.Tasks = append(job.Spec.Tasks, task)
		}
		assert.Equal(t, test.want, groupClass(job, func(class string) int32 { return values[class] }), name)
	}
}

// TestAPodCarriesOnlyTheAccountOfItsJob: the queue and the user of the Job were judged, what its template says was not.
func TestAPodCarriesOnlyTheAccountOfItsJob(t *testing.T) {
	job := defaults.Job(mustertesting.MakeJob("j").UID("uid").Queue("red").Label(schedulingv1beta1.UserLabel, "ann").Task(mustertesting.MakeTask("a", 1)).Obj(), "")
	template := &job.Spec.Tasks[0].Template
	template.Annotations, template.Labels = map[string]string{"kept": "a"}, map[string]string{"kept": "l"}
	for _, key := range []string{
		"scheduling.volcano.sh/queue-name", "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", "muster.sh/podgroup-resource-version",
		"muster.sh/charged-to", "muster.sh/bound-for", "muster.sh/user", "primehub.io/group", "primehub.io/user", "scheduling.x-k8s.io/pod-group",
	} {
		template.Annotations[key], template.Labels[key] = "blue", "blue"
	}
	template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{}
	pod := Pod(job, &job.Spec.Tasks[0], 0)
	for _, keys := range []map[string]string{pod.Annotations, pod.Labels} {
		for key, value := range keys {
			assert.NotEqual(t, "blue", value, key)
		}
		assert.Contains(t, keys, "kept")
	}
	assert.Equal(t, "j-uid", pod.Annotations["scheduling.k8s.io/group-name"])
	assert.Equal(t, "ann", pod.Labels["muster.sh/user"])
	assert.Nil(t, pod.Spec.SchedulingGroup)
}
