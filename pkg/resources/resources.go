// Package resources holds amounts of compute resources as integers, with arithmetic that cannot overflow.
package resources

import (
	"fmt"
	"math"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// List maps a resource to an amount: cpu in millicores, everything else in its base unit (bytes, pieces). A resource
// that is missing counts as zero. The nil List is a valid empty one for reading.
type List map[corev1.ResourceName]int64

// FromResourceList converts quantities, rounding fractions of a unit up.
func FromResourceList(quantities corev1.ResourceList) List {
	amounts := make(List, len(quantities))
	for name, quantity := range quantities {
		amounts[name] = Amount(name, quantity)
	}
	return amounts
}

// Amount is one quantity in the unit that List uses for the resource. Quantities beyond int64 saturate.
func Amount(name corev1.ResourceName, quantity resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return quantity.MilliValue()
	}
	return quantity.Value()
}

// Quantity is the inverse of Amount.
func Quantity(name corev1.ResourceName, amount int64) resource.Quantity {
	switch name {
	case corev1.ResourceCPU:
		return *resource.NewMilliQuantity(amount, resource.DecimalSI)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return *resource.NewQuantity(amount, resource.BinarySI)
	}
	if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return *resource.NewQuantity(amount, resource.BinarySI)
	}
	return *resource.NewQuantity(amount, resource.DecimalSI)
}

// PodRequests is what a pod takes from a node, counted as NodeResourcesFit counts it (init containers, sidecars,
// overhead and pod-level requests included), and 1 of "pods".
func PodRequests(pod *corev1.Pod) List {
	amounts := FromResourceList(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))
	amounts[corev1.ResourcePods] = 1
	return amounts
}

// ToResourceList converts the amounts to quantities. Zero amounts are kept.
func (l List) ToResourceList() corev1.ResourceList {
	quantities := make(corev1.ResourceList, len(l))
	for name, amount := range l {
		quantities[name] = Quantity(name, amount)
	}
	return quantities
}

// Add adds other to l in place, saturating.
func (l List) Add(other List) {
	for name, amount := range other {
		l[name] = addSaturating(l[name], amount)
	}
}

// Sub takes other from l in place, saturating. Amounts may become negative: whoever asks must be able to see that more
// was taken than was there.
func (l List) Sub(other List) {
	for name, amount := range other {
		if amount == math.MinInt64 {
			amount++
		}
		l[name] = addSaturating(l[name], -amount)
	}
}

// Scale is l taken n times, saturating. n must not be negative.
func (l List) Scale(n int64) List {
	scaled := make(List, len(l))
	for name, amount := range l {
		switch {
		case amount == 0 || n == 0:
			scaled[name] = 0
		case amount > 0 && amount > math.MaxInt64/n:
			scaled[name] = math.MaxInt64
		case amount < 0 && amount < math.MinInt64/n:
			scaled[name] = math.MinInt64
		default:
			scaled[name] = amount * n
		}
	}
	return scaled
}

// Clone is an independent copy of l, never nil.
func (l List) Clone() List {
	clone := make(List, len(l))
	for name, amount := range l {
		clone[name] = amount
	}
	return clone
}

// IsZero says whether no resource has an amount other than zero.
func (l List) IsZero() bool {
	for _, amount := range l {
		if amount != 0 {
			return false
		}
	}
	return true
}

// Equal says whether both lists hold the same amounts; a missing resource equals a zero one.
func (l List) Equal(other List) bool {
	for name, amount := range l {
		if other[name] != amount {
			return false
		}
	}
	for name, amount := range other {
		if l[name] != amount {
			return false
		}
	}
	return true
}

// String prints the amounts that are not zero, sorted by name: "cpu=500m, memory=1Gi".
func (l List) String() string { return l.join("%[1]s=%[2]s") }

// InWords prints the amounts that are not zero for people, sorted by name: "500m cpu, 1Gi memory".
func (l List) InWords() string { return l.join("%[2]s %[1]s") }

func (l List) join(format string) string {
	names := make([]string, 0, len(l))
	for name, amount := range l {
		if amount != 0 {
			names = append(names, string(name))
		}
	}
	sort.Strings(names)
	for i, name := range names {
		names[i] = fmt.Sprintf(format, name, Format(corev1.ResourceName(name), l[corev1.ResourceName(name)]))
	}
	return strings.Join(names, ", ")
}

// Format prints one amount as a quantity: "500m", "1Gi".
func Format(name corev1.ResourceName, amount int64) string {
	quantity := Quantity(name, amount)
	return quantity.String()
}

func addSaturating(a, b int64) int64 {
	sum := a + b
	if a > 0 && b > 0 && sum < 0 {
		return math.MaxInt64
	}
	if a < 0 && b < 0 && sum >= 0 {
		return math.MinInt64
	}
	return sum
}
