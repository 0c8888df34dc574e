package quota

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
)

// Declaration is the terms that a queue asks for, and its last valid ones.
type Declaration struct {
	// Name of the queue.
	Name string
	// Asked are the terms in its spec.
	Asked Terms
	// Valid are the last terms that were valid; nil if there were none. Only the parent, the guarantee, the deserved share and the
	// capability count.
	Valid *Terms
	// Created is when the queue was created.
	Created time.Time
}

// Settled is the valid part of a queue.
type Settled struct {
	// Terms that count.
	Terms Terms
	// Fault says why other terms count than the spec's; nil if the spec's count.
	Fault *Fault
}

// Fault says what is wrong with the terms of a queue, and what to do.
type Fault struct {
	// Reason is one word for programs.
	Reason string
	// Message names the field, the amounts and the remedy.
	Message string
}

// The reasons of faults.
const (
	NegativeAmount           = "NegativeAmount"
	GuaranteeAboveDeserved   = "GuaranteeAboveDeserved"
	GuaranteeAboveCapability = "GuaranteeAboveCapability"
	DeservedAboveCapability  = "DeservedAboveCapability"
	ChildrenAboveParent      = "ChildrenAboveParent"
	ParentNotFound           = "ParentNotFound"
	ParentIsDescendant       = "ParentIsDescendant"
)

// Settle computes the valid terms of each queue, by its name. A queue whose terms contradict themselves or the tree keeps the last terms
// that were valid. Without any it keeps its capability, but has no guarantee and no written share. Other queues are not affected.
//
// Where queues contradict each other the fault is that of the queue that has changed. If several have changed, descendants come after their
// ancestors, and young queues after old ones. The answer depends on the declarations only, not on their order.
func Settle(declared []Declaration) map[string]Settled {
	s := &settling{declared: make(map[string]Declaration, len(declared)), placed: map[string]Terms{}, needs: map[string]resources.List{}, below: map[string]resources.Sums{}}
	for _, d := range declared {
		s.declared[d.Name] = d
	}
	order := make([]turn, 0, len(declared))
	for _, d := range declared {
		order = append(order, turn{d, s.depth(d)})
	}
	slices.SortFunc(order, turn.compare)
	settled := make(map[string]Settled, len(declared))
	for _, t := range order {
		settled[t.Name] = s.settle(t.Declaration)
	}
	return settled
}

// turn is a declaration with its depth.
type turn struct {
	Declaration
	depth int
}

// compare orders declarations by when they are settled.
func (t turn) compare(other turn) int {
	if unchanged := t.isUnchanged(); unchanged != other.isUnchanged() {
		if unchanged {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(t.depth, other.depth), t.Created.Compare(other.Created), cmp.Compare(t.Name, other.Name))
}

func (d *Declaration) isUnchanged() bool {
	return d.Valid != nil && parentOf(d.Name, d.Asked) == parentOf(d.Name, *d.Valid) && maps.Equal(d.Asked.Guarantee, d.Valid.Guarantee) &&
		maps.Equal(d.Asked.Deserved, d.Valid.Deserved) && maps.Equal(d.Asked.Capability, d.Valid.Capability)
}

func parentOf(name string, terms Terms) string { return schedulingv1beta1.ParentOf(name, terms.Parent) }

// settling is one call of Settle.
type settling struct {
	declared map[string]Declaration
	placed   map[string]Terms          // queue -> the terms that count, of the settled queues
	needs    map[string]resources.List // queue -> what it needs of its parent, by its own and its descendants' terms
	below    map[string]resources.Sums // queue -> what its children need
}

// depth is how many ancestors a queue names on the way to the root; math.MaxInt for a circle.
func (s *settling) depth(d Declaration) int {
	for depth := range len(s.declared) + 1 {
		parent, declared := s.declared[parentOf(d.Name, d.Asked)]
		if !declared {
			return depth
		}
		d = parent
	}
	return math.MaxInt
}

// settle finds the first terms of a queue that are valid beside the settled queues.
func (s *settling) settle(d Declaration) Settled {
	fault := s.place(d.Name, d.Asked)
	if fault == nil {
		return Settled{Terms: d.Asked}
	}
	if d.Valid != nil {
		kept := d.Asked
		kept.Parent, kept.Guarantee, kept.Deserved, kept.Capability = d.Valid.Parent, d.Valid.Guarantee, d.Valid.Deserved, d.Valid.Capability
		if s.place(d.Name, kept) == nil {
			return Settled{kept, fault.until("its last valid terms count")}
		}
	}
	bare := d.Asked
	if s.misplaced(d.Name, bare) != nil {
		bare.Parent = Root
		if s.place(d.Name, bare) == nil {
			return Settled{bare, fault.until("it is a child of queue \"root\"")}
		}
	}
	bare.Guarantee, bare.Deserved = nil, nil
	s.put(d.Name, bare)
	return Settled{bare, fault.until("it has no guarantee and no written share")}
}

// until adds to a fault the terms that count until it is mended.
func (f *Fault) until(counts string) *Fault {
	return &Fault{f.Reason, f.Message + ". Until then " + counts + "."}
}

// place puts a queue into the tree if its terms are valid there, and returns the fault otherwise.
func (s *settling) place(name string, terms Terms) *Fault {
	if fault := cmp.Or(terms.fault(), s.misplaced(name, terms)); fault != nil {
		return fault
	}
	s.put(name, terms)
	for at, placed := name, true; placed; _, placed = s.placed[at] {
		if fault := s.overcommitted(at, name); fault != nil {
			s.takeBack(name)
			return fault
		}
		at = parentOf(at, s.placed[at])
	}
	return nil
}

func (s *settling) put(name string, terms Terms) {
	s.placed[name] = terms
	s.addUp(name)
}

func (s *settling) takeBack(name string) {
	parent := parentOf(name, s.placed[name])
	delete(s.placed, name)
	s.setNeed(name, parent, nil)
	s.addUp(parent)
}

// addUp computes what a queue and its ancestors need, up to one that is settled later.
func (s *settling) addUp(name string) {
	for at, terms := name, s.placed[name]; ; terms = s.placed[at] {
		if _, placed := s.placed[at]; !placed {
			return
		}
		need := s.below[at].List()
		for resource, amount := range terms.Guarantee {
			need[resource] = max(need[resource], amount)
		}
		maps.Copy(need, terms.Deserved)
		parent := parentOf(at, terms)
		s.setNeed(at, parent, need)
		at = parent
	}
}

// setNeed replaces what a queue needs of its parent.
func (s *settling) setNeed(name, parent string, amount resources.List) {
	if s.below[parent] == nil {
		s.below[parent] = resources.Sums{}
	}
	s.below[parent].Sub(s.needs[name])
	s.below[parent].Add(amount)
	s.needs[name] = amount
}

// fault is a contradiction within the terms of a queue, without regard to the tree.
func (t *Terms) fault() *Fault {
	for _, field := range []struct {
		name    string
		amounts resources.List
	}{{"guarantee.resource", t.Guarantee}, {"deserved", t.Deserved}, {"capability", t.Capability}} {
		for _, resource := range slices.Sorted(maps.Keys(field.amounts)) {
			if amount := field.amounts[resource]; amount < 0 {
				return &Fault{NegativeAmount, fmt.Sprintf("spec.%s[%s] is %s: it must be 0 or more", field.name, resource, resources.Format(resource, amount))}
			}
		}
	}
	return cmp.Or(
		above(GuaranteeAboveDeserved, "guarantee.resource", t.Guarantee, "deserved", t.Deserved),
		above(GuaranteeAboveCapability, "guarantee.resource", t.Guarantee, "capability", t.Capability),
		above(DeservedAboveCapability, "deserved", t.Deserved, "capability", t.Capability),
	)
}

// above is a fault if an amount of one field is more than that of another. It names the first such resource by name.
func above(reason, lowName string, low resources.List, highName string, high resources.List) *Fault {
	for _, resource := range slices.Sorted(maps.Keys(low)) {
		if limit, named := high[resource]; named && low[resource] > limit {
			return &Fault{reason, fmt.Sprintf("spec.%[1]s[%[2]s] is %[3]s, more than spec.%[4]s[%[2]s], which is %[5]s: lower spec.%[1]s[%[2]s], or raise the other",
				lowName, resource, resources.Format(resource, low[resource]), highName, resources.Format(resource, limit))}
		}
	}
	return nil
}

// misplaced is a fault if the parent of a queue does not exist, or is one of its descendants.
func (s *settling) misplaced(name string, terms Terms) *Fault {
	parent := parentOf(name, terms)
	if _, exists := s.declared[parent]; !exists && parent != Root && parent != "" {
		return &Fault{ParentNotFound, fmt.Sprintf("spec.parent: queue %q does not exist: create it, or name another parent", parent)}
	}
	for at, steps := parent, 0; at != "" && at != Root && steps <= len(s.placed); steps++ {
		if at == name {
			return &Fault{ParentIsDescendant, fmt.Sprintf("spec.parent: queue %q is below this queue: name a parent that is not", parent)}
		}
		next, placed := s.placed[at]
		if !placed {
			break
		}
		at = parentOf(at, next)
	}
	return nil
}

// overcommitted is a fault of a queue if, at or above it, children need more than their parent's limit.
func (s *settling) overcommitted(at, changed string) *Fault {
	terms, placed := s.placed[at]
	if !placed {
		return nil
	}
	limits := terms.Capability
	if at != Root {
		limits = terms.Capability.Clone()
		maps.Copy(limits, terms.Deserved) // which is not above the capability
	}
	for _, resource := range slices.Sorted(maps.Keys(limits)) {
		limit, need := limits[resource], s.below[at].Amount(resource)
		if need <= max(0, limit) {
			continue
		}
		field := "capability"
		if _, isDeserved := terms.Deserved[resource]; isDeserved && at != Root {
			field = "deserved"
		}
		has, sum := resources.Format(resource, limit), resources.Format(resource, need)
		if at == changed {
			return &Fault{ChildrenAboveParent, fmt.Sprintf("spec.%s[%s] is %s, but the guarantees and deserved shares of this queue's children add up to %s: "+
				"raise it, or lower theirs", field, resource, has, sum)}
		}
		return &Fault{ChildrenAboveParent, fmt.Sprintf("spec.guarantee.resource[%[1]s], spec.deserved[%[1]s]: the guarantees and deserved shares below "+
			"queue %[2]q add up to %[3]s %[1]s, but its %[4]s is %[5]s: lower them, or raise that of %[2]q", resource, at, sum, field, has)}
	}
	return nil
}
