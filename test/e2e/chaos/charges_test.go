//go:build soak || large

package chaos

import (
	"bytes"
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// metric reads a metric without labels.
func metric(t *testing.T, page []byte, name string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(page)
	require.NotNil(t, found, name)
	value, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(t, err, name)
	return value
}

// verifyNoCharge waits until no pod is left and no queue is charged. It requires that the scheduler's state has not drifted.
func verifyNoCharge(t *testing.T, story *harness.Story) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), mustertesting.Timeout)
	defer cancel()
	charged := regexp.MustCompile(`(?m)^muster_queue_(used|assumed)\{.*\} [^0].*$`)
	var left [][]byte
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		page, err := story.Get(ctx, localcluster.MusterScheduler, "/metrics")
		if err != nil {
			return false, err
		}
		pods, err := story.Kube.CoreV1().Pods(story.Namespace).List(ctx, metav1.ListOptions{})
		left = charged.FindAll(page, -1)
		return err == nil && len(left)+len(pods.Items) == 0, err
	})
	assert.NoError(t, err, "pods or charges are left; the charges:\n%s", bytes.Join(left, []byte("\n")))
	page, err := story.Get(t.Context(), localcluster.MusterScheduler, "/metrics")
	require.NoError(t, err)
	assert.Zero(t, metric(t, page, "muster_state_drift"), "pods on which the scheduler's state differs from the API")
}
