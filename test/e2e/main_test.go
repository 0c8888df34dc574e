// Package e2e plays whole stories on a local cluster: a real control plane, muster-scheduler, muster-controller and
// simulated nodes. Build the programs with `make build` first.
package e2e

import (
	"testing"
	"time"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// window is how much time may lie between the first bind of a gang and the last of its minimum.
const window = 2 * time.Second

func TestMain(m *testing.M) {
	// Two nodes for whatever needs no nodes of its own. Restarts in a row need not wait for each other.
	harness.Main(m, localcluster.Options{
		Nodes:     2,
		ExtraArgs: map[string][]string{localcluster.MusterController: {"--restart-backoff=0s"}},
	}, checkRights)
}
