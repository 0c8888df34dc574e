// Package histories_test drives muster-scheduler through random histories. It uses the upstream scheduler's queue, cache and framework
// runtime, the shipped profile, and an API server in memory. Each history runs in a bubble of testing/synctest, where time
// stands still until all goroutines wait for it. So there is no sleeping, and "at rest" is a fact.
package histories_test

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"

	"k8s.io/klog/v2"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/muster-sched/muster/test/simulation"
)

// shipped is the profile "muster" as the manifests have it.
var shipped schedulerapi.KubeSchedulerProfile

// verbosity is for looking into one history.
var verbosity = flag.Int("scheduler-verbosity", -1, "log verbosity of the scheduler; -1 for none")

func TestMain(m *testing.M) {
	// The seed repeats a failure, if it can be repeated: rapid is not given the means to make it smaller.
	_ = flag.Set("rapid.nofailfile", "true")
	flag.Parse()
	if *verbosity < 0 {
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard)
	} else {
		var level klog.Level
		_ = level.Set(strconv.Itoa(*verbosity))
	}
	if err := readProfile(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	simulation.Prepare(func(err error, msg string) {
		if *verbosity >= 0 {
			fmt.Fprintln(os.Stderr, "error:", msg, err)
		}
	})
	os.Exit(m.Run())
}

func readProfile() error {
	profile, err := simulation.ShippedProfile()
	if err != nil {
		return err
	}
	shipped = *profile
	// Last at each point, and heavier than all scores together.
	shipped.Plugins.MultiPoint.Enabled = append(shipped.Plugins.MultiPoint.Enabled, schedulerapi.Plugin{Name: fateName, Weight: 1000})
	return nil
}
