package v1beta1

import (
	"maps"
	"slices"
)

// OtherGroupNameAnnotation is the second spelling of GroupNameAnnotation. Muster does not read it.
const OtherGroupNameAnnotation = "scheduling.volcano.sh/group-name"

// accountKeys are the labels and annotations by which a pod is charged, or belongs to a gang. Those of PrimeHub and scheduler-plugins are
// among them.
var accountKeys = []string{
	GroupNameAnnotation, OtherGroupNameAnnotation, QueueNameAnnotation, GroupResourceVersionAnnotation, ChargedToAnnotation, BoundForAnnotation, TopologyPathAnnotation,
	UserLabel, "primehub.io/group", "primehub.io/user", "scheduling.x-k8s.io/pod-group",
}

// WithoutAccount returns a copy of labels or annotations. It leaves out the keys that decide to which queue, user or gang a pod belongs. Controllers
// copy what a user wrote this way, and then set these keys themselves. The map is never nil.
func WithoutAccount(keys map[string]string) map[string]string {
	rest := make(map[string]string, len(keys))
	maps.Copy(rest, keys)
	maps.DeleteFunc(rest, func(key, _ string) bool { return slices.Contains(accountKeys, key) })
	return rest
}
