package text

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestATimeHasItsDay(t *testing.T) {
	now := time.Date(2026, 12, 30, 23, 0, 0, 0, time.UTC)
	berlin := time.FixedZone("Berlin", 3600)
	soon, tomorrow, nextYear := now.Add(30*time.Minute), now.Add(2*time.Hour).In(berlin), now.Add(50*time.Hour)
	assert.Equal(t, "23:30:00 UTC on December 30", Moment(soon, now))
	assert.Equal(t, "01:00:00 UTC on December 31", Moment(tomorrow, now))
	assert.Equal(t, "01:00:00 UTC on January 2, 2027", Moment(nextYear, now))
	assert.Equal(t, "between 23:00:00 and 23:30:00 UTC on December 30", Between(now, soon, now))
	assert.Equal(t, "between 23:30:00 UTC on December 30 and 01:00:00 UTC on December 31", Between(soon, tomorrow, now))
	assert.Equal(t, "between 01:00:00 and 02:00:00 UTC on January 2, 2027", Between(nextYear, nextYear.Add(time.Hour), now))
	assert.Equal(t, "between 23:00:00 UTC on December 30 and 23:00:00 UTC on December 30, 2027", Between(now, now.AddDate(1, 0, 0), now))
}
