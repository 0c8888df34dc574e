package quota

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
)

// declaring is a queue with amounts of cpu; -1 means that a field says nothing.
type declaring struct {
	parent                          string
	guarantee, deserved, capability int64
}

func (d declaring) terms() Terms {
	amount := func(cores int64) resources.List {
		if cores == nothing {
			return nil
		}
		return resources.List{corev1.ResourceCPU: 1000 * cores}
	}
	return Terms{Parent: d.parent, Weight: 3, Guarantee: amount(d.guarantee), Deserved: amount(d.deserved), Capability: amount(d.capability)}
}

const nothing = -1

// declare is a queue that asks for terms, after earlier valid terms.
func declare(name string, asked declaring, valid ...declaring) Declaration {
	d := Declaration{Name: name, Asked: asked.terms()}
	for _, last := range valid {
		terms := last.terms()
		d.Valid = &terms
	}
	return d
}

// unchanged is a queue whose terms are valid.
func unchanged(name string, asked declaring) Declaration { return declare(name, asked, asked) }

// TestABadQueueIsContained: its fault names the field and the remedy, it keeps the last valid terms, and its siblings keep theirs.
func TestABadQueueIsContained(t *testing.T) {
	good := declaring{"", 2, 4, 6}
	bare := func(parent string, capability int64) declaring {
		return declaring{parent, nothing, nothing, capability}
	}
	for name, c := range map[string]struct {
		queues []Declaration
		bad    string
		reason string
		says   string
		counts declaring
	}{
		"guarantee above deserved": {
			[]Declaration{declare("q", declaring{"", 5, 4, 6}, good)}, "q", GuaranteeAboveDeserved,
			"spec.guarantee.resource[cpu] is 5, more than spec.deserved[cpu], which is 4: lower spec.guarantee.resource[cpu], or raise the other", good,
		},
		"guarantee above capability": {
			[]Declaration{declare("q", declaring{"", 7, nothing, 6}, good)}, "q", GuaranteeAboveCapability,
			"spec.guarantee.resource[cpu] is 7, more than spec.capability[cpu], which is 6", good,
		},
		"deserved above capability": {
			[]Declaration{declare("q", declaring{"", 2, 7, 6}, good)}, "q", DeservedAboveCapability,
			"spec.deserved[cpu] is 7, more than spec.capability[cpu], which is 6: lower spec.deserved[cpu], or raise the other", good,
		},
		"negative": {
			[]Declaration{declare("q", declaring{"", 2, 4, -2}, good)}, "q", NegativeAmount,
			"spec.capability[cpu] is -2: it must be 0 or more", good,
		},
		"never valid": {
			[]Declaration{declare("q", declaring{"", 5, 4, 6})}, "q", GuaranteeAboveDeserved, "lower", bare("", 6),
		},
		"the last valid terms are not valid any more": {
			[]Declaration{unchanged("p", bare("", 3)), declare("q", declaring{"p", 5, 4, 6}, declaring{"p", 2, 4, 6})}, "q", GuaranteeAboveDeserved,
			"lower", bare("p", 6),
		},
		"no parent": {
			[]Declaration{declare("q", declaring{"gone", 2, 4, 6}, good)}, "q", ParentNotFound,
			`spec.parent: queue "gone" does not exist: create it, or name another parent`, good,
		},
		"no parent, and never valid": {
			[]Declaration{declare("q", declaring{"gone", 2, 4, 6})}, "q", ParentNotFound, "gone", declaring{Root, 2, 4, 6},
		},
		"the last valid parent is gone, too": {
			[]Declaration{declare("q", declaring{"gone", 2, 4, 6}, declaring{"before", 1, 1, 1})}, "q", ParentNotFound, "gone", declaring{Root, 2, 4, 6},
		},
		"a circle": {
			[]Declaration{unchanged("child", bare("q", 3)), declare("q", declaring{"child", 2, 4, 6}, good)}, "q", ParentIsDescendant,
			`spec.parent: queue "child" is below this queue: name a parent that is not`, good,
		},
		"its own parent": {
			[]Declaration{declare("q", declaring{"q", 2, 4, 6})}, "q", ParentIsDescendant, `queue "q" is below this queue`, declaring{Root, 2, 4, 6},
		},
		"a child that is guaranteed what others have": {
			[]Declaration{unchanged("p", bare("", 10)), unchanged("a", declaring{"p", 6, nothing, nothing}), declare("b", declaring{"p", 5, nothing, nothing}, declaring{"p", 4, nothing, nothing})},
			"b", ChildrenAboveParent, `the guarantees and deserved shares below queue "p" add up to 11 cpu, but its capability is 10: lower them, or raise that of "p"`,
			declaring{"p", 4, nothing, nothing},
		},
		"a child that deserves what others do": {
			[]Declaration{unchanged("p", declaring{"", nothing, 8, 10}), unchanged("a", declaring{"p", nothing, 6, nothing}), declare("b", declaring{"p", nothing, 3, nothing})},
			"b", ChildrenAboveParent, `the guarantees and deserved shares below queue "p" add up to 9 cpu, but its deserved is 8`,
			bare("p", nothing),
		},
		"a grandchild": {
			[]Declaration{unchanged("p", bare("", 10)), unchanged("m", bare("p", nothing)), unchanged("a", declaring{"p", 6, nothing, nothing}), declare("b", declaring{"m", 5, nothing, nothing})},
			"b", ChildrenAboveParent, `the guarantees and deserved shares below queue "p" add up to 11 cpu`, bare("m", nothing),
		},
		"a parent that is lowered": {
			[]Declaration{declare("p", bare("", 5), bare("", 10)), unchanged("a", declaring{"p", 6, nothing, nothing})}, "p", ChildrenAboveParent,
			"spec.capability[cpu] is 5, but the guarantees and deserved shares of this queue's children add up to 6: raise it, or lower theirs",
			bare("", 10),
		},
	} {
		t.Run(name, func(t *testing.T) {
			sibling := unchanged("sibling", declaring{"", 5, 5, 5})
			settled := Settle(append([]Declaration{sibling}, c.queues...))
			for _, d := range append(c.queues, sibling) {
				if d.Name != c.bad {
					assert.Nil(t, settled[d.Name].Fault, d.Name)
					assert.Equal(t, d.Asked, settled[d.Name].Terms, d.Name)
				}
			}
			if fault := settled[c.bad].Fault; assert.NotNil(t, fault) {
				assert.Equal(t, c.reason, fault.Reason)
				assert.Contains(t, fault.Message, c.says)
			}
			assert.Equal(t, c.counts.terms(), settled[c.bad].Terms)
		})
	}
}

// TestGoodQueuesHaveNoFault: terms that Muster can handle are not refused, even if a child's numbers exceed what it can have.
func TestGoodQueuesHaveNoFault(t *testing.T) {
	for name, queues := range map[string][]Declaration{
		"a capability above that of the parent": {declare("p", declaring{"", nothing, nothing, 4}), declare("q", declaring{"p", nothing, nothing, 8})},
		"capabilities of children that overlap": {
			declare("p", declaring{"", nothing, nothing, 4}), declare("a", declaring{"p", nothing, nothing, 3}), declare("b", declaring{"p", nothing, nothing, 3}),
		},
		"a guarantee without a written share":             {declare("q", declaring{"", 5, nothing, nothing})},
		"children with a guarantee below one without":     {declare("p", declaring{"", nothing, nothing, nothing}), declare("q", declaring{"p", 5, nothing, nothing})},
		"a child that is named before its parent":         {declare("a", declaring{"z", 5, 5, 5}), declare("z", declaring{"", 5, 5, 5})},
		"more deserved below the root than it says":       {declare(Root, declaring{"", nothing, 1, nothing}), declare("q", declaring{"", nothing, 5, nothing})},
		"a share that was written and is written no more": {declare("q", declaring{"", nothing, nothing, nothing}, declaring{"", 1, 1, 1})},
	} {
		for _, settled := range Settle(queues) {
			assert.Nil(t, settled.Fault, name)
		}
	}
}

// TestAQueueThatStaysWhereItWasTakesNothingElsewhere: a queue asks for too much below another parent, and its last terms count. Nothing that
// it asked for is missing there, neither in that parent nor in the parent's.
func TestAQueueThatStaysWhereItWasTakesNothingElsewhere(t *testing.T) {
	moves := declare("moves", declaring{"team", nothing, 20, nothing}, declaring{"", nothing, 5, nothing})
	younger := declare("younger", declaring{"other", nothing, 5, nothing})
	younger.Created = time.Unix(1, 0)
	settled := Settle([]Declaration{
		unchanged("org", declaring{"", nothing, 10, nothing}), unchanged("team", declaring{"org", nothing, nothing, nothing}),
		unchanged("other", declaring{"org", nothing, nothing, nothing}), moves, younger,
	})
	require.NotNil(t, settled["moves"].Fault)
	assert.Empty(t, settled["moves"].Terms.Parent)
	assert.Nil(t, settled["younger"].Fault)
}

// TestTheYoungestOfSeveralChangesIsAtFault: two new queues ask for more than there is together.
func TestTheYoungestOfSeveralChangesIsAtFault(t *testing.T) {
	old, young := declare("z", declaring{"p", 6, nothing, nothing}), declare("a", declaring{"p", 6, nothing, nothing})
	old.Created, young.Created = time.Unix(1, 0), time.Unix(2, 0)
	settled := Settle([]Declaration{young, old, declare("p", declaring{"", nothing, nothing, 10})})
	assert.Nil(t, settled["z"].Fault)
	assert.NotNil(t, settled["a"].Fault)
}

// TestOneQueueNeverChangesOthers: the terms of other queues that were valid before stay as they are, whatever a queue asks for. The order
// in which queues are seen does not matter. All that counts is valid by itself.
func TestOneQueueNeverChangesOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		draw := func(name string) declaring {
			amount := rapid.Int64Range(-2, 12)
			return declaring{rapid.SampledFrom(append(names, "", Root, "gone")).Draw(t, name+" parent"),
				amount.Draw(t, name+" guarantee"), amount.Draw(t, name+" deserved"), amount.Draw(t, name+" capability")}
		}
		var queues []Declaration
		for _, name := range names {
			queues = append(queues, declare(name, draw(name)))
		}
		settled := Settle(queues)
		for i, d := range queues { // as they stand in the API when they have been settled
			terms := settled[d.Name].Terms
			queues[i].Asked, queues[i].Valid = terms, &terms
		}
		before := Settle(queues)
		for name, s := range before {
			// A capability without a share may be below the guarantees of other queues. It is obeyed, and its queue stays at fault.
			if s.Fault != nil && s.Fault.Reason != ChildrenAboveParent && s.Fault.Reason != NegativeAmount {
				t.Fatalf("what was settled has a fault: %s: %s", name, s.Fault.Message)
			}
		}
		bad := rapid.IntRange(0, len(queues)-1).Draw(t, "changed")
		for _, s := range before {
			if s.Fault != nil {
				return
			}
		}
		queues[bad].Asked = draw("changed").terms()
		after := Settle(queues)
		slices.Reverse(queues)
		assert.Equal(t, after, Settle(queues), "the order matters")
		for name, s := range after {
			if name != queues[len(queues)-1-bad].Name {
				assert.Equal(t, before[name].Terms, s.Terms, "%s has changed", name)
			}
		}
	})
}

// TestFaultsAreSentences: each says what to do after a colon.
func TestFaultsAreSentences(t *testing.T) {
	for _, d := range []declaring{{"", 5, 4, 6}, {"", 2, 4, -2}, {"gone", 1, 1, 1}, {"q", 1, 1, 1}} {
		fault := Settle([]Declaration{declare("q", d)})["q"].Fault
		if assert.NotNil(t, fault, fmt.Sprint(d)) {
			assert.True(t, strings.HasPrefix(fault.Message, "spec."), fault.Message)
			assert.Contains(t, fault.Message, ": ")
		}
	}
}

// BenchmarkSettle settles a thousand queues in a tree of three levels, below a root with a capability.
func BenchmarkSettle(b *testing.B) {
	queues := []Declaration{unchanged(Root, declaring{"", nothing, nothing, 100000})}
	for i := range 1000 {
		parent := ""
		if i >= 100 {
			parent = fmt.Sprint("q", i/10-10)
		}
		queues = append(queues, unchanged(fmt.Sprint("q", i), declaring{parent, 1, nothing, nothing}))
	}
	for b.Loop() {
		Settle(queues)
	}
}
