package podgroup

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/admission"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/topology"
)

// network is two racks below s1, and one below s2. The tier of racks has a name.
func network(rackName string) *topology.Tree {
	var nodes []topology.Node
	for _, path := range []string{"s1/r1", "s1/r2", "s1/r10", "s2/r1"} {
		spine, rack, _ := strings.Cut(path, "/")
		nodes = append(nodes, topology.Node{Name: path, Labels: map[string]string{"spine": spine, "rack": rack}})
	}
	return topology.Build(nil, []topology.Labels{{Levels: []topology.Level{{Key: "spine", Tier: 2}, {Key: "rack", TierName: rackName, Tier: 1}}}}, nodes)
}

// TestTheConditionSaysInWhichDomainTheGangRuns, with its tier, and says so again when a member is replaced elsewhere or the network changes.
func TestTheConditionSaysInWhichDomainTheGangRuns(t *testing.T) {
	group, now := mustertesting.MakePodGroup("g").MinMember(2).Phase(running).Obj(), time.Unix(1000, 0)
	message := func(paths string, tree *topology.Tree) string {
		pods := members("rr")
		for i, path := range strings.Fields(paths) {
			pods[i].Annotations = map[string]string{schedulingv1beta1.TopologyPathAnnotation: path}
		}
		counts := count(pods, memory{})
		counts.place.tree = tree
		group.Status = *nextStatus(group, counts, admission.Decision{Admitted: true}, now, "id")
		require.Len(t, group.Status.Conditions, 1)
		return group.Status.Conditions[0].Message
	}
	assert.Empty(t, message("s1/r1 s1/r1", nil), "the network has not been read")
	for _, test := range []struct{ paths, want string }{
		{"s1/r1 s1/r1", "the gang runs in domain s1/r1 of the network, tier 1 (rack)"},
		{"s1/r1 s1/r2", "the gang runs in domain s1 of the network, tier 2"},
		{"s1/r1 s2/r1", "the gang runs in several domains of the network"},
		{"s1/r1 s1/r10", "the gang runs in domain s1 of the network, tier 2"},
		{"s1/r3 s1/r3", "the gang runs in domain s1/r3 of the network"}, // labels have changed since
		{"s1/r10 s1/r10", "the gang runs in domain s1/r10 of the network, tier 1 (rack)"},
	} {
		assert.Equal(t, test.want, message(test.paths, network("rack")))
		assert.Equal(t, test.want, message(test.paths, nil), "the controller has started again, and not read the network")
	}
	assert.Equal(t, "the gang runs in domain s1/r10 of the network, tier 1 (nvlink)", message("s1/r10 s1/r10", network("nvlink")))
	group.Status.Conditions[0].Message = releasedMessage
	assert.Equal(t, releasedMessage, message("", network("rack")))
}
