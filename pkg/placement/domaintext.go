package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-sched/muster/pkg/text"
	"github.com/muster-sched/muster/pkg/topology"
)

// refuseDomains is the decision on a gang that no domain holds. Room is reserved in the domain that lacks least.
func (p *Planner) refuseDomains(ctx context.Context, problem *Problem, d *domains, nodes []fwk.NodeInfo, tried bool) *Decision {
	d.exactlyAll()
	tree := d.topology.Tree
	inside := tree.CommonDomain(holdingNodes(d.topology))
	refusal := &Decision{Feasibility: Impossible, Members: problem.Members, Rejected: d.examples(), Rejectors: sets.New(names.NodeResourcesFit)}
	if inside >= 0 && !tree.Allows(d.topology.Bound, inside) {
		refusal.Message = fmt.Sprintf("members run in %s, which is wider than %s allows; restart the gang to place it anew", pathOf(tree, inside), d.topology.Bound)
		return refusal
	}
	best, could := d.best(inside)
	refusal.Message = d.explainDomains(best, inside, tried) + d.topology.Note
	if len(could) == 0 {
		refusal.TooLarge = true
		refusal.Message += "; " + text.NotIfEmpty
		refusal.Rejectors = refusal.Rejectors.Union(d.rejectors)
		return refusal
	}
	if problem.Reserve || problem.Reserved != nil {
		in, target := p.reserveBest(ctx, problem, d, could, nodes)
		if in.Feasibility == Possible {
			return in
		}
		refusal.Reserve, refusal.NoPlaces, refusal.NoStart = in.Reserve, in.NoPlaces, in.NoStart
		if refusal.Reserve != nil || problem.Reserved != nil {
			refusal.Message += "; room is being reserved for it in " + pathOf(tree, target)
		}
	}
	refusal.Rejectors = refusal.Rejectors.Union(d.rejectors)
	return refusal
}

// reserveIn reserves room in a domain. It may find that the members fit there when its places have come free.
func (p *Planner) reserveIn(ctx context.Context, problem *Problem, d *domains, target int, nodes []fwk.NodeInfo) *Decision {
	if d.isDivided() {
		return d.reserveApart(target, nodes)
	}
	in := p.Decide(ctx, d.within(target, true), nodes)
	if in.Feasibility == Possible && in.Order == nil {
		in.Places = problem.Topology.ranked(membersOf(p.profile, in.Members), in.Places)
	}
	return in
}

func holdingNodes(t *Topology) (nodes []string) {
	for _, node := range t.Holding {
		nodes = append(nodes, node)
	}
	return nodes
}

// bestOf is the domain of a tier with room for most of the members.
type bestOf struct {
	domain, fits int
	names        map[string]bool // of the tier
}

// best finds the allowed domain of each tier with most room. It also finds the allowed domains that could hold all members when empty.
func (d *domains) best(inside int) (best map[int]bestOf, could []int) {
	tree := d.topology.Tree
	fits, whole := make([]int, len(tree.Domains)), make([]bool, len(tree.Domains))
	for i := range whole {
		whole[i] = true
	}
	for demand := range d.demands {
		capacity := make([]int, len(tree.Nodes))
		for at, n := range d.infoOf {
			if n >= 0 && !d.refuses(demand, n) {
				has := d.infos[n].GetAllocatable()
				capacity[at] = slotsIn(d.demands[demand], func(name corev1.ResourceName) int64 { return amountOf(has, name) })
			}
		}
		now, empty := tree.Sums(d.slots[demand]), tree.Sums(capacity)
		for i := range tree.Domains {
			fits[i] += min(now[i], d.demands[demand].Count)
			whole[i] = whole[i] && empty[i] >= d.demands[demand].Count
		}
	}
	best = map[int]bestOf{}
	for i := range tree.Domains {
		isAnywhere := inside < 0 || !d.topology.Bound.IsSet() && d.isDivided() // groups of a gang without a limit
		if !tree.Allows(d.topology.Bound, i) || !isAnywhere && !tree.Contains(i, inside) {
			continue
		}
		if whole[i] {
			could = append(could, i)
		}
		tier := tree.Domains[i].Tier
		b, known := best[tier]
		if !known {
			b = bestOf{domain: i, fits: fits[i], names: map[string]bool{}}
		}
		if fits[i] > b.fits {
			b.domain, b.fits = i, fits[i]
		}
		if name := tree.Domains[i].TierName; name != "" {
			b.names[name] = true
		}
		best[tier] = b
	}
	slices.SortStableFunc(could, func(a, b int) int { return cmp.Compare(fits[b], fits[a]) })
	return best, could
}

// targets are the domains in which room may be reserved, the best first. The domain with reserved room is the only one. It is
// the last one if the gang is to have other places. The others are sorted by the places that they lack. No domain is inside one before it.
func (d *domains) targets(could []int) (targets []int) {
	last := -1
	if at := d.topology.Tree.CommonDomain(slices.Collect(maps.Values(d.problem.Reserved))); at >= 0 {
		last = slices.IndexFunc(could, func(domain int) bool { return d.topology.Tree.Contains(domain, at) })
	}
	if last >= 0 && !d.problem.Renew {
		return could[last : last+1]
	}
	others := could
	if last >= 0 {
		others = slices.Concat(could[:last], could[last+1:], could[last:last+1])
	}
	for _, domain := range others {
		if !slices.ContainsFunc(targets, func(wider int) bool { return d.topology.Tree.Contains(wider, domain) }) {
			targets = append(targets, domain)
		}
	}
	if most := maxDomainTries; len(targets) > most {
		targets = append(targets[:most-1], targets[len(targets)-1])
	}
	return targets
}

// reserveBest reserves room in the domain in which the members can start first, as far as that is known. It also returns that domain.
func (p *Planner) reserveBest(ctx context.Context, problem *Problem, d *domains, could []int, nodes []fwk.NodeInfo) (best *Decision, domain int) {
	for _, target := range d.targets(could) {
		in := p.reserveIn(ctx, problem, d, target, nodes)
		if in.Feasibility == Possible {
			return in, target
		}
		if best == nil || in.Reserve.isBefore(best.Reserve) {
			best, domain = in, target
		}
	}
	return best, domain
}

// isBefore says whether a gang can start earlier on these places than on others. Places with a known start come before places without, and these
// before none.
func (r *Places) isBefore(other *Places) bool {
	switch {
	case r == nil || other == nil:
		return r != nil
	case r.Start.IsZero() || other.Start.IsZero():
		return !r.Start.IsZero()
	}
	return r.Start.Before(other.Start)
}

// groupsAreCounted is why a gang with groups is never placed.
const groupsAreCounted = "sub groups within a tier of their own are placed by amounts and devices only: remove their networkTopology, or the required rules about other pods of the gang"

// explainDomains names the best domain of each allowed tier. It says which resource is short there, and which nodes are out. The text stays
// the same until the numbers change.
func (d *domains) explainDomains(best map[int]bestOf, inside int, tried bool) string {
	tree := d.topology.Tree
	parts := []string{fmt.Sprintf("no domain within %s has room for the %d members that start together", d.topology.Bound, d.count())}
	if d.count() == 1 {
		parts[0] = fmt.Sprintf("no domain within %s has room for the one pod that the gang needs", d.topology.Bound)
	}
	if inside >= 0 {
		parts[0] += fmt.Sprintf(" beside those in %s", pathOf(tree, inside))
	}
	if i := slices.IndexFunc(d.units, func(u unit) bool { return u.Bound.IsSet() }); i >= 0 {
		parts[0] += fmt.Sprintf(", each sub group within %s", d.units[i].Bound)
	}
	tiers := make([]int, 0, len(best))
	for tier := range best {
		tiers = append(tiers, tier)
	}
	slices.Sort(tiers)
	for _, tier := range tiers {
		b := best[tier]
		name := fmt.Sprintf("tier %d", tier)
		if len(b.names) > 0 {
			name += fmt.Sprintf(" (%s)", strings.Join(sets.List(sets.KeySet(b.names)), ", "))
		}
		parts = append(parts, fmt.Sprintf("%s: %d of %d fit in %s%s", name, b.fits, d.count(), pathOf(tree, b.domain), d.shortIn(b.domain)))
	}
	if len(tiers) == 0 {
		parts = append(parts, "no domain is that close")
	}
	switch {
	case tried && d.isDivided() && d.constraints != nil:
		parts = append(parts, groupsAreCounted)
	case tried:
		parts = append(parts, "a domain has room for each of them, and no place was found for all")
	}
	return strings.Join(parts, "; ")
}

// shortIn says which resource is short in a domain, and how many of its nodes the filters refuse.
func (d *domains) shortIn(domain int) string {
	tree, worst := d.topology.Tree, d.worstIn(domain)
	slots := map[corev1.ResourceName]int{}
	out := 0
	for at := tree.Domains[domain].From; at < tree.Domains[domain].To; at++ {
		n := d.infoOf[at]
		if n < 0 {
			continue
		}
		if d.slots[worst][at] == 0 && Slots(d.demands[worst], d.nodes[n].Free) > 0 {
			out++
			continue
		}
		for name, amount := range d.demands[worst].Requests {
			if amount > 0 {
				slots[name] += int(max(0, d.nodes[n].Free[name]) / amount)
			}
		}
	}
	var parts []string
	if short := scarcest(slots); short != "" && slots[short] < d.demands[worst].Count {
		parts = append(parts, "short of "+string(short))
	}
	if out > 0 {
		reasons := sets.List(d.reasons)
		parts = append(parts, fmt.Sprintf("%d of %d nodes are out: %s", out, tree.Domains[domain].Size(), strings.Join(reasons[:min(2, len(reasons))], ", ")))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

func scarcest(slots map[corev1.ResourceName]int) (short corev1.ResourceName) {
	for _, name := range sets.List(sets.KeySet(slots)) {
		if short == "" || slots[name] < slots[short] {
			short = name
		}
	}
	return short
}

// worstIn is the demand that lacks most places in a domain.
func (d *domains) worstIn(domain int) (worst int) {
	most := -1
	for demand := range d.demands {
		fits := 0
		for at := d.topology.Tree.Domains[domain].From; at < d.topology.Tree.Domains[domain].To; at++ {
			fits += d.slots[demand][at]
		}
		if missing := d.demands[demand].Count - fits; missing > most {
			worst, most = demand, missing
		}
	}
	return worst
}

// pathOf names a domain in messages.
func pathOf(tree *topology.Tree, domain int) string {
	if domain == topology.Root {
		return "the cluster"
	}
	return tree.Domains[domain].Path
}
