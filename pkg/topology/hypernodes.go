package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// hyperNode is a HyperNode whose members are being resolved.
type hyperNode struct {
	*HyperNode
	age     int // position from the eldest
	domain  *domain
	claimed map[*hyperNode]*claim // nodes that an elder HyperNode has, by that one
}

// claim is nodes that two HyperNodes name.
type claim struct {
	count   int
	example string
	field   string
}

// link is a member of type HyperNode.
type link struct {
	parent, child *hyperNode
	field         string
}

// addHyperNodes makes the domains of HyperNodes. Where two HyperNodes contradict each other, the elder one counts.
func (b *builder) addHyperNodes(objects []HyperNode) {
	byAge := make([]*hyperNode, len(objects))
	for i := range objects {
		o := &objects[i]
		byAge[i] = &hyperNode{HyperNode: o, domain: &domain{name: o.Name, tier: o.Tier, tierName: o.TierName, source: HyperNodeKind, hyperNode: true}}
	}
	slices.SortFunc(byAge, func(x, y *hyperNode) int {
		return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.Name, y.Name))
	})
	byName := make(map[string]*hyperNode, len(objects))
	for age, h := range byAge {
		h.age, byName[h.Name] = age, h
	}
	b.search = newSearch(b.nodes)
	var links []link
	owners := make([][]owner, len(b.nodes))
	for _, h := range byAge {
		links = append(links, b.resolve(h, byName, owners)...)
	}
	b.join(links)
	b.own(owners)
	for _, h := range byAge {
		if h.domain.parent == nil {
			b.tops = append(b.tops, h.domain)
		}
		b.reportClaims(h)
	}
	slices.SortStableFunc(b.faults, func(x, y Fault) int { return strings.Compare(x.Object, y.Object) })
}

// owner is a HyperNode that names a node.
type owner struct {
	*hyperNode
	field string
}

// resolve finds the members of a HyperNode.
func (b *builder) resolve(h *hyperNode, byName map[string]*hyperNode, owners [][]owner) (links []link) {
	if len(h.Members) == 0 {
		b.fault(h, "spec.members", NoMembers, "the HyperNode has no members, so it is a domain without nodes", "Add members, or delete the HyperNode.")
	}
	for i := range h.Members {
		member, field := &h.Members[i], fmt.Sprintf("spec.members[%d]", i)
		if !b.checkMember(h, member, field) {
			continue
		}
		if member.Type == HyperNodeMember {
			if child := byName[member.Exact]; child != nil {
				links = append(links, link{h, child, field})
			} else {
				b.fault(h, field+".selector.exactMatch.name", MemberNotFound, fmt.Sprintf("HyperNode %q does not exist", member.Exact), "Create it, or remove the member.")
			}
			continue
		}
		found, absent := b.nodesOf(h, member, field)
		h.domain.members += len(found) + absent
		for _, n := range found {
			owners[n] = append(owners[n], owner{h, field})
		}
	}
	return links
}

// nodesOf returns the nodes that a member selects. A node that is named and does not exist counts as absent.
func (b *builder) nodesOf(h *hyperNode, member *Member, field string) (found []int, absent int) {
	field += ".selector"
	switch {
	case member.Exact != "":
		n, ok := b.search.byName[member.Exact]
		if ok {
			return []int{n}, 0
		}
		b.fault(h, field+".exactMatch.name", MemberNotFound, fmt.Sprintf("node %q does not exist", member.Exact), "Add the node, or remove the member.")
		return nil, 1
	case member.Pattern != "":
		found, err := b.search.matching(member.Pattern)
		if err != nil {
			b.fault(h, field+".regexMatch.pattern", InvalidPattern, fmt.Sprintf("the pattern is invalid: %v", err), "Correct the regular expression.")
		} else if len(found) == 0 {
			b.fault(h, field+".regexMatch.pattern", MemberNotFound, fmt.Sprintf("no node has a name that matches %q", member.Pattern), "Correct the pattern, or remove the member.")
		}
		return found, 0
	}
	found = b.search.labeled(member.Labels)
	if len(found) == 0 {
		b.fault(h, field+".labelMatch", MemberNotFound, "no node has labels that match", "Correct the selector, label the nodes, or remove the member.")
	}
	return found, 0
}

// checkMember says whether a member has a selector that can be resolved.
func (b *builder) checkMember(h *hyperNode, member *Member, field string) bool {
	selectors := 0
	for _, isSet := range []bool{member.Exact != "", member.Pattern != "", member.Labels != nil} {
		if isSet {
			selectors++
		}
	}
	switch {
	case member.Type != NodeMember && member.Type != HyperNodeMember:
		b.fault(h, field+".type", InvalidMember, fmt.Sprintf("%q is no type of a member", member.Type), "Use Node or HyperNode.")
	case selectors != 1:
		b.fault(h, field+".selector", InvalidMember, fmt.Sprintf("the member has %d selectors and is left out", selectors), "Set one of exactMatch, regexMatch and labelMatch.")
	case member.Type == HyperNodeMember && member.Exact == "":
		b.fault(h, field+".selector", UnsupportedSelector, "members of type HyperNode are found by exactMatch only, so the member is left out", "Name each HyperNode in a member with exactMatch.")
	default:
		return true
	}
	return false
}

// join hangs each domain below its parent.
func (b *builder) join(links []link) {
	parents := map[*hyperNode]*hyperNode{}
	var wrong []link
	for _, l := range links { // the elder parent comes first
		switch elder := parents[l.child]; {
		case l.parent.Tier <= l.child.Tier:
			wrong = append(wrong, l)
		case elder == l.parent:
		case elder != nil:
			b.fault(l.parent, l.field, TwoParents, fmt.Sprintf("HyperNode %q is also a member of HyperNode %q, which is older and keeps it", l.child.Name, elder.Name),
				"Remove the member from one of them.")
		default:
			parents[l.child] = l.parent
			l.parent.domain.add(l.child.domain)
			l.parent.domain.members++
		}
	}
	for _, l := range wrong {
		if l.parent == l.child || isAround(l.child.domain, l.parent.domain) {
			b.fault(l.parent, l.field, Cycle, fmt.Sprintf("HyperNode %q contains this HyperNode already, so it is left out here", l.child.Name), "Remove the member.")
			continue
		}
		b.fault(l.parent, l.field, TierNotAbove, fmt.Sprintf("HyperNode %q has tier %d, which is not below tier %d of this one, so it is left out",
			l.child.Name, l.child.Tier, l.parent.Tier), "Raise spec.tier, or lower the tier of the member.")
	}
}

// isAround says whether a domain is a parent of another one, or further up.
func isAround(outer, inner *domain) bool {
	for inner = inner.parent; inner != nil; inner = inner.parent {
		if inner == outer {
			return true
		}
	}
	return false
}

// own gives each node to one HyperNode. A HyperNode inside another one counts before it, then the elder one.
func (b *builder) own(owners [][]owner) {
	for n, all := range owners {
		if len(all) == 0 {
			continue
		}
		best := all[0]
		for _, other := range all[1:] { // the elder one comes first
			switch {
			case other.hyperNode == best.hyperNode || isAround(other.domain, best.domain):
			case isAround(best.domain, other.domain):
				best = other
			default:
				other.note(best.hyperNode, b.nodes[n].Name, other.field)
			}
		}
		b.domainOf[n] = best.domain
	}
}

// note counts a node that an elder HyperNode keeps.
func (h *hyperNode) note(elder *hyperNode, node, field string) {
	if h.claimed == nil {
		h.claimed = map[*hyperNode]*claim{}
	}
	if h.claimed[elder] == nil {
		h.claimed[elder] = &claim{example: node, field: field}
	}
	h.claimed[elder].count++
}

func (b *builder) reportClaims(h *hyperNode) {
	elders := make([]*hyperNode, 0, len(h.claimed))
	for elder := range h.claimed {
		elders = append(elders, elder)
	}
	slices.SortFunc(elders, func(x, y *hyperNode) int { return x.age - y.age })
	for _, elder := range elders {
		c := h.claimed[elder]
		nodes := fmt.Sprintf("node %q is", c.example)
		if c.count > 1 {
			nodes = fmt.Sprintf("%d nodes, like %q, are", c.count, c.example)
		}
		b.fault(h, c.field, NodeInTwoDomains, fmt.Sprintf("%s also in HyperNode %q, which is older and keeps them", nodes, elder.Name),
			"Remove the nodes from one of the HyperNodes, or make one a member of the other.")
	}
}

func (b *builder) fault(h *hyperNode, field, reason, message, remedy string) {
	b.faults = append(b.faults, Fault{Kind: HyperNodeKind, Object: h.Name, Field: field, Reason: reason, Message: message, Remedy: remedy})
}
