package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestStatusesOfLargeJobsAreWrittenLessOften(t *testing.T) {
	assert.Equal(t, time.Second, StatusInterval(0))
	assert.Equal(t, time.Second, StatusInterval(100))
	assert.Equal(t, 2*time.Second, StatusInterval(1000))
}
