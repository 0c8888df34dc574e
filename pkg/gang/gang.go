// Package gang holds the rules of gangs: who is a member, who counts, when there is a quorum, and who starts. It is
// pure: no lock, no client, no clock.
package gang

import (
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/resources"
)

// State says how far a member has come.
type State int

// The states of a member.
const (
	// Waiting: the member has no node.
	Waiting State = iota
	// Reserved: the member holds room on a node and waits for the others, or is being bound.
	Reserved
	// Bound: the API says that the member has a node.
	Bound
)

// Member is a pod of a gang.
type Member struct {
	// UID of the pod; a pod that is created anew under the same name is another member.
	UID types.UID
	// Pod as last seen. Read only.
	Pod *corev1.Pod
	// Task of the member, or "".
	Task string
	// Index of the member in its task.
	Index int
	// Version is the incarnation of the gang that the member belongs to.
	Version int64
	// Priority of the pod.
	Priority int32
	// Requests is what the member takes from a node.
	Requests resources.List
	// State of the member.
	State State
	// Terminating: the pod is being deleted; it satisfies nothing.
	Terminating bool
}

// Spec is what a gang asks for.
type Spec struct {
	// MinMember is the number of members that start together, or not at all.
	MinMember int
	// MinTaskMember is the number of members of each task among them.
	MinTaskMember map[string]int
	// Succeeded is the number of members that have succeeded: they count, though their pods are not seen any more.
	Succeeded int
}

// Gang is the set of the pods of one PodGroup. The zero value is a gang without members.
type Gang struct {
	Spec
	members map[types.UID]*Member
}

// Put adds a member, or replaces what is known of it. A Reserved member stays so until its pod is seen bound.
func (g *Gang) Put(m *Member) {
	if g.members == nil {
		g.members = map[types.UID]*Member{}
	}
	if old, ok := g.members[m.UID]; ok && old.State == Reserved && m.State == Waiting {
		m.State = Reserved
	}
	g.members[m.UID] = m
}

// Remove forgets a member and returns it, or nil.
func (g *Gang) Remove(uid types.UID) *Member {
	m := g.members[uid]
	delete(g.members, uid)
	return m
}

// Member returns a member, or nil.
func (g *Gang) Member(uid types.UID) *Member {
	return g.members[uid]
}

// Members returns all members in no particular order.
func (g *Gang) Members() []*Member {
	all := make([]*Member, 0, len(g.members))
	for _, m := range g.members {
		all = append(all, m)
	}
	return all
}

// Len is the number of members, of all incarnations.
func (g *Gang) Len() int { return len(g.members) }

// Version is the current incarnation: the highest that any member has.
func (g *Gang) Version() int64 {
	var version int64
	for _, m := range g.members {
		version = max(version, m.Version)
	}
	return version
}

// Counts says whether a member is of the current incarnation and not going.
func (g *Gang) Counts(m *Member) bool {
	return m != nil && !m.Terminating && m.Version == g.Version()
}

// current are the members that count and satisfy the predicate.
func (g *Gang) current(which func(*Member) bool) []*Member {
	version := g.Version()
	var members []*Member
	for _, m := range g.members {
		if !m.Terminating && m.Version == version && which(m) {
			members = append(members, m)
		}
	}
	return members
}

// taskMinimums are the per-task minimums that bind: they do only while the gang's own minimum has room for all of them.
func (g *Gang) taskMinimums() map[string]int {
	sum := 0
	for _, n := range g.MinTaskMember {
		sum += n
	}
	if g.MinMember < sum {
		return nil
	}
	return g.MinTaskMember
}

// satisfies says whether a set of members, and those that have succeeded, make the minimum and that of every task. Which
// task a succeeded member was of is not known any more: it fills any gap.
func (g *Gang) satisfies(members []*Member) bool {
	return g.shortOf(members) == 0
}

// shortOf is the number of members that are missing to the minimum and to that of every task.
func (g *Gang) shortOf(members []*Member) int {
	ofTask := map[string]int{}
	for _, m := range members {
		ofTask[m.Task]++
	}
	taskGaps := 0
	for task, n := range g.taskMinimums() {
		taskGaps += max(0, n-ofTask[task])
	}
	return max(0, g.MinMember-len(members)-g.Succeeded, taskGaps-g.Succeeded)
}

func anyState(*Member) bool     { return true }
func isWaiting(m *Member) bool  { return m.State == Waiting }
func isBound(m *Member) bool    { return m.State == Bound }
func holdsRoom(m *Member) bool  { return m.State != Waiting }
func isReserved(m *Member) bool { return m.State == Reserved }

// Complete says whether enough members exist for the minimum and that of every task.
func (g *Gang) Complete() bool { return g.satisfies(g.current(anyState)) }

// Missing is the number of members that must still be created before the gang is Complete.
func (g *Gang) Missing() int { return g.shortOf(g.current(anyState)) }

// Seated says whether the minimum and that of every task holds room or has succeeded: the gang may run.
func (g *Gang) Seated() bool { return g.satisfies(g.current(holdsRoom)) }

// Broken says whether some members are bound, yet too few, even with those that are about to be.
func (g *Gang) Broken() bool { return len(g.current(isBound)) > 0 && !g.Seated() }

// Waiting returns the current members without a node, in the order in which they start.
func (g *Gang) Waiting() []*Member { return inOrder(g.current(isWaiting)) }

// Reserved returns the members that hold room without being bound, of whatever incarnation, terminating ones included.
func (g *Gang) Reserved() []*Member {
	var reserved []*Member
	for _, m := range g.members {
		if isReserved(m) {
			reserved = append(reserved, m)
		}
	}
	return inOrder(reserved)
}

// Bound returns the current members that are bound.
func (g *Gang) Bound() []*Member { return inOrder(g.current(isBound)) }

// Choose picks the members that start: the fewest waiting ones that, with those that hold room already, seat the gang. The
// minimum of each task comes first, then the highest priority and the lowest index. It returns nil when there are too
// few, or when the gang is seated.
func (g *Gang) Choose() []*Member {
	held := g.current(holdsRoom)
	if g.satisfies(held) {
		return nil
	}
	waiting := g.Waiting()
	ofTask := map[string]int{}
	for _, m := range held {
		ofTask[m.Task]++
	}
	var chosen, rest []*Member
	minimums := g.taskMinimums()
	for _, m := range waiting {
		if ofTask[m.Task] < minimums[m.Task] {
			ofTask[m.Task]++
			chosen = append(chosen, m)
		} else {
			rest = append(rest, m)
		}
	}
	for _, m := range rest {
		if len(held)+len(chosen)+g.Succeeded >= g.MinMember {
			break
		}
		chosen = append(chosen, m)
	}
	if !g.satisfies(slices.Concat(held, chosen)) {
		return nil
	}
	return inOrder(g.withoutSpare(held, chosen))
}

// withoutSpare drops those that are not needed because a succeeded member fills their task's gap, the last first.
func (g *Gang) withoutSpare(held, chosen []*Member) []*Member {
	if g.Succeeded == 0 {
		return chosen
	}
	inOrder(chosen)
	for i := len(chosen) - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(chosen), i, i+1)
		if g.satisfies(slices.Concat(held, fewer)) {
			chosen = fewer
		}
	}
	return chosen
}

// inOrder sorts members by priority, task, index and name, and returns them.
func inOrder(members []*Member) []*Member {
	sort.Slice(members, func(i, j int) bool {
		a, b := members[i], members[j]
		switch {
		case a.Priority != b.Priority:
			return a.Priority > b.Priority
		case a.Task != b.Task:
			return a.Task < b.Task
		case a.Index != b.Index:
			return a.Index < b.Index
		default:
			return a.Pod.Name < b.Pod.Name
		}
	})
	return members
}
