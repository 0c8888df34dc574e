package quota

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
)

// asks are requests for cpu, by queue.
func asks(millis map[string]int64) map[string]resources.Sums {
	requests := map[string]resources.Sums{}
	for queue, amount := range millis {
		requests[queue] = resources.Sums{}
		requests[queue].Add(cpu(amount))
	}
	return requests
}

func TestShareOut(t *testing.T) {
	for name, c := range map[string]struct {
		total  int64
		queues map[string]Terms
		asks   map[string]int64
		want   map[string]int64
	}{
		"equal weights, both ask for more than half": {100, map[string]Terms{"a": {Weight: 1}, "b": {Weight: 1}}, map[string]int64{"a": 90, "b": 90}, map[string]int64{"a": 50, "b": 50}},
		"one to three": {100, map[string]Terms{"a": {Weight: 1}, "b": {Weight: 3}}, map[string]int64{"a": 90, "b": 90}, map[string]int64{"a": 25, "b": 75}},
		"what one does not ask for goes to the other":      {100, map[string]Terms{"a": {Weight: 1}, "b": {Weight: 3}}, map[string]int64{"a": 90, "b": 20}, map[string]int64{"a": 80, "b": 20}},
		"unused amounts are in no share":                   {100, map[string]Terms{"a": {}, "b": {}}, map[string]int64{"a": 10, "b": 20}, map[string]int64{"a": 10, "b": 20}},
		"no weight is a weight of one":                     {100, map[string]Terms{"a": {}, "b": {Weight: 1}}, map[string]int64{"a": 90, "b": 90}, map[string]int64{"a": 50, "b": 50}},
		"a guarantee is kept without any demand":           {100, map[string]Terms{"a": {Guarantee: cpu(40)}, "b": {}}, map[string]int64{"b": 90}, map[string]int64{"a": 40, "b": 60}},
		"a guarantee above the share by weight":            {100, map[string]Terms{"a": {Guarantee: cpu(70)}, "b": {}, "c": {}}, map[string]int64{"a": 90, "b": 90, "c": 90}, map[string]int64{"a": 70, "b": 15, "c": 15}},
		"a capability below the share by weight":           {100, map[string]Terms{"a": {Capability: cpu(10)}, "b": {}, "c": {}}, map[string]int64{"a": 90, "b": 90, "c": 90}, map[string]int64{"a": 10, "b": 45, "c": 45}},
		"a guarantee above the capability ends there":      {100, map[string]Terms{"a": {Guarantee: cpu(70), Capability: cpu(10)}, "b": {}}, map[string]int64{"a": 90, "b": 90}, map[string]int64{"a": 10, "b": 90}},
		"a written share comes first, asked for or not":    {100, map[string]Terms{"a": {Deserved: cpu(60)}, "b": {}}, map[string]int64{"b": 90}, map[string]int64{"a": 60, "b": 40}},
		"a written share ends at the capability":           {100, map[string]Terms{"a": {Deserved: cpu(60), Capability: cpu(20)}, "b": {}}, map[string]int64{"b": 90}, map[string]int64{"a": 20, "b": 80}},
		"a written share is never below the guarantee":     {100, map[string]Terms{"a": {Deserved: cpu(5), Guarantee: cpu(20)}, "b": {}}, map[string]int64{"b": 90}, map[string]int64{"a": 20, "b": 80}},
		"written shares of more than there is":             {100, map[string]Terms{"a": {Deserved: cpu(80)}, "b": {Deserved: cpu(80)}, "c": {Guarantee: cpu(5)}}, map[string]int64{"c": 90}, map[string]int64{"a": 80, "b": 80, "c": 5}},
		"guarantees of more than there is":                 {100, map[string]Terms{"a": {Guarantee: cpu(80)}, "b": {Guarantee: cpu(60)}}, map[string]int64{"a": 90, "b": 90}, map[string]int64{"a": 80, "b": 60}},
		"units that cannot be divided go by name":          {101, map[string]Terms{"a": {}, "b": {}, "c": {}}, map[string]int64{"a": 90, "b": 90, "c": 90}, map[string]int64{"a": 34, "b": 34, "c": 33}},
		"no unit goes to a queue that has all it asks for": {10, map[string]Terms{"a": {Weight: 4}, "b": {Weight: 9}, "c": {Weight: 7}}, map[string]int64{"a": 2, "b": 90, "c": 90}, map[string]int64{"a": 2, "b": 5, "c": 3}},
		"nothing to divide":                                {0, map[string]Terms{"a": {}, "b": {}}, map[string]int64{"a": 90, "b": 90}, map[string]int64{"a": 0, "b": 0}},
		"children share what their parent deserves":        {100, map[string]Terms{"org": {}, "x": {Parent: "org"}, "y": {Parent: "org", Weight: 4}, "b": {}}, map[string]int64{"x": 90, "y": 90, "b": 90}, map[string]int64{"org": 50, "x": 10, "y": 40, "b": 50}},
		"a child's guarantee is its parent's":              {100, map[string]Terms{"org": {}, "x": {Parent: "org", Guarantee: cpu(60)}, "b": {Weight: 9}}, map[string]int64{"b": 90}, map[string]int64{"org": 60, "x": 60, "b": 40}},
		"a queue asks for itself beside its children":      {100, map[string]Terms{"org": {}, "x": {Parent: "org"}}, map[string]int64{"org": 10, "x": 20}, map[string]int64{"org": 30, "x": 20}},
		"a parent that does not exist counts as the root":  {100, map[string]Terms{"a": {Parent: "missing"}, "b": {}}, map[string]int64{"a": 90, "b": 90}, map[string]int64{"a": 50, "b": 50}},
		"parents in a circle are children of the root":     {100, map[string]Terms{"a": {Parent: "b"}, "b": {Parent: "a"}, "c": {}}, map[string]int64{"a": 90, "b": 90, "c": 20}, map[string]int64{"a": 40, "b": 40, "c": 20}},
		"amounts as large as they get":                     {resources.MaxAmount, map[string]Terms{"a": {Weight: 65535}, "b": {Weight: 65535}}, map[string]int64{"a": resources.MaxAmount, "b": resources.MaxAmount}, map[string]int64{"a": resources.MaxAmount / 2, "b": resources.MaxAmount / 2}},
		"one needs little, one has little, one takes all":  {100, map[string]Terms{"a": {Weight: 5}, "b": {Weight: 5, Guarantee: cpu(30)}, "c": {Weight: 1}}, map[string]int64{"a": 10, "b": 30, "c": 90}, map[string]int64{"a": 10, "b": 30, "c": 60}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := NewTree()
			for queue, terms := range c.queues {
				tree.Set(queue, terms)
			}
			shares := tree.ShareOut(cpu(c.total), asks(c.asks))
			got := map[string]int64{}
			for queue := range c.queues {
				got[queue] = shares[queue][corev1.ResourceCPU]
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestResourcesAreSharedOutOneByOne(t *testing.T) {
	gpu := corev1.ResourceName("example.com/gpu")
	requests := asks(map[string]int64{"a": 90, "b": 90})
	requests["a"].Add(resources.List{gpu: 8})
	tree := NewTree()
	tree.Set("a", Terms{})
	tree.Set("b", Terms{})
	shares := tree.ShareOut(resources.List{corev1.ResourceCPU: 100, gpu: 8}, requests)
	assert.Equal(t, resources.List{corev1.ResourceCPU: 50, gpu: 8}, shares["a"])
	assert.Equal(t, int64(50), shares["b"][corev1.ResourceCPU])
}

// TestFillIsFair divides random amounts and compares them with what each part would have if units could be divided.
func TestFillIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(0, 200).Draw(t, "amount")
		var parts []*part
		for i := range rapid.IntRange(1, 6).Draw(t, "parts") {
			least := rapid.Int64Range(0, 30).Draw(t, fmt.Sprint("least", i))
			parts = append(parts, &part{queue: fmt.Sprint(i), weight: rapid.Int64Range(1, 9).Draw(t, fmt.Sprint("weight", i)),
				least: least, most: least + rapid.Int64Range(0, 80).Draw(t, fmt.Sprint("more", i))})
		}
		exact := undivided(float64(amount), parts)
		fill(amount, parts)
		var sum, least, most int64
		for i, p := range parts {
			require.GreaterOrEqual(t, p.amount, p.least)
			require.LessOrEqual(t, p.amount, p.most)
			require.InDelta(t, exact[i], p.amount, 1+1e-6, "part %d: %+v", i, p)
			sum, least, most = sum+p.amount, least+p.least, most+p.most
		}
		require.Equal(t, max(least, min(amount, most)), sum)
		for _, a := range parts {
			for _, b := range parts {
				if a.amount > a.least && b.amount < b.most { // or else a would have given b a unit
					require.LessOrEqual(t, (a.amount-1)*b.weight, (b.amount+1)*a.weight)
				}
			}
		}
	})
}

// undivided raises the level to which all parts are filled, within their bounds, until the amount is used.
func undivided(amount float64, parts []*part) []float64 {
	at := func(level float64) (amounts []float64, sum float64) {
		for _, p := range parts {
			own := max(float64(p.least), min(level*float64(p.weight), float64(p.most)))
			amounts, sum = append(amounts, own), sum+own
		}
		return amounts, sum
	}
	low, high := 0.0, 1000.0
	for range 100 {
		if _, sum := at((low + high) / 2); sum > amount {
			high = (low + high) / 2
		} else {
			low = (low + high) / 2
		}
	}
	amounts, _ := at(low)
	return amounts
}

func TestRatio(t *testing.T) {
	used := func(millis, bytes int64) resources.Sums {
		sums := resources.Sums{}
		sums.Add(resources.List{corev1.ResourceCPU: millis, corev1.ResourceMemory: bytes})
		return sums
	}
	share := resources.List{corev1.ResourceCPU: 100, corev1.ResourceMemory: 1000}
	rising := []Ratio{
		ratioOf(used(0, 0), share),
		ratioOf(used(50, 100), share),
		ratioOf(used(10, 600), share),
		ratioOf(used(100, 0), share),
		ratioOf(used(resources.MaxAmount, 0), share),
		ratioOf(used(1, 0), cpu(0)),
	}
	for i := range rising {
		for j := range rising {
			assert.Equal(t, sign(i-j), rising[i].Compare(rising[j]), "%d and %d", i, j)
		}
	}
	assert.Zero(t, ratioOf(used(50, 0), share).Compare(ratioOf(used(0, 500), share)))
	assert.Zero(t, ratioOf(used(50, 0), cpu(0)).Compare(ratioOf(used(7, 0), cpu(0))), "more than any share is all the same")
	assert.Zero(t, ratioOf(used(50, 0), nil).Compare(Ratio{}), "what is not shared out does not count")
}

func sign(n int) int { return min(1, max(-1, n)) }

// TestEachQueueCountsOnce: all that is asked for comes to the root once, whatever the parents say. A queue's children deserve no more than
// the queue, except for guarantees.
func TestEachQueueCountsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e", "f"}
		parent := rapid.SampledFrom(append([]string{"", Root, "nobody"}, names...))
		tree, waiting := NewTree(), map[string]resources.Sums{}
		var sum int64
		for _, name := range names {
			terms := Terms{Parent: parent.Draw(t, "parent of "+name), Weight: rapid.Int64Range(0, 5).Draw(t, "weight of "+name)}
			if limit := rapid.Int64Range(-1, 50).Draw(t, "capability of "+name); limit >= 0 {
				terms.Capability = cpu(limit)
			}
			tree.Set(name, terms)
			used, waits := rapid.Int64Range(0, 50).Draw(t, "use of "+name), rapid.Int64Range(0, 50).Draw(t, "waiting in "+name)
			tree.Add(name, cpu(used))
			waiting[name] = resources.Sums{}
			waiting[name].Add(cpu(waits))
			sum += used + waits
		}
		s := &sharing{tree: tree, children: tree.children(), waits: map[string]resources.Sums{}, asks: map[string]resources.Sums{}, floors: map[string]resources.Sums{}}
		s.gather(Root, waiting)
		require.Equal(t, sum, s.asks[Root].List()[corev1.ResourceCPU])

		shares := tree.ShareOut(cpu(rapid.Int64Range(0, 300).Draw(t, "total")), waiting)
		for queue, children := range s.children {
			var deserved int64
			for _, child := range children {
				deserved += shares[child][corev1.ResourceCPU]
			}
			require.LessOrEqual(t, deserved, shares[queue][corev1.ResourceCPU], queue)
		}
	})
}

// TestOnlyWhatThereIsIsSharedOut: pods and PodGroups may ask for thousands of resources that no node has. They have no share, and do not
// make a queue come last.
func TestOnlyWhatThereIsIsSharedOut(t *testing.T) {
	tree, waiting := NewTree(), asks(map[string]int64{"a": 90, "b": 90})
	for _, name := range []string{"a", "b"} {
		tree.Set(name, Terms{})
	}
	tree.Set("c", Terms{Guarantee: resources.List{"example.com/promised": 3}})
	for i := range 5000 {
		name := corev1.ResourceName(fmt.Sprint("example.com/invented-", i))
		waiting["a"].Add(resources.List{name: 1})
		tree.Add("a", resources.List{name: 1})
	}
	tree.Add("a", cpu(10))
	shares := tree.ShareOut(cpu(100), waiting)
	assert.Equal(t, resources.List{corev1.ResourceCPU: 50, "example.com/promised": 0}, shares["a"])
	assert.Equal(t, int64(3), shares["c"]["example.com/promised"])
	assert.Zero(t, tree.Ratio("a", shares).Compare(Ratio{10, 50}))
}

// TestUsersHaveNoShare: they share what their queue has with its children, but no part of it is theirs.
func TestUsersHaveNoShare(t *testing.T) {
	tree := NewTree()
	tree.Set("q", Terms{})
	tree.Set("kid", Terms{Parent: "q"})
	tree.Add(Account("q", "ann"), cpu(40))
	tree.Add(Account("q", "bob"), cpu(20))
	shares := tree.ShareOut(cpu(100), asks(map[string]int64{"kid": 30}))
	assert.Equal(t, cpu(90), shares["q"])
	assert.Equal(t, cpu(30), shares["kid"])
	assert.Len(t, shares, 3)
}

func TestAccount(t *testing.T) {
	assert.Equal(t, "q", Account("q", ""))
	assert.Empty(t, Account("", "ann"))
	assert.Empty(t, Account("q/ann", ""), "it names no queue")
	assert.True(t, IsUser(Account("q", "ann")))
	assert.Equal(t, "q", QueueOf(Account("q", "ann")))
}

// TestWideNumbers compares sums of differences of products with those of big integers.
func TestWideNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum, want := wide{}, new(big.Int)
		for range rapid.IntRange(1, 20).Draw(t, "terms") {
			a, b := rapid.Int64Range(0, math.MaxInt64).Draw(t, "amount"), rapid.Int64Range(0, 1<<36).Draw(t, "weight")
			c, d := rapid.Int64Range(0, math.MaxInt64).Draw(t, "other amount"), rapid.Int64Range(0, 1<<36).Draw(t, "other weight")
			sum = sum.plus(product(a, b).minus(product(c, d)))
			want.Add(want, new(big.Int).Mul(big.NewInt(a), big.NewInt(b)))
			want.Sub(want, new(big.Int).Mul(big.NewInt(c), big.NewInt(d)))
			assert.Equal(t, want.Sign(), sum.sign())
		}
	})
	assert.Zero(t, product(3, 4).minus(product(6, 2)).sign())
}
