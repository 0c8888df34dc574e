package harness

import (
	"context"
	"fmt"
	"strings"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// CheckScheduler checks what must hold whatever the tests of a package did: the scheduler has seated gangs, none of them was left to
// the net that looks for forgotten ones, and what it knows of pods is what the API says.
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
