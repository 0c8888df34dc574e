package validation

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/volumes"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// change makes a Job of two sound tasks and changes it.
func change(edit func(*batchv1alpha1.Job)) *batchv1alpha1.Job {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Task(mustertesting.MakeTask("b", 1)).Obj()
	edit(job)
	return defaults.Job(job, "")
}

func fields(errs field.ErrorList) []string {
	var names []string
	for _, err := range errs {
		names = append(names, err.Field)
	}
	return slices.Compact(names)
}

func TestJob(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*batchv1alpha1.Job)
		want []string // fields
		says string
	}{
		"a sound Job":   {edit: func(*batchv1alpha1.Job) {}},
		"no task":       {edit: func(j *batchv1alpha1.Job) { j.Spec.Tasks = nil }, want: []string{"spec.tasks"}, says: "No task specified in job spec"},
		"minimum":       {edit: func(j *batchv1alpha1.Job) { j.Spec.MinAvailable = 4 }, want: []string{"spec.minAvailable"}, says: "should not be greater than total replicas"},
		"task minimum":  {edit: func(j *batchv1alpha1.Job) { j.Spec.Tasks[1].MinAvailable = int32p(2) }, want: []string{"spec.minAvailable", "spec.tasks[1].minAvailable"}, says: "'minAvailable' is greater than 'replicas' in task: b, job: j"},
		"default names": {edit: func(j *batchv1alpha1.Job) { j.Spec.Tasks[0].Name, j.Spec.Tasks[1].Name = "default1", "" }, want: []string{"spec.tasks[1].name"}, says: "duplicated task name"},
		"the largest index makes the name too long": {edit: func(j *batchv1alpha1.Job) { j.Name = strings.Repeat("j", 58); j.Spec.Tasks[0].Replicas = 1001 },
			want: []string{"spec.tasks[0].name"}, says: "validate failed"},
		"no container": {edit: func(j *batchv1alpha1.Job) { j.Spec.Tasks[0].Template.Spec.Containers = nil }, want: []string{"spec.tasks[0].template.spec.containers"}},
		"half a core": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Tasks[0].TopologyPolicy = "single-numa-node"
			j.Spec.Tasks[0].Template.Spec.Containers[0].Resources.Requests = mustertesting.Resources("cpu", "1500m")
		}, want: []string{"spec.tasks[0].template.spec.containers[0].resources.requests[cpu]"}, says: "the cpu request isn't an integer"},
		"no tier": {edit: func(j *batchv1alpha1.Job) { j.Annotations = map[string]string{"muster.sh/narrow-topology": "@10m"} },
			want: []string{"metadata.annotations[muster.sh/narrow-topology]"}, says: "the tier is missing"},
		"a tier for a time": {edit: func(j *batchv1alpha1.Job) { j.Annotations = map[string]string{"muster.sh/narrow-topology": "rack@10m"} }},
		"whole cores by their limit": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Tasks[0].TopologyPolicy = "restricted"
			j.Spec.Tasks[0].Template.Spec.Containers[0].Resources.Limits = mustertesting.Resources("cpu", "2")
		}},
		"unknown dependency": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Tasks[1].DependsOn = &batchv1alpha1.DependsOn{Name: []string{"a", "c"}}
		},
			want: []string{"spec.tasks[1].dependsOn.name[1]"}, says: "directed acyclic graph"},
		"circle": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Tasks[0].DependsOn = &batchv1alpha1.DependsOn{Name: []string{"b"}}
			j.Spec.Tasks[1].DependsOn = &batchv1alpha1.DependsOn{Name: []string{"a"}}
		}, want: []string{"spec.tasks"}, says: "a -> b -> a"},
		"waiting for itself": {edit: func(j *batchv1alpha1.Job) { j.Spec.Tasks[1].DependsOn = &batchv1alpha1.DependsOn{Name: []string{"b"}} },
			want: []string{"spec.tasks"}, says: "b -> b"},
		"a chain is no circle": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Tasks[1].DependsOn = &batchv1alpha1.DependsOn{Name: []string{"a", "a"}}
		}},
		"volumes": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Volumes = []batchv1alpha1.VolumeSpec{{MountPath: "/a"}, {MountPath: "/a"}, {}, {MountPath: "/b", VolumeClaimName: "No"}}
		}, want: []string{"spec.volumes[1].mountPath", "spec.volumes[2].mountPath", "spec.volumes[3].volumeClaimName"}, says: "duplicated mountPath"},
		"a claim to be made with a name": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Volumes = []batchv1alpha1.VolumeSpec{{MountPath: "/a", VolumeClaimName: "mine", VolumeClaim: &corev1.PersistentVolumeClaimSpec{}}}
		}, want: []string{"spec.volumes[0].volumeClaimName"}, says: "conflict"},
		"claims that are named and to be made": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Volumes = []batchv1alpha1.VolumeSpec{{MountPath: "/a", VolumeClaimName: "mine"}, {MountPath: "/b", VolumeClaim: &corev1.PersistentVolumeClaimSpec{}}}
			made := batchv1alpha1.VolumeSpec{MountPath: "/c", VolumeClaim: &corev1.PersistentVolumeClaimSpec{}}
			made.VolumeClaimName = volumes.GeneratedName(j, &made) // as the controller fills it in
			j.Spec.Volumes = append(j.Spec.Volumes, made)
		}},
		"a mount that a container has already": {edit: func(j *batchv1alpha1.Job) {
			pod := &j.Spec.Tasks[1].Template.Spec
			pod.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/a"}}
			j.Spec.Volumes = []batchv1alpha1.VolumeSpec{{MountPath: "/a"}}
		}, want: []string{"spec.volumes[0].mountPath"}, says: "container main"},
		"partitions": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Tasks[0].PartitionPolicy = &batchv1alpha1.PartitionPolicySpec{TotalPartitions: 2, PartitionSize: 1, MinPartitions: 3}
		}, want: []string{"spec.tasks[0].partitionPolicy.minPartitions"}},
		"partitions of nothing": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Tasks[0].PartitionPolicy = &batchv1alpha1.PartitionPolicySpec{}
		}, want: []string{"spec.tasks[0].partitionPolicy.partitionSize", "spec.tasks[0].partitionPolicy.totalPartitions", "spec.tasks[0].replicas"}},
		"partitions that are not the replicas": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Tasks[0].PartitionPolicy = &batchv1alpha1.PartitionPolicySpec{TotalPartitions: 2, PartitionSize: 3}
		}, want: []string{"spec.tasks[0].replicas"}, says: "'Replicas' are not equal to TotalPartitions*PartitionSize"},
		"a minimum that is not of whole partitions": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Tasks[0].Replicas, j.Spec.Tasks[0].MinAvailable = 4, int32p(3)
			j.Spec.Tasks[0].PartitionPolicy = &batchv1alpha1.PartitionPolicySpec{TotalPartitions: 2, PartitionSize: 2, MinPartitions: 1}
		}, want: []string{"spec.tasks[0].minAvailable"}, says: "'MinAvailable' is not equal to MinPartitions*PartitionSize"},
		"restart of a partition where there is none": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Policies = []batchv1alpha1.LifecyclePolicy{{Event: "PodFailed", Action: busv1alpha1.RestartPartitionAction}}
			j.Spec.Tasks[0].Policies = j.Spec.Policies
		}, want: []string{"spec.policies[0].action", "spec.tasks[0].policies[0].action"}},
		"restart of partitions of one task": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Policies = []batchv1alpha1.LifecyclePolicy{{Event: "PodFailed", Action: busv1alpha1.RestartPartitionAction}}
			j.Spec.Tasks[0].PartitionPolicy = &batchv1alpha1.PartitionPolicySpec{TotalPartitions: 2, PartitionSize: 1}
		}},
		"restart of a partition by what is about no pod": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Tasks[0].Policies = []batchv1alpha1.LifecyclePolicy{{Event: "TaskFailed", Action: busv1alpha1.RestartPartitionAction}}
			j.Spec.Tasks[0].PartitionPolicy = &batchv1alpha1.PartitionPolicySpec{TotalPartitions: 2, PartitionSize: 1}
		}, want: []string{"spec.tasks[0].policies[0].action"}, says: "TaskFailed is about no single partition"},
		"restart of a task by a change of the spec": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Policies = []batchv1alpha1.LifecyclePolicy{{Event: "JobUpdated", Action: busv1alpha1.RestartTaskAction}}
		}, want: []string{"spec.policies[0].action"}, says: "JobUpdated is about no single task"},
		"a timeout below zero": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Policies = []batchv1alpha1.LifecyclePolicy{{Event: "PodFailed", Action: "AbortJob", Timeout: &metav1.Duration{Duration: -1}}}
		}, want: []string{"spec.policies[0].timeout"}},
		"restart of a pod where there is none": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Policies = []batchv1alpha1.LifecyclePolicy{{Events: []busv1alpha1.Event{"PodFailed", "TaskCompleted"}, Action: busv1alpha1.RestartPodAction}}
		}, want: []string{"spec.policies[0].action"}, says: "TaskCompleted"},
		"pending for no time at all": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Policies = []batchv1alpha1.LifecyclePolicy{{Event: "PodPending", Action: "AbortJob", Timeout: &metav1.Duration{}}}
		}, want: []string{"spec.policies[0].timeout"}},
		"restart of a task where there is none": {edit: func(j *batchv1alpha1.Job) {
			j.Spec.Policies = []batchv1alpha1.LifecyclePolicy{{Event: "Unknown", Action: busv1alpha1.RestartTaskAction}}
		}, want: []string{"spec.policies[0].action"}},
	} {
		t.Run(name, func(t *testing.T) {
			errs := Job(change(c.edit))
			assert.Equal(t, c.want, fields(errs), "%v", errs)
			if c.says != "" && len(errs) > 0 {
				assert.Contains(t, errs.ToAggregate().Error(), c.says)
			}
		})
	}
}

// A program with an older copy of the rules would keep a Job Invalid that the cluster can run.
func TestTemplatesAreForTheAPIServerToJudge(t *testing.T) {
	yes := true
	for name, edit := range map[string]func(*corev1.PodSpec){
		"a restart policy of a later version":  func(p *corev1.PodSpec) { p.RestartPolicy = "Sometimes" },
		"no image":                             func(p *corev1.PodSpec) { p.Containers[0].Image = "" },
		"a privileged container":               func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes} },
		"a volume of a source that is unknown": func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{Name: "v"}} },
		"a field that needs a feature gate":    func(p *corev1.PodSpec) { p.HostUsers, p.HostNetwork = new(false), true },
		"resources of the whole pod": func(p *corev1.PodSpec) {
			p.Resources = &corev1.ResourceRequirements{Requests: mustertesting.Resources("example.com/x", "1")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, Job(change(func(j *batchv1alpha1.Job) { edit(&j.Spec.Tasks[0].Template.Spec) })))
		})
	}
}

func int32p(n int32) *int32 { return &n }
