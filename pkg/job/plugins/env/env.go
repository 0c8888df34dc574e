// Package env is the plugin that tells each container which of its task's pods it is in.
package env

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// Name of the plugin.
const Name = "env"

// The variables, of which the first is the older name of the same.
const (
	oldTaskIndex = "VK_TASK_INDEX"
	taskIndex    = "VC_TASK_INDEX"
)

type env struct{}

// New makes the plugin. It has no arguments.
func New(r *plugin.Request) plugin.Plugin {
	r.Parse()
	return env{}
}

// MutatePod sets the variables in all containers and init containers.
func (env) MutatePod(pod *corev1.Pod, _ *batchv1alpha1.TaskSpec, index int32) {
	value := strconv.Itoa(int(index))
	plugin.AddEnvEverywhere(&pod.Spec,
		corev1.EnvVar{Name: oldTaskIndex, Value: value},
		corev1.EnvVar{Name: taskIndex, Value: value})
}
