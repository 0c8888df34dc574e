package quota

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// example is a block of docs/queues.md: its lines by what stands before the colon. Amounts are of cpu.
type example map[string]string

func (e example) list(key string) []string {
	if e[key] == "" || e[key] == "none" {
		return nil
	}
	return strings.Split(e[key], ", ")
}

// tree makes the queues: "name field amount". The name before a slash is the parent.
func (e example) tree(t *testing.T) *Tree {
	t.Helper()
	queues := map[string]Terms{}
	for _, text := range e.list("queues") {
		var name, field string
		var amount int64
		_, err := fmt.Sscan(text, &name, &field, &amount)
		require.NoError(t, err, text)
		terms := queues[dashed(name)]
		if parent, _, isChild := strings.Cut(name, "/"); isChild {
			terms.Parent = parent
		}
		set(t, &terms, field, amount)
		queues[dashed(name)] = terms
	}
	tree := NewTree()
	for name, terms := range queues {
		tree.Set(name, terms)
	}
	return tree
}

// set sets what a queue says of cpu.
func set(t *testing.T, terms *Terms, field string, amount int64) {
	t.Helper()
	user, isQuota := strings.CutPrefix(field, "userQuota.")
	switch {
	case field == "weight":
		terms.Weight = amount
	case field == "deserved":
		terms.Deserved = cpu(amount)
	case field == "guarantee":
		terms.Guarantee = cpu(amount)
	case field == "capability":
		terms.Capability = cpu(amount)
	case isQuota && user == "default":
		terms.EachUser = cpu(amount)
	case isQuota:
		if terms.Users == nil {
			terms.Users = map[string]resources.List{}
		}
		terms.Users[user] = cpu(amount)
	default:
		t.Fatalf("unknown field %q", field)
	}
}

// dashed is the name of a queue in the tree, where a slash would make it a user.
func dashed(name string) string { return strings.ReplaceAll(name, "/", "-") }

func (e example) cluster(t *testing.T) int64 {
	t.Helper()
	amount, err := strconv.ParseInt(e["cluster"], 10, 64)
	require.NoError(t, err)
	return amount
}

// unit reads "name queue cpu [priority]".
func (e example) unit(t *testing.T, text string) (name string, u Unit) {
	t.Helper()
	var amount int64
	if len(strings.Fields(text)) == 3 {
		text += " 0"
	}
	_, err := fmt.Sscan(text, &name, &u.Account, &amount, &u.Priority)
	require.NoError(t, err, text)
	user, queue, hasUser := strings.Cut(u.Account, "@")
	if !hasUser {
		user, queue = "", u.Account
	}
	u.Account, u.Requests = Account(dashed(strings.Trim(queue, "-")), user), cpu(amount)
	return name, u
}

// units are what runs, and the tree that they are charged to.
func (e example) units(t *testing.T) (tree *Tree, names []string, units []Unit) {
	t.Helper()
	tree = e.tree(t)
	for _, text := range e.list("runs") {
		name, u := e.unit(t, text)
		names, units = append(names, name), append(units, u)
		if u.Account != "" {
			tree.Add(u.Account, u.Requests)
		}
	}
	return tree, names, units
}

// inWords is how a page lists names.
func inWords(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " ")
}

// checkShares compares the share of each queue.
func (e example) checkShares(t *testing.T) {
	t.Helper()
	waiting := map[string]int64{}
	for _, text := range e.list("asks") {
		var queue string
		var amount int64
		_, err := fmt.Sscan(text, &queue, &amount)
		require.NoError(t, err, text)
		waiting[dashed(queue)] = amount
	}
	shares := e.tree(t).ShareOut(cpu(e.cluster(t)), asks(waiting))
	for _, text := range e.list("shares") {
		var queue string
		var amount int64
		_, err := fmt.Sscan(text, &queue, &amount)
		require.NoError(t, err, text)
		assert.Equal(t, amount, shares[dashed(queue)][corev1.ResourceCPU], "%s in %v", queue, e)
	}
}

// checkStarts admits what waits in its order, past what does not fit.
func (e example) checkStarts(t *testing.T) {
	t.Helper()
	tree, _, _ := e.units(t)
	if _, limited := e["cluster"]; limited {
		tree.SetTotal(cpu(e.cluster(t)))
	}
	var starts, never []string
	for _, text := range e.list("waits") {
		name, u := e.unit(t, text)
		switch {
		case tree.Exceeds(u.Account, u.Requests):
			never = append(never, name)
		case tree.Room(u.Account, u.Requests) == nil:
			starts = append(starts, name)
			tree.Add(u.Account, u.Requests)
		}
	}
	assert.Equal(t, e["starts"], inWords(starts), "%v", e)
	assert.Equal(t, e["never"], inWords(never), "%v", e)
}

// checkEvictions takes units in their order until the gang fits, as a cluster of one node would. All that go are needed.
func (e example) checkEvictions(t *testing.T) {
	t.Helper()
	tree, names, units := e.units(t)
	free := e.cluster(t)
	for _, u := range units {
		free -= u.Requests[corev1.ResourceCPU]
	}
	_, gang := e.unit(t, e["waits"])
	waiting := map[string]resources.Sums{gang.Account: {}}
	waiting[gang.Account].Add(gang.Requests)
	r := tree.Reclaim(tree.ShareOut(cpu(e.cluster(t)), waiting), gang.Account, gang.Priority, gang.Requests)
	fits := func() bool { return free >= gang.Requests[corev1.ResourceCPU] && r.Shortage() == nil }
	var gone []string
	var taken []Unit
	for i, u := range units {
		if !fits() && r.Take(u) {
			gone, taken, free = append(gone, names[i]), append(taken, u), free+u.Requests[corev1.ResourceCPU]
		}
	}
	if !fits() {
		gone, taken = nil, nil
	}
	assert.Equal(t, e["goes"], inWords(gone), "%v", e)
	for i, u := range taken {
		r.GiveBack(u)
		free -= u.Requests[corev1.ResourceCPU]
		assert.False(t, fits(), "%s need not go in %v", gone[i], e)
		require.True(t, r.Take(u))
		free += u.Requests[corev1.ResourceCPU]
	}
}

// checkLowered chooses the units to evict when a queue uses more than it may.
func (e example) checkLowered(t *testing.T) {
	t.Helper()
	tree, names, units := e.units(t)
	var gone []string
	var shares Shares
	if e["cluster"] != "" {
		shares = tree.ShareOut(cpu(e.cluster(t)), nil)
	}
	for _, i := range tree.AboveCapability(dashed(e["queue"]), shares, units) {
		gone = append(gone, names[i])
	}
	assert.Equal(t, e["goes"], inWords(gone), "%v", e)
}

func TestTheExamplesOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/queues.md")
	require.NoError(t, err)
	checks := map[string]func(example, *testing.T){
		"share": example.checkShares, "start": example.checkStarts, "evict": example.checkEvictions, "lowered": example.checkLowered,
	}
	found := map[string]int{}
	for _, block := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		check := checks[block[1]]
		if check == nil {
			continue
		}
		e := example{}
		for line := range strings.SplitSeq(strings.TrimSpace(block[2]), "\n") {
			key, value, ok := strings.Cut(line, ":")
			require.True(t, ok, line)
			e[key] = strings.TrimSpace(value)
		}
		found[block[1]]++
		check(e, t)
	}
	assert.Equal(t, map[string]int{"share": 4, "start": 5, "evict": 11, "lowered": 4}, found, "all blocks are read")
}
