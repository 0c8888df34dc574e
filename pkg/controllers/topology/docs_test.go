package topology

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
	"github.com/muster-sched/muster/pkg/topology"
	"github.com/muster-sched/muster/pkg/topology/watch"
)

// page is the page for administrators.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/network-topology-setup.md")
	require.NoError(t, err)
	return string(text)
}

// section is the part of the page from a heading to the next one.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(page(t), "\n"+heading+"\n")
	require.True(t, found, heading)
	part, _, _ := strings.Cut(rest, "\n#")
	return part
}

// describedBy is what the objects in the YAML blocks of a section describe.
func describedBy(t *testing.T, heading string, nodes []topology.Node) *description {
	t.Helper()
	d := &description{}
	var lists []topology.Labels
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(section(t, heading), -1) {
		for text := range strings.SplitSeq(block[1], "---\n") {
			if strings.Contains(text, "kind: HyperNode") {
				object := &topologyv1alpha1.HyperNode{}
				require.NoError(t, yaml.UnmarshalStrict([]byte(text), object))
				d.hyperNodes = append(d.hyperNodes, object)
				continue
			}
			object := &musterv1alpha1.NetworkTopology{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(text), object))
			d.lists = append(d.lists, object)
			list, _ := watch.FromNetworkTopology(object)
			lists = append(lists, list)
		}
	}
	d.build(lists, nodes)
	require.Empty(t, d.faults)
	return d
}

func paths(tree *topology.Tree) (all []string) {
	for _, d := range tree.Domains[1:] {
		all = append(all, d.TierName+" "+d.Path)
	}
	return all
}

// TestTheExamplesOfThePageForAdministrators: each makes the tree that the page says, without a fault.
func TestTheExamplesOfThePageForAdministrators(t *testing.T) {
	labels := func(pairs ...string) map[string]string {
		all := map[string]string{}
		for _, pair := range pairs {
			key, value, _ := strings.Cut(pair, "=")
			all[key] = value
		}
		return all
	}
	for heading, c := range map[string]struct {
		nodes []topology.Node
		want  []string
	}{
		"## A NetworkTopology": {[]topology.Node{{Name: "node-0", Labels: labels("example.com/block=b1", "example.com/rack=r1")},
			{Name: "node-1", Labels: labels("example.com/block=b1", "example.com/rack=r2")}, {Name: "node-2", Labels: labels("example.com/block=b2", "example.com/rack=r1")},
			{Name: "node-3", Labels: labels("example.com/block=b3")}},
			[]string{"block b1", "rack b1/r1", "rack b1/r2", "block b2", "rack b2/r1", "block b3"}},
		"### Racks of GB200 beside nodes of H100": {[]topology.Node{
			{Name: "g", Labels: labels("nvidia.com/gpu.product=NVIDIA-GB200", "example.com/spine=s", "example.com/leaf=l1", "nvidia.com/gpu.clique=c.1")},
			{Name: "h", Labels: labels("nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3", "example.com/spine=s", "example.com/leaf=l2")}},
			[]string{"spine s", "leaf s/l1", "nvlink s/l1/c.1", "leaf s/l2"}},
		"## HyperNodes": {[]topology.Node{{Name: "node-0"}, {Name: "node-1"}, {Name: "node-2"}, {Name: "node-3"}}, []string{"block block", "rack block/rack-1", "rack block/rack-2"}},
	} {
		t.Run(heading, func(t *testing.T) {
			assert.Equal(t, c.want, paths(describedBy(t, heading, c.nodes).tree))
		})
	}
}

// TestTheLabelsOfProviders: each row of the page is a list of labels from the widest to the closest.
func TestTheLabelsOfProviders(t *testing.T) {
	rows, last := map[string][]string{}, ""
	for line := range strings.Lines(section(t, "### The labels of providers")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[2], "/") {
			continue
		}
		last = strings.TrimSpace(cells[1])
		for _, key := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
			rows[last] = append(rows[last], key[1])
		}
	}
	// These are the directions that differ from what the names suggest.
	assert.Equal(t, "topology.k8s.aws/network-node-layer-1", rows["EKS"][0])
	assert.Equal(t, "cloud.google.com/gce-topology-host", rows["GKE"][2])
	assert.Equal(t, "fabric.topograph.run/tier-0", rows["NVIDIA topograph from 1.0"][2])
	assert.Equal(t, []string{"alibabacloud.com/point-of-delivery", "alibabacloud.com/asw-id"}, rows["ACK Lingjun"])
	require.Len(t, rows, 8)
	for provider, keys := range rows {
		object, labels := list(provider, keys...), map[string]string{}
		for _, key := range keys {
			labels[key] = "v"
		}
		translated, _ := watch.FromNetworkTopology(object)
		tree := topology.Build(nil, []topology.Labels{translated}, []topology.Node{{Name: "n", Labels: labels}})
		assert.Empty(t, tree.Faults(), provider)
		require.Len(t, tree.Domains, len(keys)+1, provider)
		assert.Equal(t, keys[len(keys)-1], tree.Domains[len(keys)].TierName, provider)
		assert.Equal(t, 1, tree.Domains[len(keys)].Tier, provider)
	}
}

// TestThePageHasEachFault: the reasons of conditions.
func TestThePageHasEachFault(t *testing.T) {
	var named []string
	for line := range strings.Lines(section(t, "## What is wrong")) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			named = append(named, regexp.MustCompile(`[A-Z][A-Za-z]+`).FindAllString(cells[1], -1)...)
		}
	}
	for _, reason := range []string{
		topology.NoMembers, topology.InvalidMember, topology.InvalidPattern, topology.UnsupportedSelector, topology.MemberNotFound, topology.TwoParents, topology.Cycle,
		topology.TierNotAbove, topology.NodeInTwoDomains, topology.LabelMissing, topology.NoNodes, topology.AllNodesTaken, "InvalidSelector",
	} {
		assert.True(t, slices.Contains(named, reason), reason)
	}
	assert.Len(t, named, 13)
}
