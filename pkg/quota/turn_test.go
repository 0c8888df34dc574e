package quota

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestForHowLongQuotaIsSetAside(t *testing.T) {
	for _, c := range []struct {
		inVain      int
		own, others time.Duration
	}{
		{0, 40 * time.Minute, 10 * time.Minute},
		{1, 80 * time.Minute, 40 * time.Minute},
		{2, 160 * time.Minute, 160 * time.Minute},
		{4, 640 * time.Minute, 2560 * time.Minute},
		{100, 640 * time.Minute, 2560 * time.Minute},
	} {
		own, others := Turn(10*time.Minute, c.inVain)
		assert.Equal(t, c.own, own)
		assert.Equal(t, c.others, others)
	}
}

func TestTurnLeft(t *testing.T) {
	const hour = time.Hour
	tests := []struct{ waited, want time.Duration }{
		{0, 0},
		{hour - 1, 0},
		{hour, 4 * hour},
		{hour + 1, 4*hour - 1},
		{5*hour - 1, 1},
		{5 * hour, 0}, // other gangs take all room, for an hour
		{6*hour - 1, 0},
		{6 * hour, 8 * hour},
		{14 * hour, 0},
		{18 * hour, 16 * hour},
		{34 * hour, 0},
		{50 * hour, 32 * hour},
		{82 * hour, 0},
		{146 * hour, 64 * hour},
		{210 * hour, 0},
		{466 * hour, 64 * hour}, // from here on they do not become longer
		{(466 + 320*1000) * hour, 64 * hour},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, TurnLeft(hour, test.waited), "after %s", test.waited)
	}
	assert.Zero(t, TurnLeft(0, hour), "0 lets others pass for ever")
}
