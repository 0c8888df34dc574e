// Command muster is the tool for people. It explains, lists and runs Jobs and queues, checks manifests, and runs local clusters to try
// Muster on. kubectl runs it as "kubectl muster" if it is called kubectl-muster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/muster-sched/muster/cmd/muster/kube"
	"github.com/muster-sched/muster/cmd/muster/root"
)

func main() {
	klog.SetLogger(logr.Discard()) // what libraries log is for developers; errors are printed below
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root.New(filepath.Base(os.Args[0])).ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	if reported := kube.Reported(0); !errors.As(err, &reported) {
		fmt.Fprintln(os.Stderr, "error:", kube.Say(err))
	}
	os.Exit(exitCode(err))
}

// exitCode is 1, unless an error asks for another.
func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}
