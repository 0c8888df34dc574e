package explain

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/admission"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/text"
	"github.com/muster-sched/muster/pkg/topology"
)

// maxMoves is how many gangs may have to move for an advice. More would be no help.
const maxMoves = 16

// WaitsForDomain says whether a PodGroup waits, and all of its pods must be in one domain of the network.
func WaitsForDomain(group *schedulingv1beta1.PodGroup, now time.Time) bool {
	return group != nil && waits(group) && admitted(group) == 1 && domainBound(group, now).IsSet()
}

func domainBound(group *schedulingv1beta1.PodGroup, now time.Time) topology.Bound {
	wants := gang.TopologyOf(group)
	if wants == nil {
		return topology.Bound{}
	}
	bound, _ := wants.BoundAt(now.Sub(group.CreationTimestamp.Time))
	return bound
}

// move says which gangs would have to leave a domain so that the gang fits there. It looks for the fewest gangs, and then for the fewest pods.
// Only amounts, taints and node selectors count. Nothing is moved.
func (f *Facts) move(w *Wait) []string {
	if !WaitsForDomain(f.Group, f.Now) || f.Tree == nil || f.Lacks(PartNodes, PartPods) {
		return nil
	}
	needs, bound := f.needs(), domainBound(f.Group, f.Now)
	if len(needs) == 0 {
		return nil
	}
	here := f.tenants()
	for d := 1; d < len(f.Tree.Domains); d++ {
		if !f.Tree.Allows(bound, d) {
			continue
		}
		site := siteOf(f.Tree, d, here)
		leave := site.fewest(needs)
		if leave == nil {
			continue
		}
		if len(leave) == 0 {
			w.Move = nil // there is room: other things hold it up
			return nil
		}
		if m := (&Move{Domain: f.Tree.Domains[d].Path, Tier: f.Tree.Domains[d].Tier, Leave: leave}); w.Move == nil || m.isLessThan(w.Move) {
			w.Move = m
		}
	}
	if w.Move == nil {
		return nil
	}
	titles := make([]string, len(w.Move.Leave))
	for i, l := range w.Move.Leave {
		titles[i] = fmt.Sprintf("%s %s/%s (%s)", l.Kind, l.Namespace, l.Name, text.Count(l.Pods, "pod"))
	}
	return []string{fmt.Sprintf("Domain %s of tier %d would have room without %s. Nothing moves them by itself.", w.Move.Domain, w.Move.Tier, strings.Join(first(5, titles), ", "))}
}

// isLessThan says whether fewer gangs would have to leave. Then fewer pods are less, and then a closer domain.
func (m *Move) isLessThan(other *Move) bool {
	pods := func(m *Move) (sum int) {
		for _, l := range m.Leave {
			sum += l.Pods
		}
		return sum
	}
	return cmp.Or(len(m.Leave)-len(other.Leave), pods(m)-pods(other), m.Tier-other.Tier) < 0
}

// need is a number of pods that are alike.
type need struct {
	pod   *corev1.Pod
	asks  resources.List
	count int
}

// needs are the members that start together, the largest kind first.
func (f *Facts) needs() (needs []need) {
	left := int(f.Group.Spec.MinMember)
	for i := range f.Members {
		pod := &f.Members[i]
		if left == 0 || pod.Spec.NodeName != "" || ended(pod) {
			continue
		}
		left--
		asks := resources.PodRequests(pod)
		at := slices.IndexFunc(needs, func(n need) bool { return n.asks.Equal(asks) })
		if at < 0 {
			needs, at = append(needs, need{pod: pod, asks: asks}), len(needs)
		}
		needs[at].count++
	}
	most := resources.List{}
	for i := range f.Nodes {
		most = most.Most(resources.FromResourceList(f.Nodes[i].Status.Allocatable))
	}
	share := func(n need) (share float64) {
		for name, amount := range n.asks {
			share = max(share, float64(amount)/float64(max(1, most[name])))
		}
		return share
	}
	slices.SortStableFunc(needs, func(a, b need) int { return cmp.Compare(share(b), share(a)) })
	return needs
}

// tenants are the nodes with their room, and what runs there.
type tenants struct {
	rooms map[string]Room
	// on has, for each node, what the pods of each tenant request.
	on map[string]map[string]resources.List
	// of are the tenants by their keys.
	of map[string]*Leaves
}

// tenants sorts the bound pods by their gangs. Pods that go anyway take no room. Pods that belong to their node stay.
func (f *Facts) tenants() tenants {
	all := tenants{rooms: map[string]Room{}, on: map[string]map[string]resources.List{}, of: map[string]*Leaves{}}
	stays := slices.DeleteFunc(slices.Clone(f.Bound), func(pod corev1.Pod) bool { return ended(&pod) })
	for _, room := range Rooms(f.Nodes, stays) {
		all.rooms[room.Node.Name] = room
	}
	titles := map[string]*schedulingv1beta1.PodGroup{}
	for i := range f.Groups {
		titles[f.Groups[i].Namespace+"/"+f.Groups[i].Name] = &f.Groups[i]
	}
	for i := range stays {
		pod := &stays[i]
		if owner := metav1.GetControllerOf(pod); owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node") {
			continue
		}
		key, leaves := "Pod "+pod.Namespace+"/"+pod.Name, &Leaves{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}
		if group := admission.PodGroupOf(pod); group != "" {
			key, leaves = group, &Leaves{Kind: "PodGroup", Namespace: pod.Namespace, Name: strings.TrimPrefix(group, pod.Namespace+"/")}
			if known := titles[group]; known != nil {
				leaves.Kind, leaves.Name = ownerOf(known)
			}
		}
		if all.of[key] == nil {
			all.of[key] = leaves
		}
		all.of[key].Pods++
		on := all.on[pod.Spec.NodeName]
		if on == nil {
			on = map[string]resources.List{}
			all.on[pod.Spec.NodeName] = on
		}
		if on[key] == nil {
			on[key] = resources.List{}
		}
		on[key].Add(resources.PodRequests(pod))
	}
	return all
}

// site is a domain with its nodes.
type site struct {
	tenants
	nodes []string
}

func siteOf(tree *topology.Tree, domain int, here tenants) *site {
	return &site{tenants: here, nodes: tree.Names(domain)}
}

// holds says whether the domain has room for pods without some tenants. Each kind goes where it fits.
func (s *site) holds(needs []need, without []string) bool {
	missing := make([]int, len(needs))
	for i := range needs {
		missing[i] = needs[i].count
	}
	for _, name := range s.nodes {
		room, known := s.rooms[name]
		if !known {
			continue
		}
		free := room.Free.Clone()
		for _, key := range without {
			free.Add(s.on[name][key])
		}
		for i := range needs {
			if missing[i] == 0 || room.Refuses(needs[i].pod) != "" {
				continue
			}
			count := min(missing[i], times(free, needs[i].asks))
			missing[i] -= count
			free.Sub(needs[i].asks.Scale(int64(count)))
		}
	}
	return !slices.ContainsFunc(missing, func(count int) bool { return count > 0 })
}

// fewest are few tenants without which the domain has room. It is nil if it has no room without all of them, or if they are too many.
func (s *site) fewest(needs []need) []Leaves {
	keys := s.byGain(needs[0])
	most := min(len(keys), 2*maxMoves)
	if !s.holds(needs, keys[:most]) {
		return nil
	}
	leave := slices.Clone(keys[:sort.Search(most, func(n int) bool { return s.holds(needs, keys[:n]) })])
	for i := 0; i < len(leave); i++ { // a tenant that need not leave stays; the largest is tried first
		if rest := slices.Delete(slices.Clone(leave), i, i+1); s.holds(needs, rest) {
			leave = rest
			i--
		}
	}
	if len(leave) > maxMoves {
		return nil
	}
	found := make([]Leaves, len(leave))
	for i, key := range leave {
		found[i] = *s.of[key]
	}
	return found
}

// byGain are the tenants of the domain, sorted by how many pods of a kind have room without each. The largest number comes first.
func (s *site) byGain(n need) (keys []string) {
	gain := map[string]int{}
	for _, name := range s.nodes {
		room := s.rooms[name]
		for key, asks := range s.on[name] {
			with := room.Free.Clone()
			with.Add(asks)
			gain[key] += times(with, n.asks) - times(room.Free, n.asks)
		}
	}
	for key := range gain {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(min(gain[b], n.count)-min(gain[a], n.count), s.of[a].Pods-s.of[b].Pods, strings.Compare(a, b))
	})
	return keys
}
