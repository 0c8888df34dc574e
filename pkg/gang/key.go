package gang

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingx "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// Key names a gang: its PodGroup.
type Key struct {
	// Namespace and Name of the PodGroup.
	Namespace, Name string
	// Foreign says that the PodGroup is of the API of scheduler-plugins, not of ours.
	Foreign bool
}

// String is unique among keys.
func (k Key) String() string {
	if k.Foreign {
		return schedulingx.SchemeGroupVersion.Group + "/" + k.Namespace + "/" + k.Name
	}
	return k.Namespace + "/" + k.Name
}

// KeyOf returns the gang that a pod names, by our annotation or by the label of scheduler-plugins. It returns false for a pod without a
// gang.
func KeyOf(pod *corev1.Pod) (Key, bool) {
	if pod.Spec.SchedulingGroup != nil {
		return Key{}, false // a native pod group, which upstream schedules
	}
	if name := pod.Annotations[schedulingv1beta1.GroupNameAnnotation]; name != "" {
		return Key{Namespace: pod.Namespace, Name: name}, true
	}
	if name := pod.Labels[schedulingx.PodGroupLabel]; name != "" {
		return Key{Namespace: pod.Namespace, Name: name, Foreign: true}, true
	}
	return Key{}, false
}

// IsMember says whether a pod names a gang.
func IsMember(pod *corev1.Pod) bool {
	_, member := KeyOf(pod)
	return member
}

// awaitingPrefix begins the name of the gang of a pod that waits for its PodGroup. No PodGroup can have a name with a slash.
const awaitingPrefix = "pod/"

// AwaitingKey is the key of a pod that must have a PodGroup and names none. Such a pod is a gang of its own, whose PodGroup is missing.
func AwaitingKey(pod *corev1.Pod) Key {
	return Key{Namespace: pod.Namespace, Name: awaitingPrefix + string(pod.UID)}
}

// AwaitsPodGroup says whether the key is that of a pod that names no PodGroup yet.
func (k Key) AwaitsPodGroup() bool { return strings.HasPrefix(k.Name, awaitingPrefix) }
