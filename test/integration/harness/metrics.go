package harness

import (
	"context"
	"fmt"
	"strings"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// CheckScheduler checks what must hold after the tests of any package. The scheduler has seated gangs, and no gang needed the periodic
// retry for lost events. Its charges agree with the API.
func CheckScheduler(ctx context.Context, cluster *localcluster.Cluster) error {
	page, err := cluster.Get(ctx, localcluster.MusterScheduler, "/metrics")
	if err != nil {
		return fmt.Errorf("reading the scheduler's metrics: %w", err)
	}
	for _, line := range []string{"muster_lost_wakeup_recovered_total 0", "muster_state_drift 0", `muster_gang_attempts_total{result="seated"} `} {
		if !strings.Contains(string(page), "\n"+line) {
			return fmt.Errorf("the scheduler's metrics do not have %q:\n%s", line, musterLines(page))
		}
	}
	return nil
}

// musterLines are the metrics that are Muster's own.
func musterLines(page []byte) string {
	var lines []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "muster_") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
