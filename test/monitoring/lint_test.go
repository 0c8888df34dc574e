package monitoring

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMetricsFollowTheConventions lints the metrics of both programs as they were served. Names of Volcano and of Kubernetes are
// not ours to choose.
func TestMetricsFollowTheConventions(t *testing.T) {
	for _, program := range []string{"muster-scheduler", "muster-controller"} {
		served, err := os.ReadFile("testdata/" + program + ".metrics")
		require.NoError(t, err)
		problems, err := promlint.New(bytes.NewReader(served)).Lint()
		require.NoError(t, err)
		problems = slices.DeleteFunc(problems, func(p promlint.Problem) bool { return !strings.HasPrefix(p.Metric, "muster_") })
		assert.Empty(t, problems, program)
	}
}
