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
