// Package chaos kills the parts of a cluster at random moments while Jobs run, and checks the Jobs' outcome.
package chaos

import (
	"testing"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/e2e/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{
		// There is one controller only: a killed controller need not wait for a lease of its own. The same holds for Jobs that restart in a
		// row.
		ExtraArgs: map[string][]string{localcluster.MusterController: {"--leader-elect=false", "--restart-backoff=0s"}},
	})
}
