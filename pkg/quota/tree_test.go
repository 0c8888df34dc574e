package quota

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
)

func cpu(millis int64) resources.List { return resources.List{corev1.ResourceCPU: millis} }

func TestRoomAsksEveryAncestor(t *testing.T) {
	tree := NewTree()
	tree.Set("org", Terms{Capability: cpu(4000)})
	tree.Set("team", Terms{Parent: "org", Capability: cpu(3000)})
	tree.Set("other", Terms{Parent: "org"})
	tree.Add("other", cpu(2000))

	assert.Nil(t, tree.Room("team", cpu(2000)))
	shortage := tree.Room("team", cpu(2500))
	require.NotNil(t, shortage)
	assert.Equal(t, Shortage{Queue: "org", Resource: corev1.ResourceCPU, Want: 2500, Free: 2000, Limit: 4000}, *shortage)
	assert.Equal(t, `queue "org" has 2 cpu free of its capability, 2500m needed`, shortage.Error())
	assert.Equal(t, "team", tree.Room("team", cpu(3500)).Queue)
}

func TestWhatIsNotLimitedOrNotWantedDoesNotMatter(t *testing.T) {
	tree := NewTree()
	tree.Set("q", Terms{Capability: cpu(1000)})
	tree.Add("q", cpu(3000)) // the capability was lowered afterwards
	assert.Nil(t, tree.Room("q", resources.List{corev1.ResourceMemory: 1 << 40}))
	assert.Equal(t, int64(-2000), tree.Room("q", cpu(1)).Free)
}

// TestNothingIsFreeBelowZero: how far a queue is beyond its limit helps no reader. With huge requests it is not even an amount.
func TestNothingIsFreeBelowZero(t *testing.T) {
	tree := NewTree()
	tree.Set("q", Terms{Capability: cpu(1000)})
	tree.Add("q", cpu(math.MaxInt64))
	require.EqualError(t, tree.Room("q", cpu(1000)), `queue "q" has no cpu free of its capability, 1 needed`)

	tree.Sub("q", cpu(math.MaxInt64))
	tree.Add("q", cpu(1000))
	assert.EqualError(t, tree.Room("q", cpu(1000)), `queue "q" has 0 cpu free of its capability, 1 needed`)
}

func TestQueuesAppearInAnyOrder(t *testing.T) {
	tree := NewTree()
	tree.Add("leaf", cpu(1000))
	tree.Set("leaf", Terms{Parent: "parent"})
	assert.Equal(t, []string{"leaf", Root}, tree.Path("leaf"))
	tree.Set("parent", Terms{Capability: cpu(1500)})
	assert.Equal(t, []string{"leaf", "parent", Root}, tree.Path("leaf"))
	assert.Equal(t, cpu(1000), tree.Total("parent").List())
	assert.NotNil(t, tree.Room("leaf", cpu(1000)))
	tree.Remove("parent")
	assert.Nil(t, tree.Room("leaf", cpu(1000)))
	assert.Equal(t, cpu(1000), tree.Total(Root).List())
}

func TestACycleOfParentsEnds(t *testing.T) {
	tree := NewTree()
	tree.Set("a", Terms{Parent: "b"})
	tree.Set("b", Terms{Parent: "a"})
	tree.Add("a", cpu(1))
	assert.Equal(t, []string{"a", "b", Root}, tree.Path("a"))
	assert.Equal(t, cpu(1), tree.Total(Root).List())
}

// TestTotalsAreTheSumOfWhatWasAdded drives the tree through random histories. It compares every total with one that is summed from scratch
// along the declared parents. It compares the names with the declared and used queues.
func TestTotalsAreTheSumOfWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := NewTree()
		own := map[string]int64{}
		parents := map[string]string{} // only the declared queues
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			queue := name.Draw(t, fmt.Sprint("queue", step))
			switch rapid.IntRange(0, 3).Draw(t, "verb") {
			case 0:
				// Parents come earlier in the alphabet: the model knows no cycles.
				parent := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Filter(func(p string) bool { return p < queue }).Draw(t, "parent")
				tree.Set(queue, Terms{Parent: parent})
				parents[queue] = parent
			case 1:
				tree.Remove(queue)
				delete(parents, queue)
			case 2:
				amount := rapid.Int64Range(1, 100).Draw(t, "amount")
				tree.Add(queue, cpu(amount))
				own[queue] += amount
			case 3:
				tree.Sub(queue, cpu(own[queue]))
				own[queue] = 0
			}
		}
		want := map[string]int64{}
		names := []string{Root}
		for queue, amount := range own {
			if _, declared := parents[queue]; !declared && amount > 0 {
				names = append(names, queue)
			}
			for at := queue; ; {
				want[at] += amount
				if at == Root {
					break
				}
				parent := parents[at]
				if _, declared := parents[parent]; !declared {
					parent = Root
				}
				at = parent
			}
		}
		for _, queue := range []string{"a", "b", "c", "d", "e", Root} {
			assert.Equal(t, want[queue], tree.Total(queue).List()[corev1.ResourceCPU], queue)
		}
		for queue := range parents {
			names = append(names, queue)
		}
		assert.ElementsMatch(t, names, tree.Names(), "a queue that is neither declared nor used is forgotten")
	})
}

// TestWhatIsSetAside has a tree of an org with 20 cores and two children. These are a, with 10, and b, without a limit. Beside them stands
// another without a limit.
func TestWhatIsSetAside(t *testing.T) {
	gpu := func(n int64) resources.List { return resources.List{"nvidia.com/gpu": n} }
	for name, c := range map[string]struct {
		usedInA, usedInB int64
		ahead            []Claim
		queue            string
		want             resources.List
		short            string // the queue, "" for none
		behind           bool
	}{
		"free room of the claim's queue is reserved for it": {8000, 0, []Claim{{Queue: "a", Want: cpu(10000)}}, "a", cpu(1), "a", true},
		"beyond the claim there is room":                    {2000, 0, []Claim{{Queue: "a", Want: cpu(5000)}}, "a", cpu(3000), "", false},
		"and no more":                                       {2000, 0, []Claim{{Queue: "a", Want: cpu(5000)}}, "a", cpu(3001), "a", true},
		"a lack without it is a lack":                       {8000, 0, []Claim{{Queue: "a", Want: cpu(5000)}}, "a", cpu(3000), "a", false},
		"what a lacks is not kept free in the parent":       {8000, 7000, []Claim{{Queue: "a", Want: cpu(10000)}}, "b", cpu(3000), "", false},
		"what is free in a is":                              {8000, 7000, []Claim{{Queue: "a", Want: cpu(10000)}}, "b", cpu(3001), "org", true},
		"all that the parent has, if it lacks itself":       {0, 15000, []Claim{{Queue: "a", Want: cpu(10000)}}, "b", cpu(1), "org", true},
		"a queue of another branch is not touched":          {8000, 0, []Claim{{Queue: "a", Want: cpu(10000)}}, "other", cpu(1 << 40), "", false},
		"nor is another resource":                           {8000, 0, []Claim{{Queue: "a", Want: cpu(10000)}}, "a", gpu(8), "", false},
		"a claim on a queue without a limit bars no queue":  {8000, 0, []Claim{{Queue: "other", Want: cpu(1 << 40)}}, "a", cpu(2000), "", false},
		"two claims add up in the parent":                   {4000, 2000, []Claim{{Queue: "a", Want: cpu(6000)}, {Queue: "b", Want: cpu(7000)}}, "b", cpu(1000), "", false},
		"and bar what is more":                              {4000, 2000, []Claim{{Queue: "a", Want: cpu(6000)}, {Queue: "b", Want: cpu(7000)}}, "b", cpu(1001), "org", true},
		"the second claim has what the first leaves":        {4000, 2000, []Claim{{Queue: "a", Want: cpu(6000)}, {Queue: "b", Want: cpu(1 << 40)}}, "other", cpu(1), "", false},
		"a capability below the use sets nothing free":      {12000, 0, []Claim{{Queue: "a", Want: cpu(10000)}}, "b", cpu(8000), "", false},
		"nor does it make the next claim smaller":           {12000, 0, []Claim{{Queue: "a", Want: cpu(10000)}, {Queue: "b", Want: cpu(8000)}}, "b", cpu(1), "org", true},
		"a queue that is not known has no limit":            {0, 0, []Claim{{Queue: "new", Want: cpu(1 << 40)}}, "newer", cpu(1), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			tree := NewTree()
			tree.Set("org", Terms{Capability: cpu(20000)})
			tree.Set("a", Terms{Parent: "org", Capability: cpu(10000)})
			tree.Set("b", Terms{Parent: "org"})
			tree.Set("other", Terms{})
			tree.Add("a", cpu(c.usedInA))
			tree.Add("b", cpu(c.usedInB))
			shortage := tree.Room(c.queue, c.want, c.ahead...)
			if c.short == "" {
				assert.Nil(t, shortage)
				return
			}
			require.NotNil(t, shortage)
			assert.Equal(t, c.short, shortage.Queue)
			assert.Equal(t, c.behind, shortage.Behind)
			assert.Equal(t, c.behind, strings.HasSuffix(shortage.Error(), "; quota is reserved for a gang that has waited longer"))
		})
	}
}

// TestQuotaIsReservedForFurtherMembers: it is named after all other reasons.
func TestQuotaIsReservedForFurtherMembers(t *testing.T) {
	waits, started := Claim{Queue: "q", Want: cpu(3000)}, Claim{Queue: "q", Want: cpu(4000), Started: true}
	for name, c := range map[string]struct {
		ahead []Claim
		want  int64
		said  string
	}{
		"beside it there is room":     {[]Claim{started}, 6000, ""},
		"it is in the way":            {[]Claim{started}, 6001, "; quota is reserved for further members of a gang that has started"},
		"beside both there is room":   {[]Claim{started, waits}, 3000, ""},
		"both together":               {[]Claim{started, waits}, 3001, "; quota is reserved for further members of a gang that has started"},
		"the other alone":             {[]Claim{started, waits}, 7001, "; quota is reserved for a gang that has waited longer"},
		"there is no room without it": {[]Claim{started}, 10001, "10001m cpu asked, its capability is 10"},
	} {
		tree := NewTree()
		tree.Set("q", Terms{Capability: cpu(10000)})
		shortage := tree.Room("q", cpu(c.want), c.ahead...)
		if c.said == "" {
			assert.Nil(t, shortage, name)
			continue
		}
		require.NotNil(t, shortage, name)
		assert.Contains(t, shortage.Error(), c.said, name)
	}
}

func TestExceeds(t *testing.T) {
	tree := NewTree()
	tree.Set("org", Terms{Capability: cpu(4000)})
	tree.Set("team", Terms{Parent: "org", Capability: cpu(6000)})
	tree.Set("closed", Terms{Parent: "org", Capability: cpu(0)})
	tree.Add("team", cpu(4000))
	assert.False(t, tree.Exceeds("team", cpu(4000)), "what is used comes free")
	assert.True(t, tree.Exceeds("team", cpu(5000)), "the parent never has so much")
	assert.True(t, tree.Exceeds("closed", cpu(1)))
	assert.False(t, tree.Exceeds("closed", resources.List{corev1.ResourceMemory: 1}))
	assert.False(t, tree.Exceeds("unknown", cpu(1<<40)))
}

// TestWhatIsSetAsideIsThereInTheEnd adds requests beside a claim wherever the tree has room for them. A model that adds up all requests
// says which of them must fit. Once the requests from before the claim are gone, the claim must fit.
func TestWhatIsSetAsideIsThereInTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := NewTree()
		tree.Set("org", Terms{Capability: cpu(20)})
		tree.Set("a", Terms{Parent: "org", Capability: cpu(10)})
		tree.Set("b", Terms{Parent: "org", Capability: cpu(15)})
		tree.Set("leaf", Terms{Parent: "a", Capability: cpu(8)})
		model := model{
			paths:  map[string][]string{"org": {"org"}, "a": {"a", "org"}, "b": {"b", "org"}, "leaf": {"leaf", "a", "org"}},
			limits: map[string]int64{"org": 20, "a": 10, "b": 15, "leaf": 8},
			used:   map[string]int64{},
		}
		take := func(ahead ...request) (request, bool) {
			r := request{rapid.SampledFrom([]string{"org", "a", "b", "leaf"}).Draw(t, "queue"), rapid.Int64Range(1, 6).Draw(t, "amount")}
			var claims []Claim
			for _, claim := range ahead {
				claims = append(claims, Claim{Queue: claim.queue, Want: cpu(claim.amount)})
			}
			fits := model.fits(r, ahead...)
			require.Equal(t, fits, tree.Room(r.queue, cpu(r.amount), claims...) == nil, "%+v behind %+v with %v in use", r, ahead, model.used)
			if fits {
				tree.Add(r.queue, cpu(r.amount))
				model.add(r, 1)
			}
			return r, fits
		}
		var before []request
		for range rapid.IntRange(0, 12).Draw(t, "before") {
			if r, ok := take(); ok {
				before = append(before, r)
			}
		}
		claim := request{"leaf", rapid.Int64Range(1, 8).Draw(t, "claim")}
		for len(before) > 0 {
			for range rapid.IntRange(0, 3).Draw(t, "passing") {
				take(claim) // and stays
			}
			i := rapid.IntRange(0, len(before)-1).Draw(t, "ends")
			tree.Sub(before[i].queue, cpu(before[i].amount))
			model.add(before[i], -1)
			before = slices.Delete(before, i, i+1)
		}
		require.True(t, model.fits(claim), "%+v does not fit, in use are %v", claim, model.used)
		require.Nil(t, tree.Room(claim.queue, cpu(claim.amount)))
	})
}

// request is an amount that is asked of a queue.
type request struct {
	queue  string
	amount int64
}

// model is a tree of queues as tables, with one resource.
type model struct {
	paths  map[string][]string // queue -> itself and its ancestors
	limits map[string]int64
	used   map[string]int64 // by the queue and all queues below it
}

func (m *model) add(r request, sign int64) {
	for _, name := range m.paths[r.queue] {
		m.used[name] += sign * r.amount
	}
}

// fits says whether a request stays within the limits, beside all use and what the claims ahead of it keep. A claim keeps no more on a
// level than is free there, and no more than one level below.
func (m *model) fits(r request, ahead ...request) bool {
	kept := map[string]int64{}
	for _, claim := range ahead {
		amount := claim.amount
		for _, name := range m.paths[claim.queue] {
			amount = max(0, min(amount, m.limits[name]-m.used[name]-kept[name]))
			kept[name] += amount
		}
	}
	for _, name := range m.paths[r.queue] {
		if m.used[name]+kept[name]+r.amount > m.limits[name] {
			return false
		}
	}
	return true
}

func TestTheFirstShortResourceByNameIsReported(t *testing.T) {
	tree := NewTree()
	limits, want := resources.List{}, resources.List{}
	for _, name := range []corev1.ResourceName{"b", "d", "a", "e", "c"} {
		limits[name], want[name] = 1, 2
	}
	limits["a"] = 2
	tree.Set("q", Terms{Capability: limits})
	for range 50 { // the order of a map differs from one range over it to the next
		require.Equal(t, Shortage{Queue: "q", Resource: "b", Want: 2, Free: 1, Limit: 1}, *tree.Room("q", want))
	}
}

// TestAClaimInItsOwnQueueKeepsNothingFromOthers: it takes nothing either of what other claims of the queue keep above it.
func TestAClaimInItsOwnQueueKeepsNothingFromOthers(t *testing.T) {
	tree := NewTree()
	tree.Set("org", Terms{Capability: cpu(10000)})
	tree.Set("q", Terms{Parent: "org", Capability: cpu(6000), EachUser: cpu(6000)})
	tree.Set("below", Terms{Parent: "q"})
	tree.Set("beside", Terms{Parent: "org"})
	for _, account := range []string{"q", Account("q", "amy")} {
		own := Claim{Queue: account, Want: cpu(4000), Own: true}
		assert.Nil(t, tree.Room("beside", cpu(10000), own))
		for _, queue := range []string{"q", "below"} {
			assert.Nil(t, tree.Room(queue, cpu(2000), own))
			assert.NotNil(t, tree.Room(queue, cpu(3000), own))
		}
		started := Claim{Queue: "q", Want: cpu(6000), Started: true}
		shortage := tree.Room("beside", cpu(5000), own, started)
		assert.True(t, shortage != nil && shortage.BehindStarted)
		assert.Nil(t, tree.Room("beside", cpu(4000), own, started))
	}
}
