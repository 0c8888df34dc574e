package batching

import (
	"container/heap"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// kind is on what a plugin's score of a node rests.
type kind int

const (
	// unknown: perhaps on the other nodes, or on what runs on them.
	unknown kind = iota
	// byRoom: on the node's free room, without regard to other nodes.
	byRoom
	// byNode: on what the node and the pod say of themselves. How much it counts may depend on the scores of the other nodes.
	byNode
)

var kinds = map[string]kind{
	names.NodeResourcesFit:                byRoom,
	names.NodeResourcesBalancedAllocation: byRoom,
	names.DynamicResources:                byNode, // always 0 for pods without claims; no others are alike
	names.ImageLocality:                   byNode,
	names.NodeAffinity:                    byNode,
	names.TaintToleration:                 byNode,
	names.VolumeBinding:                   byNode, // on its volumes
}

// nodes are scored nodes, the best first.
type nodes struct {
	scores []fwk.NodePluginScores
	// alike: but for room, all have the same scores, so that it makes no difference which of them are there.
	alike bool
	// fewer: nodes were there when the scores were normalized that are not any more.
	fewer bool
}

func nodesOf(scores []fwk.NodePluginScores) nodes {
	n := nodes{scores: scores, alike: true}
	for i := 1; i < len(scores) && n.alike; i++ {
		n.alike = differInRoomAlone(scores[0].RawScores, scores[i].RawScores)
	}
	heap.Init(&n)
	return n
}

// like are scores whose parts that do not rest on room a node shares if the plugins say the same of it; nil if there are none. last are
// those of the node before a pod took it.
func (n *nodes) like(last *fwk.NodePluginScores) *fwk.NodePluginScores {
	switch {
	case n.alike && len(n.scores) > 0:
		return &n.scores[0]
	case n.fewer || last == nil || slices.ContainsFunc(last.RawScores, isUnknown):
		return nil
	}
	return last
}

// best takes out the best node.
func (n *nodes) best() fwk.NodePluginScores { return heap.Pop(n).(fwk.NodePluginScores) }

// Len says how many nodes there are. This method and those that follow make a heap of them, as package heap wants it.
func (n *nodes) Len() int { return len(n.scores) }

// Less says whether a node is better than another. Ties are decided as upstream decides them.
func (n *nodes) Less(i, j int) bool {
	a, b := &n.scores[i], &n.scores[j]
	return a.TotalScore > b.TotalScore || a.TotalScore == b.TotalScore && a.Randomizer > b.Randomizer
}

// Swap exchanges two nodes.
func (n *nodes) Swap(i, j int) { n.scores[i], n.scores[j] = n.scores[j], n.scores[i] }

// Push adds a node at the end.
func (n *nodes) Push(x any) { n.scores = append(n.scores, x.(fwk.NodePluginScores)) }

// Pop takes the node at the end.
func (n *nodes) Pop() any {
	end := len(n.scores) - 1
	last := n.scores[end]
	n.scores[end] = fwk.NodePluginScores{}
	n.scores = n.scores[:end]
	return last
}

// isUnknown says whether it is not known on what a score rests.
func isUnknown(s fwk.PluginScore) bool { return kinds[s.Name] == unknown }

// differInRoomAlone says whether two nodes were scored by the same plugins, with the same result but for room.
func differInRoomAlone(a, b []fwk.PluginScore) bool {
	return slices.EqualFunc(a, b, func(a, b fwk.PluginScore) bool {
		return a.Name == b.Name && !isUnknown(a) && (kinds[a.Name] == byRoom || a.Score == b.Score)
	})
}

// weigh makes the scores of a node of what the plugins say of it, if that differs from what they say of a like node in room alone.
func weigh(node string, raw []fwk.PluginScore, like *fwk.NodePluginScores, weights map[string]int64) (fwk.NodePluginScores, bool) {
	if !differInRoomAlone(raw, like.RawScores) || len(like.Scores) != len(raw) { // more are of extenders
		return fwk.NodePluginScores{}, false
	}
	scored := fwk.NodePluginScores{Name: node, RawScores: raw, Scores: slices.Clone(like.Scores)}
	for i, part := range raw {
		if kinds[part.Name] == byRoom {
			if part.Score < fwk.MinScore || part.Score > fwk.MaxScore {
				return fwk.NodePluginScores{}, false
			}
			scored.Scores[i] = fwk.PluginScore{Name: part.Name, Score: part.Score * weights[part.Name]}
		}
		scored.TotalScore += scored.Scores[i].Score
	}
	return scored, true
}
