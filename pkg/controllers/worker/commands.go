package worker

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
)

// CompareAge orders Commands by their creation. Times have whole seconds only. A Command is never updated, so its resource version is that
// of its creation.
func CompareAge(a, b *busv1alpha1.Command) int {
	if order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion); err == nil {
		return order
	}
	return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
}
