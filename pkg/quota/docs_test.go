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

// tree makes the queues: "name field amount". What stands before a slash is the parent.
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
		switch field {
		case "weight":
			terms.Weight = amount
		case "deserved":
			terms.Deserved = cpu(amount)
		case "guarantee":
			terms.Guarantee = cpu(amount)
		case "capability":
			terms.Capability = cpu(amount)
		default:
			t.Fatalf("unknown field in %q", text)
		}
		queues[dashed(name)] = terms
	}
	tree := NewTree()
	for name, terms := range queues {
		tree.Set(name, terms)
	}
	return tree
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
	u.Account, u.Requests = dashed(strings.Trim(u.Account, "-")), cpu(amount)
	return name, u
}

// checkShares compares what each queue is owed.
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

// checkEvictions takes units in their order until the gang fits, as a cluster of one node would.
func (e example) checkEvictions(t *testing.T) {
	t.Helper()
	tree, free := e.tree(t), e.cluster(t)
	var names []string
	var units []Unit
	for _, text := range e.list("runs") {
		name, u := e.unit(t, text)
		names, units = append(names, name), append(units, u)
		free -= u.Requests[corev1.ResourceCPU]
		if u.Account != "" {
			tree.Add(u.Account, u.Requests)
		}
	}
	_, gang := e.unit(t, e["waits"])
	waiting := map[string]resources.Sums{gang.Account: {}}
	waiting[gang.Account].Add(gang.Requests)
	r := tree.Reclaim(tree.ShareOut(cpu(e.cluster(t)), waiting), gang.Account, gang.Priority, gang.Requests)
	fits := func() bool { return free >= gang.Requests[corev1.ResourceCPU] && r.Shortage() == nil }
	var gone []string
	for i, u := range units {
		if !fits() && r.Take(u) {
			gone, free = append(gone, names[i]), free+u.Requests[corev1.ResourceCPU]
		}
	}
	if !fits() {
		gone = []string{"none"}
	}
	assert.Equal(t, e["goes"], strings.Join(gone, " "), "%v", e)
}

func TestTheExamplesOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/queues.md")
	require.NoError(t, err)
	found := map[string]int{}
	for _, block := range regexp.MustCompile("(?s)```(share|evict)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		e := example{}
		for line := range strings.SplitSeq(strings.TrimSpace(block[2]), "\n") {
			key, value, ok := strings.Cut(line, ":")
			require.True(t, ok, line)
			e[key] = strings.TrimSpace(value)
		}
		if found[block[1]]++; block[1] == "share" {
			e.checkShares(t)
		} else {
			e.checkEvictions(t)
		}
	}
	assert.Equal(t, map[string]int{"share": 4, "evict": 9}, found, "all blocks are read")
}
