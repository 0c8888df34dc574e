package text_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/muster-sched/muster/pkg/text"
)

func TestFoundAt(t *testing.T) {
	at := time.Date(2026, 11, 24, 10, 30, 0, 5, time.FixedZone("east", 3600))
	for _, message := range []string{"2 cpu free", "", "2 cpu free (found at noon)", "2 cpu free (found at 2026-11-24T09:30:00Z"} {
		assert.Equal(t, message+" (found at 2026-11-24T09:30:00Z)", text.FoundAt(message, at))
		assert.Equal(t, message, text.WithoutTime(text.FoundAt(message, at)))
		assert.Equal(t, message, text.WithoutTime(message), "it has no time")
	}
}
