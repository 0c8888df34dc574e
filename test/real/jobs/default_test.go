//go:build real

package jobs

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/test/real/workloads"
)

// TestOrdinaryWorkloads runs a Deployment, a DaemonSet and a StatefulSet that name no scheduler. The program muster-scheduler is in the place
// of the default one.
func TestOrdinaryWorkloads(t *testing.T) {
	workloads.RunOrdinary(begin(t), timeout, corev1.Container{Image: image, Command: []string{"sleep", "1000000"}})
}
