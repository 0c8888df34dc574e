// Package validation says what is wrong with a Job beyond its schema, and which requests are not supported yet. It is pure.
package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/policy"
	"github.com/muster-sched/muster/pkg/job/volumes"
)

// Job returns what makes the Job one that cannot run. The Job has its defaults filled in. The API server decides whether its templates make
// valid pods, when it is asked for the first pod. It may have another version and other feature gates than this program.
func Job(job *batchv1alpha1.Job) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	if len(job.Spec.Tasks) == 0 {
		return append(errs, field.Required(spec.Child("tasks"), "No task specified in job spec: add one"))
	}
	replicas := defaults.Replicas(&job.Spec)
	if replicas > batchv1alpha1.MaxReplicas {
		errs = append(errs, field.Invalid(spec.Child("tasks"), replicas, fmt.Sprintf(
			"a job may have %d pods in all tasks together, the most that Kubernetes supports in a cluster: lower the replicas", batchv1alpha1.MaxReplicas)))
	}
	if job.Spec.MinAvailable > replicas {
		errs = append(errs, field.Invalid(spec.Child("minAvailable"), job.Spec.MinAvailable, fmt.Sprintf(
			"job 'minAvailable' should not be greater than total replicas in tasks, %d: lower it, or raise the replicas", replicas)))
	}
	errs = append(errs, validateNarrowTopology(job)...)
	errs = append(errs, validateVolumes(job, spec.Child("volumes"))...)
	errs = append(errs, validatePolicies(job.Spec.Policies, job.Spec.Tasks, spec.Child("policies"))...)
	seen := map[string]int{} // task name -> position
	for i := range job.Spec.Tasks {
		task, path := &job.Spec.Tasks[i], spec.Child("tasks").Index(i)
		if first, taken := seen[task.Name]; taken {
			errs = append(errs, field.Duplicate(path.Child("name"), fmt.Sprintf(
				"%s: duplicated task name, also that of spec.tasks[%d]; give each task a name of its own", task.Name, first)))
			continue
		}
		seen[task.Name] = i
		errs = append(errs, validateTask(job, task, path)...)
	}
	return append(errs, validateDependencies(&job.Spec, spec.Child("tasks"))...)
}

func validateTask(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	name := policy.PodName(job.Name, task.Name, max(task.Replicas-1, 0))
	for _, problem := range validation.IsValidLabelValue(name) {
		errs = append(errs, field.Invalid(path.Child("name"), task.Name, fmt.Sprintf(
			"create pod with name %s validate failed: %s; shorten the names of job and task, or lower the replicas", name, problem)))
	}
	if *task.MinAvailable > task.Replicas {
		errs = append(errs, field.Invalid(path.Child("minAvailable"), *task.MinAvailable, fmt.Sprintf(
			"'minAvailable' is greater than 'replicas' in task: %s, job: %s", task.Name, job.Name)))
	}
	errs = append(errs, validatePartitions(task, path)...)
	errs = append(errs, validatePolicies(task.Policies, []batchv1alpha1.TaskSpec{*task}, path.Child("policies"))...)
	errs = append(errs, validateTopology(task, path.Child("template", "spec"))...)
	if len(task.Template.Spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("template", "spec", "containers"), "a pod needs a container: add one"))
	}
	return errs
}

// validateNarrowTopology checks an annotation that is copied to the PodGroup.
func validateNarrowTopology(job *batchv1alpha1.Job) field.ErrorList {
	const key = schedulingv1beta1.NarrowTopologyAnnotation
	value, has := job.Annotations[key]
	if !has {
		return nil
	}
	if _, err := schedulingv1beta1.ParseNarrowTopology(value); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(key), value, err.Error())}
	}
	return nil
}

// validateTopology: a policy of the topology manager means nothing to containers that share cores.
func validateTopology(task *batchv1alpha1.TaskSpec, path *field.Path) field.ErrorList {
	if task.TopologyPolicy == "" || task.TopologyPolicy == "none" {
		return nil
	}
	var errs field.ErrorList
	check := func(containers []corev1.Container, path *field.Path) {
		for i := range containers {
			cpu, given := containers[i].Resources.Requests[corev1.ResourceCPU]
			if !given {
				cpu = containers[i].Resources.Limits[corev1.ResourceCPU]
			}
			if milli := cpu.MilliValue(); milli < 1000 || milli%1000 != 0 {
				errs = append(errs, field.Invalid(path.Index(i).Child("resources", "requests").Key("cpu"), cpu.String(),
					"the cpu request isn't an integer: topologyPolicy needs whole cores"))
			}
		}
	}
	check(task.Template.Spec.InitContainers, path.Child("initContainers"))
	check(task.Template.Spec.Containers, path.Child("containers"))
	return errs
}

// validateVolumes checks the volumes and their mounts against each other and against the templates.
func validateVolumes(job *batchv1alpha1.Job, path *field.Path) field.ErrorList {
	spec := &job.Spec
	var errs field.ErrorList
	seen := map[string]bool{}
	for i := range spec.Volumes {
		volume, path := &spec.Volumes[i], path.Index(i)
		if volume.MountPath == "" {
			errs = append(errs, field.Required(path.Child("mountPath"), "mountPath is required"))
		}
		if seen[volume.MountPath] {
			errs = append(errs, field.Duplicate(path.Child("mountPath"), fmt.Sprintf(
				"duplicated mountPath: %s; mount each volume somewhere else", volume.MountPath)))
		}
		seen[volume.MountPath] = true
		if user := mountedBy(spec, volume.MountPath); user != "" {
			errs = append(errs, field.Invalid(path.Child("mountPath"), volume.MountPath, fmt.Sprintf(
				"container %s mounts something else there: mount one of them somewhere else", user)))
		}
		if volume.VolumeClaimName != "" {
			for _, problem := range validation.IsDNS1123Subdomain(volume.VolumeClaimName) {
				errs = append(errs, field.Invalid(path.Child("volumeClaimName"), volume.VolumeClaimName,
					fmt.Sprintf("invalid VolumeClaimName: %s", problem)))
			}
		}
		if volume.VolumeClaim != nil && !volumes.IsMade(job, volume) {
			errs = append(errs, field.Invalid(path.Child("volumeClaimName"), volume.VolumeClaimName,
				"conflict: give only volumeClaimName to use a claim that exists, and only volumeClaim to have a new one made"))
		}
	}
	return errs
}

// mountedBy returns the name of the first container of a template that mounts its own volume at the path.
func mountedBy(spec *batchv1alpha1.JobSpec, mountPath string) string {
	for i := range spec.Tasks {
		pod := &spec.Tasks[i].Template.Spec
		for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
			for c := range containers {
				for _, mount := range containers[c].VolumeMounts {
					if mount.MountPath == mountPath {
						return containers[c].Name
					}
				}
			}
		}
	}
	return ""
}

// validatePartitions: the schema relates the sizes of partitions to the replicas; Jobs that were stored before it did
// come here.
func validatePartitions(task *batchv1alpha1.TaskSpec, path *field.Path) field.ErrorList {
	p := task.PartitionPolicy
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	policy := path.Child("partitionPolicy")
	if p.PartitionSize <= 0 {
		errs = append(errs, field.Invalid(policy.Child("partitionSize"), p.PartitionSize,
			fmt.Sprintf("'PartitionSize' must be greater than 0 in task: %s", task.Name)))
	}
	if p.TotalPartitions <= 0 {
		errs = append(errs, field.Invalid(policy.Child("totalPartitions"), p.TotalPartitions,
			fmt.Sprintf("'TotalPartitions' must be greater than 0 in task: %s", task.Name)))
	}
	if int64(task.Replicas) != int64(p.TotalPartitions)*int64(p.PartitionSize) {
		errs = append(errs, field.Invalid(path.Child("replicas"), task.Replicas, fmt.Sprintf(
			"'Replicas' are not equal to TotalPartitions*PartitionSize in task: %s; make them equal", task.Name)))
	}
	switch {
	case p.MinPartitions > p.TotalPartitions:
		errs = append(errs, field.Invalid(policy.Child("minPartitions"), p.MinPartitions, "must not be greater than totalPartitions"))
	case p.MinPartitions > 0 && int64(*task.MinAvailable) != int64(p.MinPartitions)*int64(p.PartitionSize):
		errs = append(errs, field.Invalid(path.Child("minAvailable"), *task.MinAvailable, fmt.Sprintf(
			"'MinAvailable' is not equal to MinPartitions*PartitionSize in task: %s; make them equal, or leave it out", task.Name)))
	}
	return errs
}

// validatePolicies checks what each action needs. tasks are the tasks that the policies are for.
func validatePolicies(policies []batchv1alpha1.LifecyclePolicy, tasks []batchv1alpha1.TaskSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range policies {
		p, action := &policies[i], path.Index(i).Child("action")
		if isNamed(p, busv1alpha1.PodPendingEvent) && (p.Timeout == nil || p.Timeout.Duration <= 0) {
			errs = append(errs, field.Invalid(path.Index(i).Child("timeout"), p.Timeout,
				"a policy for PodPending needs a timeout: every pod is pending at first"))
		}
		if p.Timeout != nil && p.Timeout.Duration < 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("timeout"), p.Timeout, "must not be negative"))
		}
		for _, event := range aboutNoTarget[p.Action] {
			if isNamed(p, event) {
				errs = append(errs, field.Invalid(action, p.Action, fmt.Sprintf("event %s is about no single %s: restart more, or the job",
					event, targetOf[p.Action])))
			}
		}
		if p.Action == busv1alpha1.RestartPartitionAction && !slices.ContainsFunc(tasks, hasPartitions) {
			errs = append(errs, field.Invalid(action, p.Action, "the task has no partitionPolicy: add one, or restart pod or task"))
		}
	}
	return errs
}

// targetOf is what an action that restarts less than the Job restarts.
var targetOf = map[busv1alpha1.Action]string{
	busv1alpha1.RestartPodAction:       "pod",
	busv1alpha1.RestartPartitionAction: "partition",
	busv1alpha1.RestartTaskAction:      "task",
}

// aboutNoTarget lists, for each restart action, the events that do not say what to restart.
var aboutNoTarget = map[busv1alpha1.Action][]busv1alpha1.Event{
	busv1alpha1.RestartPodAction:       aboutNoPod,
	busv1alpha1.RestartPartitionAction: aboutNoPod,
	busv1alpha1.RestartTaskAction:      {busv1alpha1.JobUnknownEvent, busv1alpha1.JobUpdatedEvent},
}

var aboutNoPod = []busv1alpha1.Event{
	busv1alpha1.TaskCompletedEvent, busv1alpha1.TaskFailedEvent, busv1alpha1.JobUnknownEvent, busv1alpha1.JobUpdatedEvent,
}

func isNamed(p *batchv1alpha1.LifecyclePolicy, event busv1alpha1.Event) bool {
	return p.Event == event || slices.Contains(p.Events, event)
}

func hasPartitions(task batchv1alpha1.TaskSpec) bool { return task.PartitionPolicy != nil }
