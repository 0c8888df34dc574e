// Package resources holds amounts of compute resources as integers.
//
// A List has the amounts of one object: a pod, a node, a capability. A Sums adds up the amounts of many objects, and takes them back,
// exactly.
package resources

import (
	"fmt"
	"iter"
	"math"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// MaxAmount stands for itself and every larger amount: 4Ei bytes, or 4.6e15 cores. No cluster has so much.
// A quantity that is larger is not wrong for the API server, which keeps numbers of any size.
const MaxAmount = math.MaxInt64/2 + 1

// List maps a resource to an amount: cpu in millicores, everything else in its base unit (bytes, pieces). A resource
// that is missing counts as zero. The nil List is a valid empty one for reading.
type List map[corev1.ResourceName]int64

// FromResourceList converts quantities, rounding fractions of a unit up. Amounts end at MaxAmount.
func FromResourceList(quantities corev1.ResourceList) List {
	amounts := make(List, len(quantities))
	for name, quantity := range quantities {
		amounts[name] = Amount(name, quantity)
	}
	return amounts
}

// Amount is one quantity in the unit that List uses for the resource, from -MaxAmount to MaxAmount. Fractions of a unit are rounded away
// from zero.
func Amount(name corev1.ResourceName, quantity resource.Quantity) int64 {
	scale, units := resource.Scale(0), 1.0
	if name == corev1.ResourceCPU {
		scale, units = resource.Milli, 1000
	}
	switch quantity.Sign() {
	case 0:
		return 0
	case -1: // ScaledValue takes some for 0
		positive := quantity.DeepCopy()
		positive.Neg()
		return -Amount(name, positive)
	}
	// ScaledValue wraps beyond int64, and to compare quantities builds numbers with as many digits as the exponent says. A float is exact
	// enough: its error is far smaller than the distance from MaxAmount to the end of int64.
	if quantity.AsApproximateFloat64()*units > 1.5*MaxAmount {
		return MaxAmount
	}
	return min(MaxAmount, quantity.ScaledValue(scale))
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

// PodRequests is what a pod takes from a node, as NodeResourcesFit counts it, and 1 of "pods". It includes init containers, sidecars,
// overhead and pod-level requests.
func PodRequests(pod *corev1.Pod) List {
	amounts := FromResourceList(resourcehelper.PodRequests(bounded(pod), resourcehelper.PodResourcesOptions{}))
	amounts[corev1.ResourcePods] = 1
	return amounts
}

// ValidateRequests is PodRequests(pod).Validate(). It costs far less for an ordinary pod, of which even the sum of all numbers is small.
func ValidateRequests(pod *corev1.Pod) error {
	sum := int64(0)
	for requests := range requestsIn(pod) {
		for name, quantity := range requests {
			sum = extended(sum).plus(extended(max(0, Amount(name, quantity)))).bounded()
		}
	}
	if sum < MaxAmount {
		return nil
	}
	return PodRequests(pod).Validate()
}

// bounded is the pod, or a copy in which no request is above MaxAmount. Adding "1" to "1e100000000" would take minutes.
func bounded(pod *corev1.Pod) *corev1.Pod {
	for requests := range requestsIn(pod) {
		for name, quantity := range requests {
			if Amount(name, quantity) == MaxAmount {
				return boundedCopy(pod)
			}
		}
	}
	return pod
}

func boundedCopy(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	for requests := range requestsIn(pod) {
		for name, quantity := range requests {
			if Amount(name, quantity) == MaxAmount {
				requests[name] = Quantity(name, MaxAmount)
			}
		}
	}
	return pod
}

// requestsIn are the lists from which the requests of a pod are computed.
func requestsIn(pod *corev1.Pod) iter.Seq[corev1.ResourceList] {
	return func(yield func(corev1.ResourceList) bool) {
		for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				if !yield(containers[i].Resources.Requests) {
					return
				}
			}
		}
		if pod.Spec.Resources != nil && !yield(pod.Spec.Resources.Requests) {
			return
		}
		yield(pod.Spec.Overhead)
	}
}

// ToResourceList converts the amounts to quantities. Zero amounts are kept.
func (l List) ToResourceList() corev1.ResourceList {
	quantities := make(corev1.ResourceList, len(l))
	for name, amount := range l {
		quantities[name] = Quantity(name, amount)
	}
	return quantities
}

// Validate returns an error that names the first resource, by name, of which there is MaxAmount or more. It is nil if there is none.
func (l List) Validate() error {
	var first *TooMuch
	for name, amount := range l {
		if amount >= MaxAmount && (first == nil || name < first.Resource) {
			first = &TooMuch{Resource: name}
		}
	}
	if first == nil {
		return nil
	}
	return first
}

// TooMuch says of which resource there is MaxAmount or more.
type TooMuch struct {
	// Resource is the first by name.
	Resource corev1.ResourceName
}

// Error says how much is too much, as the predicate of a sentence about what asks for it.
func (e *TooMuch) Error() string {
	return fmt.Sprintf("asks for %s or more of %s, which no cluster has", Format(e.Resource, MaxAmount), e.Resource)
}

// Add adds other to l in place. The result ends at the bounds of int64, so it is no sum to take something back from: see Sums.
func (l List) Add(other List) {
	for name, amount := range other {
		l[name] = extended(l[name]).plus(extended(amount)).bounded()
	}
}

// Sub takes other from l in place. Amounts may become negative, down to the bounds of int64. The caller must be able to see that more was
// taken than was there.
func (l List) Sub(other List) {
	for name, amount := range other {
		l[name] = Left(l[name], amount)
	}
}

// Left is what is left of an amount from which another is taken. It ends at the bounds of int64.
func Left(amount, taken int64) int64 { return extended(amount).minus(extended(taken)).bounded() }

// Scale is l taken n times. The result ends at the bounds of int64. n must not be negative.
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

// Evenly gives each of some pods an equal part of the amounts.
func Evenly(of List, count int) List {
	each := List{}
	for name, amount := range of {
		if n := int64(count); name != corev1.ResourcePods {
			each[name] = amount/n + min(amount%n, 1)
		}
	}
	return each
}

// Least is the smaller amount of each resource that both have.
func (l List) Least(other List) List {
	least := List{}
	for name, amount := range l {
		least[name] = min(amount, other[name])
	}
	return least
}

// Most is the larger amount of each resource in either.
func (l List) Most(other List) List {
	most := List{}
	for _, amounts := range []List{l, other} {
		for name, amount := range amounts {
			most[name] = max(most[name], amount)
		}
	}
	return most
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

// Format prints one amount as a quantity: "500m", "1Gi". Decimal amounts have no suffix for thousands: "1000", and not "1k".
func Format(name corev1.ResourceName, amount int64) string {
	quantity := Quantity(name, amount)
	switch {
	case quantity.Format != resource.DecimalSI:
	case name != corev1.ResourceCPU:
		return strconv.FormatInt(amount, 10)
	case amount%1000 == 0:
		return strconv.FormatInt(amount/1000, 10)
	}
	return quantity.String()
}
