package quota

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// reclaimCase is a cluster of which only the amounts count: no nodes.
//
// Amounts are whole numbers of cpu, or of the resource that follows the number: "4 2gpu". Queues are separated by semicolons: "org d6 c8; a
// <org g2 w3 keep" has a queue org that deserves 6 and may use 8. Its child a has a guarantee of 2, the weight 3, and is not reclaimable.
// "q u4" has a quota of 4 for each user. "running" lists units in the order in which they may be evicted. There "b 2 x3 @5" are three units of 2
// with priority 5, in the account b. They are called b1, b2 and b3. With a "!" they ask to stay. "waits" lists what waits; the first is what
// units are evicted for.
type reclaimCase struct {
	name, total, queues, running, waits string
	// evicted are the units that go, "free" if none has to, "no" if none may. Units that go by priority have a star.
	evicted string
}

// named is a unit with its name in the case.
type named struct {
	name string
	Unit
}

func amountOf(t require.TestingT, text string) (corev1.ResourceName, int64) {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz")
	amount, err := strconv.ParseInt(digits, 10, 64)
	require.NoError(t, err, text)
	if name := strings.TrimPrefix(text, digits); name != "" {
		return corev1.ResourceName("example.com/" + name), amount
	}
	return corev1.ResourceCPU, amount
}

func listOf(t require.TestingT, words ...string) resources.List {
	list := resources.List{}
	for _, word := range words {
		name, amount := amountOf(t, word)
		list[name] = amount
	}
	return list
}

func statements(text string) [][]string {
	var list [][]string
	for statement := range strings.SplitSeq(text, ";") {
		if words := strings.Fields(statement); len(words) > 0 {
			list = append(list, words)
		}
	}
	return list
}

func treeOf(t require.TestingT, queues string) *Tree {
	tree := NewTree()
	for _, words := range statements(queues) {
		terms := Terms{Guarantee: resources.List{}, Deserved: resources.List{}, Capability: resources.List{}, EachUser: resources.List{}}
		for _, word := range words[1:] {
			if word == "keep" {
				terms.NotReclaimable = true
				continue
			}
			if word[0] == '<' {
				terms.Parent = word[1:]
				continue
			}
			name, amount := amountOf(t, word[1:])
			switch word[0] {
			case 'd':
				terms.Deserved[name] = amount
			case 'g':
				terms.Guarantee[name] = amount
			case 'c':
				terms.Capability[name] = amount
			case 'u':
				terms.EachUser[name] = amount
			case 'w':
				terms.Weight = amount
			default:
				require.Fail(t, "unknown word", word)
			}
		}
		tree.Set(words[0], terms)
	}
	return tree
}

func unitsOf(t require.TestingT, text string) []named {
	var units []named
	ordinals := map[string]int{}
	for _, words := range statements(text) {
		account, count, unit := words[0], 1, Unit{Account: words[0], Requests: resources.List{}}
		if account == "none" {
			unit.Account = ""
		}
		for _, word := range words[1:] {
			switch word[0] {
			case '@':
				priority, err := strconv.ParseInt(word[1:], 10, 32)
				require.NoError(t, err)
				unit.Priority = int32(priority)
			case 'x':
				var err error
				count, err = strconv.Atoi(word[1:])
				require.NoError(t, err)
			case '!':
				unit.AsksToStay = true
			default:
				name, amount := amountOf(t, word)
				unit.Requests[name] = amount
			}
		}
		for range count {
			ordinals[account]++
			units = append(units, named{fmt.Sprint(account, ordinals[account]), unit})
		}
	}
	return units
}

// evict evicts units in order until the first that waits fits. Then it gives back, from the last, each without which it still fits.
func (s *reclaimCase) evict(t require.TestingT) string {
	tree, units, waiting := treeOf(t, s.queues), unitsOf(t, s.running), unitsOf(t, s.waits)
	total, used := listOf(t, strings.Fields(s.total)...), resources.List{}
	for _, u := range units {
		used.Add(u.Requests)
		if u.Account != "" {
			tree.Add(u.Account, u.Requests)
		}
	}
	waits := map[string]resources.Sums{}
	for _, u := range waiting {
		queue := QueueOf(u.Account)
		waits[queue] = waits[queue].Clone()
		waits[queue].Add(u.Requests)
	}
	first := waiting[0]
	r := tree.Reclaim(tree.ShareOut(total, waits), first.Account, first.Priority, first.Requests)
	fits := func() bool {
		for name, amount := range first.Requests {
			if amount > total[name]-used[name] {
				return false
			}
		}
		return r.Shortage() == nil
	}
	rules := map[string]string{}
	var taken []named
	for _, u := range units {
		if fits() {
			break
		}
		rule := r.Rule(u.Unit)
		require.Equal(t, rule != NotAllowed, r.Take(u.Unit))
		if rule != NotAllowed {
			rules[u.name] = map[Rule]string{ByPriority: "*", FromOutside: "*"}[rule]
			used.Sub(u.Requests)
			taken = append(taken, u)
		}
	}
	if !fits() {
		return "no"
	}
	evicted := []string{}
	for i := len(taken) - 1; i >= 0; i-- {
		r.GiveBack(taken[i].Unit)
		used.Add(taken[i].Requests)
		if !fits() {
			require.True(t, r.Take(taken[i].Unit), "what was given back may be taken again")
			used.Sub(taken[i].Requests)
			evicted = append([]string{taken[i].name + rules[taken[i].name]}, evicted...)
		}
	}
	if len(evicted) == 0 {
		return "free"
	}
	return strings.Join(evicted, " ")
}

func play(t *testing.T, cases []reclaimCase) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range cases {
		require.False(t, seen[s.name], "two rows have the name %q", s.name)
		seen[s.name] = true
		t.Run(s.name, func(t *testing.T) { require.Equal(t, s.evicted, s.evict(t)) })
	}
}

// TestWhatIsLentComesBackWhateverPodsSay: the words of a pod count where priority decides, and nowhere else.
func TestWhatIsLentComesBackWhateverPodsSay(t *testing.T) {
	play(t, []reclaimCase{
		{name: "of another queue above its share", total: "10", queues: "a d5; b d5", running: "b 2 x5 !", waits: "a 4", evicted: "b1 b2"},
		{name: "no more than is lent", total: "10", queues: "a d5; b d5", running: "a 5; b 5 !", waits: "a 1", evicted: "no"},
		{name: "of a user of another queue", total: "10", queues: "a d5; b d5", running: "b/ann 2 x5 !", waits: "a/bob 4", evicted: "b/ann1 b/ann2"},
		{name: "of a sibling", total: "8", queues: "lab d8; a <lab d4; b <lab d4", running: "b 8 !", waits: "a 4", evicted: "b1"},
		{name: "the own queue by priority", total: "4", queues: "a d4", running: "a 2 !; a 2", waits: "a 2 @9", evicted: "a2*"},
		{name: "pods outside all queues by priority", total: "4", queues: "a d4", running: "none 2 !; none 2", waits: "a 2 @9", evicted: "none2*"},
		{name: "a waiting pod outside all queues", total: "4", queues: "a d4", running: "a 2 !; a 2", waits: "none 2 @9", evicted: "a2*"},
	})
}

// TestWhatIsGivenBackIsForgotten: a unit that stays does not keep other units from being taken.
func TestWhatIsGivenBackIsForgotten(t *testing.T) {
	tree, units := treeOf(t, "a d2; b d3"), unitsOf(t, "b 1; b 4")
	for _, u := range units {
		tree.Add(u.Account, u.Requests)
	}
	r := tree.Reclaim(tree.ShareOut(cpu(5), asks(map[string]int64{"a": 2})), "a", 0, cpu(2))
	require.True(t, r.Take(units[0].Unit))
	require.False(t, r.Take(units[1].Unit))
	r.GiveBack(units[0].Unit)
	require.True(t, r.Take(units[1].Unit))
}
