package topology

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSpreadOf(t *testing.T) {
	tree := lingjun()
	for name, test := range map[string]struct {
		nodes []string
		want  Spread
	}{
		"one leaf":           {[]string{"h-0-00-0", "h-0-00-1", "h-0-00-1"}, Spread{Tier: 1, Leaves: 1, Fewest: 1}},
		"two leaves":         {[]string{"h-0-00-0", "h-0-01-1", "unknown"}, Spread{Tier: 2, Leaves: 2, Fewest: 1}},
		"two pods":           {[]string{"h-0-00-0", "h-1-00-0"}, Spread{Tier: 3, Leaves: 2, Fewest: 1}},
		"more than one leaf": {append(tree.Names(2), "h-0-47-0"), Spread{Tier: 2, Leaves: 2, Fewest: 2}},
	} {
		got, known := tree.SpreadOf(test.nodes)
		assert.True(t, known)
		assert.Equal(t, test.want, got, name)
	}
	_, known := tree.SpreadOf([]string{"unknown"})
	assert.False(t, known)
}
