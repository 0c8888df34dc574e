package topology

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
)

// addLabels makes the domains that labels name, of nodes that have no domain yet. Lists that agree on a label, its value, its tier and all
// wider ones share a domain.
func (b *builder) addLabels(list *Labels) {
	for i := 1; i < len(list.Levels); i++ {
		if list.Levels[i].Tier >= list.Levels[i-1].Tier {
			b.labelFault(list, fmt.Sprintf("spec.levels[%d].tier", i), TierNotAbove, fmt.Sprintf("tier %d is not below tier %d of the wider level, so the object is left out",
				list.Levels[i].Tier, list.Levels[i-1].Tier), "List the widest level first, and let the tiers fall.")
			return
		}
	}
	if b.byChain == nil {
		b.byChain, b.placed = map[string]*domain{}, map[string]int{}
	}
	skipped, examples := make([]int, len(list.Levels)), make([]string, len(list.Levels))
	matched, taken, used := 0, 0, 0
	for n := range b.nodes {
		if list.Selector != nil && !list.Selector.Matches(labels.Set(b.nodes[n].Labels)) {
			continue
		}
		matched++
		if b.domainOf[n] != nil {
			taken++
			continue
		}
		if level := b.chain(list, n); level >= 0 {
			if skipped[level] == 0 {
				examples[level] = b.nodes[n].Name
			}
			skipped[level]++
		}
		if b.domainOf[n] != nil {
			used++
		}
	}
	b.placed[list.Kind+"/"+list.Name] = used
	for level, count := range skipped {
		if count > 0 {
			b.labelFault(list, fmt.Sprintf("spec.levels[%d].nodeLabel", level), LabelMissing, fmt.Sprintf("%s no label %q but a label of a closer level, which is left out",
				counted(count, examples[level]), list.Levels[level].Key), "Label the nodes, or give them a list of their own.")
		}
	}
	switch {
	case matched > 0 && taken == matched:
		b.labelFault(list, "spec.nodeSelector", AllNodesTaken, "all of its nodes are in HyperNodes, or in a list of labels that comes before", "Delete it, or select other nodes.")
	case used == 0:
		b.labelFault(list, "spec.levels", NoNodes, "no node has the label of the widest level", "Label the nodes, or correct the labels of the levels.")
	}
}

func counted(count int, example string) string {
	if count == 1 {
		return fmt.Sprintf("node %q has", example)
	}
	return fmt.Sprintf("%d nodes, like %q, have", count, example)
}

// chain puts a node into the domains that its labels name. It returns the level that is missing before a closer one, -1 for none.
func (b *builder) chain(list *Labels, n int) (missing int) {
	var at *domain
	id := ""
	for i, level := range list.Levels {
		value, ok := b.nodes[n].Labels[level.Key]
		if !ok || value == "" {
			b.domainOf[n] = at
			for _, closer := range list.Levels[i+1:] {
				if b.nodes[n].Labels[closer.Key] != "" {
					return i
				}
			}
			return -1
		}
		id += level.Key + "\x00" + value + "\x00" + strconv.Itoa(level.Tier) + "\x00"
		next := b.byChain[id]
		if next == nil {
			next = &domain{name: value, tier: level.Tier, tierName: level.TierName, source: level.Key}
			b.byChain[id] = next
			if at == nil {
				b.tops = append(b.tops, next)
			} else {
				at.add(next)
			}
		}
		at = next
	}
	b.domainOf[n] = at
	return -1
}

func (b *builder) labelFault(list *Labels, field, reason, message, remedy string) {
	b.faults = append(b.faults, Fault{Kind: list.Kind, Object: list.Name, Field: field, Reason: reason, Message: message, Remedy: remedy})
}
