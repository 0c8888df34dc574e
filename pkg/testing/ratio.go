package testing

import (
	"fmt"
	"math"
	"testing"
)

// doubt is how sure IsAbove has to be. If the true ratio is at the limit, one sample of a million is judged to be above it.
var doubt = math.Log(1e6)

// Ratio is a ratio of sums over random histories, such as pods evicted to pods that had to be. A property is judged on each history alone. A
// ratio differs from sample to sample: the smaller the sample, the more. So a test does not compare it with its limit, but asks AtMost.
type Ratio struct {
	histories               float64
	part, whole             float64
	partPart, partWhole, ww float64 // sums of products
	most                    float64 // the largest part of a history
}

// Add adds a history. Histories are independent of each other. Pods of one history need not be: many of them may be bad at a time.
func (r *Ratio) Add(part, whole int) {
	p, w := float64(part), float64(whole)
	r.histories++
	r.part, r.whole = r.part+p, r.whole+w
	r.partPart, r.partWhole, r.ww = r.partPart+p*p, r.partWhole+p*w, r.ww+w*w
	r.most = max(r.most, p)
}

// String is the ratio in percent, and what it is made of.
func (r *Ratio) String() string {
	return fmt.Sprintf("%.2f%% (%.0f of %.0f, in %.0f histories)", 100*r.part/r.whole, r.part, r.whole, r.histories)
}

// IsAbove says whether the true ratio is above a limit, beyond the doubt that a sample of this size leaves. That is Bernstein's inequality: it
// holds for few histories, too. The variance is that of the sample, or that of a ratio at the limit if that is larger.
func (r *Ratio) IsAbove(limit float64) bool {
	excess := r.part - limit*r.whole // the sum of part-limit*whole in each history
	if excess <= 0 {
		return false
	}
	squares := r.partPart - 2*limit*r.partWhole + limit*limit*r.ww
	variance := max(squares-excess*excess/r.histories, limit*(1-limit)*r.ww)
	return excess*excess > 2*doubt*(variance+r.most*excess/3)
}

// AtMost fails a test if the true ratio is above so many percent. It says what the figure is, and fails if nothing was counted.
func (r *Ratio) AtMost(t testing.TB, percent float64, what string) {
	t.Helper()
	t.Logf("%s: %v, limit %v%%", what, r, percent)
	if r.whole == 0 {
		t.Errorf("%s: nothing was counted", what)
	}
	if r.IsAbove(percent / 100) {
		t.Errorf("%s: %v are more than %v%%, and not by chance", what, r, percent)
	}
}
