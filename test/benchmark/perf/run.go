package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/muster-sched/muster/test/benchmark/report"
)

// runner runs workloads, each in a process of its own.
type runner struct {
	binary   string // the compiled package schedulerperf
	upstream string // folder of scheduler_perf
	sources  string // folder that the modules are in
	etcd     string // folder of the etcd to use
	scratch  string // folder for the data of etcd
	logs     string // folder for logs and profiles
	limit    time.Duration
	profile  bool
}

// grace is how long a run may take beside the time that the pods take.
const grace = 4 * time.Minute

// newRunner compiles the benchmark and finds upstream's workloads.
func newRunner(ctx context.Context, o *options) (*runner, error) {
	r := &runner{etcd: o.etcd, scratch: o.scratch, logs: o.logs, limit: o.limit, profile: o.profile}
	module, err := output(ctx, "go", "list", "-m", "-f", "{{.Dir}} {{.Path}}@{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return nil, fmt.Errorf("finding upstream's sources: %w", err)
	}
	dir, version, _ := strings.Cut(module, " ")
	r.upstream = filepath.Join(dir, "test", "integration", "scheduler_perf")
	r.sources = strings.TrimSuffix(dir, version)
	if err := os.MkdirAll(r.logs, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder for logs: %w", err)
	}
	r.binary = filepath.Join(r.logs, "schedulerperf.test")
	if _, err := output(ctx, "go", "test", "-c", "-o", r.binary, "./schedulerperf"); err != nil {
		return nil, fmt.Errorf("compiling: %w", err)
	}
	return r, nil
}

// output runs a command and returns what it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// run runs a variant of a workload once.
func (r *runner) run(ctx context.Context, w workload, v variant, round int) (report.Run, error) {
	dir, err := os.MkdirTemp(r.scratch, "muster-perf-")
	if err != nil {
		return report.Run{}, fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	testCase, err := writeTestCase(r.upstream, w, v, dir)
	if err != nil {
		return report.Run{}, err
	}
	resultPath := filepath.Join(dir, "result.json")
	logPath := filepath.Join(r.logs, fmt.Sprintf("%s-%s-%d.log", strings.ReplaceAll(w.name, "/", "-"), v.name, round+1))
	failure := r.start(ctx, w, v, dir, logPath, testCase, resultPath)
	data, err := os.ReadFile(resultPath)
	if err != nil {
		return report.Run{}, fmt.Errorf("running (see %s): %w", logPath, errors.Join(failure, err))
	}
	var reading struct {
		Seen, Bound         int
		Seconds, CPUSeconds float64
	}
	if err := json.Unmarshal(data, &reading); err != nil {
		return report.Run{}, fmt.Errorf("decoding the result: %w", err)
	}
	result := report.Run{
		Workload: w.name, Variant: v.name, Round: round, Pods: reading.Bound, Seconds: reading.Seconds, CPUSeconds: reading.CPUSeconds,
	}
	switch {
	case reading.Seen > 0 && reading.Bound < reading.Seen:
		result.TimedOut, result.Seconds = true, r.limit.Seconds()
	case failure != nil:
		return result, fmt.Errorf("running (see %s): %w", logPath, failure)
	}
	result.PodsPerSecond = float64(result.Pods) / result.Seconds
	return result, nil
}

// start runs the benchmark and waits for its end.
func (r *runner) start(ctx context.Context, w workload, v variant, dir, logPath, testCase, resultPath string) error {
	ctx, cancel := context.WithTimeout(ctx, r.limit+grace)
	defer cancel()
	log, err := os.Create(logPath)
	if err != nil {
		return fmt.Errorf("making a log: %w", err)
	}
	defer log.Close()
	args := []string{
		"-test.run=^$", "-test.bench=PerfScheduling", "-test.benchtime=1x", "-muster.config=" + testCase,
		"-muster.namespace=" + w.namespace(), fmt.Sprintf("-muster.plugins=%t", v.muster), fmt.Sprintf("-muster.gangs=%d", v.gangsOf(w)),
		fmt.Sprintf("-muster.min-member=%d", w.pods), "-muster.timeout=" + r.limit.String(), "-muster.result=" + resultPath,
		"-data-items-dir=" + dir,
	}
	if r.profile {
		profilePath, err := filepath.Abs(strings.TrimSuffix(logPath, ".log") + ".pprof")
		if err != nil {
			return fmt.Errorf("finding the folder for profiles: %w", err)
		}
		args = append(args, "-muster.profile="+profilePath)
	}
	cmd := exec.CommandContext(ctx, r.binary, args...)
	cmd.Dir = filepath.Join(r.upstream, w.folder) // upstream's files name each other relative to it
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(),
		"PATH="+r.etcd+string(os.PathListSeparator)+os.Getenv("PATH"), "TMPDIR="+dir,
		// How a binary that was built with -trimpath finds the certificates of the test API server.
		"TEST_SRCDIR="+r.sources, "TEST_WORKSPACE=.")
	// etcd is a child of the benchmark: a group of its own lets both be ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	return await(cmd, resultPath)
}

// linger is how long a benchmark may live on after it has written its result. Upstream's check for goroutines that are left over
// takes ten minutes after a workload that failed.
const linger = 30 * time.Second

// await waits for the end of the benchmark.
func await(cmd *exec.Cmd, resultPath string) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for written := (time.Time{}); ; {
		select {
		case err := <-ended:
			return err
		case now := <-look.C:
			_, err := os.Stat(resultPath)
			switch {
			case err != nil:
			case written.IsZero():
				written = now
			case now.Sub(written) > linger:
				err := cmd.Cancel()
				<-ended
				return err
			}
		}
	}
}
