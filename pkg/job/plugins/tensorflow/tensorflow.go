// Package tensorflow is the plugin for distributed TensorFlow. It tells each process its own role and all addresses, in the variable
// TF_CONFIG.
package tensorflow

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// Name of the plugin.
const Name = "tensorflow"

const (
	defaultPort = 2222

	configVar = "TF_CONFIG"
	// clusterVar has the part of TF_CONFIG that is the same for all pods. It is used where that is too long to repeat in each.
	clusterVar = "MUSTER_TF_CLUSTER"
	// clusterKey is its key in the ConfigMap.
	clusterKey = "cluster"
)

type tensorflow struct {
	job     *batchv1alpha1.Job
	cluster cluster
	roles   map[string]string // task -> what TensorFlow calls it
	inline  string            // the cluster as JSON; empty if it stands in a ConfigMap
}

var _ plugin.ObjectMaker = &tensorflow{}

// New makes the plugin.
func New(r *plugin.Request) plugin.Plugin {
	ps := r.Flags().String("ps", "ps", "the task of the parameter servers")
	worker := r.Flags().String("worker", "worker", "the task of the workers")
	chief := r.Flags().String("chief", "chief", "the task of the chief")
	evaluator := r.Flags().String("evaluator", "evaluator", "the task of the evaluator")
	port := r.Port("port", defaultPort, "the port that the servers listen on")
	r.Parse()

	if tasks := r.Job.Spec.Tasks; len(tasks) == 1 && tasks[0].Replicas == 1 {
		// A single process is not distributed. TensorFlow takes no TF_CONFIG for that.
		return nil
	}
	t := &tensorflow{
		job:     r.Job,
		cluster: clusterOf(r, *port, *ps, *worker, *chief, *evaluator),
		roles:   map[string]string{*evaluator: "evaluator", *chief: "chief", *worker: "worker", *ps: "ps"},
	}
	size := t.cluster.bytes()
	if size <= plugin.MaxInlineBytes {
		t.inline = t.cluster.json()
	}
	if size += len(longestConfig); !plugin.FitsEnv(clusterVar, size) {
		r.Note(plugin.ReasonTooLong, "%s is left out: about %d bytes are more than a variable may have; the hosts stand in the files of the svc plugin",
			configVar, size)
		return nil
	}
	return t
}

// longestConfig is at least as long as what surrounds the cluster in TF_CONFIG, with a task's name of 63 characters.
const longestConfig = `{"cluster":,"task":{"type":"012345678901234567890123456789012345678901234567890123456789012","index":2147483647}}`

// Objects returns the ConfigMap of a large Job.
func (t *tensorflow) Objects(plugin.Secrets) ([]plugin.Object, error) {
	if t.inline != "" {
		return nil, nil
	}
	return []plugin.Object{&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: t.configMapName()},
		Data:       map[string]string{clusterKey: t.cluster.json()},
	}}, nil
}

// MutatePod sets TF_CONFIG in all containers. In a large Job it refers to another variable, which kubelet puts in.
func (t *tensorflow) MutatePod(pod *corev1.Pod, task *batchv1alpha1.TaskSpec, index int32) {
	hosts := t.inline
	if hosts == "" {
		hosts = "$(" + clusterVar + ")"
		plugin.AddEnv(&pod.Spec, corev1.EnvVar{
			Name: clusterVar,
			ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: t.configMapName()},
				Key:                  clusterKey,
			}},
		})
	}
	plugin.AddEnv(&pod.Spec, corev1.EnvVar{
		Name:  configVar,
		Value: fmt.Sprintf(`{"cluster":%s,"task":{"type":%q,"index":%d}}`, hosts, t.roleOf(task.Name), index),
	})
}

// roleOf returns what TensorFlow calls the task: its own name, if it has none of the roles.
func (t *tensorflow) roleOf(task string) string {
	if role, ok := t.roles[task]; ok {
		return role
	}
	return task
}

func (t *tensorflow) configMapName() string { return t.job.Name + "-tensorflow" }
