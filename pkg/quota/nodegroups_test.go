package quota

import (
	"testing"

	"github.com/stretchr/testify/assert"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// groups are the node groups of a queue "q".
func groupsOf(name string, affinity *schedulingv1beta1.Affinity) *NodeGroups {
	queue := mustertesting.MakeQueue(name).Obj()
	queue.Spec.Affinity = affinity
	return NodeGroupsOf(queue)
}

func affinity(required, preferred, forbidden, avoided []string) *schedulingv1beta1.Affinity {
	return &schedulingv1beta1.Affinity{
		NodeGroupAffinity: &schedulingv1beta1.NodeGroupAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: required, PreferredDuringSchedulingIgnoredDuringExecution: preferred},
		NodeGroupAntiAffinity: &schedulingv1beta1.NodeGroupAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: forbidden, PreferredDuringSchedulingIgnoredDuringExecution: avoided},
	}
}

// TestNodeGroups: which of the groups a, b and c a queue refuses, and how it ranks them. "" is a node without a group.
func TestNodeGroups(t *testing.T) {
	list := func(names ...string) []string { return names }
	for name, c := range map[string]struct {
		path    NodeGroupPath
		refused map[string]string
		ranks   map[string]int64
	}{
		"no affinity": {nil, nil, nil},
		"required": {NodeGroupPath{groupsOf("q", affinity(list("a", "b"), nil, nil, nil))},
			map[string]string{"c": `node(s) are not in the node groups of queue "q" (a, b)`, "": `node(s) are not in the node groups of queue "q" (a, b)`}, nil},
		"forbidden": {NodeGroupPath{groupsOf("q", affinity(nil, nil, list("c"), nil))},
			map[string]string{"c": `node(s) are in a node group that queue "q" keeps off (c)`}, nil},
		"required and forbidden": {NodeGroupPath{groupsOf("q", affinity(list("a", "c"), nil, list("c"), nil))},
			map[string]string{"b": `node(s) are not in the node groups of queue "q" (a, c)`, "": `node(s) are not in the node groups of queue "q" (a, c)`,
				"c": `node(s) are in a node group that queue "q" keeps off (c)`}, nil},
		"preferred restricts nothing": {NodeGroupPath{groupsOf("q", affinity(nil, list("a"), nil, list("c")))}, nil, map[string]int64{"a": 1, "c": -1}},
		"preferred and avoided":       {NodeGroupPath{groupsOf("q", affinity(nil, list("a"), nil, list("a")))}, nil, map[string]int64{"a": -1}},
		"preferred among the required ones": {NodeGroupPath{groupsOf("q", affinity(list("a", "b", "c"), list("b"), nil, nil))},
			map[string]string{"": `node(s) are not in the node groups of queue "q" (a, b, c)`}, map[string]int64{"b": 1}},
		"the parent's hold for the child": {NodeGroupPath{groupsOf("parent", affinity(list("a"), list("a"), nil, nil))},
			map[string]string{"b": `node(s) are not in the node groups of queue "parent" (a)`, "c": `node(s) are not in the node groups of queue "parent" (a)`,
				"": `node(s) are not in the node groups of queue "parent" (a)`}, map[string]int64{"a": 1}},
		"a child cannot leave its parent's": {NodeGroupPath{groupsOf("q", affinity(list("a", "b"), list("b"), nil, nil)), groupsOf("parent", affinity(list("a"), list("a"), nil, nil))},
			map[string]string{"b": `node(s) are not in the node groups of queue "parent" (a)`, "c": `node(s) are not in the node groups of queue "q" (a, b)`,
				"": `node(s) are not in the node groups of queue "q" (a, b)`}, map[string]int64{"b": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, group := range []string{"", "a", "b", "c"} {
				assert.Equal(t, c.refused[group], c.path.Refuses(group), "group %q", group)
				assert.Equal(t, c.ranks[group], c.path.Prefers(group), "group %q", group)
			}
			assert.Equal(t, len(c.ranks) > 0, c.path.HasPreferences())
		})
	}
	assert.Nil(t, groupsOf("q", nil))
	assert.Nil(t, groupsOf("q", &schedulingv1beta1.Affinity{NodeGroupAffinity: &schedulingv1beta1.NodeGroupAffinity{}}))
	assert.Contains(t, NodeGroupPath{groupsOf("q", affinity(list("a", "b", "c", "d", "e"), nil, nil, nil))}.Refuses(""), "(a, b, c and 2 more)")
	assert.True(t, groupsOf("q", nil).Equal(nil))
	assert.False(t, groupsOf("q", affinity(list("a"), nil, nil, nil)).Equal(nil))
	assert.True(t, groupsOf("q", affinity(list("a"), nil, nil, nil)).Equal(groupsOf("q", affinity(list("a"), nil, nil, nil))))
	assert.False(t, groupsOf("q", affinity(list("a"), nil, nil, nil)).Equal(groupsOf("q", affinity(nil, list("a"), nil, nil))))
}
