// Package hcclrank is the plugin that numbers the pods of a Job for Huawei's collective communication library.
package hcclrank

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// Name of the plugin.
const Name = "hcclrank"

// rankAnnotation is where the device plugin looks for the pod's number.
const rankAnnotation = "hccl/rankIndex"

type hcclrank struct {
	master, worker string // tasks
	masters        int32  // pods of the master's task
}

// New makes the plugin.
func New(r *plugin.Request) plugin.Plugin {
	master := r.Flags().String("master", "master", "the task of the master")
	worker := r.Flags().String("worker", "worker", "the task of the workers")
	r.Parse()

	h := &hcclrank{master: *master, worker: *worker}
	if task := r.Task(*master); task != nil {
		h.masters = task.Replicas
	}
	return h
}

// MutatePod annotates the pod, unless its template does. The value is the RANK of its first container, which the pytorch plugin may have
// set. Else it is its number among the masters and, after them, the workers.
func (h *hcclrank) MutatePod(pod *corev1.Pod, task *batchv1alpha1.TaskSpec, index int32) {
	if pod.Annotations[rankAnnotation] != "" {
		return
	}
	rank := rankOf(&pod.Spec)
	switch {
	case rank != "":
	case task.Name == h.master:
		rank = strconv.Itoa(int(index))
	case task.Name == h.worker:
		rank = strconv.Itoa(int(h.masters + index))
	default:
		return
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, rankAnnotation, rank)
}

// rankOf returns the RANK of the first container. If there are several, the last one counts, as it does in the container.
func rankOf(pod *corev1.PodSpec) string {
	var rank string
	if len(pod.Containers) > 0 {
		for _, v := range pod.Containers[0].Env {
			if v.Name == "RANK" {
				rank = v.Value
			}
		}
	}
	return rank
}
