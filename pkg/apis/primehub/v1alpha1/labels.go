package v1alpha1

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Labels and annotations. The ones of pods are PrimeHub's; the one of Queues names the Queue's group.
const (
	// GroupIDLabel on a Queue is the identifier of the group that the Queue is.
	GroupIDLabel = "primehub.io/group-id"
	// GroupNameLabel on a Queue is the name of that group, as LabelOf writes it.
	GroupNameLabel = "primehub.io/group-name"
	// GroupVolumesAnnotation on a Queue lists the groups, separated by commas, whose volumes its jobs mount.
	GroupVolumesAnnotation = "primehub.io/group-volumes"
	// DatasetsAnnotation on a Queue lists, as JSON, the datasets that its jobs mount.
	DatasetsAnnotation = "primehub.io/datasets"
	// GroupsAnnotation on an Image or InstanceType lists the groups, separated by commas, that may use it. Without it all may.
	GroupsAnnotation = "primehub.io/groups"
	// PodGroupLabel on a pod is the escaped name of the group that the pod belongs to.
	PodGroupLabel = "primehub.io/group"
	// PodUserLabel on a pod is the escaped name of the user that the pod belongs to.
	PodUserLabel = "primehub.io/user"
	// UsageAnnotation on a pod says, as JSON, what the pod is to PrimeHub.
	UsageAnnotation = "primehub.io/usage"
	// ScheduledByLabel on a PhJob is the name of the PhSchedule that created it.
	ScheduledByLabel = "phjob.primehub.io/scheduledBy"
)

// EveryoneGroup is the group whose images and instance types all groups may use.
const EveryoneGroup = "everyone"

// escapedPrefix begins the escaped form of a name.
const escapedPrefix = "escaped-"

// Escape writes a name as PrimeHub writes it into labels of pods. Each byte that is no lower-case letter and no digit becomes a dash and
// two hexadecimal digits.
func Escape(name string) string {
	escaped := &strings.Builder{}
	escaped.WriteString(escapedPrefix)
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			escaped.WriteByte(c)
		} else {
			fmt.Fprintf(escaped, "-%02x", c)
		}
	}
	return escaped.String()
}

// Unescape returns the name that Escape has written. It returns "" and false for what Escape does not write.
func Unescape(label string) (string, bool) {
	escaped, found := strings.CutPrefix(label, escapedPrefix)
	if !found {
		return "", false
	}
	var name []byte
	for i := 0; i < len(escaped); i++ {
		if escaped[i] != '-' {
			name = append(name, escaped[i])
			continue
		}
		if i+2 >= len(escaped) {
			return "", false
		}
		c, err := strconv.ParseUint(escaped[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		name = append(name, byte(c))
		i += 2
	}
	if Escape(string(name)) != label {
		return "", false
	}
	return string(name), true
}

// LabelOf writes the name of a user or a group as the value of a label. The name is escaped if a label cannot have it. So the user bob is
// bob in the label muster.sh/user, and in the user quota of a Queue.
func LabelOf(name string) string {
	if len(validation.IsValidLabelValue(name)) == 0 {
		return name
	}
	return Escape(name)
}
