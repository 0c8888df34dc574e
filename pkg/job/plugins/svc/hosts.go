package svc

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// ConfigMapName returns the name of the ConfigMap with the hosts of the Job.
func ConfigMapName(job *batchv1alpha1.Job) string { return job.Name + "-svc" }

// HostsKey returns the key in the ConfigMap, and the name of the variable, of the comma list of a task's addresses.
// It is left out of both if it is too long for a variable.
func HostsKey(task string) string { return "VC_" + strings.ToUpper(snake(task)) + "_HOSTS" }

// FileKey returns the key in the ConfigMap, and the name of the file, that has the task's addresses line by line.
func FileKey(task string) string { return snake(task) + ".host" }

func numberKey(task string) string { return "VC_" + strings.ToUpper(snake(task)) + "_NUM" }

// snake makes a task's name fit for a variable.
func snake(task string) string { return strings.ReplaceAll(task, "-", "_") }

// hostsOf returns the data of the ConfigMap.
func hostsOf(r *plugin.Request) map[string]string {
	data := make(map[string]string, 3*len(r.Job.Spec.Tasks))
	var size int
	for i := range r.Job.Spec.Tasks {
		task := &r.Job.Spec.Tasks[i]
		addresses := plugin.AddressesOf(r.Job, task)
		lines, list, number := strings.Join(addresses, "\n"), strings.Join(addresses, ","), strconv.Itoa(len(addresses))
		data[FileKey(task.Name)], data[numberKey(task.Name)] = lines, number
		size += len(lines) + len(number)
		if key := HostsKey(task.Name); plugin.FitsEnv(key, len(list)) {
			data[key] = list
			size += len(list)
		} else {
			r.Note(plugin.ReasonTooLong, "%s is left out: %d bytes are more than a variable may have; read %s/%s, which has the same hosts line by line",
				key, len(list), mountPath, FileKey(task.Name))
		}
	}
	if size > plugin.MaxObjectBytes {
		r.Refuse("ConfigMap %s would have %d bytes of host names, and may have %d: lower the replicas, or shorten the names of job and tasks",
			ConfigMapName(r.Job), size, plugin.MaxObjectBytes)
	}
	return data
}

// hostVars returns the variables of all tasks, as references to the ConfigMap.
func (s *svc) hostVars() []corev1.EnvVar {
	var vars []corev1.EnvVar
	for i := range s.job.Spec.Tasks {
		name := s.job.Spec.Tasks[i].Name
		if _, there := s.hosts[HostsKey(name)]; there {
			vars = append(vars, corev1.EnvVar{Name: HostsKey(name), ValueFrom: HostsReference(s.job, name)})
		}
		vars = append(vars, corev1.EnvVar{Name: numberKey(name), ValueFrom: reference(s.job, numberKey(name))})
	}
	return vars
}

// HostsReference returns the source of a variable that has the comma list of a task's addresses. It is optional: a
// list that becomes too long when the Job is scaled up leaves the ConfigMap, and pods that refer to it must still be
// able to start their containers again.
func HostsReference(job *batchv1alpha1.Job, task string) *corev1.EnvVarSource {
	source := reference(job, HostsKey(task))
	source.ConfigMapKeyRef.Optional = ptr.To(true)
	return source
}

func reference(job *batchv1alpha1.Job, key string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: ConfigMapName(job)},
		Key:                  key,
	}}
}
