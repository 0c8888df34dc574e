package meter

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
)

const page = `# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 1.5
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 2.048e+03
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",method="GET"} 100
rest_client_requests_total{code="200",method="PUT"} 1
rest_client_requests_total{code="201",method="POST"} 2
rest_client_requests_total{code="409",method="PATCH"} 4
rest_client_requests_total{code="200",method="DELETE"} 8
# TYPE seconds histogram
seconds_bucket{name="a",le="+Inf"} 3
seconds_sum{name="a"} 0.5
seconds_count{name="a"} 3
seconds_bucket{name="b",le="+Inf"} 4
seconds_sum{name="b"} 0.5
seconds_count{name="b"} 4
`

func TestMetrics(t *testing.T) {
	metrics, err := parse([]byte(page))
	require.NoError(t, err)
	assert.InDelta(t, 1.5, metrics.CPU(), 0)
	assert.InDelta(t, 2048, metrics.Memory(), 0)
	assert.InDelta(t, 15, metrics.Writes(), 0, "all that is no read, whatever came of it")
	assert.InDelta(t, 7, metrics.Sum("seconds", ""), 0)
	assert.InDelta(t, 1, metrics.Seconds("seconds"), 0)
	assert.InDelta(t, 4, metrics.Sum("seconds", "name", "b"), 0)
	assert.Zero(t, metrics.Sum("seconds", "name", "c"))
	assert.Zero(t, metrics.Sum("other", ""))
	_, err = parse([]byte("no metrics"))
	assert.Error(t, err)
}

func TestInParallel(t *testing.T) {
	const n = 5 * requests
	failed := errors.New("failed")
	var mu sync.Mutex
	seen := sets.New[int]()
	err := InParallel(t.Context(), n, func(i int) error {
		mu.Lock()
		defer mu.Unlock()
		seen.Insert(i)
		if i == 3 {
			return failed
		}
		return nil
	})
	assert.Equal(t, failed, err)
	assert.Len(t, seen, n, "the others are run nonetheless")
	require.NoError(t, InParallel(t.Context(), n, func(int) error { return nil }))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, InParallel(ctx, n, func(int) error { return nil }), context.Canceled, "not all were run")
}
