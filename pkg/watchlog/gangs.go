package watchlog

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// GroupState is one state of a PodGroup as its watch delivered it.
type GroupState struct {
	// Time of arrival.
	Time time.Time
	// Phase of the PodGroup.
	Phase schedulingv1beta1.PodGroupPhase
	// MinMember is how many members start together.
	MinMember int32
	// Queue of the PodGroup.
	Queue string
	// Condition is the current one: the one with the latest transition.
	Condition schedulingv1beta1.PodGroupCondition
}

type groupRecord struct {
	states []GroupState
}

func (r *groupRecord) see(group *schedulingv1beta1.PodGroup, now time.Time) {
	state := GroupState{Time: now, Phase: group.Status.Phase, MinMember: group.Spec.MinMember, Queue: group.Spec.Queue}
	for _, condition := range group.Status.Conditions {
		if !condition.LastTransitionTime.Before(&state.Condition.LastTransitionTime) {
			state.Condition = condition
		}
	}
	r.states = append(r.states, state)
}

func (r *groupRecord) last() GroupState { return r.states[len(r.states)-1] }

// at is the state that held at a moment, or the first one if none did yet.
func (r *groupRecord) at(moment time.Time) GroupState {
	state := r.states[0]
	for _, later := range r.states {
		if later.Time.After(moment) {
			break
		}
		state = later
	}
	return state
}

// Group returns the latest state of a PodGroup; the zero state if it was never seen.
func (l *Log) Group(name types.NamespacedName) GroupState {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.groups[name]; known != nil {
		return known.last()
	}
	return GroupState{}
}

// GroupStates returns all states of a PodGroup in the order of their arrival; nil if it was never seen.
func (l *Log) GroupStates(name types.NamespacedName) []GroupState {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.groups[name]; known != nil {
		return slices.Clone(known.states)
	}
	return nil
}

// Incarnation is a gang between two restarts: the pods of one PodGroup with the same version.
type Incarnation struct {
	Namespace, Group, Version string
	// MinMember is how many members start together, as the PodGroup said at the first bind.
	MinMember int32
	// Pods are its members, in the order in which they were first seen.
	Pods []Pod
	// FirstBind is zero if no member was ever bound.
	FirstBind time.Time
}

// String is a line for people.
func (i Incarnation) String() string {
	return fmt.Sprintf("gang %s/%s version %q, minimum %d: %d of %d members bound", i.Namespace, i.Group, i.Version, i.MinMember, i.Bound(), len(i.Pods))
}

// Bound is the number of members that were ever bound.
func (i Incarnation) Bound() int {
	bound := 0
	for _, pod := range i.Pods {
		if !pod.Bound.IsZero() {
			bound++
		}
	}
	return bound
}

// BoundWithin is the number of members that were bound no later than a time after the first one.
func (i Incarnation) BoundWithin(window time.Duration) int {
	bound := 0
	for _, pod := range i.Pods {
		if !pod.Bound.IsZero() && pod.Bound.Sub(i.FirstBind) <= window {
			bound++
		}
	}
	return bound
}

// Spread is the time from the first bind until the minimum was bound; false if that never happened.
func (i Incarnation) Spread() (time.Duration, bool) {
	var binds []time.Duration
	for _, pod := range i.Pods {
		if !pod.Bound.IsZero() {
			binds = append(binds, pod.Bound.Sub(i.FirstBind))
		}
	}
	if len(binds) == 0 || len(binds) < int(i.MinMember) {
		return 0, false
	}
	sort.Slice(binds, func(a, b int) bool { return binds[a] < binds[b] })
	return binds[max(int(i.MinMember), 1)-1], true
}

// Incarnations returns all incarnations of all gangs, in the order in which their first pods were seen.
func (l *Log) Incarnations() []Incarnation {
	type key struct{ namespace, group, version string }
	index := map[key]int{}
	var all []Incarnation
	for _, pod := range l.Pods(func(p Pod) bool { return p.Group != "" }) {
		k := key{pod.Namespace, pod.Group, pod.Version}
		at, known := index[k]
		if !known {
			at = len(all)
			index[k] = at
			all = append(all, Incarnation{Namespace: pod.Namespace, Group: pod.Group, Version: pod.Version})
		}
		all[at].Pods = append(all[at].Pods, pod)
		if !pod.Bound.IsZero() && (all[at].FirstBind.IsZero() || pod.Bound.Before(all[at].FirstBind)) {
			all[at].FirstBind = pod.Bound
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range all {
		if group := l.groups[types.NamespacedName{Namespace: all[i].Namespace, Name: all[i].Group}]; group != nil {
			all[i].MinMember = group.at(all[i].FirstBind).MinMember
		}
	}
	return all
}

// GangViolations says which incarnations were not started whole. After the first bind of one, at least the minimum of its members must be bound
// within the window. An incarnation that never gets there must not have a single bind.
func GangViolations(all []Incarnation, window time.Duration) []string {
	var violations []string
	for _, i := range all {
		if i.FirstBind.IsZero() || i.BoundWithin(window) >= int(i.MinMember) {
			continue
		}
		wrong := fmt.Sprintf("gang %s/%s version %q needs %d members and %d were bound within %s of the first",
			i.Namespace, i.Group, i.Version, i.MinMember, i.BoundWithin(window), window)
		if spread, reached := i.Spread(); reached {
			wrong += fmt.Sprintf("; the minimum was reached after %s", spread.Round(time.Millisecond))
		} else {
			wrong += fmt.Sprintf("; it had %d in the end", i.Bound())
		}
		violations = append(violations, wrong)
	}
	return violations
}
