// Package plugin is the contract between Jobs and their plugins, and what plugins have in common. These are their arguments,
// the names of a Job's pods, and the changes that they make to containers.
//
// A plugin is pure: it depends only on the Job and its arguments. It refuses wrong arguments by name, says which objects the Job needs, and
// completes pods before they are created. The job controller applies the result.
package plugin

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// Factory makes a plugin for a Job: it reads the arguments and computes what is the same for all pods. Errors and notes go into the
// request. It is called once for each spec of a Job, and again when the Job is scaled. It returns nil if there is nothing for the plugin to
// do.
type Factory func(*Request) Plugin

// Plugin is a plugin at work for one Job.
type Plugin interface {
	// MutatePod completes the pod of a task's index before it is created. The pod has its name and all that its template says. Its cost
	// must not depend on the size of the Job.
	MutatePod(pod *corev1.Pod, task *batchv1alpha1.TaskSpec, index int32)
}

// ObjectMaker is a plugin whose Job needs objects beside its pods.
type ObjectMaker interface {
	Plugin
	// Objects returns the objects, with their names and content. Their namespace, labels and owner are filled in by the caller. They live
	// until the Job has ended, through restarts of pods, of tasks and of the whole Job. The error SlowSecret says to ask again once the
	// data of a Secret is made.
	Objects(secrets Secrets) ([]Object, error)
}

// SlowSecret is an error that says that the data of a Secret takes tenths of a second to make. The caller makes it beside its
// other work, gives it as the data of that Secret and asks again.
type SlowSecret struct {
	// Name of the Secret.
	Name string
	// Make makes its data.
	Make func() (map[string][]byte, error)
}

func (s *SlowSecret) Error() string { return "the data of Secret " + s.Name + " is being made" }

// Object is a Service, ConfigMap, Secret or NetworkPolicy.
type Object interface {
	metav1.Object
	runtime.Object
}

// Secrets gives plugins data that must be made only once, such as a key. They are read from the Job's own Secret with that name if it has
// all keys. Otherwise create makes them. So a plugin stays pure, and pods keep a valid key.
type Secrets func(name string, keys []string, create func() (map[string][]byte, error)) (map[string][]byte, error)

// SecretsOf makes a Secrets from a function that returns the data of the Job's own Secret, or nil.
func SecretsOf(find func(name string) map[string][]byte) Secrets {
	return func(name string, keys []string, create func() (map[string][]byte, error)) (map[string][]byte, error) {
		data := find(name)
		for _, key := range keys {
			if len(data[key]) == 0 {
				return create()
			}
		}
		return data, nil
	}
}

// Note is what people should be told about a Job that runs nonetheless: a Warning event on it.
type Note struct {
	// Reason is one of the reasons below.
	Reason string
	// Message says what is left out, and what to do about it.
	Message string
}

// Reasons of notes.
const (
	// ReasonArgumentIgnored: an argument that the plugin does not know has no effect.
	ReasonArgumentIgnored = "PluginArgumentIgnored"
	// ReasonNoEffect: the plugin finds nothing in the Job to work on.
	ReasonNoEffect = "PluginHasNoEffect"
	// ReasonTooLong: a value is left out, or written another way, because the Job is too large for it.
	ReasonTooLong = "PluginValueTooLong"
)

// Limits of Kubernetes and Linux.
const (
	// MaxObjectBytes is how long the values of a ConfigMap or of a Secret may be together.
	MaxObjectBytes = 1 << 20
	// MaxEnvBytes is how long a variable may be, with its name and the bytes around it. A container with a longer
	// one does not start.
	MaxEnvBytes = 128 << 10
	// MaxInlineBytes is how long a value that grows with the Job may be in each of its pods. Longer ones stand in a
	// shared object, and the pods refer to it.
	MaxInlineBytes = 4 << 10
)

// FitsEnv tells whether a container can start with that variable.
func FitsEnv(name string, valueBytes int) bool {
	return len(name)+len("=")+valueBytes+len("\x00") <= MaxEnvBytes
}
