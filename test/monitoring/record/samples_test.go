package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheNotation: values that stay are written once, and a series that comes late or goes has gaps.
func TestTheNotation(t *testing.T) {
	s := newSamples()
	for i := range 6 {
		s.add("zero", map[string]string{"b": `q"`, "a": "1"}, 0)
		if i > 1 {
			s.add("late", nil, float64(i/2))
		}
		if i == 0 {
			s.add("gone", nil, 1.5)
		}
		s.next()
	}
	var out strings.Builder
	require.NoError(t, s.write(&out, 15*time.Second))
	_, lines, _ := strings.Cut(out.String(), "\n")
	assert.Equal(t, "gone{} 1.5 _x5\nlate{} _x2 1+0x1 2+0x1\nzero{a=\"1\",b=\"q\\\"\"} 0+0x5\n", lines)
	assert.Equal(t, "_ 7", notation([]float64{math.NaN(), 7}))
}
