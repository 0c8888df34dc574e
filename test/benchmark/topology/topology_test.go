package main

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/muster-sched/muster/test/simulation"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	simulation.Prepare(func(error, string) {})
	os.Exit(m.Run())
}

// TestFewGangsOnTheNetwork: the real scheduler keeps gangs in few leaves, and ranks beside each other. Figures are judged by the benchmark.
func TestFewGangsOnTheNetwork(t *testing.T) {
	network := lingjun()
	tree := network.tree()
	require.Len(t, tree.Nodes, 847)
	f := newFragments(tree)
	r := &replay{
		started: func(_ int, nodes []string) { f.take(nodes, true) },
		ended:   func(_ int, nodes []string) { f.giveBack(nodes) },
	}
	require.NoError(t, r.run(t, network, true, wholeHosts(1, 100, len(tree.Nodes), 0.7, 0)))
	assert.Equal(t, f.leavesInRings, f.crossings, "steps between leaves in a ring of ranks")
	assert.LessOrEqual(t, ratio(f.leaves, f.fewest), 1.1)
	assert.Equal(t, f.small, f.inOneLeaf)
	assert.Equal(t, f.looks, f.wholeLeaf)
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"--parts", "memory", "--gangs", "20"})
	require.NoError(t, err)
	assert.Equal(t, []string{"memory"}, o.parts)
	_, err = parse([]string{"--parts", "memroy"})
	require.ErrorContains(t, err, `there is no part "memroy"`)
	_, err = parse([]string{"--gangs", "1"})
	require.Error(t, err)
}
