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

// HostsKey returns the key in the ConfigMap, and the variable's name, for the comma list of a task's addresses. It is left out of both if
// it is too long for a variable.
func HostsKey(task string) string { return "VC_" + strings.ToUpper(snake(task)) + "_HOSTS" }

// FileKey returns the key in the ConfigMap, and the file's name, for a task's addresses, line by line.
func FileKey(task string) string { return snake(task) + ".host" }

func numberKey(task string) string { return "VC_" + strings.ToUpper(snake(task)) + "_NUM" }

// snake makes a task's name fit for a variable.
func snake(task string) string { return strings.ReplaceAll(task, "-", "_") }

// separator stands between the addresses of a variable. In a file each has a line.
const separator = ","

// checkHosts refuses a Job whose hosts do not fit into the ConfigMap, and notes the lists that are left out. It
// builds none of them.
func checkHosts(r *plugin.Request) {
	var size int
	for i := range r.Job.Spec.Tasks {
		task := &r.Job.Spec.Tasks[i]
		hosts := plugin.HostsOf(r.Job, task)
		size += hosts.ListBytes("\n") + len(strconv.Itoa(hosts.Count()))
		if list := hosts.ListBytes(separator); fitsVar(hosts, task.Name) {
			size += list
		} else {
			r.Note(plugin.ReasonTooLong, "%s is left out: %d bytes are more than a variable may have; read %s/%s, which has the same hosts line by line",
				HostsKey(task.Name), list, mountPath, FileKey(task.Name))
		}
	}
	if size > plugin.MaxObjectBytes {
		r.Refuse("ConfigMap %s would have %d bytes of host names, and may have %d: lower the replicas, or shorten the names of job and tasks",
			ConfigMapName(r.Job), size, plugin.MaxObjectBytes)
	}
}

func fitsVar(hosts plugin.Hosts, task string) bool {
	return plugin.FitsEnv(HostsKey(task), hosts.ListBytes(separator))
}

// hostsOf returns the data of the ConfigMap.
func hostsOf(job *batchv1alpha1.Job) map[string]string {
	data := make(map[string]string, 3*len(job.Spec.Tasks))
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		hosts := plugin.HostsOf(job, task)
		data[FileKey(task.Name)], data[numberKey(task.Name)] = hosts.List("\n"), strconv.Itoa(hosts.Count())
		if fitsVar(hosts, task.Name) {
			data[HostsKey(task.Name)] = hosts.List(separator)
		}
	}
	return data
}

// hostVars returns the variables of all tasks, as references to the ConfigMap.
func hostVars(job *batchv1alpha1.Job) []corev1.EnvVar {
	var vars []corev1.EnvVar
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		name := task.Name
		if fitsVar(plugin.HostsOf(job, task), name) {
			vars = append(vars, corev1.EnvVar{Name: HostsKey(name), ValueFrom: HostsReference(job, name)})
		}
		vars = append(vars, corev1.EnvVar{Name: numberKey(name), ValueFrom: reference(job, numberKey(name))})
	}
	return vars
}

// HostsReference returns the source of a variable that has the comma list of a task's addresses. It is optional: a list that becomes too
// long when the Job is scaled up leaves the ConfigMap. Pods that refer to it must still be able to restart their containers.
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
