package runtimes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestEnd(t *testing.T) {
	const minute = time.Minute
	tests := map[string]struct {
		estimate Estimate
		ran      time.Duration
		want     time.Duration // after the start, 0 for unknown
	}{
		"nothing is known":                      {Estimate{}, minute, 0},
		"it has just begun":                     {Estimate{For: 10 * minute}, 0, 10 * minute},
		"it has not outlived its estimate":      {Estimate{For: 10 * minute}, 9 * minute, 10 * minute},
		"it has":                                {Estimate{For: 10 * minute}, 10 * minute, 15 * minute},
		"again":                                 {Estimate{For: 10 * minute}, 16 * minute, 22*minute + 30*time.Second},
		"short runs get a minute":               {Estimate{For: time.Second}, 2 * time.Second, minute + time.Second},
		"never above its limit":                 {Estimate{For: 10 * minute, Limit: 12 * minute}, 11 * minute, 12 * minute},
		"a limit below the estimate":            {Estimate{For: 10 * minute, Limit: 5 * minute}, 0, 5 * minute},
		"a run that has outlived its limit too": {Estimate{For: 10 * minute, Limit: 12 * minute}, 20 * minute, 12 * minute},
		"a hundred times":                       {Estimate{For: minute}, 100 * minute, 115*minute + 19_804_687_500},
		"the clock was set back":                {Estimate{For: 10 * minute}, -5 * minute, 10 * minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			began := time.Unix(1000, 0)
			end, known := test.estimate.End(began, began.Add(test.ran))
			assert.Equal(t, test.want > 0, known)
			if known {
				assert.Equal(t, test.want, end.Sub(began))
			}
		})
	}
}
