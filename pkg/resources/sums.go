package resources

import (
	"maps"
	"math"
	"math/bits"

	corev1 "k8s.io/api/core/v1"
)

// Sums adds up the amounts of any number of objects. Each sum has 128 bits and each amount 64, so that it takes 2^64 amounts to overflow one.
// A sum is exact whatever is added, and what is taken back leaves what was there before. A resource whose sum is zero is missing, so that a
// Sums has no names of what is gone. The nil Sums is a valid empty one for reading.
type Sums map[corev1.ResourceName]sum128

// sum128 is high*2^64 + low.
type sum128 struct {
	high int64
	low  uint64
}

// Add adds amounts in place.
func (s Sums) Add(amounts List) {
	for name, amount := range amounts {
		s.set(name, s[name].plus(extended(amount)))
	}
}

// Sub takes amounts back in place.
func (s Sums) Sub(amounts List) {
	for name, amount := range amounts {
		s.set(name, s[name].minus(extended(amount)))
	}
}

// AddTo adds amounts to the sum of a name, such as that of a queue.
func AddTo(sums map[string]Sums, name string, amounts List) {
	if sums[name] == nil {
		sums[name] = Sums{}
	}
	sums[name].Add(amounts)
}

// AddSums adds other sums in place.
func (s Sums) AddSums(other Sums) {
	for name, more := range other {
		s.set(name, s[name].plus(more))
	}
}

// SubSums takes other sums back in place.
func (s Sums) SubSums(other Sums) {
	for name, less := range other {
		s.set(name, s[name].minus(less))
	}
}

func (s Sums) set(name corev1.ResourceName, sum sum128) {
	if sum == (sum128{}) {
		delete(s, name)
		return
	}
	s[name] = sum
}

// Clone is an independent copy of s, never nil.
func (s Sums) Clone() Sums {
	clone := make(Sums, len(s))
	maps.Copy(clone, s)
	return clone
}

// Left is what the sum leaves of an amount, negative when there is more than the amount. It ends at the bounds of int64.
func (s Sums) Left(name corev1.ResourceName, amount int64) int64 {
	return extended(amount).minus(s[name]).bounded()
}

// Rest is the part of an amount that the sums have not taken, never negative.
func (s Sums) Rest(want List) List {
	rest := List{}
	for name, amount := range want {
		if left := s.Left(name, amount); left > 0 {
			rest[name] = left
		}
	}
	return rest
}

// Amount is the sum of one resource. It ends at the bounds of int64.
func (s Sums) Amount(name corev1.ResourceName) int64 { return s[name].bounded() }

// List is the sums as amounts, which end at the bounds of int64.
func (s Sums) List() List {
	amounts := make(List, len(s))
	for name, sum := range s {
		amounts[name] = sum.bounded()
	}
	return amounts
}

// IsZero says whether no resource has a sum other than zero.
func (s Sums) IsZero() bool { return len(s) == 0 }

// Equal says whether both have the same sums.
func (s Sums) Equal(other Sums) bool { return maps.Equal(s, other) }

func extended(amount int64) sum128 { return sum128{high: amount >> 63, low: uint64(amount)} }

func (s sum128) plus(other sum128) sum128 {
	low, carry := bits.Add64(s.low, other.low, 0)
	return sum128{high: s.high + other.high + int64(carry), low: low}
}

func (s sum128) minus(other sum128) sum128 {
	low, borrow := bits.Sub64(s.low, other.low, 0)
	return sum128{high: s.high - other.high - int64(borrow), low: low}
}

// bounded is the sum, or the bound of int64 that it is beyond.
func (s sum128) bounded() int64 {
	switch {
	case s.high == int64(s.low)>>63:
		return int64(s.low)
	case s.high < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}
