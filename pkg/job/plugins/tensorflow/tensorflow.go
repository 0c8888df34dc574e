// Package tensorflow is the plugin that tells each process of a distributed TensorFlow which one it is, and where the
// others are: the variable TF_CONFIG.
package tensorflow

import (
	"encoding/json"
	"fmt"
	"strconv"

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
	// clusterVar has the part of TF_CONFIG that is the same for all pods, in Jobs where it is too long to stand in
	// each of them.
	clusterVar = "MUSTER_TF_CLUSTER"
	// clusterKey is its key in the ConfigMap.
	clusterKey = "cluster"
)

// cluster lists the addresses of each role. The fields stand in the order in which TF_CONFIG has them.
type cluster struct {
	PS        []string `json:"ps,omitempty"`
	Worker    []string `json:"worker,omitempty"`
	Chief     []string `json:"chief,omitempty"`
	Evaluator []string `json:"evaluator,omitempty"`
}

type tensorflow struct {
	job     *batchv1alpha1.Job
	roles   map[string]string // task -> what TensorFlow calls it
	cluster string            // as JSON
	shared  bool              // the cluster stands in a ConfigMap
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
	servers := func(task string) []string { return serversOf(r, task, *port) }
	encoded, err := json.Marshal(cluster{
		PS: servers(*ps), Worker: servers(*worker), Chief: servers(*chief), Evaluator: servers(*evaluator),
	})
	if err != nil {
		r.Refuse("the cluster cannot be written as JSON: %v", err)
		return nil
	}
	t := &tensorflow{
		job:     r.Job,
		roles:   map[string]string{*evaluator: "evaluator", *chief: "chief", *worker: "worker", *ps: "ps"},
		cluster: string(encoded),
		shared:  len(encoded) > plugin.MaxInlineBytes,
	}
	if size := len(encoded) + len(longestConfig); !plugin.FitsEnv(clusterVar, size) {
		r.Note(plugin.ReasonTooLong, "%s is left out: about %d bytes are more than a variable may have; the hosts stand in the files of the svc plugin",
			configVar, size)
		return nil
	}
	return t
}

// longestConfig is at least as long as what surrounds the cluster in TF_CONFIG, with a task's name of 63 characters.
const longestConfig = `{"cluster":,"task":{"type":"012345678901234567890123456789012345678901234567890123456789012","index":2147483647}}`

func serversOf(r *plugin.Request, name string, port int32) []string {
	task := r.Task(name)
	if task == nil {
		return nil
	}
	servers := plugin.AddressesOf(r.Job, task)
	for i := range servers {
		servers[i] += ":" + strconv.Itoa(int(port))
	}
	return servers
}

// Objects returns the ConfigMap of a large Job.
func (t *tensorflow) Objects(plugin.Secrets) ([]plugin.Object, error) {
	if !t.shared {
		return nil, nil
	}
	return []plugin.Object{&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: t.configMapName()},
		Data:       map[string]string{clusterKey: t.cluster},
	}}, nil
}

// MutatePod sets TF_CONFIG in all containers. In a large Job it refers to another variable, which kubelet puts in.
func (t *tensorflow) MutatePod(pod *corev1.Pod, task *batchv1alpha1.TaskSpec, index int32) {
	hosts := t.cluster
	if t.shared {
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
