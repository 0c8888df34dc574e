package gang

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/topology"
)

// GroupPolicy divides members into groups. A group starts whole: with so many members as its size, or not at all.
type GroupPolicy struct {
	// Name of the policy.
	Name string
	// Size is how many members make a group whole.
	Size int
	// Least is how many whole groups belong to the minimum of the gang.
	Least int

	selector labels.Selector
	keys     []string // their values tell groups apart
	bound    topology.Bound
	asks     bool // for anything: a policy without a size, a minimum or a topology only keeps its members out of later ones
}

// groupKey names a group: the index of its policy, and the values of the policy's keys.
type groupKey struct {
	policy int
	values string
}

// groupPoliciesOf are the policies of a PodGroup, in its order.
func groupPoliciesOf(pg *schedulingv1beta1.PodGroup) (policies []GroupPolicy) {
	for _, p := range pg.Spec.SubGroupPolicy {
		selector, err := metav1.LabelSelectorAsSelector(p.LabelSelector)
		if err != nil {
			selector = labels.Nothing() // admission refuses it
		}
		policy := GroupPolicy{Name: p.Name, Size: int(max(1, ptr.Deref(p.SubGroupSize, 1))), Least: int(ptr.Deref(p.MinSubGroups, 0)), selector: selector,
			keys: p.MatchLabelKeys, bound: boundOf(p.NetworkTopology)}
		policy.asks = policy.Size > 1 || policy.Least > 0 || p.NetworkTopology != nil
		policies = append(policies, policy)
	}
	return policies
}

// policyOf is the first policy that matches a member, nil if there is none. It says which label the member lacks to have a group, "" if none.
func (s *Spec) policyOf(m *Member) (key groupKey, p *GroupPolicy, lacks string) {
	for i := range s.Groups {
		if p = &s.Groups[i]; !p.selector.Matches(labels.Set(m.Pod.Labels)) {
			continue
		}
		if !p.asks {
			return groupKey{}, nil, ""
		}
		values := make([]string, len(p.keys))
		for k, name := range p.keys {
			value, has := m.Pod.Labels[name]
			if !has {
				return groupKey{}, nil, name
			}
			values[k] = value
		}
		return groupKey{i, strings.Join(values, "/")}, p, ""
	}
	return groupKey{}, nil, ""
}

// GroupOf is the group of a member with the bound of the group. The first policy that matches the member counts. It is "" for a member
// without a group. A member that lacks a label of its policy has none either, as in Volcano.
func (s *Spec) GroupOf(m *Member) (name string, bound topology.Bound) {
	if key, p, _ := s.policyOf(m); p != nil {
		return p.Name + "/" + key.values, p.bound
	}
	return "", topology.Bound{}
}

// groupGap is the number of members that are missing to the least whole groups of each policy. size has the number of members of a group.
func (s *Spec) groupGap(groups iter.Seq[groupKey], size func(groupKey) int) (gap int) {
	missing := make([][]int, len(s.Groups)) // of each policy, in each group
	for key := range groups {
		missing[key.policy] = append(missing[key.policy], max(0, s.Groups[key.policy].Size-size(key)))
	}
	for i := range s.Groups {
		p := &s.Groups[i]
		slices.Sort(missing[i])
		for n := range p.Least {
			if n >= len(missing[i]) {
				gap += (p.Least - n) * p.Size
				break
			}
			gap += missing[i][n]
		}
	}
	return gap
}

// hasLeastGroups says whether whole groups belong to the minimum.
func (s *Spec) hasLeastGroups() bool {
	return slices.ContainsFunc(s.Groups, func(p GroupPolicy) bool { return p.Least > 0 })
}

// gapBy is the gap of the members that n selects.
func (s *Spec) gapBy(groups map[groupKey]counts, n func(counts) int) int {
	if !s.hasLeastGroups() {
		return 0
	}
	return s.groupGap(maps.Keys(groups), func(key groupKey) int { return n(groups[key]) })
}

// ShortGroups is the first policy of which fewer whole groups exist than belong to the minimum. It is nil if there is none.
func (g *Gang) ShortGroups() *GroupPolicy {
	for i := range g.Groups {
		of := Spec{Groups: slices.Clone(g.Groups)}
		for j := range of.Groups {
			if j != i {
				of.Groups[j].Least = 0
			}
		}
		if of.gapBy(g.groups, all) > g.succeeded() {
			return &g.Groups[i]
		}
	}
	return nil
}

// LacksLabel names a member that has no group for want of a label, and the label. Both are "" if there is none.
func (g *Gang) LacksLabel() (pod, label string) {
	if len(g.Groups) == 0 {
		return "", ""
	}
	for _, m := range g.members {
		if _, _, lacks := g.policyOf(m); lacks != "" && g.Counts(m) && (pod == "" || m.Pod.Name < pod) {
			pod, label = m.Pod.Name, lacks
		}
	}
	return pod, label
}

// bundles are the waiting members that start together, in the order of their first ones. That is the rest of a group, or a single member.
// Groups that cannot become whole are left out. So are members beyond the size of a group that is not whole yet.
func (g *Gang) bundles(waiting []*Member) (bundles [][]*Member) {
	at := map[groupKey]int{} // index of the group's bundle, -1 if none of its members may start
	for _, m := range waiting {
		key, p, _ := g.policyOf(m)
		if p == nil || p.Size == 1 {
			bundles = append(bundles, []*Member{m})
			continue
		}
		i, known := at[key]
		switch rest := p.Size - g.groups[key].held; {
		case rest <= 0:
			bundles = append(bundles, []*Member{m})
		case !known:
			at[key] = len(bundles)
			bundles = append(bundles, []*Member{m})
		case len(bundles[i]) < rest:
			bundles[i] = append(bundles[i], m)
		}
	}
	return slices.DeleteFunc(bundles, func(bundle []*Member) bool {
		key, p, _ := g.policyOf(bundle[0])
		return p != nil && p.Size-g.groups[key].held > len(bundle)+g.succeeded()+g.Failed
	})
}

// Companions are the waiting members that surplus must start with: the rest of its group. They are nil for a member that starts alone. It
// does if some of its group is bound already.
func (g *Gang) Companions(m *Member) []*Member {
	if len(g.Groups) == 0 {
		return nil
	}
	key, p, _ := g.policyOf(m)
	if c := g.groups[key]; p == nil || p.Size == 1 || c.bound > 0 || c.held >= p.Size {
		return nil
	}
	rest := inOrder(g.counting(func(other *Member) bool {
		of, its, _ := g.policyOf(other)
		return other.State == Waiting && its != nil && of == key
	}))
	return rest[:min(len(rest), p.Size-g.groups[key].held)]
}

// AwaitsGroup says whether surplus must not be tried. Its group has not begun, and too few of it exist or others come first.
func (g *Gang) AwaitsGroup(m *Member) bool {
	if len(g.Groups) == 0 {
		return false
	}
	key, p, _ := g.policyOf(m)
	if c := g.groups[key]; p == nil || p.Size == 1 || c.bound > 0 || c.held >= p.Size {
		return false
	}
	return g.groups[key].all+g.succeeded()+g.Failed < p.Size || !slices.Contains(g.Companions(m), m)
}

// IsGroupToCome says whether a member that holds room must wait for others of its group. None of them is bound, and some have no room.
func (g *Gang) IsGroupToCome(m *Member) bool {
	if len(g.Groups) == 0 {
		return false
	}
	key, p, _ := g.policyOf(m)
	c := g.groups[key]
	return p != nil && c.bound == 0 && c.held < min(p.Size, c.all)
}

// ReservedWith are the members of a member's group that hold room and wait for others, itself included.
func (g *Gang) ReservedWith(m *Member) (members []*Member) {
	key, p, _ := g.policyOf(m)
	for _, other := range g.In(Reserved) {
		of, its, _ := g.policyOf(other)
		if other == m || p != nil && its != nil && of == key && g.Counts(other) {
			members = append(members, other)
		}
	}
	return members
}

// choice is members that are chosen to start.
type choice struct {
	*seats
	gang   *Gang
	chosen [][]*Member
	rest   [][]*Member
}

// chooseFrom divides the bundles into the ones that start and the rest. The minimum of groups of each policy is chosen first, then the minimums of
// the tasks. Then groups are chosen before single members of the same priority, until the gang has its minimum.
func (g *Gang) chooseFrom(waiting []*Member) *choice {
	c := &choice{seats: g.seatsOf(g.counting(holdsRoom)), gang: g, rest: g.bundles(waiting)}
	if g.hasLeastGroups() {
		slices.SortStableFunc(c.rest, func(a, b []*Member) int { return cmp.Compare(c.begun(b), c.begun(a)) })
		c.take(func(bundle []*Member) bool {
			key, p, _ := g.policyOf(bundle[0])
			return p != nil && c.wholeGroups(key.policy, p.Size) < p.Least
		})
		slices.SortStableFunc(c.rest, func(a, b []*Member) int { return compareMembers(a[0], b[0]) })
	}
	c.take(func(bundle []*Member) bool {
		return slices.ContainsFunc(bundle, func(m *Member) bool { return c.ofTask[m.Task] < c.minimums[m.Task] })
	})
	if len(g.Groups) > 0 {
		slices.SortStableFunc(c.rest, func(a, b []*Member) int {
			return cmp.Or(cmp.Compare(b[0].Priority, a[0].Priority), cmp.Compare(min(2, len(b)), min(2, len(a))))
		})
	}
	c.take(func(bundle []*Member) bool { return c.total+g.succeeded()+len(bundle) <= g.MinMember })
	c.take(func([]*Member) bool { return c.total+g.succeeded() < g.MinMember })
	return c
}

// begun is how many members of a bundle's group hold room.
func (c *choice) begun(bundle []*Member) int {
	if key, p, _ := c.spec.policyOf(bundle[0]); p != nil {
		return c.ofGroup[key]
	}
	return 0
}

func (c *choice) take(which func(bundle []*Member) bool) {
	var rest [][]*Member
	for _, bundle := range c.rest {
		if !which(bundle) {
			rest = append(rest, bundle)
			continue
		}
		for _, m := range bundle {
			c.seats.take(m)
		}
		c.chosen = append(c.chosen, bundle)
	}
	c.rest = rest
}

// wholeGroups is how many groups of a policy are whole with the chosen members.
func (s *seats) wholeGroups(policy, size int) (whole int) {
	for key, n := range maps.All(s.ofGroup) {
		if key.policy == policy && n >= size {
			whole++
		}
	}
	return whole
}
