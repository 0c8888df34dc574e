package text

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatRulesAStartOut(t *testing.T) {
	for message, want := range map[string]bool{
		`can never fit queue "a": 4 cpu asked, its capability is 3`:                                             true,
		"the gang asks for 4Ei or more of memory, which no cluster has":                                         true,
		"the minimum needs 4 cpu, more than 1.2 times the 3 that all nodes have together":                       true,
		"room for 0 of the 2 members; it would not fit into an empty cluster either":                            true,
		"wait for quota: x; no quota is reserved for it: it asks for more than the whole capability":            true,
		"the minimum needs 4 cpu, and 3 are used: together more than 1.2 times the 3":                           false,
		"no room is reserved for it: it would not fit either if everything of its priority and below had ended": false,
		"": false,
	} {
		assert.Equal(t, want, RulesOut(message), message)
	}
}
