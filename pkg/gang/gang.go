// Package gang holds the rules of gangs. They say which pods are members, which of them count, when there is a quorum, and which members
// start. It is pure: no lock, no client, no clock.
package gang

import (
	"cmp"
	"maps"
	"slices"
	"strings"

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
	// Reserved: the member holds room on a node and waits in Permit, or is about to.
	Reserved
	// Released: Permit has let the member go; it is being bound.
	Released
	// Bound: the API says that the member has a node.
	Bound
	// Returning: the member still holds room on a node and is about to give it back. It does not count as held.
	Returning
)

// Holds says whether a member in this state has room that counts for its gang.
func (s State) Holds() bool { return s == Reserved || s == Released || s == Bound }

// Member is a pod of a gang.
type Member struct {
	// UID of the pod; a pod that is created anew under the same name is another member.
	UID types.UID
	// Pod as last seen. Read only.
	Pod *corev1.Pod
	// Task of the member, or "".
	Task string
	// TaskOrder is the position of the task in the Job, 0 if it is not known.
	TaskOrder int
	// Index of the member in its task.
	Index int
	// Version is the incarnation of the gang that the member belongs to.
	Version int64
	// Priority of the pod.
	Priority int32
	// Requests is what the member takes from a node. Read only: members share it.
	Requests resources.List
	// State of the member.
	State State
	// Terminating: the pod is being deleted; it satisfies nothing.
	Terminating bool
	// BoundFor is the UID of the PodGroup that the scheduler bound the member for. It is "" if another client bound it, or it is not bound.
	BoundFor types.UID
	// Node is where the member holds room, "" for nowhere.
	Node string
	// Account is the account that the pod names itself, "" for none. A member whose account was written with its binding names none.
	Account string
}

// Spec is what a gang asks for.
type Spec struct {
	// MinMember is the number of members that start together, or not at all.
	MinMember int
	// MinTaskMember is the number of members of each task among them.
	MinTaskMember map[string]int
	// Succeeded is the number of members that have succeeded: they count, though their pods are not seen any more.
	Succeeded int
	// SucceededOf is the incarnation that they are of. For a later one they do not count: it runs everything again.
	SucceededOf int64
	// Failed is the number of members that have failed. They satisfy nothing, and their groups may stay without them.
	Failed int
	// Groups divide the members. The first that matches a member counts.
	Groups []GroupPolicy
}

// Gang is the set of the pods of one PodGroup. The zero value is a gang without members.
//
// Each arriving pod asks whether the gang is complete, seated or broken. So the counts behind the answers are updated with each change of a
// member. An answer costs the same for any size.
type Gang struct {
	Spec
	// Nominated is how many members have pods that are nominated for a node, of any incarnation. Only the gang sets it.
	Nominated int

	podGroup types.UID // "" if it does not exist
	members  map[types.UID]*Member
	version  int64              // the current incarnation: the highest that any member has
	current  int                // the members of it, terminating ones too
	states   [Returning + 1]int // the members in each state, of any incarnation
	tasks    map[string]counts  // the members that count, by task
	groups   map[groupKey]counts
	total    counts         // the sum of tasks
	lost     resources.List // what lost members requested, since a member was lost while the gang was seated
}

// counts are numbers of members of the current incarnation that are not terminating.
type counts struct {
	all, waiting, held, bound int
	own                       int // bound for this PodGroup
}

// BelongTo says which PodGroup the gang is of now, "" if it does not exist.
func (g *Gang) BelongTo(podGroup types.UID) {
	if g.podGroup != podGroup {
		g.podGroup = podGroup
		g.recount()
	}
}

// isOwn says whether an attempt for this very PodGroup has bound a member. Another client may have bound it, or the scheduler for an
// earlier PodGroup of the same name.
func (g *Gang) isOwn(m *Member) bool {
	return m.State == Bound && m.BoundFor != "" && m.BoundFor == g.podGroup
}

// Put adds a member, or replaces what is known of it. A member that holds room stays as it is until its pod is seen bound.
func (g *Gang) Put(m *Member) {
	if g.members == nil {
		g.members = map[types.UID]*Member{}
	}
	if old, ok := g.members[m.UID]; ok {
		if m.State == Waiting && old.State != Bound {
			m.State, m.Node = old.State, old.Node // the scheduler knows more than the API
		}
		if g.Counts(old) && g.isOwn(old) && m.Terminating {
			g.noteLoss(old)
		}
		g.drop(old)
	}
	g.members[m.UID] = m
	if m.Version > g.version || len(g.members) == 1 {
		g.recount()
		return
	}
	g.count(m, 1)
}

// Remove forgets a member and returns it, or nil.
func (g *Gang) Remove(uid types.UID) *Member {
	m, ok := g.members[uid]
	if !ok {
		return nil
	}
	if g.Counts(m) && g.isOwn(m) {
		g.noteLoss(m)
	}
	g.drop(m)
	return m
}

func (g *Gang) drop(m *Member) {
	delete(g.members, m.UID)
	g.count(m, -1)
	if g.current == 0 {
		g.recount() // an earlier incarnation becomes the current one
	}
}

// noteLoss notes that a member will not count any more that an attempt for this PodGroup has bound.
func (g *Gang) noteLoss(m *Member) {
	if g.lost == nil || g.Seated() {
		g.lost = resources.List{}
	}
	g.lost.Add(m.Requests)
}

// Replace says whether members take no more than the members that were lost since the gang was seated last. Members that the gang never had,
// as those of a raised minimum, do not replace any.
func (g *Gang) Replace(members []*Member) bool {
	wants := resources.List{}
	for _, m := range members {
		wants.Add(m.Requests)
	}
	for name, amount := range wants {
		if amount > g.lost[name] {
			return false
		}
	}
	return true
}

// SetState changes how far a member has come.
func (g *Gang) SetState(m *Member, state State) {
	if g.members[m.UID] != m {
		return
	}
	g.count(m, -1)
	m.State = state
	g.count(m, 1)
}

// count adds a member to the counts, or takes it out with -1.
func (g *Gang) count(m *Member, one int) {
	g.states[m.State] += one
	if m.Pod != nil && m.Pod.Status.NominatedNodeName != "" {
		g.Nominated += one
	}
	if m.Version != g.version {
		return
	}
	g.current += one
	if m.Terminating {
		return
	}
	isOwn, ofTask := g.isOwn(m), g.tasks[m.Task]
	g.total.count(m, one, isOwn)
	ofTask.count(m, one, isOwn)
	g.tasks[m.Task] = ofTask
	if len(g.Groups) == 0 {
		return
	}
	if key, p, _ := g.policyOf(m); p != nil {
		ofGroup := g.groups[key]
		ofGroup.count(m, one, isOwn)
		if g.groups[key] = ofGroup; ofGroup == (counts{}) {
			delete(g.groups, key)
		}
	}
}

// count adds a member that is not terminating.
func (c *counts) count(m *Member, one int, isOwn bool) {
	c.all += one
	switch {
	case m.State == Waiting:
		c.waiting += one
	case m.State.Holds():
		c.held += one
	}
	if m.State == Bound {
		c.bound += one
	}
	if isOwn {
		c.own += one
	}
}

// recount finds the current incarnation and counts its members from scratch.
func (g *Gang) recount() {
	g.version, g.current, g.states, g.total, g.tasks, g.groups = 0, 0, [Returning + 1]int{}, counts{}, map[string]counts{}, map[groupKey]counts{}
	g.Nominated, g.lost = 0, nil
	first := true
	for _, m := range g.members {
		if first || m.Version > g.version {
			g.version, first = m.Version, false
		}
	}
	for _, m := range g.members {
		g.count(m, 1)
	}
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
func (g *Gang) Version() int64 { return g.version }

// Counts says whether a member is of the current incarnation and not going.
func (g *Gang) Counts(m *Member) bool {
	return m != nil && !m.Terminating && m.Version == g.version
}

// HasEarlier says whether there are members of earlier incarnations.
func (g *Gang) HasEarlier() bool { return len(g.members) > g.current }

// counting returns the members that count and satisfy the predicate.
func (g *Gang) counting(which func(*Member) bool) []*Member {
	var members []*Member
	for _, m := range g.members {
		if g.Counts(m) && which(m) {
			members = append(members, m)
		}
	}
	return members
}

// succeeded is the number of members of the current incarnation that have succeeded.
func (g *Gang) succeeded() int {
	if g.SucceededOf < g.version {
		return 0 // the component that counts them has not seen the new incarnation yet
	}
	return g.Succeeded
}

// Priority is that of the gang as a whole. It is the value of its PodGroup's class, but at most the highest priority among its pods.
// Admission of the API server judges the class of a pod, and not that of a PodGroup. Without a class (nil) it is the highest among its pods.
func (g *Gang) Priority(class *int32) int32 {
	var highest *int32
	for _, m := range g.members {
		if highest == nil || m.Priority > *highest {
			highest = &m.Priority
		}
	}
	switch {
	case highest == nil && class == nil:
		return 0
	case highest == nil:
		return *class
	case class == nil:
		return *highest
	}
	return min(*class, *highest)
}

// Asks is what the current incarnation asks for.
func (g *Gang) Asks() Spec {
	asks := g.Spec
	asks.Succeeded = g.succeeded()
	return asks
}

// taskMinimums are the per-task minimums that bind. They do only while the gang's own minimum has room for all of them.
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

// shortOf is the number of members that are missing to the minimum, the minimums of tasks and the least groups. n selects which members
// count. The task and the group of a succeeded member are not known any more: it fills any gap.
func (g *Gang) shortOf(n func(counts) int) int {
	taskGaps := 0
	for task, minimum := range g.taskMinimums() {
		taskGaps += max(0, minimum-n(g.tasks[task]))
	}
	succeeded := g.succeeded()
	if short := max(0, g.MinMember-n(g.total)-succeeded, taskGaps-succeeded); short > 0 {
		return short
	}
	return max(0, g.gapBy(g.groups, n)-succeeded)
}

func all(c counts) int   { return c.all }
func held(c counts) int  { return c.held }
func bound(c counts) int { return c.bound }

func isWaiting(m *Member) bool { return m.State == Waiting }
func isBound(m *Member) bool   { return m.State == Bound }
func holdsRoom(m *Member) bool { return m.State.Holds() }

// Complete says whether enough members exist for the minimum and that of every task.
func (g *Gang) Complete() bool { return g.shortOf(all) == 0 }

// ShortTask names a task, the first in the alphabet, of which fewer members exist than its minimum, and that minimum. It is "" if
// there is none, or if the gang as a whole is short.
func (g *Gang) ShortTask() (task string, minimum int) {
	if g.total.all+g.succeeded() < g.MinMember {
		return "", 0
	}
	for name, n := range g.taskMinimums() {
		if g.tasks[name].all < n && (task == "" || name < task) {
			task, minimum = name, n
		}
	}
	return task, minimum
}

// Seated says whether the minimum and that of every task holds room or has succeeded: the gang may run.
func (g *Gang) Seated() bool { return g.shortOf(held) == 0 }

// Started says whether the minimum and that of every task is bound or has succeeded.
func (g *Gang) Started() bool { return g.shortOf(bound) == 0 }

// SeatedWith says whether the gang is seated once some members that have no room yet hold it.
func (g *Gang) SeatedWith(members []*Member) bool {
	return g.seatsOf(slices.Concat(g.counting(holdsRoom), members)).short(g) == 0
}

// Partial says whether attempts for this PodGroup have bound some members, yet too few hold room. Members that were bound otherwise do not
// make a gang partial: the gang was never started with them.
func (g *Gang) Partial() bool { return g.total.own > 0 && !g.Seated() }

// HasEnding says whether pods exist that do not count: they are of an earlier incarnation, or are being deleted.
func (g *Gang) HasEnding() bool { return len(g.members) > g.total.all }

// CountWaiting is the number of current members that have no node and hold no room.
func (g *Gang) CountWaiting() int { return g.total.waiting }

// CountSurplus is the number of current members that hold room beyond the minimum.
func (g *Gang) CountSurplus() int { return max(0, g.total.held+g.succeeded()-g.MinMember) }

// HasLessSurplus says whether the gang's next member goes before another gang's next surplus, so that gangs share room evenly. Both gangs run.
func (g *Gang) HasLessSurplus(than *Gang) bool {
	return g.total.waiting > 0 && g.CountSurplus() < than.CountSurplus()
}

// Waiting returns the current members that wait for room, in the order in which they start.
func (g *Gang) Waiting() []*Member { return inOrder(g.counting(isWaiting)) }

// CountIn is the number of members in a state, of any incarnation.
func (g *Gang) CountIn(state State) int { return g.states[state] }

// In returns the members in a state, of any incarnation, terminating ones included, in no particular order.
func (g *Gang) In(state State) []*Member {
	if g.states[state] == 0 {
		return nil
	}
	members := make([]*Member, 0, g.states[state])
	for _, m := range g.members {
		if m.State == state {
			members = append(members, m)
		}
	}
	return members
}

// Bound returns the current members that are bound.
func (g *Gang) Bound() []*Member { return inOrder(g.counting(isBound)) }

// Own returns the current members that attempts for this PodGroup have bound.
func (g *Gang) Own() []*Member { return inOrder(g.counting(g.isOwn)) }

// Choose picks the members that start: the fewest waiting members that complete the minimum, beside members that hold room already. The
// minimum of each task comes first, then the highest priority and the lowest index. It returns nil when there are too few, or when the gang
// is seated.
func (g *Gang) Choose() []*Member { return g.ChooseFrom(g.counting(isWaiting)) }

// ChooseFrom is Choose with only some of the waiting members.
func (g *Gang) ChooseFrom(waiting []*Member) []*Member {
	if g.Seated() {
		return nil
	}
	c := g.chooseFrom(inOrder(waiting))
	if c.short(g) > 0 {
		return nil
	}
	return inOrder(slices.Concat(g.withoutSpare(c.chosen)...))
}

// withoutSpare drops bundles that are not needed because a succeeded member fills their task's gap, the last first.
func (g *Gang) withoutSpare(chosen [][]*Member) [][]*Member {
	if g.succeeded() == 0 {
		return chosen
	}
	slices.SortStableFunc(chosen, func(a, b []*Member) int { return compareMembers(a[0], b[0]) })
	for i := len(chosen) - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(chosen), i, i+1)
		if g.seatsOf(slices.Concat(g.counting(holdsRoom), slices.Concat(fewer...))).short(g) == 0 {
			chosen = fewer
		}
	}
	return chosen
}

// seats counts a set of members against the minimums.
type seats struct {
	spec     *Spec
	minimums map[string]int
	ofTask   map[string]int
	ofGroup  map[groupKey]int
	total    int
}

func (g *Gang) seatsOf(members []*Member) *seats {
	s := &seats{spec: &g.Spec, minimums: g.taskMinimums(), ofTask: map[string]int{}, ofGroup: map[groupKey]int{}}
	for _, m := range members {
		s.take(m)
	}
	return s
}

func (s *seats) take(m *Member) { s.add(m, 1) }

func (s *seats) add(m *Member, one int) {
	s.ofTask[m.Task] += one
	s.total += one
	if len(s.spec.Groups) == 0 {
		return
	}
	if key, p, _ := s.spec.policyOf(m); p != nil {
		s.ofGroup[key] += one
	}
}

// short is the number of members that are missing.
func (s *seats) short(g *Gang) int {
	gaps := 0
	for task, minimum := range s.minimums {
		gaps += max(0, minimum-s.ofTask[task])
	}
	succeeded := g.succeeded()
	if short := max(0, g.MinMember-s.total-succeeded, gaps-succeeded); short > 0 || !g.hasLeastGroups() {
		return short
	}
	return max(0, g.groupGap(maps.Keys(s.ofGroup), func(key groupKey) int { return s.ofGroup[key] })-succeeded)
}

// UIDs are the UIDs of some members.
func UIDs(members []*Member) []types.UID {
	uids := make([]types.UID, 0, len(members))
	for _, m := range members {
		uids = append(uids, m.UID)
	}
	return uids
}

// inOrder sorts members by priority, task, index and name, and returns them.
func inOrder(members []*Member) []*Member {
	slices.SortFunc(members, compareMembers)
	return members
}

func compareMembers(a, b *Member) int {
	switch {
	case a.Priority != b.Priority:
		return cmp.Compare(b.Priority, a.Priority)
	case a.Task != b.Task:
		return strings.Compare(a.Task, b.Task)
	case a.Index != b.Index:
		return cmp.Compare(a.Index, b.Index)
	}
	return strings.Compare(a.Pod.Name, b.Pod.Name)
}
