package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
)

func TestShortfall(t *testing.T) {
	gpu := func(cpu, gpu int64) resources.List {
		return resources.List{corev1.ResourceCPU: cpu, "nvidia.com/gpu": gpu}
	}
	full := []Node{{Free: gpu(64, 0)}, {Free: gpu(64, 3)}}
	tests := map[string]struct {
		demand  Demand
		nodes   []Node
		freed   []resources.List
		covered bool
	}{
		"pods that have nothing of what is scarce do not help": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(64, 0), gpu(64, 0), gpu(64, 0)},
		},
		"half of it is not enough": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(0, 4)},
		},
		"what was left over on a node counts": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(0, 1), gpu(0, 1)}, covered: true,
		},
		"a large node": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(64, 8)}, covered: true,
		},
		"something else is scarce on each node: whatever comes may help": {
			demand:  Demand{Requests: gpu(4, 4), Count: 1},
			nodes:   []Node{{Free: gpu(64, 0)}, {Free: gpu(0, 64)}},
			freed:   []resources.List{gpu(1, 0)},
			covered: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			short := Lacking([]Demand{test.demand}, test.nodes)
			for _, amount := range test.freed {
				short.Free(amount)
			}
			assert.Equal(t, test.covered, short.Covered())
		})
	}
	assert.Nil(t, Lacking([]Demand{{Requests: gpu(1, 1), Count: 3}}, full), "there is room; something else is in the way")
}

// TestAShortfallNeverHidesRoom lets room come free at random, on nodes and with new ones: whenever the demand fits, the
// shortfall is covered.
func TestAShortfallNeverHidesRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(label string, from, to int64) resources.List {
			return resources.List{
				corev1.ResourceCPU: rapid.Int64Range(from, to).Draw(t, label+" cpu"),
				"nvidia.com/gpu":   rapid.Int64Range(from, to).Draw(t, label+" gpu"),
			}
		}
		demands := make([]Demand, rapid.IntRange(1, 2).Draw(t, "demands"))
		for d := range demands {
			demands[d] = Demand{
				Requests:   amount("each", 0, 5),
				Count:      rapid.IntRange(1, 6).Draw(t, "count"),
				MaxPerNode: rapid.IntRange(0, 2).Draw(t, "maxPerNode"),
			}
		}
		var all []Node
		for range rapid.IntRange(1, 4).Draw(t, "nodes") {
			all = append(all, Node{Free: amount("free", -3, 9)})
		}
		short := Lacking(demands, all)
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			freed := amount("freed", 0, 6)
			if n := rapid.IntRange(0, len(all)).Draw(t, "node"); n < len(all) {
				free := all[n].Free.Clone()
				free.Add(freed)
				all[n].Free = free
			} else {
				all = append(all, Node{Free: freed})
			}
			if short != nil {
				short.Free(freed)
			}
			if Make(demands, all, anywhere).Verdict == Possible && short != nil {
				assert.True(t, short.Covered(), "%v fits on %v", demands, all)
			}
		}
	})
}
